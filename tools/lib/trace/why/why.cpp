#include "tools/lib/trace/why/why.hpp"

#include <algorithm>

namespace rtrs::tools::why {

namespace {

class Choice {
 public:
  Choice(const Known& known, const Target& target)
      : known_(known), target_(target), facts_(known.story), losses_(losses_of(facts_)) {}

  Answer run() {
    switch (target_.kind) {
      case Target::Kind::path:
        return path();
      case Target::Kind::request:
        return request();
      case Target::Kind::device:
        return why_device(facts_, known_.devices, target_.number, target_.file);
      case Target::Kind::at:
        return at_time();
      case Target::Kind::most_important:
        break;
    }
    return most_important_thing();
  }

 private:
  Answer most_important_thing() {
    for (std::size_t file = 0; file < known_.findings.size(); ++file)
      if (known_.findings[file].violations != 0) return violation(file);
    if (!known_.laws.empty()) return law(known_.laws.front());
    if (!known_.unanswered.empty()) return hang(known_.unanswered.front());
    const Loss* const loss = most_important(facts_, losses_);
    const DeviceLog::Device* const device = device_in_trouble();
    if (loss != nullptr && (device == nullptr || !is_wanted(*loss))) return of_loss(*loss);
    if (device != nullptr) return why_device(facts_, known_.devices, *device);
    if (const Index failed = failed_request(); failed != kNone) return why_request(facts_, failed, nullptr);
    const std::vector<Index> slow = slowest(facts_, 0, 1);
    if (!slow.empty()) {
      Answer answer = why_request(facts_, slow.front(), nullptr);
      answer.title = "no path was lost and no request failed; the slowest request: " + answer.title;
      say_farewells(answer);
      return answer;
    }
    Answer nothing;
    nothing.title =
        "the traces have no violation, no unanswered request, no lost path and no finished request";
    return nothing;
  }

  // Without the trace of the client, the end of a session may be the end of its process.
  void say_farewells(Answer& answer) const {
    if (facts_.has(Side::client)) return;
    for (const Loss& one : losses_)
      if (one.reason == "peer_closed")
        answer.others.push_back(
            facts_.path_name(one.path) + " was disconnected by the client at " +
            known_.times.text(static_cast<Nanos>(known_.times.zero() + facts_.at(one.at))) +
            ": only a trace of the client tells whether it ended the session or was killed");
  }

  Answer law(const trace::LawFinding& finding) {
    Answer answer;
    answer.subject = Subject::violation;
    const std::string text = "A" + std::to_string(finding.law) + ": " + finding.text;
    answer.title = "the connections violate a law of reliable connections: " + text;
    std::vector<Ref> refs;
    if (finding.sent) refs.push_back(ref_of(*finding.sent));
    refs.push_back(ref_of(finding.received));
    answer.say(text, std::move(refs), true);
    if (finding.sent)
      if (const Index at = step_of(ref_of(*finding.sent)); at != kNone)
        answer.say(facts_.side_name(facts_.step(at)) + " sent: " + facts_.title(at) + ", on " +
                       facts_.connection_name(at),
                   {facts_.ref(at)});
    if (const Index at = step_of(ref_of(finding.received)); at != kNone) {
      answer.say(facts_.side_name(facts_.step(at)) + " got: " + facts_.title(at), {facts_.ref(at)});
      say_next(at, answer);
    }
    if (known_.laws.size() > 1)
      answer.others.push_back(many(known_.laws.size() - 1, "more violation", "more violations") + ": check");
    say_losses(answer, nullptr);
    return answer;
  }
  static Ref ref_of(const trace::LawPlace& place) {
    return {static_cast<Index>(place.trace), place.record, place.time};
  }
  Index step_of(const Ref& ref) const {
    for (Index step = 0; step < facts_.count(); ++step)
      if (facts_.step(step).file == ref.file && facts_.step(step).record == ref.record &&
          facts_.step(step).event != sequence::kPauseEvent)
        return step;
    return kNone;
  }

  Index failed_request() const {
    for (Index at = 0; at < facts_.count(); ++at)
      if (facts_.step(at).event == "Complete" && facts_.step(at).io != kNone &&
          facts_.field(at, "result") != "ok" && facts_.field(at, "result") != "session_closed")
        return facts_.step(at).io;
    return kNone;
  }
  const DeviceLog::Device* device_in_trouble() const {
    for (const DeviceLog::Device& one : known_.devices.devices())
      if (std::any_of(one.notes.begin(), one.notes.end(),
                      [](const DeviceNote& note) { return note.trouble; }))
        return &one;
    return nullptr;
  }

