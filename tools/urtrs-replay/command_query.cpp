// Answers a question about many traces, such as those of a sweep.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/command/rotation.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/question.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

struct QueryOptions {
  std::vector<std::string> arguments;  // files and folders, then the question
  std::size_t show = 10;
  TimeOptions times;
  bool json = false;
};

// Records of one trace in one group.
struct InTrace {
  std::string file, seed;
  std::uint64_t count = 0, record = 0;
  Nanos time = 0;
  std::string time_text;
};

struct Answers {
  std::map<std::string, std::vector<InTrace>> groups;
  std::vector<std::string> names;  // of the groups, by number
  std::uint64_t traces = 0, found_in = 0, found = 0, undecided = 0;
  std::vector<std::string> skipped;
  bool knows_terms = false;
  std::array<bool, exit_damaged + 1> codes{};
};

// Returns the group of a record: the event with its enumerations and booleans, which are the fields that say
// what happened, not to which path or request.
std::string group_text(const trace::Record& record, const trace::Schema& schema) {
  std::string text = record.event->name;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const trace::FieldInfo& field = record.event->fields[i];
    if (field.type == trace::FieldType::enumeration || field.type == trace::FieldType::boolean)
      text += ' ' + field.name + '=' + trace::value_text(field, record.values[i], schema);
  }
  return text;
}

// Maximum number of groups, because the words of a trace are not trusted.
constexpr std::size_t kMostGroups = 1000;

std::size_t group_number(Answers& answer, const std::string& name) {
  const auto at = std::find(answer.names.begin(), answer.names.end(), name);
  if (at == answer.names.end() && answer.names.size() >= kMostGroups) return group_number(answer, "others");
  if (at == answer.names.end()) answer.names.push_back(name);
  return static_cast<std::size_t>(std::find(answer.names.begin(), answer.names.end(), name) -
                                  answer.names.begin());
}

void add_hit(std::map<std::size_t, InTrace>& here, const Asker::Hit& hit) {
  InTrace& found = here[hit.group];
  if (found.count++ != 0 && hit.record > found.record) return;
  found.record = hit.record;
  found.time = hit.time;
}

void ask(const QueryOptions& options, const Question& question, const std::string& name, Answers& answer) {
  const auto skip = [&](int code, const std::string& why) {
    answer.codes[static_cast<std::size_t>(code)] = true;
    answer.skipped.push_back(why.empty() ? name : name + ": " + why);
  };
  InputFile file(name);
  if (!file.is_open()) return skip(exit_usage, "");
  trace::Reader reader(file.source());
  trace::Reader::Status status = reader.open();
  if (status != trace::Reader::Status::ok) return skip(report_stop(name, status, reader), "");
  const trace::Header& header = reader.header();
  std::map<std::size_t, InTrace> here;
  Asker asker(
      question, header.schema, (header.flags & trace::partial) != 0,
      [&](const trace::Record& record) { return group_number(answer, group_text(record, header.schema)); },
      [&here](const Asker::Hit& hit) { add_hit(here, hit); });
  answer.knows_terms = answer.knows_terms || asker.knows_terms();
  trace::Record record;
  bool within_limit = true;
  while (within_limit && (status = reader.next(record)) == trace::Reader::Status::ok)
    within_limit = asker.add(record);
  const auto base = base_of(options.times, header, reader.first_time(), name);
  if (!base) return skip(exit_usage, "");
  if (within_limit)
    answer.codes[static_cast<std::size_t>(report_stop(name, status, reader))] = true;
  else
    skip(exit_cannot_read, "not judged from record " + std::to_string(record.seq) + " on, where " +
                               std::to_string(Asker::kMost) + " records wait; ask with a shorter `within`");
  ++answer.traces;
  answer.undecided += asker.finish(status == trace::Reader::Status::end);
  for (auto& [group, found] : here) {
    found.file = name;
    if (has_seed(header.origin)) found.seed = std::to_string(header.origin.seed);
    found.time_text = base->with_unit(found.time);
    answer.found += found.count;
    answer.groups[answer.names[group]].push_back(found);
  }
  if (!here.empty()) ++answer.found_in;
}

