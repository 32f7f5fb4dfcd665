#include "tools/urtrs-replay/time_range.hpp"

#include "tools/lib/trace/command/files.hpp"

namespace rtrs::replay_tool {

using tools::error;

void add_wall(CLI::App& command, TimeOptions& options) {
  command.add_flag("--wall", options.wall, "Times as UTC, not as seconds since the start of the run");
}

void add_times(CLI::App& command, TimeOptions& options) {
  add_wall(command, options);
  command
      .add_option("--from", options.from,
                  "From this time on: seconds since the start of the run, or UTC (2026-11-30T12:51:09.5Z)")
      ->type_name("TIME");
  command.add_option("--to", options.to, "Up to this time")->type_name("TIME");
}

std::optional<trace::TimeBase> base_of(const TimeOptions& options, const trace::Header& header, Nanos first,
                                       const std::string& path) {
  trace::TimeBase base(header, first);
  if (!options.wall || base.use_wall()) return base;
  error(path + " does not say at what wall time it was recorded; use seconds, without --wall");
  return std::nullopt;
}

std::string times_line(const trace::TimeBase& base) {
  return "# times: " + base.words();
}

std::optional<TimeRange> range_of(const TimeOptions& options, const trace::TimeBase& base) {
  TimeRange range;
  for (const auto& [name, given, limit] :
       {std::tuple("--from", &options.from, &range.from), {"--to", &options.to, &range.to}}) {
    if (given->empty()) continue;
    const auto time = base.parse(*given);
    if (!time) {
      error(std::string(name) + ": \"" + *given +
            "\" is no time of this trace; give seconds since the start of the run, or UTC as "
            "2026-11-30T12:51:09.5Z if the trace has the wall time");
      return std::nullopt;
    }
    *limit = *time;
  }
  if (range.from <= range.to) return range;
  error("--from is later than --to: no record is in between");
  return std::nullopt;
}

Nanos last_time(trace::Reader& reader) {
  reader.go_to_last(1);
  trace::Record record;
  while (reader.next(record) == trace::Reader::Status::ok) {
  }
  return reader.time();
}

void report_empty_range(const std::string& path, const trace::TimeBase& base, Nanos first, Nanos last) {
  error(path + ": no record is in this range; the trace covers " + base.with_unit(first) + " to " +
        base.with_unit(last) + " in " + base.words());
}

}  // namespace rtrs::replay_tool
