// What the other side did while nothing arrived on a path.
#include <algorithm>

#include "tools/lib/trace/why/path.hpp"
#include "tools/lib/trace/why/request.hpp"

namespace rtrs::tools::why {

namespace {

// A process that runs records its heartbeat timer more often.
constexpr std::int64_t kSilent = 1'000'000'000;

struct Undelivered {
  std::uint64_t count = 0;
  Index first = kNone;
};

class Silence {
 public:
  Silence(const Facts& facts, Index path, Side side, std::int64_t from, Index until, Answer& answer)
      : facts_(facts), answer_(answer), path_(path), side_(side), from_(from), until_(until) {
    to_ = facts.at(until);
    other_ = side == Side::client ? Side::server : Side::client;
    file_ = facts.other_file(path, side, until);
  }

  void say() {
    const Index own = facts_.step(until_).file;
    // A process that did not run finds what happened meanwhile when it runs again.
    if (auto pause = pause_in(facts_, own, std::min(from_, to_ - kSilent), to_)) {
      answer_.sentences.push_back(std::move(*pause));
      return;
    }
    if (!facts_.has(other_) || file_ == kNone) {
      answer_.unknown.push_back("whether the process of " + facts_.side_name(other_) +
                                " ran, and whether it sent or got messages on " + facts_.path_name(path_) +
                                ": there is no trace of " + facts_.side_name(other_) +
                                " with this connection");
      return;
    }
    if (file_ == own) return say_undelivered();  // one file of both sides
    if (restarted()) return;
    if (auto pause = pause_in(facts_, file_, from_, to_)) {
      answer_.sentences.push_back(std::move(*pause));
      return;
    }
    if (!say_absence()) say_undelivered();
  }

 private:
  // True if the other process recorded nothing before the loss: it ended, or it did not run.
  bool say_absence() {
    const Index last = facts_.last_of(file_, to_ + 1);
    Index next = kNone;
    for (Index at = last + 1; at < facts_.count() && next == kNone; ++at)
      if (facts_.step(at).file == file_ && facts_.step(at).event != sequence::kPauseEvent) next = at;
    if (last == kNone) return false;
    const std::int64_t gap = to_ - facts_.at(last);
    const std::string who = facts_.side_name(other_);
    const sequence::TraceFile& file = facts_.file(file_);
    if (next == kNone && facts_.step(last).event != "End" && (gap > kSilent || !file.stopped.empty())) {
      answer_.say("the trace of " + who + " ends " + duration_words(gap) + " before" +
                      (file.stopped.empty() ? "" : ", and was not completed") +
                      "; its session was not closed",
                  {facts_.ref(last)}, true);
      return true;
    }
    if (gap <= kSilent || gap * 2 < to_ - from_) return false;
    answer_.say("the process of " + who + " recorded nothing for the " + duration_words(gap) + " before",
                {facts_.ref(last)}, true);
    return true;
  }

  // The other process began again in between, or did so next.
  bool restarted() {
    Index before = kNone;
    for (Index at = 0; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      if (step.file != file_ || step.event == sequence::kPauseEvent) continue;
      const bool next = facts_.at(step) > to_;
      if (facts_.at(step) >= from_ && is_process_begin(step)) {
        answer_.say(
            "the process of " + facts_.side_name(other_) +
                " ended and began again: it recorded nothing for " +
                duration_words(facts_.at(step) - (before == kNone ? facts_.at(step) : facts_.at(before))),
            {facts_.ref(before == kNone ? at : before), facts_.ref(at)}, true);
        return true;
      }
      if (next) return false;
      before = at;
    }
    return false;
  }
  bool is_process_begin(const Step& step) const {
    if (!step.event.starts_with("Begin")) return false;
    const sequence::Machine& machine = facts_.machine_of(step);
    return machine.start != 0 && (machine.registry || machine.side == Side::client);
  }

  Undelivered undelivered(Side sender) const {
    Undelivered found;
    for (Index at = 0; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      if (step.path != path_ || !facts_.is_lost(at) || facts_.at(step) < from_ || facts_.at(step) > to_)
        continue;
      if (!facts_.is_of(step, sender) || step.group == sequence::Group::wire) continue;
      if (found.first == kNone) found.first = at;
      ++found.count;
    }
    return found;
  }

  // A connection that ends loses what is in flight: only a message that was sent well before shows why.
  bool lost_by_break(const std::vector<Ref>& lost) const {
    constexpr std::int64_t kInFlight = 10'000'000;  // ns
    const Index input = facts_.input_of(until_);
    return input != kNone && facts_.step(input).event == "ConnectionLost" && !answer_.sentences.empty() &&
           std::all_of(lost.begin(), lost.end(), [this](const Ref& one) {
             return to_ - facts_.common(one.file, one.time) < kInFlight;
           });
  }

  void say_undelivered() {
    const Undelivered ours = undelivered(side_), theirs = undelivered(other_);
    std::uint64_t records = 0;
    for (Index at = 0; at < facts_.count(); ++at)
      if (facts_.step(at).file == file_ && facts_.at(at) >= from_ && facts_.at(at) <= to_) ++records;
    const std::string ran =
        "the process of " + facts_.side_name(other_) + " ran (" + many(records, "record", "records") + ")";
    if (ours.count + theirs.count == 0) {
      answer_.unknown.push_back("what ended " + facts_.path_name(path_) + ": no message on it is missing" +
                                (records == 0 ? "" : ", and meanwhile " + ran));
      return;
    }
    std::string text;
    std::vector<Ref> refs;
    const auto part = [&](const Undelivered& one, Side sender) {
      if (one.count == 0) return;
      text += (refs.empty() ? "" : " and ") + many(one.count, "message of", "messages of") + ' ' +
              facts_.side_name(sender) + " (first " + facts_.title(one.first) + ")";
      refs.push_back(facts_.ref(one.first));
    };
    part(ours, side_);
    part(theirs, other_);
    text += " did not arrive on " + facts_.path_name(path_);
    if (lost_by_break(refs)) {
      answer_.sentences.back().cause = true;
      return answer_.say(text + ", in flight when the connection ended", std::move(refs));
    }
    answer_.say(text + (records == 0 ? "" : ", while " + ran), std::move(refs), true);
  }

  const Facts& facts_;
  Answer& answer_;
  Index path_;
  Side side_, other_ = Side::server;
  std::int64_t from_, to_ = 0;
  Index until_, file_ = kNone;
};

}  // namespace

void say_silence(const Facts& facts, Index path, Side side, std::int64_t from, Index until, Answer& answer) {
  Silence(facts, path, side, from, until, answer).say();
}

}  // namespace rtrs::tools::why
