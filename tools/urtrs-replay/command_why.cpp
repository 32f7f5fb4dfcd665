// Explains a lost path, a request, a device, or the most important thing in the traces.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/text/printable.hpp"
#include "tools/lib/trace/command/rotation.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/why/why.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/hang_output.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

namespace why = tools::why;
using tools::sequence::Index;
using tools::sequence::Story;

struct WhyOptions {
  std::vector<std::string> words;  // traces, then the target
  std::string at;
  std::size_t slowest = 0;
  double slower = 0;  // s; 0: not given
  double hang_after = kHangAfterSeconds;
  bool json = false;
  TimeOptions times;
};

constexpr std::size_t kListed = 10;  // requests of --slower

// Output of one run of the command.
struct Result {
  Story story;
  trace::TimeBase times;  // of the first trace that knows the wall time; shows common times
  why::Answer answer;
  std::vector<why::Course> requests;  // of --slowest

  std::string time(const why::Ref& ref) const {
    const auto& file = story.files[static_cast<std::size_t>(ref.file)];
    return times.with_unit(ref.time - static_cast<Nanos>(file.times.zero()) +
                           static_cast<Nanos>(times.zero()));
  }
};

char letter(Index file) {
  return static_cast<char>('A' + file % 26);
}

// Takes the target from the end of the words. Returns false if it has no number.
bool take_target(const WhyOptions& options, std::vector<std::string>& words, why::Target& target,
                 std::string& at) {
  using Kind = why::Target::Kind;
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"path", Kind::path}, {"request", Kind::request}, {"device", Kind::device}, {"at", Kind::at}};
  at = options.at;
  while (words.size() >= 2) {
    const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const auto& one) { return one.first == words[words.size() - 2]; });
    if (kind == std::end(kKinds)) break;
    const std::string value = words.back();
    words.resize(words.size() - 2);
    if (kind->second == Kind::at) {
      at = value;
      continue;
    }
    target.kind = kind->second;
    const char* begin = value.data();
    const char* const end = begin + value.size();
    if (begin != end && *begin >= 'A' && *begin <= 'Z') target.file = static_cast<Index>(*begin++ - 'A');
    const auto [rest, wrong] = std::from_chars(begin, end, target.number);
    if (wrong == std::errc{} && rest == end) continue;
    error(std::string(kind->first) +
          " takes a number, with the letter of the trace in front if there are several (B17), "
          "not '" +
          value + "'");
    return false;
  }
  if (target.kind == Kind::most_important && !at.empty()) target.kind = Kind::at;
  return true;
}

// Reads the traces for unanswered requests and devices.
int read_again(const std::vector<std::string>& files, trace::HangCollector& hangs, why::DeviceLog& devices) {
  for (std::size_t at = 0; at < files.size(); ++at) {
    InputFile file(files[at]);
    if (!file.is_open()) return exit_usage;
    trace::Reader reader(file.source());
    if (reader.open() != trace::Reader::Status::ok) return exit_cannot_read;
    const trace::Header& header = reader.header();
    hangs.begin_trace((header.flags & trace::action_counts) != 0, header.origin.taken);
    trace::Translator translator(header.schema);
    trace::Record record;
    while (reader.next(record) == trace::Reader::Status::ok) {
      hangs.read(translator, record);
      if (const spec::DeviceEvent* event = translator.translate_device(record))
        devices.on(static_cast<Index>(at), record.instance, *event);
    }
  }
  return exit_ok;
}

int find_violations(const std::vector<std::string>& files, why::Known& known) {
  trace::LawCollector laws;
  for (const std::string& name : files) {
    InputFile file(name);
    if (!file.is_open()) return exit_usage;
    const trace::TraceCheck check = trace::check_trace(file.source(), &laws);
    known.findings.push_back({check.findings, check.violations});
  }
  known.laws = laws.judge().findings;
  return exit_ok;
}

std::string records_text(const Result& result, const std::vector<why::Ref>& records) {
  std::string text;
  for (const why::Ref& ref : records)
    text += (text.empty() ? " [" : ", ") + std::string(1, letter(ref.file)) + std::to_string(ref.record) +
            ' ' + result.time(ref);
  return text.empty() ? text : text + ']';
}

