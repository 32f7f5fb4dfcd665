// Options for times, which all subcommands show and take alike.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/time_base.hpp"

namespace rtrs::replay_tool {

struct TimeOptions {
  std::string from, to;  // as TimeBase::parse() takes them; empty: no limit
  bool wall = false;
};
void add_wall(CLI::App& command, TimeOptions& options);
// Adds --wall, --from and --to.
void add_times(CLI::App& command, TimeOptions& options);

// Returns how the times of the trace `path` are shown. `first`: time of its first record. Prints an error if
// the wall time is wanted, but not in the trace.
std::optional<trace::TimeBase> base_of(const TimeOptions& options, const trace::Header& header, Nanos first,
                                       const std::string& path);
// First line of an output.
std::string times_line(const trace::TimeBase& base);

// Range of recorded times, both ends included.
struct TimeRange {
  std::int64_t from = std::numeric_limits<std::int64_t>::min();
  std::int64_t to = std::numeric_limits<std::int64_t>::max();
  bool contains(Nanos time) const noexcept {
    return static_cast<std::int64_t>(time) >= from && static_cast<std::int64_t>(time) <= to;
  }
};
// Prints an error if an option is no time, or if --from is later than --to.
std::optional<TimeRange> range_of(const TimeOptions& options, const trace::TimeBase& base);
// Returns the time of the last record. Reads the rest of the trace, or its end if the file has an index.
Nanos last_time(trace::Reader& reader);
// Prints the error that no record is in the range, with the range of the trace.
void report_empty_range(const std::string& path, const trace::TimeBase& base, Nanos first, Nanos last);

}  // namespace rtrs::replay_tool
