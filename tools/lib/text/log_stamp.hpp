// The time in front of a line of a log, and whether the line needs one.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::tools {

// "2026-03-01T12:34:56.789 ", local time, as in the log of urtrsd.
std::string log_stamp(std::chrono::system_clock::time_point);

// Whether $JOURNAL_STREAM names the file with these numbers, as it does where the journal reads it.
bool is_journal(std::string_view journal_stream, std::uint64_t device, std::uint64_t inode);
// Whether the journal of systemd reads standard error. The journal adds a time to each line.
bool journal_reads_stderr();
// Whether standard error leads nowhere, as that of an nbdkit in the background, which writes to syslog.
bool stderr_is_null();

}  // namespace rtrs::tools
