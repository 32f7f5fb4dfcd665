#include <cstring>
#include <memory>
#include <string>

#include "core/record/writer.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace rtrs::replay_tool {
namespace {

struct FromJsonOptions {
  std::string from;
  std::string to;
  bool rehash = false;
  bool json = false;
};

int from_json(const FromJsonOptions& options) {
  if (options.to == "-") return error("cannot write a trace to standard output; name a file"), exit_usage;
  InputFile file(options.from);
  if (!file.is_open()) return exit_usage;
  const int fd = create_output(options.to, 0600);
  if (fd < 0) return exit_usage;
  trace::JsonImporter importer(std::make_unique<trace::FdSink>(fd), options.rehash);
  trace::FdSource source(file.fd());
  std::string pending;
  std::uint64_t number = 0;
  const auto failed = [&](const std::string& why) {
    if (importer.write_error() != 0) {
      error("cannot write " + options.to + ": " + why);
      return exit_usage;
    }
    error(options.from + ", line " + std::to_string(number) + ": " + why);
    return exit_cannot_read;
  };
  char buffer[1 << 16];
  std::ptrdiff_t got = 0;
  do {
    got = source.read(buffer, sizeof buffer);
    if (got < 0) {
      error("cannot read " + options.from + ": " + std::strerror(static_cast<int>(-got)));
      return exit_usage;
    }
    pending.append(buffer, static_cast<std::size_t>(got));
    std::size_t start = 0;
    for (;;) {
      const std::size_t end = pending.find('\n', start);
      if (end == std::string::npos && (got != 0 || start == pending.size())) break;
      ++number;
      const std::string why = importer.line(std::string_view(pending).substr(start, end - start));
      if (!why.empty()) return failed(why);
      start = end == std::string::npos ? pending.size() : end + 1;
    }
    pending.erase(0, start);
  } while (got != 0);
  const std::string why = importer.finish();
  if (!why.empty()) return failed(why);
  Output out;
  if (options.json) out.line("{\"schema_version\":1,\"records\":" + std::to_string(importer.records()) + "}");
  return out.finish(exit_ok);
}

}  // namespace

void add_from_json(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, FromJsonOptions& options) {
    command.add_option("FILE", options.from, "Lines of JSON, - for standard input")->required();
    command.add_option("TRACE", options.to, "Trace file to write, not standard output")->required();
    command.add_flag("--rehash", options.rehash,
                     "After edits: numbers records again, computes the end again, leaves out state hashes");
    command.add_flag("--json", options.json, "The number of records, as a JSON object");
  };
  add_command<FromJsonOptions>(app, runner, "from-json", "Turn the output of cat --json into a trace again",
                               "Examples:\n"
                               "  urtrs-replay cat run.rtrc --json > run.jsonl\n"
                               "  urtrs-replay from-json run.jsonl again.rtrc\n"
                               "  urtrs-replay from-json --rehash edited.jsonl edited.rtrc\n"
                               "\n"
                               "With --rehash, lines may be changed, removed and added. Digests of message "
                               "content (wire notes) stay, because a trace has not that content.",
                               bind, from_json);
}

}  // namespace rtrs::replay_tool