void print_requests(Output& out, const Result& result) {
  const why::Facts facts(result.story);
  out.line(why::many(result.requests.size(), "request", "requests") + ", slowest first");
  for (std::size_t at = 0; at < result.requests.size(); ++at) {
    const why::Course& course = result.requests[at];
    out.line("  " + std::to_string(at + 1) + ". " + tools::printable(why::request_name(facts, course)) +
             ": " + why::duration_words(course.took) +
             records_text(result, {facts.ref(course.first), facts.ref(course.last)}));
    out.line("     " + why::stage_words(course.times));
    std::string text = std::string("     ") + trace::name_of(course.times.longest()) + " took most";
    const why::Span* const span = course.longest();
    const auto cause = span == nullptr ? std::nullopt : why::cause_of(facts, course, *span);
    if (cause) text += ": " + tools::printable(cause->text) + records_text(result, cause->records);
    out.line(text);
  }
}

void print_answer(Output& out, const Result& result) {
  const why::Answer& answer = result.answer;
  out.line(tools::printable(answer.title));
  for (std::size_t at = 0; at < answer.sentences.size(); ++at) {
    const why::Sentence& one = answer.sentences[at];
    out.line("  " + std::to_string(at + 1) + ". " + (one.cause ? "cause: " : "") +
             tools::printable(one.text) + records_text(result, one.records));
  }
  for (const std::string& one : answer.unknown) out.line("  not known: " + tools::printable(one));
  for (const std::string& one : answer.others) out.line("  also: " + tools::printable(one));
}

void print(Output& out, const Result& result, bool requests) {
  out.line(times_line(result.times));
  for (std::size_t at = 0; at < result.story.files.size(); ++at) {
    const auto& file = result.story.files[at];
    out.line("# " + std::string(1, letter(static_cast<Index>(at))) + ": " + tools::printable(file.name) +
             ", " +
             (file.has_client && file.has_server ? "both sides"
              : file.has_server                  ? "server"
                                                 : "client") +
             ", " + std::to_string(file.records) + " records" +
             (file.stopped.empty() ? "" : ", stopped at " + file.stopped));
  }
  requests ? print_requests(out, result) : print_answer(out, result);
}

nlohmann::json json_of(const Result& result, const std::vector<why::Ref>& records) {
  nlohmann::json list = nlohmann::json::array();
  for (const why::Ref& ref : records)
    list.push_back({{"file", result.story.files[static_cast<std::size_t>(ref.file)].name},
                    {"record", ref.record},
                    {"time", ref.time}});
  return list;
}

std::string as_json(const Result& result, bool requests) {
  nlohmann::json json{{"schema_version", 1}};
  if (requests) {
    const why::Facts facts(result.story);
    json["requests"] = nlohmann::json::array();
    for (const why::Course& course : result.requests)
      json["requests"].push_back(
          {{"request", why::request_name(facts, course)},
           {"took_ns", course.took},
           {"stages_ns", stages_json(course.times)},
           {"longest", to_string(course.times.longest())},
           {"records", json_of(result, {facts.ref(course.first), facts.ref(course.last)})}});
    return json.dump();
  }
  const why::Answer& answer = result.answer;
  nlohmann::json sentences = nlohmann::json::array();
  for (const why::Sentence& one : answer.sentences)
    sentences.push_back(
        {{"text", one.text}, {"cause", one.cause}, {"records", json_of(result, one.records)}});
  json["subject"] = to_string(answer.subject);
  json["title"] = answer.title;
  json["sentences"] = sentences;
  json["not_known"] = answer.unknown;
  json["also"] = answer.others;
  return json.dump();
}