// Replaces folders by the traces in them. Returns false after an error.
bool expand(const std::vector<std::string>& given, std::vector<std::string>& files) {
  namespace fs = std::filesystem;
  for (const std::string& name : given) {
    std::error_code wrong;
    if (!fs::is_directory(name, wrong)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    fs::recursive_directory_iterator at(name, fs::directory_options::skip_permission_denied, wrong);
    for (; !wrong && at != fs::recursive_directory_iterator(); at.increment(wrong)) {
      const std::string file = at->path().filename().string();
      const std::size_t end = file.rfind(".rtrc");
      const bool named = end != file.npos && (file.size() == end + 5 || file[end + 5] == '.');
      if (named && at->is_regular_file(wrong)) inside.push_back(at->path().string());
    }
    if (wrong) return error("cannot read " + name + ": " + wrong.message()), false;
    if (inside.empty()) return error(name + ": no file in this folder is named *.rtrc"), false;
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  files = tools::trace_names(files);
  return true;
}

void print(Output& out, const QueryOptions& options, const std::string& question, const Answers& answer) {
  out.line("# " + question);
  for (const auto& [group, all] : answer.groups) {
    std::uint64_t count = 0;
    for (const InTrace& found : all) count += found.count;
    out.line(group + ": " + std::to_string(count) + " in " + std::to_string(all.size()) +
             (all.size() == 1 ? " trace" : " traces"));
    for (std::size_t i = 0; i < std::min(options.show, all.size()); ++i) {
      const InTrace& found = all[i];
      out.line("  " + (found.seed.empty() ? "" : "seed " + found.seed + "  ") + found.file + ": " +
               std::to_string(found.count) + ", first record " + std::to_string(found.record) + " at " +
               found.time_text);
    }
    if (all.size() > options.show) out.line("  and " + std::to_string(all.size() - options.show) + " more");
  }
  if (answer.undecided != 0)
    out.line("undecided: " + std::to_string(answer.undecided) +
             " records too close to the beginning or end of their trace");
  out.line(std::to_string(answer.found) + " found in " + std::to_string(answer.found_in) + " of " +
           std::to_string(answer.traces) + " traces" +
           (answer.skipped.empty() ? "" : "; skipped: " + std::to_string(answer.skipped.size())));
}

std::string as_json(const std::string& question, const Answers& answer) {
  nlohmann::json groups = nlohmann::json::array();
  for (const auto& [group, all] : answer.groups) {
    nlohmann::json traces = nlohmann::json::array();
    for (const InTrace& found : all) {
      traces.push_back(
          {{"file", found.file}, {"count", found.count}, {"record", found.record}, {"time", found.time}});
      if (!found.seed.empty()) traces.back()["seed"] = std::stoull(found.seed);
    }
    groups.push_back({{"group", group}, {"traces", traces}});
  }
  return nlohmann::json{
      {"schema_version", 1},     {"question", question},          {"found", answer.found},
      {"traces", answer.traces}, {"undecided", answer.undecided}, {"skipped", answer.skipped},
      {"groups", groups}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int usage(const std::string& why) {
  error(why + "; see urtrs-replay query --help");
  return exit_usage;
}

// Returns an error if neither the traces nor this build know an event of the question.
std::string unknown_event(const Question& question) {
  std::vector<std::string> names(std::begin(kMomentNames), std::end(kMomentNames));
  const trace::Schema schema = trace::builtin_schema();
  for (const trace::EventInfo& event : schema.events) names.push_back(event.name);
  for (const Term* term : {&question.a, &question.b}) {
    const auto known = [term](const std::string& name) { return is_named(term->name, name); };
    if (term->name.empty() || std::any_of(names.begin(), names.end(), known)) continue;
    const std::string near = tools::nearest_word(term->name, names);
    return "no trace has an event '" + term->name + "'" +
           (near.empty() ? std::string() : "; did you mean '" + near + "'?");
  }
  return {};
}

int query(const QueryOptions& options) {
  if (options.arguments.size() < 2) return usage("query needs a trace or a folder, and then a question");
  std::vector<std::string> files = options.arguments;
  const std::string text = files.back();
  files.pop_back();
  std::string why;
  const auto question = parse_question(text, why);
  if (!question) return usage("question: " + why);
  std::vector<std::string> traces;
  if (!expand(files, traces)) return exit_usage;
  Answers answer;
  for (const std::string& name : traces) ask(options, *question, name, answer);
  if (answer.traces != 0 && !answer.knows_terms) why = unknown_event(*question);
  if (!why.empty()) return usage(why);
  Output out;
  if (options.json)
    out.line(as_json(text, answer));
  else
    print(out, options, text, answer);
  for (const int code : {exit_usage, exit_cannot_read})
    if (answer.codes[static_cast<std::size_t>(code)]) return out.finish(code);
  if (answer.found == 0) return out.finish(exit_bad);
  return out.finish(answer.codes[exit_damaged] ? exit_damaged : exit_ok);
}

}  // namespace

void add_query(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, QueryOptions& options) {
    command
        .add_option("TRACE|FOLDER... QUESTION", options.arguments,
                    "Traces, or folders with files *.rtrc; then the question")
        ->type_name("")
        ->required();
    command.add_option("--show", options.show, "Traces to print for each group (default 10)")->type_name("N");
    command.add_flag("--json", options.json, "The answer as a JSON object");
    add_wall(command, options.times);
  };
  add_command<QueryOptions>(
      app, runner, "query", "Find the traces in which something happened before or after something else",
      "A question is A, or one of\n"
      "  A preceded by B within 1s        A not preceded by B within 1s\n"
      "  A followed by B within 1s        A not followed by B within 1s\n"
      "Without `within`, B counts anywhere before or after A. A and B are names of events as `cat` prints "
      "them (Path* means all that begin so), or path_connected, path_lost, heartbeat_missed, failover, "
      "session_down. Conditions on fields may follow, as grep --field takes them: reason=none, path!=0, "
      "data_len>4096, delay>1s. B counts only in the same machine, and if both name a path, permit or "
      "chunk, device, or storage operation, only if it is the same.\n"
      "\n"
      "Examples:\n"
      "  urtrs-replay query . 'path_lost not preceded by heartbeat_missed within 1s'\n"
      "  urtrs-replay query run.rtrc 'Submitted not followed by Complete within 100ms'\n"
      "  urtrs-replay query run.rtrc 'Disconnect path=0 reason!=session_closed' --json\n"
      "\n"
      "Exit codes: 0 found, 1 nothing found, 2 wrong usage or a file that cannot be opened, 3 a file is no "
      "trace, 5 a trace is damaged. Such files are skipped from there on; the answer is about the rest.",
      bind, query);
}

}  // namespace rtrs::replay_tool
