#include "tools/urtrsd/start_trial.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/control/http/text_server.hpp"
#include "tools/urtrsd/storage/storage_engine.hpp"

namespace rtrs::daemon {

namespace {

constexpr rlim_t kMinDescriptors = 64;

void try_engine(StartTrial& trial) {
  const auto engine = StorageEngine::create({});
  if (!engine) {
    trial.errors.push_back(engine.error().sentence);
    return;
  }
  trial.engine = (*engine)->runner();
  if (!(*engine)->warning().empty()) trial.warnings.push_back((*engine)->warning());
}

// Tries to open the fabric. Shared keys are checked elsewhere. The fabric tcp needs nothing that a host could
// lack.
void try_fabric(const DaemonConfig& config, StartTrial& trial) {
  if (config.fabric == "tcp") return;
  tools::FabricChoice choice = fabric_choice(config);
  choice.auth = {};
  choice.log = [&trial](tools::LogLevel level, const std::string& text) {
    if (level >= tools::LogLevel::warning) trial.warnings.push_back(text);
  };
  const auto fabric = tools::open_fabric(choice);
  if (!fabric)
    trial.errors.push_back(fabric.error());
  else if (auto why = missing_invalidation(config, (*fabric)->capabilities()))
    trial.errors.push_back(std::move(*why));
}

void try_metrics(const DaemonConfig& config, StartTrial& trial) {
  if (config.metrics.empty()) return;
  boost::asio::io_context context(1);
  http::TextServerOptions options;
  options.address = config.metrics;
  const auto server = http::TextServer::listen(context, options, [] { return std::string(); });
  if (server) return;
  // An address in use is only a warning, because the urtrsd that is to be restarted may use it.
  const bool in_use = server.error().sentence.find("in use") != std::string::npos ||
                      server.error().sentence.find("another process listens") != std::string::npos;
  (in_use ? trial.warnings : trial.errors).push_back(server.error().sentence);
}

}  // namespace

std::optional<std::string> too_few_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kMinDescriptors) return std::nullopt;
  return fmt::format(
      "this process may have {} file descriptors, and urtrsd needs {} and about six for each connection; "
      "raise it with ulimit -n, or LimitNOFILE= of systemd",
      limit.rlim_cur, kMinDescriptors);
}

std::optional<std::string> missing_invalidation(const DaemonConfig& config, const Capabilities& fabric) {
  if (!config.always_invalidate.value_or(false) || fabric.invalidation) return std::nullopt;
  return fmt::format(
      "always_invalidate is set, but this fabric does not support invalidation of rkeys; set it to false{}",
      config.fabric == "verbs" ? ", or rdma_invalidation to registration, which costs system calls" : "");
}

StartTrial try_start(const DaemonConfig& config) {
  StartTrial trial;
  if (auto why = too_few_descriptors()) trial.errors.push_back(std::move(*why));
  try_engine(trial);
  try_fabric(config, trial);
  try_metrics(config, trial);
  return trial;
}

}  // namespace rtrs::daemon
