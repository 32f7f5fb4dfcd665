#include "tools/lib/trace/why/request.hpp"

#include <algorithm>

#include "tools/lib/trace/sequence/explain.hpp"
#include "tools/lib/trace/why/path.hpp"

namespace rtrs::tools::why {

namespace {

std::string words(std::int64_t ns) {
  return duration_words(ns);
}

// Says since when no path was connected, if that is so at the beginning of the span.
std::optional<Sentence> no_path(const Facts& facts, const Span& span) {
  const Step& begin = facts.step(span.begin);
  Index down = kNone, up = kNone;
  for (Index at = 0; at < facts.count(); ++at) {
    const Step& step = facts.step(at);
    if (step.event != "LinkChanged" || step.machine != begin.machine) continue;
    const bool is_up = facts.field(at, "up") == "true";
    if (facts.at(step) <= span.from) {
      down = is_up ? kNone : at;
    } else if (is_up && up == kNone) {
      up = at;
    }
  }
  if (down == kNone) return std::nullopt;
  const std::int64_t end = up == kNone ? span.to : facts.at(up);
  Sentence sentence{
      "no path of " + facts.side_name(begin) + " was connected for " + words(end - facts.at(down)),
      {facts.ref(down)},
      false};
  if (up != kNone) sentence.records.push_back(facts.ref(up));
  return sentence;
}

std::optional<Sentence> queue_cause(const Facts& facts, const Span& span) {
  const Step& begin = facts.step(span.begin);
  if (auto link = no_path(facts, span)) return link;
  if (begin.event == "PathChanged")
    return Sentence{"the request waited " + words(span.length()) + " until it could be sent again, after " +
                        facts.path_name(begin.path) + " was lost: " + facts.reason(span.begin),
                    {facts.ref(span.begin)},
                    false};
  return Sentence{
      "the request waited " + words(span.length()) + " in the client for room on a path, or for a path",
      {facts.ref(span.begin)},
      false};
}

// The client's trace alone, or no record of the server that belongs to the request.
Sentence unseen(const Facts& facts, const Span& span) {
  Sentence sentence{"for " + words(span.length()) +
                        " the request was on the wire, at the server or in storage: " +
                        (facts.has(Side::server) ? "no record of the server is known to belong to it"
                                                 : "only a trace of the server tells where"),
                    {facts.ref(span.begin)},
                    false};
  if (span.end != kNone) sentence.records.push_back(facts.ref(span.end));
  return sentence;
}

std::optional<Sentence> wire_cause(const Facts& facts, const Span& span, Side receiver) {
  const Step& begin = facts.step(span.begin);
  const Index path = begin.path;
  Index file = begin.file;
  if (facts.machine_of(begin).side != receiver)
    file = facts.other_file(path, facts.machine_of(begin).side, span.begin + 1);
  if (file != kNone)
    if (auto pause = pause_in(facts, file, span.from, span.to)) return pause;
  if (span.end != kNone && facts.step(span.end).event == "PathChanged")
    return Sentence{"for " + words(span.length()) + " nothing answered the request, until " +
                        facts.path_name(path) + " was lost: " + facts.reason(span.end),
                    {facts.ref(span.begin), facts.ref(span.end)},
                    false};
  if (span.stage == Stage::sent) return unseen(facts, span);
  Sentence sentence{"the message was on the wire, or " + facts.side_name(receiver) +
                        " did not take it, for " + words(span.length()),
                    {facts.ref(span.begin)},
                    false};
  if (span.end != kNone) sentence.records.push_back(facts.ref(span.end));
  return sentence;
}

std::optional<Sentence> server_cause(const Facts& facts, const Span& span) {
  if (auto pause = pause_in(facts, facts.step(span.begin).file, span.from, span.to)) return pause;
  const bool parked = span.end != kNone && facts.field(span.end, "parked") == "true";
  Sentence sentence{
      parked ? "the request waited " + words(span.length()) +
                   " at the server for the previous request in its chunk"
             : "the server had the request for " + words(span.length()) + " before or after storage",
      {facts.ref(span.begin)},
      false};
  if (span.end != kNone) sentence.records.push_back(facts.ref(span.end));
  return sentence;
}

std::optional<Sentence> storage_cause(const Facts& facts, const Span& span) {
  if (auto pause = pause_in(facts, facts.step(span.begin).file, span.from, span.to)) return pause;
  Sentence sentence{span.end != kNone && facts.step(span.end).event == "Responded"
                        ? "storage took " + words(span.length())
                        : "storage had the request for " + words(span.length()) + " and had not completed it",
                    {facts.ref(span.begin)},
                    false};
  if (span.end != kNone) sentence.records.push_back(facts.ref(span.end));
  return sentence;
}

// Adds a part to the sentence of a try: what happened at the step, and how long after the one before.
void add_part(const Facts& facts, Sentence& sentence, Index before, Index at, const std::string& what) {
  if (at == kNone) return;
  sentence.text += ", " + what;
  const std::int64_t later = before == kNone ? 0 : facts.at(at) - facts.at(before);
  if (later > 0) sentence.text += ' ' + words(later) + " later";
  sentence.records.push_back(facts.ref(at));
}

Sentence try_sentence(const Facts& facts, const Try& one) {
  Sentence sentence;
  Index before = one.posted;
  if (one.posted != kNone) {
    sentence.text = "it was sent over " + facts.connection_name(one.posted);
    sentence.records.push_back(facts.ref(one.posted));
    add_part(facts, sentence, before, one.arrived, "arrived at the server");
  } else if (one.arrived != kNone) {
    sentence.text = "it arrived over " + facts.connection_name(one.arrived);
    sentence.records.push_back(facts.ref(one.arrived));
  }
  before = one.arrived;
  add_part(facts, sentence, before, one.delivered, "went to storage");
  if (one.stored != kNone)
    add_part(facts, sentence, one.delivered, one.stored,
             "storage answered " + sequence::errno_words(facts.number(one.stored, "peer_errno")));
  add_part(facts, sentence, one.stored, one.answered, "the response was posted");
  add_part(facts, sentence, one.answered != kNone ? one.answered : one.posted, one.received,
           "the response arrived");
  if (one.path_lost != kNone) {
    const bool known = one.posted != kNone && facts.is_lost(one.posted);
    if (known) sentence.text += ", never arrived";
    if (one.answered != kNone) sentence.text += ", and the response did not arrive";
    add_part(facts, sentence, one.posted, one.path_lost, "and the path was lost");
  }
  return sentence;
}

std::string result_words(const Facts& facts, Index last) {
  if (facts.step(last).event != "Complete") return "ended";
  const std::string result = facts.field(last, "result");
  if (result == "ok") return "completed";
  const std::uint64_t error = facts.number(last, "peer_errno");
  return "failed (" + result + (error == 0 ? "" : ", " + sequence::errno_words(error)) + ')';
}

void say_result(const Facts& facts, const Course& course, const trace::Unanswered* hang, Answer& answer) {
  const std::string name =
      hang != nullptr && !hang->message.empty() ? trace::request_words(*hang) : request_name(facts, course);
  if (course.last != kNone) {
    answer.title = name + ' ' + result_words(facts, course.last) + " after " + words(course.took);
    answer.say("the request " + result_words(facts, course.last) + " " + words(course.took) + " after it " +
                   (facts.is_of(facts.step(course.first), Side::client) ? "was submitted" : "arrived"),
               {facts.ref(course.first), facts.ref(course.last)});
    return;
  }
  const std::int64_t age = hang != nullptr ? static_cast<std::int64_t>(hang->age) : course.took;
  answer.title = name + " is not answered, for " + words(age);
  answer.say("the request has no answer at the end of the trace, " + words(age) + " after it " +
                 (facts.is_of(facts.step(course.first), Side::client) ? "was submitted" : "arrived"),
             {facts.ref(course.first)});
}

// Says where the error of a failed request came from. Returns false if no record tells.
bool say_failure(const Facts& facts, const Course& course, Answer& answer) {
  if (course.last == kNone || course.tries.empty()) return false;
  const Try& last = course.tries.back();
  if (last.stored != kNone && facts.number(last.stored, "peer_errno") != 0) {
    answer.say("the upper layer of the server (storage or its block devices) answered " +
                   sequence::errno_words(facts.number(last.stored, "peer_errno")),
               {facts.ref(last.stored)}, true);
    return true;
  }
  const bool peer = facts.field(course.last, "result") == "peer_error";
  if (!peer || last.received == kNone) return false;
  answer.say("the server answered: " + facts.title(last.received), {facts.ref(last.received)}, true);
  return true;
}

void say_tries(const Facts& facts, const Course& course, Answer& answer) {
  constexpr std::size_t kShown = 3;
  for (std::size_t at = 0; at < course.tries.size(); ++at) {
    if (at == kShown - 1 && course.tries.size() > kShown) {
      answer.say("it was sent " + many(course.tries.size() - kShown, "more time", "more times"), {});
      answer.sentences.back().records.push_back(facts.ref(course.tries[at].posted));
      at = course.tries.size() - 1;
    }
    Sentence sentence = try_sentence(facts, course.tries[at]);
    if (!sentence.records.empty()) answer.sentences.push_back(std::move(sentence));
  }
  for (const Index move : course.moves)
    answer.say("it moved from path " + facts.field(move, "from") + " to path " + facts.field(move, "to") +
                   (facts.field(move, "fenced") == "true" ? ", fenced" : ", without a fence"),
               {facts.ref(move)});
}

void say_unknown(const Facts& facts, Answer& answer) {
  if (!facts.has(Side::server))
    answer.unknown.push_back(
        "whether requests arrived at the server, and how long storage had them: there is no trace of the "
        "server");
  if (!facts.has(Side::client))
    answer.unknown.push_back(
        "when the client submitted and sent the request, and whether the response arrived: there is no trace "
        "of the "
        "client");
}

}  // namespace

std::optional<Sentence> pause_in(const Facts& facts, Index file, std::int64_t from, std::int64_t to) {
  const trace::Pause* found = nullptr;
  std::int64_t most = 0;
  for (const trace::Pause& pause : facts.file(file).pauses) {
    const std::int64_t overlap =
        std::min(to, facts.common(file, pause.to)) - std::max(from, facts.common(file, pause.silent_since));
    if (overlap <= most || overlap * 2 < to - from) continue;
    most = overlap;
    found = &pause;
  }
  if (found == nullptr) return std::nullopt;
  const char* const who = facts.file(file).has_server ? "the server" : "the client";
  return Sentence{std::string("the process of ") + who + " did not run for at least " +
                      words(static_cast<std::int64_t>(found->length())) +
                      ": its timer was due, and it recorded nothing for " +
                      words(static_cast<std::int64_t>(found->to - found->silent_since)),
                  {{file, found->record, found->to}},
                  true};
}

std::optional<Sentence> cause_of(const Facts& facts, const Course&, const Span& span) {
  switch (span.stage) {
    case Stage::queue:
      return queue_cause(facts, span);
    case Stage::wire_out:
      return wire_cause(facts, span, Side::server);
    case Stage::wire_back:
      return wire_cause(facts, span, Side::client);
    case Stage::sent:
      return wire_cause(facts, span,
                        facts.is_of(facts.step(span.begin), Side::client) ? Side::server : Side::client);
    case Stage::server:
      return server_cause(facts, span);
    case Stage::storage:
      return storage_cause(facts, span);
    case Stage::completion:
      break;
  }
  return std::nullopt;
}

namespace {
// Returns where the request is, and the step that shows it. Messages that are paired tell more than the
// traces of each side, of which several may have the same request.
std::pair<trace::HangStage, Index> stage_of(const trace::Unanswered& hang, const Course& course) {
  if (hang.stage != trace::HangStage::sent || course.tries.empty()) return {hang.stage, kNone};
  const Try& last = course.tries.back();
  if (last.path_lost != kNone || last.received != kNone || last.arrived == kNone) return {hang.stage, kNone};
  if (last.answered != kNone) return {trace::HangStage::response, last.answered};
  if (last.stored != kNone) return {trace::HangStage::finished, last.stored};
  if (last.delivered != kNone) return {trace::HangStage::storage, last.delivered};
  return {trace::HangStage::server, last.arrived};
}

// The trace of the server may end before the request could arrive.
bool say_end_of_server(const Facts& facts, const Course& course, Answer& answer) {
  if (course.tries.empty() || course.tries.back().posted == kNone) return false;
  const Index posted = course.tries.back().posted;
  const Step& step = facts.step(posted);
  const Index server = facts.other_file(step.path, Side::client, posted + 1);
  if (server == kNone || server == step.file || facts.file(server).has_client) return false;
  const std::int64_t gap = facts.end_of(step.file) - facts.end_of(server);
  const bool stopped = !facts.file(server).stopped.empty();
  // Blocks of a trace are written when they are a second old.
  constexpr std::int64_t kBlock = 1'000'000'000;
  if (gap <= facts.longest_idle(server) + (stopped ? kBlock : 0)) return false;
  const Index last = facts.last_of(server, facts.end_of(server) + 1);
  answer.say("the trace of the server ends " + words(gap) + " before that of the client" +
                 (stopped ? ", and was not completed: its process does not run, or was killed"
                          : ": its process does not run, or ended"),
             {facts.ref(last)}, true);
  return true;
}

bool span_is_lost(const Facts& facts, const Span& span) {
  return span.end != kNone && facts.step(span.end).event == "PathChanged";
}
}  // namespace

Answer why_request(const Facts& facts, Index io, const trace::Unanswered* hang) {
  const Course course = course_of(facts, io);
  Answer answer;
  answer.subject = Subject::request;
  say_result(facts, course, hang, answer);
  if (hang != nullptr) {
    std::vector<Ref> last;
    for (const trace::SideEvent& event : hang->last)
      last.push_back({static_cast<Index>(event.trace), event.at.record, event.at.time});
    const auto [stage, step] = stage_of(*hang, course);
    if (step != kNone) last.push_back(facts.ref(step));
    const bool ended = stage == trace::HangStage::wire && say_end_of_server(facts, course, answer);
    answer.say(words_of(stage), last, !ended);
    if (hang->heard) {
      const std::uint64_t end = hang->request.begun.time + hang->age;
      const auto before = static_cast<std::int64_t>(end - std::min(end, hang->heard->at.time));
      answer.say(
          "the last message from the server arrived at the client " +
              (before == 0 ? "at the end of the trace" : words(before) + " before the end of the trace"),
          {{static_cast<Index>(hang->heard->trace), hang->heard->at.record, hang->heard->at.time}});
    }
  }
  if (say_failure(facts, course, answer)) {
    say_tries(facts, course, answer);
    say_unknown(facts, answer);
    answer.shorten();
    return answer;
  }
  const Span* const span = hang != nullptr ? &course.spans.back() : course.longest();
  if (span != nullptr && span->length() > 0) {
    if (auto cause = cause_of(facts, course, *span)) {
      cause->cause = span->stage != Stage::sent || cause->cause || span_is_lost(facts, *span);
      const bool known =
          hang != nullptr && span->stage != Stage::queue && !cause->text.starts_with("the process");
      if (!known) answer.sentences.push_back(std::move(*cause));
      // The loss of the path explains both ends of a wait.
      const Index lost = span_is_lost(facts, *span)    ? span->end
                         : span->stage == Stage::queue ? lost_before(facts, span->begin)
                                                       : kNone;
      if (lost != kNone) say_end(facts, lost, answer, 1);
    }
  }
  // Without the beginning of the connection, only the hang tells where the request is.
  const bool unpaired = hang != nullptr && hang->stage != trace::HangStage::sent && !course.spans.empty() &&
                        course.spans.back().stage == Stage::sent;
  if (!unpaired) answer.say("time per stage: " + stage_words(course.times), {facts.ref(course.first)});
  say_tries(facts, course, answer);
  say_unknown(facts, answer);
  answer.shorten();
  return answer;
}

}  // namespace rtrs::tools::why
