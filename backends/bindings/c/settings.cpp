#include "backends/bindings/c/settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "backends/tcp/tcp.hpp"
#ifdef URTRS_HAS_VERBS
#include "backends/options/verbs_options.hpp"
#endif

namespace rtrs::c {
namespace {

using options::Connection;
using options::Kind;
using Option = options::Option<Connection>;

// Connection options that this library does not support: the provider of libfabric, the TLS mode, and the
// proof of a shared key.
constexpr std::array<std::string_view, 4> kAbsent{"provider", "tls", "auth_keys", "auth_identity"};
constexpr options::Rule kFabric = options::words("tcp|verbs");

const Option* find_option(std::string_view name) {
  const bool absent = std::find(kAbsent.begin(), kAbsent.end(), name) != kAbsent.end();
  return absent ? nullptr : options::find(options::connection_options(), name);
}

// Sets an option by a name of earlier releases, whose times are in milliseconds (-1: never).
std::string set_milliseconds(Settings& settings, const Option& option, std::string_view name,
                             std::string_view value) {
  const bool or_never = option.rule.or_never;
  options::Value checked;
  std::string error = options::parse(
      options::number(or_never ? -1 : 1, std::numeric_limits<std::int32_t>::max()), name, value, checked);
  if (!error.empty()) return error + " milliseconds" + (or_never ? ", -1 for never" : "");
  // A negative time means never.
  if (checked.number >= 0) checked.number *= static_cast<std::int64_t>(milliseconds(1));
  options::store(option, Connection{settings.fabric, settings.protocol}, checked);
  return {};
}

std::string unknown(std::string_view name) {
  std::string all = "host_names";
  for (const Option& one : options::connection_options())
    if (find_option(one.name) != nullptr) all += ", " + std::string(one.name);
  return "unknown setting " + std::string(name) + "; the settings are " + all;
}

// Returns the errno of the first credential file that cannot be read; EINVAL if all can be read.
int errno_of(const tls::Credentials& files) {
  for (const std::string* file : {&files.keys, &files.cert, &files.key, &files.ca, &files.crl})
    if (!file->empty() && ::faccessat(AT_FDCWD, file->c_str(), R_OK, AT_EACCESS) != 0) return errno;
  return EINVAL;
}

tl::expected<std::shared_ptr<const tls::Context>, OpenFailed> open_tls(const tls::Credentials& files) {
  auto context = tls::open_context(files);
  if (!context) return tl::unexpected(OpenFailed{errno_of(files), context.error()});
  if (!tls::can_connect(**context))
    return tl::unexpected(
        OpenFailed{EINVAL, files.keys + ": it has several keys; tls_identity has to name one of them: " +
                               tls::identities(**context)});
  return *context;
}

// Keeps the last error that a fabric logs while it is opened, because the log text says more than an error
// code.
template <class Level>
std::function<void(Level, const std::string&)> keep_error(const std::shared_ptr<std::string>& into) {
  return [into](Level level, const std::string& text) {
    if (level == Level::error) *into = text;
  };
}

// Fabrics return the same code for a lack of memory and a lack of descriptors; errno distinguishes them.
OpenFailed failed(Errc error, const std::string& logged, int number) {
  const bool descriptors = error == Errc::no_memory && (number == EMFILE || number == ENFILE);
  return {descriptors ? number : to_linux_errno(error), logged.empty() ? to_string(error) : logged};
}

}  // namespace

std::string set(Settings& settings, std::string_view name, const std::string& value) {
  constexpr std::string_view kMilliseconds = "_ms";
  std::string_view word = value;
  const Option* option = find_option(name == "io_connections" ? "connections" : name);
  if (name == "host_names" || (option != nullptr && option->rule.kind == Kind::toggle))
    word = word == "1" ? "on" : word == "0" ? "off" : word;  // earlier releases and Python spell it so
  if (name == "host_names") {
    options::Value checked;
    std::string error = options::parse(options::toggle(), name, word, checked);
    if (error.empty()) settings.host_names = checked.on;
    return error;
  }
  if (option == nullptr && name.ends_with(kMilliseconds)) {
    option = find_option(name.substr(0, name.size() - kMilliseconds.size()));
    if (option != nullptr && option->rule.kind == Kind::time)
      return set_milliseconds(settings, *option, name, word);
    option = nullptr;
  }
  if (option == nullptr) return unknown(name);
  if (name == "fabric") {
    options::Value checked;
    if (std::string error = options::parse(kFabric, name, word, checked); !error.empty()) return error;
  }
  std::string error = options::set(*option, Connection{settings.fabric, settings.protocol}, word);
  return error.empty() || name == option->name ? error : std::string(name) + ": " + error;
}

tl::expected<std::unique_ptr<Fabric>, OpenFailed> open_fabric(const Settings& settings) {
  const auto logged = std::make_shared<std::string>();
  const options::FabricOptions& fabric = settings.fabric;
  const tls::Credentials& files = fabric.tls.credentials;
  if (fabric.fabric == "verbs") {
    if (files.any() || fabric.crc)
      return tl::unexpected(OpenFailed{EINVAL, "TLS and crc are for the fabric tcp"});
#ifdef URTRS_HAS_VERBS
    verbs::VerbsOptions options = options::verbs_options(fabric);
    options.dead_peer_time = dead_peer_time(settings.protocol.heartbeat);
    options.host_names = settings.host_names;
    options.log = keep_error<verbs::LogLevel>(logged);
    errno = 0;
    auto opened = verbs::open_verbs_fabric(options);
    if (!opened) return tl::unexpected(failed(opened.error(), *logged, errno));
    return std::move(*opened);
#else
    return tl::unexpected(OpenFailed{EOPNOTSUPP, "this build has no verbs"});
#endif
  }
  options::FabricOptions without_rdma = fabric;
  options::FabricOptions usual;
  without_rdma.fabric = usual.fabric;
  without_rdma.crc = usual.crc;
  without_rdma.tls = usual.tls;
  if (!(without_rdma == usual))
    return tl::unexpected(OpenFailed{EINVAL, "rdma_ settings are for the fabric verbs"});
  // Without keys or certificates these settings would silently disable TLS.
  if (!files.any() && !files.identity.empty())
    return tl::unexpected(OpenFailed{EINVAL, "tls_identity requires tls_keys"});
  if (!files.any() && !files.server_name.empty())
    return tl::unexpected(OpenFailed{
        EINVAL, "tls_server_name requires tls_ca, because the name is in the certificate of the server"});
  tcp::TlsOptions tls;
  if (files.any()) {
    auto context = open_tls(files);
    if (!context) return tl::unexpected(context.error());
    tls.context = *context;
  }
  tcp::TcpOptions options;
  options.crc = fabric.crc;
  options.host_names = settings.host_names;
  options.undelivered_timeout_ms =
      static_cast<unsigned>(std::min<Nanos>(dead_peer_time(settings.protocol.heartbeat) / milliseconds(1),
                                            std::numeric_limits<std::int32_t>::max()));
  options.log = keep_error<tcp::LogLevel>(logged);
  errno = 0;
  auto opened = tcp::open_tcp_fabric(options, tls);
  if (!opened) return tl::unexpected(failed(opened.error(), *logged, errno));
  return std::move(*opened);
}

}  // namespace rtrs::c
