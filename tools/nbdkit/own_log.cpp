#include "tools/nbdkit/own_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tools/lib/control/plugin/start_log.hpp"
#include "tools/lib/text/log_stamp.hpp"

namespace rtrs::nbdkit {

void take_own_log() {
  const char* const given = std::getenv(plugin::kLogVariable);
  if (given == nullptr) return;
  const std::string_view text = given;
  int log = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), log);
  ::unsetenv(plugin::kLogVariable);
  if (error != std::errc{} || end != text.data() + text.size() || log <= STDERR_FILENO) return;
  if (::dup2(log, STDERR_FILENO) < 0) return;  // the log descriptor is not open
  ::dup2(log, STDOUT_FILENO);
  ::close(log);
}

bool log_needs_times() {
  return std::getenv(plugin::kLogVariable) == nullptr && !tools::stderr_is_null() &&
         !tools::journal_reads_stderr();
}

}  // namespace rtrs::nbdkit
