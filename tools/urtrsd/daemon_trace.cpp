// Records traces: always to memory, and to files on request.
#include <unistd.h>

#include <spdlog/spdlog.h>

#include <cerrno>

#include "backends/platform/system/clock.hpp"
#include "core/proto/reasons.hpp"
#include "core/record/writer.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/config/output_files.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {

namespace {

constexpr Nanos kBetweenDumps = seconds(10);

}  // namespace

trace::Origin Daemon::origin() const {
  return {
      "urtrsd", "server", fabric_->capabilities().name, 0, {}, platform::steady_now(), platform::wall_now()};
}

std::string Daemon::open_trace(const std::string& path) {
  std::string refused = trace_path_problem(*catalog_, path);
  if (refused.empty()) {
    const int error = recorder_.open_file(path.c_str(), origin(), config_.file_options());
    if (error != 0) refused = trace::file_error_text(error);
  }
  if (refused.empty()) {
    tracing_ = path;
    return {};
  }
  refused = "cannot write the trace " + in_quotes(path) + ": " + refused;
  spdlog::error("{}", refused);
  return refused;
}

std::string Daemon::dump_trace(const std::string& path) {
  std::string refused = trace_path_problem(*catalog_, path);
  if (refused.empty()) {
    const int error = recorder_.dump_ring(path.c_str(), origin());
    if (error != 0) refused = trace::file_error_text(error);
  }
  if (!refused.empty()) {
    spdlog::error("cannot write the last records to {}: {}; --trace-dump names another file", in_quotes(path),
                  refused);
    refused = "cannot write the last records to " + in_quotes(path) + ": " + refused;
  } else {
    spdlog::info("wrote the last records to {}; show them with: urtrs-replay cat {}", path, path);
  }
  return refused;
}

// Starts a recording to a file, or completes the recording in progress.
void Daemon::toggle_trace() {
  if (recorder_.recording()) {
    const int error = recorder_.close_file();
    tracing_.clear();
    if (error != 0) return spdlog::error("the trace could not be completed: {}", errno_text(error));
    return spdlog::info("SIGUSR2: the trace is complete");
  }
  const std::string path =
      "urtrsd-" + std::to_string(::getpid()) + '-' + std::to_string(++recordings_) + ".rtrc";
  if (!open_trace(path).empty()) return;
  spdlog::info("SIGUSR2: recording to {}; send SIGUSR2 again to complete it", path);
}

void Daemon::report_trace(const PathEvent& news) {
  const bool lost =
      news.path.state == PathState::closing && text_of(news.path.reason).kind == ReasonKind::broken;
  if (!lost || config_.trace_dump.empty() || news.at < next_dump_) return;
  next_dump_ = news.at + kBetweenDumps;
  dump_trace(config_.trace_dump);
}

}  // namespace rtrs::daemon
