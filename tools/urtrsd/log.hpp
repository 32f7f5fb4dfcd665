// The log of urtrsd on standard error. A thread of its own writes it, so that a standard error that nobody
// reads stops nothing else: the lines that do not fit into its queue are dropped, oldest first, and counted.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"
#include "tools/lib/text/log_limiter.hpp"
#include "tools/urtrsd/log_line.hpp"

namespace rtrs::daemon {

// Lines that clients can cause. Each kind has a limit of its own, so that a flood of one does not hide
// others.
enum class LogKind : std::uint8_t {
  stranger_path,  // a path whose session has no name yet
  path_up,        // of a named session
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
  // The same with what the line is about, for programs.
  template <class... Arguments>
  void write(LogKind kind, spdlog::level::level_enum level, const LogFields& fields,
             spdlog::format_string_t<Arguments...> format, Arguments&&... arguments) {
    if (spdlog::should_log(level) && allow(kind))
      spdlog::log(level, "{}",
                  with_fields(fmt::format(format, std::forward<Arguments>(arguments)...), fields));
  }
  // Tells what was left out in windows that have ended.
  void tell();
  // When tell() has something; kNever: not yet known.
  Nanos next_due() const noexcept { return limiter_.next_due(); }

 private:
  bool allow(LogKind kind);
  tools::LogLimiter limiter_{static_cast<std::size_t>(LogKind::count)};
};

// Each line begins with its priority where standard error is the journal of systemd ($JOURNAL_STREAM).
void set_up_log(const std::string& level, LogFormat format);
// Writes what is queued. When standard error takes nothing for 2 s, gives up and leaves the process with
// `exit_code`, because the thread of the log cannot be ended then.
void finish_log(int exit_code);

}  // namespace rtrs::daemon
