#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/record/writer.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/compare.hpp"

namespace rtrs::replay_tool {
namespace {

struct DiffOptions {
  std::string a, b;
  CompareMode mode = CompareMode::canonical;
  bool json = false;
};

const std::map<std::string, CompareMode>& modes() {
  static const std::map<std::string, CompareMode> all = {
      {"exact", CompareMode::exact}, {"canonical", CompareMode::canonical}, {"state", CompareMode::state}};
  return all;
}

// Returns an error message if the mode is unknown, otherwise "".
std::string known_mode(const std::string& word) {
  const std::string small = CLI::detail::to_lower(word);
  return modes().count(small) != 0 ? "" : "expected canonical, exact or state, got \"" + word + "\"";
}

void print(Output& out, const DiffOptions& options, const Difference& difference) {
  const auto line = [&out](const char* sign, const std::string& file, std::uint64_t seq,
                           const std::string& text) {
    out.line(sign + (text.empty() ? "(nothing more in " + file + ')' : std::to_string(seq) + "  " + text));
  };
  out.line("first difference" +
           (difference.thread.empty() ? std::string() : " of machine " + difference.thread) + ':');
  line("- ", options.a, difference.seq_a, difference.a);
  line("+ ", options.b, difference.seq_b, difference.b);
  if (!difference.before.empty()) out.line("both did before it:");
  for (const std::string& text : difference.before) out.line("  " + text);
}

// Sets `file` to a file with the trace. Copies a trace from a pipe to `scratch`, because it is read twice.
bool readable_again(const std::string& given, const char* name, std::optional<tools::ScratchFolder>& scratch,
                    std::string& file) {
  file = given;
  InputFile input(given);
  if (!input.is_open()) return false;
  if (given != "-" && input.size() != 0) return true;
  if (!scratch) scratch.emplace();
  if (scratch->path().empty()) {
    error(std::string("cannot create a temporary folder: ") + std::strerror(errno));
    return false;
  }
  file = *scratch / name;
  const int fd = create_output(file, 0600);
  if (fd < 0) return false;
  trace::FdSink sink(fd);
  char part[1 << 16];
  std::ptrdiff_t got = 0;
  int wrong = 0;
  while (wrong == 0 && (got = input.source().read(part, sizeof part)) > 0)
    wrong = sink.write(part, static_cast<std::size_t>(got));
  if (got < 0) wrong = static_cast<int>(-got);
  if (wrong != 0) error("cannot copy " + given + " to " + file + ": " + std::strerror(wrong));
  return wrong == 0;
}

int diff(const DiffOptions& options) {
  std::optional<tools::ScratchFolder> scratch;
  std::string files[2];
  if (!readable_again(options.a, "a", scratch, files[0]) ||
      !readable_again(options.b, "b", scratch, files[1]))
    return exit_usage;
  const Comparison compared = compare({options.a, files[0]}, {options.b, files[1]}, options.mode);
  const auto [difference, a, b] = compared;
  for (const int code : {a.code, b.code}) {
    if (code == exit_usage || code == exit_cannot_read) return code;
  }
  const bool damaged = a.code != exit_ok || b.code != exit_ok;
  // If a damaged trace ends earlier than the other one, this does not count as a difference, because the
  // missing part may be equal.
  const bool unlike = difference.found && !(a.code != exit_ok && difference.a.empty()) &&
                      !(b.code != exit_ok && difference.b.empty());
  Output out;
  if (options.json) {
    nlohmann::json json = {
        {"schema_version", 1}, {"equal", !difference.found}, {"records", {a.records, b.records}}};
    if (difference.found) {
      json["first"] = {{"machine", difference.thread},
                       {"records", {difference.seq_a, difference.seq_b}},
                       {"a", difference.a},
                       {"b", difference.b},
                       {"before", difference.before}};
    }
    out.line(json.dump());
  } else if (difference.found) {
    out.line("# times: seconds since the start of each run");
    print(out, options, difference);
  } else {
    out.line("no difference: " + std::to_string(a.records) + " and " + std::to_string(b.records) +
             " records");
  }
  return out.finish(unlike ? exit_bad : damaged ? exit_damaged : exit_ok);
}

}  // namespace

void add_diff(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, DiffOptions& options) {
    command.add_option("A", options.a, "Trace file")->required();
    command.add_option("B", options.b, "Trace file")->required();
    command
        .add_option("--mode", options.mode,
                    "exact: every byte of every record; canonical: inputs and actions of each machine, "
                    "without times, handles numbered by first use, RNBD messages as words; state: states of "
                    "paths, sessions and devices")
        // CLI11 runs transformations in reverse order: first the check, then the conversion.
        ->transform(CLI::Transformer(modes(), CLI::ignore_case))
        ->transform(CLI::Validator(known_mode, "MODE"))
        ->option_text("{canonical,exact,state}=canonical");
    command.add_flag("--json", options.json, "The result as a JSON object");
  };
  add_command<DiffOptions>(
      app, runner, "diff", "Print the first difference of two traces that has a cause",
      "Examples:\n"
      "  urtrs-replay diff run.rtrc other.rtrc\n"
      "  urtrs-replay diff --mode exact run.rtrc run.rtrc\n"
      "  urtrs-replay diff --mode state run.rtrc other.rtrc --json\n"
      "\n"
      "Exit codes: 0 alike, 1 different, 2 wrong usage, 3 no trace, 5 alike up to the damage of one of them.",
      bind, diff);
}

}  // namespace rtrs::replay_tool
