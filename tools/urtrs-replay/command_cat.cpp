#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/terminal/terminal.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

struct CatOptions {
  std::string file;
  bool json = false;
  bool wide = false;
  std::optional<std::uint64_t> last;
  std::optional<std::uint16_t> instance;
  TimeOptions times;
  std::string follow;
};

bool is_filtered(const CatOptions& options) {
  return options.last || options.instance || !options.times.from.empty() || !options.times.to.empty();
}

// Returns the maximum line length: on a terminal its width, or 120 if the width is unknown; otherwise 0,
// which means no limit.
std::size_t columns_for(const CatOptions& options) {
  if (options.json || options.wide || ::isatty(STDOUT_FILENO) == 0) return 0;
  const std::size_t columns = tools::columns_of(stdout);
  return columns == 0 ? 120 : columns;
}

std::string cut_to(std::string line, std::size_t columns) {
  constexpr std::size_t kDots = 3;
  return columns <= kDots || line.size() <= columns ? std::move(line)
                                                    : tools::shortened(line, columns - kDots);
}

std::string header_text(const trace::Header& header, const trace::TimeBase& base) {
  const trace::Origin& origin = header.origin;
  std::string out = "# trace " + std::to_string(header.major) + '.' + std::to_string(header.minor) +
                    ", times: " + base.words() + ", tool " + origin.tool + ", role " + origin.role +
                    ", backend " + origin.backend;
  if (has_seed(origin)) out += ", seed " + std::to_string(origin.seed);
  for (const std::string& option : origin.options) out += ", " + option;
  if ((header.flags & trace::partial) != 0) out += ", beginning missing";
  if ((header.flags & trace::action_counts) != 0) out += ", actions only counted";
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

// Prints the records that are wanted.
class RecordPrinter {
 public:
  RecordPrinter(const CatOptions& options, const trace::Schema& schema, const trace::TimeBase& base,
                const TimeRange& range)
      : options_(options), schema_(schema), base_(base), range_(range), columns_(columns_for(options)) {}

  void header(const trace::Header& header) {
    if (options_.json && is_filtered(options_)) return;
    out_.line(options_.json ? trace::header_json(header) : cut_to(header_text(header, base_), columns_));
  }
  // `hold`: only the last records are wanted, and it is not known yet which ones these are. Returns false if
  // no more output can be written.
  bool take(const trace::Record& record, bool hold) {
    if (!range_.contains(record.time)) return true;
    any_ = true;
    if (options_.instance && record.instance != *options_.instance) return true;
    std::string text =
        options_.json ? trace::record_json(record, schema_) : trace::record_text(record, schema_, base_);
    text = cut_to(std::move(text), columns_);
    if (!hold) return out_.line(text);
    if (*options_.last == 0) return true;
    if (tail_.size() == *options_.last) tail_.pop_front();
    tail_.push_back(std::move(text));
    return true;
  }
  bool any() const { return any_; }
  std::size_t held() const { return tail_.size(); }
  void forget() { tail_.clear(); }
  void print_held() {
    for (const std::string& text : tail_) {
      if (!out_.line(text)) break;
    }
  }
  Output& out() { return out_; }

 private:
  const CatOptions& options_;
  const trace::Schema& schema_;
  const trace::TimeBase& base_;
  const TimeRange& range_;
  const std::size_t columns_;
  Output out_;
  bool any_ = false;
  std::deque<std::string> tail_;
};

using Status = trace::Reader::Status;

// Passes the records from the current one on to the printer. Stops at --to.
Status print(trace::Reader& reader, RecordPrinter& printer, const TimeRange& range, bool hold,
             Progress& progress) {
  trace::Record record;
  Status status = Status::ok;
  while (!reader.is_past(range.to) && (status = reader.next(record)) == Status::ok) {
    progress.at(reader.bytes());
    if (!printer.take(record, hold)) break;
  }
  return status;
}

// Prints the last records. Reads the end of a file with an index only, and more of it until there are enough
// records of the wanted machine.
Status print_last(const CatOptions& options, trace::Reader& reader, const trace::Record& first,
                  RecordPrinter& printer, const TimeRange& range, Progress& progress) {
  const bool every = !options.instance && options.times.from.empty() && options.times.to.empty();
  constexpr std::uint64_t kFirstPart = 1 << 14;  // records
  Status status = Status::ok;
  for (std::uint64_t part = every ? *options.last : std::max(*options.last, kFirstPart);; part *= 4) {
    printer.forget();
    if (!reader.go_to_last(part)) {
      printer.take(first, true);
      status = print(reader, printer, range, true, progress);
      break;
    }
    const bool whole = reader.records() == 0;
    status = print(reader, printer, range, !every, progress);
    const bool on = status == Status::end || status == Status::ok;
    if (every || whole || !on || printer.held() >= *options.last) break;
  }
  printer.print_held();
  return status;
}

int cat(const CatOptions& options) {
  InputFile file(options.file, patience_of(options.follow));
  if (!file.is_open()) return exit_usage;
  trace::Reader reader(file.source());
  Status status = reader.open();
  if (status != Status::ok) return report_stop(options.file, status, reader);

  trace::Record first;
  status = reader.next(first);
  const auto base = base_of(options.times, reader.header(), reader.first_time(), options.file);
  const auto range = base ? range_of(options.times, *base) : std::nullopt;
  if (!range) return exit_usage;
  RecordPrinter printer(options, reader.header().schema, *base, *range);
  printer.header(reader.header());
  if (status == Status::ok) {
    Progress progress(file.size(), ::isatty(STDOUT_FILENO) == 0);
    if (options.last) {
      status = print_last(options, reader, first, printer, *range, progress);
    } else if (printer.take(first, false)) {
      reader.skip_to_time(range->from, 0);
      status = print(reader, printer, *range, false, progress);
    }
    if (!printer.any() && options.last.value_or(1) != 0) {
      const Nanos last = last_time(reader);
      report_empty_range(options.file, *base, reader.first_time(), last);
      return exit_usage;
    }
  }
  if (status == Status::end && options.json && !is_filtered(options))
    printer.out().line(trace::end_json(reader.records(), reader.chain_hash()));
  return printer.out().finish(report_stop(options.file, status, reader));
}

}  // namespace

void add_cat(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, CatOptions& options) {
    add_trace(command, options.file);
    add_follow(command, options.follow);
    command.add_flag("--json", options.json, "One JSON object per line, lossless");
    command.add_flag("--wide", options.wide, "Do not cut lines at the width of the terminal");
    command.add_option("--last", options.last, "Only the last N records")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("N");
    command.add_option("--instance", options.instance, "Only records of this machine")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("I");
    add_times(command, options.times);
  };
  add_command<CatOptions>(app, runner, "cat", "Print the records of a trace",
                          "Examples:\n"
                          "  urtrs-replay cat run.rtrc | less\n"
                          "  urtrs-replay cat run.rtrc --last 50\n"
                          "  urtrs-replay cat run.rtrc --from 0 --to 100\n"
                          "  urtrs-replay cat run.rtrc --json | jq -c 'select(.event==\"PathChanged\")'",
                          bind, cat);
}

}  // namespace rtrs::replay_tool
