#include <unistd.h>

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

int cat(const CatOptions& options) {
  InputFile file(options.file, patience_of(options.follow));
  if (!file.is_open()) return exit_usage;
  trace::Reader reader(file.source());
  trace::Reader::Status status = reader.open();
  Output out;
  if (status != trace::Reader::Status::ok) return report_stop(options.file, status, reader);

  trace::Record record;
  status = reader.next(record);
  const auto base = base_of(options.times, reader.header(), reader.first_time(), options.file);
  if (!base) return exit_usage;
  const std::size_t columns = columns_for(options);
  const bool filtered = options.last || options.instance;
  const trace::Schema& schema = reader.header().schema;
  if (!options.json || !filtered) {
    out.line(options.json ? trace::header_json(reader.header())
                          : cut_to(header_text(reader.header(), *base), columns));
  }
  Progress progress(file.size(), ::isatty(STDOUT_FILENO) == 0);
  std::deque<std::string> tail;
  for (; status == trace::Reader::Status::ok; status = reader.next(record)) {
    progress.at(reader.bytes());
    if (options.instance && record.instance != *options.instance) continue;
    std::string text =
        options.json ? trace::record_json(record, schema) : trace::record_text(record, schema, *base);
    text = cut_to(std::move(text), columns);
    if (!options.last) {
      if (!out.line(text)) return out.finish(exit_ok);
    } else if (*options.last != 0) {
      if (tail.size() == *options.last) tail.pop_front();
      tail.push_back(std::move(text));
    }
  }
  for (const std::string& text : tail) {
    if (!out.line(text)) break;
  }
  if (status == trace::Reader::Status::end && options.json && !filtered) {
    out.line(trace::end_json(reader.records(), reader.chain_hash()));
  }
  return out.finish(report_stop(options.file, status, reader));
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
    add_wall(command, options.times);
  };
  add_command<CatOptions>(app, runner, "cat", "Print the records of a trace",
                          "Examples:\n"
                          "  urtrs-replay cat run.rtrc | less\n"
                          "  urtrs-replay cat run.rtrc --last 50\n"
                          "  urtrs-replay cat run.rtrc --json | jq -c 'select(.event==\"PathChanged\")'",
                          bind, cat);
}

}  // namespace rtrs::replay_tool