  Answer violation(std::size_t file) {
    const spec::Finding& finding = known_.findings[file].findings.front();
    const spec::RuleInfo& rule = spec::info_of(finding.rule);
    Answer answer;
    answer.subject = Subject::violation;
    answer.title = "the rule " + std::string(rule.id) + " is violated: " + finding.seen;
    const Ref ref{static_cast<Index>(file), finding.seq, finding.now};
    answer.say("the rule " + std::string(rule.id) + " is violated: " + finding.seen, {ref});
    answer.say("the rule: " + std::string(rule.text) + " (" + std::string(rule.source) + ")", {ref});
    answer.say("allowed would have been: " + finding.allowed, {ref});
    if (const Index at = step_of(ref); at != kNone) say_context(at, answer);
    if (known_.findings[file].violations > 1)
      answer.others.push_back(
          many(known_.findings[file].violations - 1, "more violation", "more violations") +
          ", which may be consequences: check");
    if (std::none_of(answer.sentences.begin(), answer.sentences.end(),
                     [](const Sentence& one) { return one.cause; }))
      answer.sentences.front().cause = true;
    answer.shorten();
    return answer;
  }

  // What led to the step, and what followed from it.
  void say_context(Index at, Answer& answer) {
    const Step& step = facts_.step(at);
    const bool note = step.group == sequence::Group::wire;
    if (note) {
      const bool sent = facts_.field(at, "sent") == "true" || step.event == "WireSent";
      const Side side = facts_.machine_of(step).side;
      const Side sender = sent ? side : side == Side::client ? Side::server : Side::client;
      if (sent || step.peer != kNone)
        answer.say(facts_.side_name(sender) + " sent the message: " + step.title + ", on " +
                       facts_.connection_name(at),
                   sent ? std::vector{facts_.ref(at)} : std::vector{facts_.ref(step.peer), facts_.ref(at)},
                   true);
      else
        say_unsent(at, sender, answer);
      say_next(at, answer);
    } else if (const Index input = facts_.input_of(at); input != kNone && input != at) {
      answer.say("it followed from: " + facts_.title(input), {facts_.ref(input), facts_.ref(at)});
      if (const Index peer = facts_.step(input).peer; peer != kNone)
        answer.say(
            "the message was sent by " + facts_.side_name(facts_.step(peer)) + ": " + facts_.title(peer),
            {facts_.ref(peer)});
    }
    if (step.io == kNone) return;
    const Course course = course_of(facts_, step.io);
    answer.say("it belongs to " + request_name(facts_, course), {facts_.ref(course.first)});
  }

  // A message that arrived, and that no record of its sender is paired with. The network may have delivered
  // it twice.
  void say_unsent(Index at, Side sender, Answer& answer) {
    const Step& step = facts_.step(at);
    answer.say(
        facts_.side_name(step) + " got the message: " + step.title + ", on " + facts_.connection_name(at),
        {facts_.ref(at)}, true);
    const sequence::Connection* const own = connection(step.connection);
    const sequence::Connection* const peer = own == nullptr ? nullptr : connection(own->peer);
    const std::string who = facts_.side_name(sender);
    const sequence::TraceFile* const file =
        peer == nullptr ? nullptr
                        : &facts_.file(facts_.story().machines[static_cast<std::size_t>(peer->machine)].file);
    if (file == nullptr || !file->stopped.empty() || file->beginning_missing) {
      answer.unknown.push_back("whether " + who + " sent it: there is no complete trace of " + who +
                               " with this connection");
      return;
    }
    std::vector<Ref> sends, arrivals;
    for (const Index one : peer->sent)
      if (is_equal(one, step)) sends.push_back(facts_.ref(one));
    for (const Index one : own->received)
      if (is_equal(one, step)) arrivals.push_back(facts_.ref(one));
    if (sends.empty()) {
      answer.unknown.push_back("where it came from: the trace of " + who + " does not show that it was sent");
    } else if (sends.size() < arrivals.size()) {
      answer.sentences.back().cause = false;
      answer.say("it arrived " + many(arrivals.size(), "time", "times") + ", and the trace of " + who +
                     " shows that it was sent " + many(sends.size(), "time", "times"),
                 {sends.front(), arrivals.front(), arrivals.back()}, true);
    }
  }
  const sequence::Connection* connection(Index at) const {
    return at == kNone ? nullptr : &facts_.story().connections[static_cast<std::size_t>(at)];
  }
  bool is_equal(Index at, const Step& step) const {
    const Step& one = facts_.step(at);
    return one.group == step.group && one.signature == step.signature && step.signature != 0;
  }

