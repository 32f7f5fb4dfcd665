// Log of urtrsd on standard error. A separate thread writes the lines, so that nothing else blocks if no
// process reads standard error. When the queue of the thread is full, the oldest lines are dropped and
// counted.
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
  unnamed_path,  // event of a path whose session has no name yet
  path_up,       // event of a path of a named session
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
  // Like the function above. `fields` are for programs that parse the log.
  template <class... Arguments>
  void write(LogKind kind, spdlog::level::level_enum level, const LogFields& fields,
             spdlog::format_string_t<Arguments...> format, Arguments&&... arguments) {
    if (spdlog::should_log(level) && allow(kind))
      spdlog::log(level, "{}",
                  with_fields(fmt::format(format, std::forward<Arguments>(arguments)...), fields));
  }
  // For each rate-limit window that has ended, logs how many lines were suppressed.
  void tell();
  // Time at which tell() next has something to log; kNever: not yet known.
  Nanos next_due() const noexcept { return limiter_.next_due(); }

 private:
  bool allow(LogKind kind);
  tools::LogLimiter limiter_{static_cast<std::size_t>(LogKind::count)};
};

// If standard error is the systemd journal ($JOURNAL_STREAM), each line begins with its priority in the form
// "<4>".
void set_up_log(const std::string& level, LogFormat format);
// Writes the queued lines. If standard error blocks for 2 s, exits the process with `exit_code`, because the
// blocked log thread cannot be stopped.
void finish_log(int exit_code);

}  // namespace rtrs::daemon