int explain(const WhyOptions& options, const std::vector<std::string>& files, why::Target target,
            const std::string& at, Result& result) {
  if (!at.empty()) {
    const auto time = result.times.parse(at);
    if (!time) {
      error("\"" + at +
            "\" is no time of these traces; give seconds since the start of the run, or UTC as "
            "2026-11-30T12:51:09.5Z if the trace has the wall time");
      return exit_usage;
    }
    target.at = *time - result.times.zero();
  }
  trace::HangCollector hangs;
  why::DeviceLog devices;
  if (const int code = read_again(files, hangs, devices); code != exit_ok) return code;
  const std::vector<trace::Unanswered> unanswered = hangs.unanswered(nanos_of(options.hang_after));
  why::Known known{result.story, unanswered, devices, result.times, {}, {}};
  if (target.kind == why::Target::Kind::most_important)
    if (const int code = find_violations(files, known); code != exit_ok) return code;
  result.answer = why::explain(known, target);
  if (!result.answer.title.empty()) return exit_ok;
  error(
      "the traces have no such path, request or device: a path and a device are numbered as in `grep`, a "
      "request by "
      "one of its records, as A17");
  return exit_usage;
}

int run(const WhyOptions& options) {
  std::vector<std::string> words = options.words;
  why::Target target;
  std::string at;
  if (!take_target(options, words, target, at)) return exit_usage;
  const std::vector<std::string> files = tools::trace_names(words);
  if (std::find(files.begin(), files.end(), "-") != files.end()) {
    error("why reads each trace more than once, so it cannot read standard input");
    return exit_usage;
  }
  if (given_twice(files)) return exit_usage;
  int code = exit_ok;
  Result result;
  result.story = tools::sequence::build_story(files, {}, code);
  if (code == exit_usage || code == exit_cannot_read) return code;
  if (result.story.steps.empty()) {
    error("the traces have no record");
    return exit_cannot_read;
  }
  result.times = result.story.clock_file().times;
  if (options.times.wall && !result.times.use_wall()) {
    error("no trace says at what wall time it was recorded; use seconds, without --wall");
    return exit_usage;
  }
  const bool requests = options.slowest != 0 || options.slower > 0;
  if (requests) {
    const why::Facts facts(result.story);
    const auto least = static_cast<std::int64_t>(nanos_of(options.slower));
    for (const Index io : why::slowest(facts, least, options.slowest != 0 ? options.slowest : kListed))
      result.requests.push_back(why::course_of(facts, io));
  } else if (const int failed = explain(options, files, target, at, result); failed != exit_ok) {
    return failed;
  }
  Output out;
  if (options.json)
    out.line(as_json(result, requests));
  else
    print(out, result, requests);
  return out.finish(code);
}

}  // namespace

void add_why(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, WhyOptions& options) {
    command
        .add_option(
            "TRACE", options.words,
            "Traces of one side or both, then what to explain: path N, request RECORD, device N or at TIME; "
            "a letter in front names the trace (request B17)")
        ->required();
    command.add_option("--at", options.at, "Explain this time; with path N: the loss at this time")
        ->type_name("TIME");
    command
        .add_option("--slowest", options.slowest, "List the K slowest requests with the time of each stage")
        ->check(CLI::Range(1, 10000))
        ->type_name("K");
    add_duration(command, "--slower", options.slower,
                 "List the slowest requests that took longer (at most 10, or K)");
    add_hang_after(command, options.hang_after);
    command.add_flag("--json", options.json, "A JSON object");
    add_wall(command, options.times);
  };
  add_command<WhyOptions>(
      app, runner, "why", "Explain why a path was lost, a request was slow or unanswered, or a device closed",
      "At most ten sentences, from the effect back to the cause, then what followed. Each names its records "
      "as `seq` "
      "does (A17 is record 17 of the first trace). Without a target, explains the first of: a violation, an "
      "unanswered request, the longest loss of a path, the slowest request. With one trace, says what only "
      "the other "
      "side's trace would tell.\n"
      "\n"
      "Examples:\n"
      "  urtrs-replay why client.rtrc server.rtrc\n"
      "  urtrs-replay why client.rtrc server.rtrc path 1\n"
      "  urtrs-replay why client.rtrc at 0.5 --json\n"
      "  urtrs-replay why client.rtrc server.rtrc --slowest 3\n"
      "  urtrs-replay why client.rtrc --slower 100ms",
      bind, run);
}

}  // namespace rtrs::replay_tool