  // The next input on the connection of a wire note, and whether the path ended with it.
  void say_next(Index note, Answer& answer) {
    const Step& step = facts_.step(note);
    for (Index at = note + 1; at < facts_.count(); ++at) {
      const Step& next = facts_.step(at);
      if (next.machine != step.machine || next.connection != step.connection || !is_input(next.event))
        continue;
      answer.say("then: " + next.title, {facts_.ref(at)});
      for (Index change = at; change < facts_.count() && facts_.at(change) == facts_.at(next); ++change)
        if (facts_.step(change).event == "PathChanged" && facts_.step(change).path == step.path &&
            facts_.step(change).machine == step.machine && facts_.field(change, "state") != "connected")
          return answer.say(facts_.path_name(step.path) + " was lost: " + facts_.reason(change),
                            {facts_.ref(change)});
      return;
    }
  }

  Answer hang(const trace::Unanswered& one) {
    const Index io = request_at(facts_, static_cast<Index>(one.trace), one.request.begun.record);
    Answer answer;
    if (io != kNone) {
      answer = why_request(facts_, io, &one);
    } else {
      answer.subject = Subject::request;
      answer.title = trace::request_words(one) + " is not answered: " + words_of(one.stage);
      answer.say(words_of(one.stage),
                 {{static_cast<Index>(one.trace), one.request.begun.record, one.request.begun.time}}, true);
    }
    for (const trace::Unanswered& other : known_.unanswered) {
      if (&other == &one) continue;
      if (answer.others.size() == 3) break;
      answer.others.push_back(
          trace::request_words(other) + ", not answered: " + words_of(other.stage) +
          see("request " + name_of({static_cast<Index>(other.trace), other.request.begun.record, 0})));
    }
    return answer;
  }

  // Returns "B17", as `why request` takes it.
  std::string name_of(const Ref& ref) const {
    return std::string(1, static_cast<char>('A' + ref.file % 26)) + std::to_string(ref.record);
  }

  // Returns the number of the path, as `why path` takes it.
  std::string path_number(Index path) const {
    const sequence::Path& one = facts_.story().paths[static_cast<std::size_t>(path)];
    const Index file = facts_.story().clients[static_cast<std::size_t>(one.owner)].file;
    const bool several = facts_.story().clients.size() > 1 && file != kNone;
    return (several ? std::string(1, static_cast<char>('A' + file % 26)) : "") + std::to_string(one.number);
  }

  Answer of_loss(const Loss& loss) {
    Answer answer = why_path(facts_, loss);
    if (const DeviceLog::Device* const device = device_in_trouble())
      answer.others.push_back(
          device_name(*device) + " had errors" +
          (device->numbers.empty() ? "" : see("device " + std::to_string(device->numbers.back()))));
    say_losses(answer, &loss);
    return answer;
  }

  void say_losses(Answer& answer, const Loss* explained) const {
    for (const Loss& other : losses_) {
      if (&other == explained || is_farewell(other) || answer.others.size() == 5) continue;
      answer.others.push_back(
          facts_.path_name(other.path) + (other.was_connected ? " was lost: " : " could not be connected: ") +
          other.reason +
          see("path " + path_number(other.path) + " at " +
              known_.times.text(static_cast<Nanos>(known_.times.zero() + facts_.at(other.at)))));
    }
  }

  // Returns the loss in losses_ of which `copy` is a copy.
  const Loss& same(const Loss& copy) const {
    return *std::find_if(losses_.begin(), losses_.end(), [&](const Loss& one) { return one.at == copy.at; });
  }

  Answer path() {
    const Loss* found = nullptr;
    std::vector<Loss> own;
    bool exists = false;
    for (Index path = 0; path < static_cast<Index>(facts_.story().paths.size()); ++path) {
      const sequence::Path& one = facts_.story().paths[static_cast<std::size_t>(path)];
      if (one.number != target_.number) continue;
      if (target_.file && facts_.story().clients[static_cast<std::size_t>(one.owner)].file != *target_.file)
        continue;
      exists = true;
      for (const Loss& loss : losses_)
        if (loss.path == path) own.push_back(loss);
    }
    if (!exists) return {};
    // The end of the session is explained only if the path was not lost before.
    if (!std::all_of(own.begin(), own.end(), is_farewell)) std::erase_if(own, is_farewell);
    if (target_.at)
      found = nearest(own);
    else
      found = most_important(facts_, own);
    if (found == nullptr && !own.empty()) found = &own.front();
    if (found != nullptr) return of_loss(same(*found));
    Answer answer;
    answer.title = "path " + std::to_string(target_.number) + " was never lost";
    return answer;
  }

