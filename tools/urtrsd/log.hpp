// Log of urtrsd on standard error. A separate thread writes it, so that a standard error that no process
// reads blocks nothing else. Lines that do not fit into its queue are dropped, oldest first, and counted.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"
#include "tools/lib/text/log_limiter.hpp"
#include "tools/urtrsd/log_line.hpp"

namespace rtrs::daemon {

// Log lines that clients can cause. Each kind has its own rate limit, so that a flood of one kind does not
// hide others.
enum class LogKind : std::uint8_t {
  unnamed_path,  // path whose session has no name yet
  path_up,       // path of a named session
  path_down,
  session,
  device,
  refused_open,
  refused_connect,
  failed_io,
  count,
};

class LimitedLog {
 public:
  template <class... Arguments>
  void write(LogKind kind, spdlog::level::level_enum level, spdlog::format_string_t<Arguments...> format,
             Arguments&&... arguments) {
    if (spdlog::should_log(level) && allow(kind))
      spdlog::log(level, format, std::forward<Arguments>(arguments)...);
  }
  // Like the function above, with fields for programs that parse the log.
  template <class... Arguments>
  void write(LogKind kind, spdlog::level::level_enum level, const LogFields& fields,
             spdlog::format_string_t<Arguments...> format, Arguments&&... arguments) {
    if (spdlog::should_log(level) && allow(kind))
      spdlog::log(level, "{}",
                  with_fields(fmt::format(format, std::forward<Arguments>(arguments)...), fields));
  }
  // Logs the number of lines suppressed in time windows that have ended.
  void tell();
  // Time at which tell() has something to log; kNever: not yet known.
  Nanos next_due() const noexcept { return limiter_.next_due(); }

 private:
  bool allow(LogKind kind);
  tools::LogLimiter limiter_{static_cast<std::size_t>(LogKind::count)};
};

// If standard error is the systemd journal ($JOURNAL_STREAM), each line begins with its priority.
void set_up_log(const std::string& level, LogFormat format);
// Writes the queued lines. If standard error blocks for 2 s, exits the process with `exit_code`, because the
// log thread cannot be stopped then.
void finish_log(int exit_code);

}  // namespace rtrs::daemon
