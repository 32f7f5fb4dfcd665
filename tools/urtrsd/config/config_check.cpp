#include "tools/urtrsd/config/config_check.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "backends/platform/tls/keys_file.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/config/listen_check.hpp"
#include "tools/urtrsd/config/output_files.hpp"

namespace rtrs::daemon {
namespace {

constexpr int kWrongUsage = 2;
constexpr int kCheckFailed = 3;

// The user under which the systemd service runs. If root runs --check-config, the check tests whether this
// user can read the key files. `number` is the uid; it is unset if the check does not run as root or if the
// user does not exist.
struct ServiceUser {
  static constexpr const char* kName = "urtrs";
  std::optional<std::uint32_t> number;
};

ServiceUser service_user() {
  if (::geteuid() != 0) return {};
  const passwd* const found = ::getpwnam(ServiceUser::kName);
  return {found == nullptr ? std::nullopt : std::optional<std::uint32_t>(found->pw_uid)};
}

// Warns about key files that root owns and that the service user cannot read.
void check_readers(const ServiceUser& service, const std::vector<std::string>& files, CommandLine& result) {
  if (!service.number || *service.number == 0) return;
  for (const std::string& file : files) {
    struct stat about {};
    if (file.empty() || ::stat(file.c_str(), &about) != 0 || about.st_uid != 0) continue;
    if ((about.st_mode & S_IRGRP) != 0 && tls::is_in_group(*service.number, about.st_gid)) continue;
    result.errors += "urtrsd: warning: " + file + ": belongs to root, so the service user " +
                     ServiceUser::kName + " cannot read it; chgrp " + ServiceUser::kName + " " + file +
                     " && chmod 640 " + file + "\n";
  }
}

// Warns about identities in allow lists that have no key. Certificates can prove any identity, so it warns
// only if a key file is the only source of identities.
void check_allowed_identities(const DaemonConfig& config, tls::OtherOwner service, CommandLine& result) {
  const auto& credentials = config.tls.credentials;
  const std::string& file = config.fabric == "tcp" ? credentials.keys : config.auth.keys;
  if (file.empty() || (config.fabric == "tcp" && !credentials.cert.empty())) return;
  const auto keys = tls::read_keys(file, service);
  if (!keys) return;  // open_tls() or open_auth() reported the error
  const auto allowed = access_of(config).identities;
  std::set<std::string> listed(allowed.begin(), allowed.end());
  for (const ExportSpec& one : config.exports)
    listed.insert(one.allow.identities.begin(), one.allow.identities.end());
  for (const std::string& one : listed)
    if (!keys->contains(one))
      result.errors += "urtrsd: warning: allow_identities: no key of " + one + " in " + file +
                       ": this identity can never connect\n";
}

void check_keys(const DaemonConfig& config, CommandLine& result) {
  const ServiceUser service = service_user();
  tools::TlsChoice tls_choice = config.tls;
  tls_choice.credentials.checked_for = service.number;
  if (const auto tls = tools::open_tls(tls_choice, false); !tls) {
    result.errors += "urtrsd: " + tls.error() + "\n";
    result.exit_code = kCheckFailed;
  } else if (tls->context != nullptr) {
    const std::string warning = tls::warning(*tls->context);
    if (!warning.empty()) result.errors += "urtrsd: warning: " + warning + "\n";
  }
  tools::AuthChoice auth_choice = config.auth;
  auth_choice.checked_for = service.number;
  if (const auto auth = tools::open_auth(auth_choice, false); !auth) {
    result.errors += "urtrsd: " + auth.error() + "\n";
    result.exit_code = kCheckFailed;
  }
  check_allowed_identities(config, service.number, result);
  check_readers(service, {tls_choice.credentials.keys, tls_choice.credentials.key, auth_choice.keys}, result);
}

void check_host(const DaemonConfig& config, const TryStart& try_start, CommandLine& result) {
  if (!try_start) return;
  const StartTrial trial = try_start(config);
  for (const std::string& warning : trial.warnings) result.errors += "urtrsd: warning: " + warning + "\n";
  for (const std::string& error : trial.errors) result.errors += "urtrsd: " + error + "\n";
  if (!trial.errors.empty()) result.exit_code = kCheckFailed;
  if (!trial.engine.empty()) result.output += "urtrsd: storage engine: " + trial.engine + "\n";
}

}  // namespace

void check_devices(const DaemonConfig& config, const TryStart& try_start, CommandLine& result) {
  const auto search_path =
      config.dev_search_path.empty() ? std::nullopt : std::optional<std::string>(config.dev_search_path);
  const auto catalog = Catalog::create(config.exports, search_path);
  const auto problems = catalog ? (*catalog)->check(Catalog::CheckLocks::ask)
                                : std::vector<Catalog::Problem>{{"", catalog.error()}};
  if (catalog)
    for (const std::string& warning : (*catalog)->warnings())
      result.errors += "urtrsd: warning: " + warning + "\n";
  for (const Catalog::Problem& problem : problems) {
    result.errors += (problem.late ? "urtrsd: warning: " : "urtrsd: ") + problem.why.sentence + "\n";
    if (!problem.late) result.exit_code = kCheckFailed;
  }
  if (result.exit_code == 0) {
    for (const std::string& problem : output_file_problems(config, **catalog)) {
      result.errors += "urtrsd: " + problem + "\n";
      result.exit_code = kWrongUsage;
    }
  }
  check_keys(config, result);
  check_host(config, try_start, result);
  for (const std::string& warning : control_warnings(config))
    result.errors += "urtrsd: warning: " + warning + "\n";
  for (const AddressProblem& problem : try_addresses(config)) {
    result.errors += (problem.may_pass ? "urtrsd: warning: " : "urtrsd: ") + problem.sentence + "\n";
    if (!problem.may_pass) result.exit_code = kCheckFailed;
  }
  if (result.exit_code == 0)
    result.output += "urtrsd: the configuration is valid\n";
  else
    result.output.clear();
}

std::string json_of(const CommandLine& line) {
  constexpr std::string_view kProgram = "urtrsd: ";
  constexpr std::string_view kWarning = "warning: ";
  nlohmann::ordered_json answer{{"schema_version", 1},
                                {"ok", line.exit_code == 0},
                                {"exit_code", line.exit_code},
                                {"problems", nlohmann::ordered_json::array()},
                                {"warnings", nlohmann::ordered_json::array()}};
  std::istringstream lines(line.errors);
  for (std::string one; std::getline(lines, one);) {
    if (one.rfind(kProgram, 0) == 0) one.erase(0, kProgram.size());
    const bool warning = one.rfind(kWarning, 0) == 0;
    answer[warning ? "warnings" : "problems"].push_back(warning ? one.substr(kWarning.size()) : one);
  }
  return tools::json_text(answer) + "\n";
}

}  // namespace rtrs::daemon