  // Returns the loss that lasted at the time, or the nearest one.
  const Loss* nearest(const std::vector<Loss>& all) const {
    const auto distance = [&](const Loss& one) -> std::int64_t {
      const std::int64_t from = facts_.at(one.at), to = from + outage(facts_, one);
      return *target_.at < from ? from - *target_.at : *target_.at > to ? *target_.at - to : 0;
    };
    const auto found = std::min_element(
        all.begin(), all.end(), [&](const Loss& a, const Loss& b) { return distance(a) < distance(b); });
    return found == all.end() ? nullptr : &*found;
  }

  Answer request() {
    const Index file = target_.file.value_or(0);
    const Index io = request_at(facts_, file, target_.number);
    if (io == kNone) return {};
    return why_request(facts_, io, hang_of(io));
  }

  const trace::Unanswered* hang_of(Index io) const {
    const Step& first = facts_.step(facts_.story().requests[static_cast<std::size_t>(io)].first);
    for (const trace::Unanswered& one : known_.unanswered)
      if (static_cast<Index>(one.trace) == first.file && one.request.begun.record == first.record)
        return &one;
    return nullptr;
  }

  // A loss that lasts at the time, else the slowest of the requests in flight.
  Answer at_time() {
    std::vector<Loss> wanted;
    for (const Loss& one : losses_)
      if (!is_farewell(one)) wanted.push_back(one);
    const Loss* loss = nearest(wanted);
    const auto covers = [&](const Loss& one) {
      const std::int64_t from = facts_.at(one.at);
      return from <= *target_.at && *target_.at <= from + outage(facts_, one);
    };
    if (loss != nullptr && covers(*loss)) return of_loss(same(*loss));
    const auto& requests = facts_.story().requests;
    Index found = kNone;
    std::int64_t longest = -1;
    for (Index io = 0; io < static_cast<Index>(requests.size()); ++io) {
      const sequence::Request& one = requests[static_cast<std::size_t>(io)];
      const std::int64_t from = facts_.at(one.first);
      const std::int64_t to = facts_.at(one.last == kNone ? facts_.count() - 1 : one.last);
      if (from > *target_.at || to < *target_.at || to - from <= longest) continue;
      longest = to - from;
      found = io;
    }
    if (found != kNone) return why_request(facts_, found, hang_of(found));
    if (loss != nullptr) return of_loss(same(*loss));
    Answer nothing;
    nothing.title = "at this time no path was down and no request was in flight";
    return nothing;
  }

  const Known& known_;
  const Target& target_;
  Facts facts_;
  std::vector<Loss> losses_;
};

// Names the longest time in which each process did not run, unless a sentence does.
void say_pauses(const Known& known, Answer& answer) {
  const Story& story = known.story;
  constexpr std::int64_t kLeast = 1'000'000'000;
  const Facts facts(story);
  for (Index file = 0; file < static_cast<Index>(story.files.size()); ++file) {
    const trace::Pause* longest = nullptr;
    for (const trace::Pause& one : facts.file(file).pauses)
      if (longest == nullptr || one.length() > longest->length()) longest = &one;
    if (longest == nullptr || static_cast<std::int64_t>(longest->length()) < kLeast) continue;
    const Ref ref{file, longest->record, longest->to};
    const bool said = std::any_of(answer.sentences.begin(), answer.sentences.end(), [&](const Sentence& one) {
      return std::find(one.records.begin(), one.records.end(), ref) != one.records.end();
    });
    if (said) continue;
    answer.others.push_back(
        "the process of " + facts.side_name(facts.file(file).has_server ? Side::server : Side::client) +
        " did not run for at least " + duration_words(static_cast<std::int64_t>(longest->length())) +
        see("at " +
            known.times.text(static_cast<Nanos>(known.times.zero() + facts.common(file, longest->from)))));
  }
}

}  // namespace

Answer explain(const Known& known, const Target& target) {
  Answer answer = Choice(known, target).run();
  if (target.kind == Target::Kind::most_important) say_pauses(known, answer);
  return answer;
}

}  // namespace rtrs::tools::why
