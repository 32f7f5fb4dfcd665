#include <deque>
#include <string>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/record_filter.hpp"

namespace rtrs::replay_tool {
namespace {

struct GrepOptions {
  std::string file;
  FilterOptions filter;
  TimeOptions times;
  std::string follow;
  std::size_t before = 0;
  std::size_t after = 0;
  bool count = false;
  bool json = false;
};

// Prints matching records, optionally with context records of the same machine.
class Printer {
 public:
  Printer(const GrepOptions& options, const trace::Schema& schema, const trace::TimeBase& base)
      : options_(options), schema_(schema), base_(base) {
    if (!options.count && !options.json) out_.line(times_line(base));
  }

  // Processes a record. Returns false if no more output can be written.
  bool take(const trace::Record& record, bool matches) {
    if (matches) ++found_;
    if (options_.count) return true;
    const bool follows = !matches && left_ > 0;
    if (!matches && !follows) {
      if (options_.before == 0) return true;
      if (earlier_.size() == options_.before) earlier_.pop_front();
      earlier_.push_back({record.seq, text(record)});
      return true;
    }
    left_ = matches ? options_.after : left_ - 1;
    const std::uint64_t first = earlier_.empty() ? record.seq : earlier_.front().first;
    const bool context = options_.before + options_.after != 0;
    if (context && !options_.json && printed_any_ && first != next_) out_.line("--");
    for (const auto& [seq, line] : earlier_) out_.line(line);
    earlier_.clear();
    printed_any_ = true;
    next_ = record.seq + 1;
    return out_.line(text(record));
  }
  // True if the next record is printed as context.
  bool wants_more() const { return left_ != 0; }
  int finish(int code) {
    if (options_.count) {
      out_.line(options_.json ? "{\"count\":" + std::to_string(found_) + "}" : std::to_string(found_));
    }
    return out_.finish(code != exit_ok ? code : found_ != 0 ? exit_ok : exit_bad);
  }

 private:
  std::string text(const trace::Record& record) const {
    if (options_.json) return trace::record_json(record, schema_);
    std::string number = std::to_string(record.seq);
    if (number.size() < 8) number.insert(0, 8 - number.size(), ' ');
    return number + ' ' + trace::record_text(record, schema_, base_);
  }

  const GrepOptions& options_;
  const trace::Schema& schema_;
  const trace::TimeBase& base_;
  Output out_;
  std::deque<std::pair<std::uint64_t, std::string>> earlier_;
  std::uint64_t found_ = 0;
  std::uint64_t next_ = 0;
  std::size_t left_ = 0;
  bool printed_any_ = false;
};

int grep(const GrepOptions& options) {
  InputFile file(options.file, patience_of(options.follow));
  if (!file.is_open()) return exit_usage;
  trace::Reader reader(file.source());
  trace::Reader::Status status = reader.open();
  if (status != trace::Reader::Status::ok) return report_stop(options.file, status, reader);
  std::string why;
  RecordFilter filter(options.filter, reader.header().schema, why);
  if (!why.empty()) {
    error(why);
    return exit_usage;
  }
  trace::Record record;
  status = reader.next(record);
  const auto base = base_of(options.times, reader.header(), reader.first_time(), options.file);
  const auto range = base ? range_of(options.times, *base) : std::nullopt;
  if (!range) return exit_usage;
  filter.set_range(*range);
  Printer printer(options, reader.header().schema, *base);
  // The permit of a response needs the depth of its session, which records before the range tell.
  const bool may_skip = options.filter.permits.empty();
  bool any = false;
  for (; status == trace::Reader::Status::ok; status = reader.next(record)) {
    any = any || range->contains(record.time);
    if (!printer.take(record, filter.matches(record))) break;
    if (record.seq == 0 && may_skip) reader.skip_to_time(range->from, options.before);
    if (reader.is_past(range->to) && !printer.wants_more()) break;
  }
  if (!any && reader.records() != 0) {
    report_empty_range(options.file, *base, reader.first_time(), last_time(reader));
    return exit_usage;
  }
  return printer.finish(report_stop(options.file, status, reader));
}

}  // namespace

void add_grep(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, GrepOptions& options) {
    add_trace(command, options.file);
    add_follow(command, options.follow);
    add_filter_options(command, options.filter);
    add_times(command, options.times);
    command.add_option("-B,--before", options.before, "Also this many records before each")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("N");
    command.add_option("-A,--after", options.after, "Also this many records after each")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("N");
    command.add_flag("-c,--count", options.count, "Only the number of matches");
    command.add_flag("--json", options.json, "One JSON object per record, as with cat --json");
  };
  add_command<GrepOptions>(
      app, runner, "grep", "Print the records that match",
      "Examples:\n"
      "  urtrs-replay grep run.rtrc --event 'Path*' --path 0\n"
      "  urtrs-replay grep run.rtrc --permit 3 --from 0 --to 100\n"
      "  urtrs-replay grep run.rtrc --connection 0:0 --class action -B 2\n"
      "  urtrs-replay grep run.rtrc --field reason=none --json\n"
      "\n"
      "Criteria of different kinds must all hold; of several values of one kind (--path 0,1), at least one.\n"
      "Exit codes: 0 found, 1 nothing found, 2 wrong usage, 3 no trace, 5 the trace is damaged: only the "
      "records before the damage were searched.",
      bind, grep);
}

}  // namespace rtrs::replay_tool
