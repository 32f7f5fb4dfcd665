// Formats the timestamp at the start of a log line, and finds out whether a line needs one.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::tools {

// Returns local time as "2026-03-01T12:34:56.789 ", the format of the urtrsd log.
std::string log_stamp(std::chrono::system_clock::time_point);

// Returns true if `journal_stream`, the value of $JOURNAL_STREAM, names the file with this device and inode
// number. systemd sets the variable for the stream that the journal reads.
bool is_journal(std::string_view journal_stream, std::uint64_t device, std::uint64_t inode);
// Returns true if the systemd journal reads standard error. The journal adds a timestamp to each line itself.
bool journal_reads_stderr();
// Returns true if standard error is /dev/null, as in an nbdkit that runs in the background and logs to
// syslog.
bool stderr_is_null();

}  // namespace rtrs::tools
