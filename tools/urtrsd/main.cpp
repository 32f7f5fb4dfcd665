#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/urtrsd/config/output_files.hpp"
#include "tools/urtrsd/daemon.hpp"
#include "tools/urtrsd/log.hpp"
#include "tools/urtrsd/start_trial.hpp"

namespace {

using namespace rtrs;
using namespace rtrs::daemon;

void log_of_fabric(tools::LogLevel level, const std::string& text) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                  spdlog::level::warn, spdlog::level::err,
                                                  spdlog::level::warn};
  spdlog::log(levels[static_cast<unsigned>(level)], "{}", text);
}

int serve(const std::vector<std::string>& arguments, const DaemonConfig& config,
          const ServiceEnvironment& service) {
  if (const auto why = too_few_descriptors()) {
    spdlog::error("{}", *why);
    return 3;
  }
  auto catalog = Catalog::create(
      config.exports, config.dev_search_path.empty() ? std::nullopt : std::optional(config.dev_search_path));
  if (!catalog) {
    spdlog::error("{}", catalog.error().sentence);
    return 3;
  }
  const auto missing = (*catalog)->check(Catalog::CheckLocks::take);
  for (const std::string& warning : (*catalog)->warnings()) spdlog::warn("{}", warning);
  const auto is_certain = [](const Catalog::Problem& one) { return !one.late; };
  if (config.strict && std::any_of(missing.begin(), missing.end(), is_certain)) {
    for (const Catalog::Problem& one : missing)
      spdlog::log(one.late ? spdlog::level::warn : spdlog::level::err, "{}", one.why.sentence);
    return 3;
  }
  const auto unwritable = output_file_problems(config, **catalog);
  for (const std::string& problem : unwritable) spdlog::error("{}", problem);
  if (!unwritable.empty()) return 2;
  StorageEngine::Options options;
  options.pollable = !config.busy_poll;
  auto engine = StorageEngine::create(options);
  if (!engine) {
    spdlog::error("{}", engine.error().sentence);
    return 3;
  }
  if (!(*engine)->warning().empty()) spdlog::warn("{}", (*engine)->warning());
  tools::FabricChoice choice = fabric_choice(config);
  choice.log = log_of_fabric;
  auto fabric = tools::open_fabric(choice);
  if (!fabric) {
    spdlog::error("{}", fabric.error());
    return 3;
  }
  boost::asio::io_context context(1);
  Daemon daemon(context, config, std::move(*fabric), std::move(*catalog), std::move(*engine), service);
  daemon.reread_with([arguments] { return parse_command_line(arguments); });
  daemon.expect(missing);
  if (const int failed = daemon.start()) return failed;
  context.run();
  if (daemon.was_forced()) {
    finish_log(1);
    std::_Exit(1);
  }
  spdlog::info("stopped");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tools::hold_standard_streams();
  const ServiceEnvironment service =
      take_service_environment();  // before any thread is started, because it changes the environment
  tools::raise_descriptor_limit();
  tools::expect_removed_devices();
  // Without these, a closed connection, or a trace file that reaches RLIMIT_FSIZE, would end the process. The
  // system call must fail instead.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);  // ignored until the daemon installs its handler
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const CommandLine line = parse_command_line(arguments, std::getenv, try_start);
  std::fputs(line.output.c_str(), stdout);
  std::fputs(line.errors.c_str(), stderr);
  if (!line.run) return tools::written("urtrsd", line.exit_code, 1);
  try {
    set_up_log(line.run->log_level, line.run->log_format == "json" ? LogFormat::as_json : LogFormat::as_text);
  } catch (const std::system_error& error) {
    std::fprintf(
        stderr, "urtrsd: the thread of the log cannot be started: %s; raise the limits of tasks and memory\n",
        error.code().message().c_str());
    return 3;
  }
  int code = 1;
  try {
    code = serve(arguments, *line.run, service);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
  finish_log(code);
  return code;
}
