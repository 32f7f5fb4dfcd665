// What the other side did while nothing arrived on a path.
#include <algorithm>
#include <set>

#include "tools/lib/trace/why/path.hpp"
#include "tools/lib/trace/why/request.hpp"

namespace rtrs::tools::why {

namespace {

// A pause of this process explains a loss if it took at least half of this time (ns) before it.
constexpr std::int64_t kRecent = 1'000'000'000;

struct Undelivered {
  std::uint64_t count = 0;
  Index first = kNone;
  std::set<std::uint16_t> connections;  // numbers
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
    if (auto pause = pause_in(facts_, own, std::min(from_, to_ - kRecent), to_)) {
      answer_.sentences.push_back(std::move(*pause));
      return;
    }
    if (file_ == kNone && say_killed()) return;
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
  // True if a trace of the other side is not complete and ends before the loss, without this connection.
  bool say_killed() {
    for (Index at = 0; at < static_cast<Index>(facts_.story().files.size()); ++at) {
      const sequence::TraceFile& file = facts_.file(at);
      const bool theirs = other_ == Side::client ? file.has_client || file.role == "client"
                                                 : file.has_server || file.role == "server";
      const Index last = facts_.last_of(at, to_ + 1);
      if (!theirs || file.stopped.empty() || facts_.end_of(at) > to_ || last == kNone) continue;
      say_end_of_trace(at, last);
      return true;
    }
    return false;
  }

  void say_end_of_trace(Index file_at, Index last) {
    const std::string who = facts_.side_name(other_);
    const Index next = successor(file_at);
    std::string text = "the trace of " + who + " ends " + duration_words(to_ - facts_.at(last)) + " before";
    text += facts_.file(file_at).stopped.empty()
                ? "; its session was not closed"
                : std::string(", and was not completed: its process was killed") +
                      (next == kNone ? ", or the trace was copied before" : "");
    answer_.say(std::move(text), {facts_.ref(last)}, true);
    if (next == kNone) return;
    answer_.say(
        "another process of " + who + " began " + duration_words(facts_.at(next) - to_) + " after the loss",
        {facts_.ref(next)});
  }

  // Returns the beginning of a later process of the other side, which has a trace of its own.
  Index successor(Index file_at) const {
    for (Index at = 0; at < facts_.count(); ++at)
      if (facts_.step(at).file != file_at && is_process_begin(facts_.step(at), 0) &&
          facts_.is_of(facts_.step(at), other_) && facts_.at(at) >= to_)
        return at;
    return kNone;
  }

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
    if (next == kNone && facts_.step(last).event != "End" &&
        (gap > facts_.longest_idle(file_) || !file.stopped.empty())) {
      say_end_of_trace(file_, last);
      return true;
    }
    if (gap <= facts_.longest_idle(file_) || gap * 2 < to_ - from_) return false;
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
      if (facts_.at(step) >= from_ && is_process_begin(step, 1)) {
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
  // `starts`: how often the process began in its trace before.
  bool is_process_begin(const Step& step, unsigned starts) const {
    if (!step.event.starts_with("Begin") || step.machine == kNone) return false;
    const sequence::Machine& machine = facts_.machine_of(step);
    return machine.start >= starts && (machine.registry || machine.side == Side::client);
  }

  Undelivered undelivered(Side sender) const {
    Undelivered found;
    for (Index at = 0; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      if (step.path != path_ || !facts_.is_lost(at) || facts_.at(step) < from_ || facts_.at(step) > to_)
        continue;
      if (!facts_.is_of(step, sender) || step.group == sequence::Group::wire) continue;
      if (found.first == kNone) found.first = at;
      if (const auto con = number_of(step)) found.connections.insert(*con);
      ++found.count;
    }
    return found;
  }

  std::optional<std::uint16_t> number_of(const Step& step) const {
    if (step.connection == kNone) return std::nullopt;
    return facts_.story().connections[static_cast<std::size_t>(step.connection)].key.con;
  }

  // Returns "path 1", or the only connection of the path that lost messages since the step, and what the
  // others did.
  std::string lost_place(const Undelivered& ours, const Undelivered& theirs, Index since) const {
    std::set<std::uint16_t> all = ours.connections;
    all.insert(theirs.connections.begin(), theirs.connections.end());
    const Index before = facts_.last_change(path_, side_, until_);
    const bool connected = before != kNone && facts_.field(before, "state") == "connected";
    if (all.size() != 1 || !connected) return facts_.path_name(path_);
    const std::string one = "connection " + std::to_string(*all.begin()) + " of " + facts_.path_name(path_);
    bool several = false, delivered = false;
    for (Index at = 0; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      const auto con = number_of(step);
      if (step.path != path_ || !con || *con == *all.begin()) continue;
      several = true;
      delivered = delivered || (step.shape == sequence::Shape::receive && step.peer != kNone &&
                                facts_.at(step.peer) > facts_.at(since) && facts_.at(step) <= to_);
    }
    return one + (!several    ? ""
                  : delivered ? ", although its other connections delivered messages"
                              : " (its other connections had no messages)");
  }

  // A connection that ends loses what is in flight: only a message that was sent well before shows why.
  bool lost_by_break(const std::vector<Ref>& lost) const {
    return ended_by_transport() && !answer_.sentences.empty() &&
           std::all_of(lost.begin(), lost.end(), [this](const Ref& one) {
             return to_ - facts_.common(one.file, one.time) < kInFlight;
           });
  }
  bool ended_by_transport() const {
    const Index input = facts_.input_of(until_);
    return input != kNone && facts_.step(input).event == "ConnectionLost";
  }

  // The connection ended at one side, and the other side, which ran, learned of it later.
  bool say_closed_by_neither() {
    const Index theirs = facts_.loss_of(path_, other_, until_);
    if (!ended_by_transport() || theirs == kNone || theirs < until_) return false;
    const std::int64_t later = facts_.at(theirs) - to_;
    const std::string other =
        facts_.side_name(other_) + " lost " + facts_.path_name(path_) +
        (later <= 0 ? " at that moment: " : " only " + duration_words(later) + " later: ") +
        facts_.reason(theirs);
    const bool closed = facts_.field(facts_.input_of(until_), "reason") == "peer_closed";
    if (!closed && !answer_.sentences.empty()) answer_.sentences.back().cause = true;
    answer_.say(closed ? "neither side closed the connection first: " + other +
                             "; the network or a host between them ended it"
                       : other,
                {facts_.ref(theirs)}, closed);
    return true;
  }

  void say_undelivered() {
    const Undelivered ours = undelivered(side_), theirs = undelivered(other_);
    std::uint64_t records = 0;
    for (Index at = 0; at < facts_.count(); ++at)
      if (facts_.step(at).file == file_ && facts_.at(at) >= from_ && facts_.at(at) <= to_) ++records;
    const std::string ran =
        "the process of " + facts_.side_name(other_) + " ran (" + many(records, "record", "records") + ")";
    if (ours.count + theirs.count == 0) {
      if (say_closed_by_neither()) return;
      answer_.unknown.push_back("what ended " + facts_.path_name(path_) + ": no message on it is missing" +
                                (records == 0 ? "" : ", and meanwhile " + ran));
      return;
    }
    std::string text;
    std::vector<Ref> refs;
    Index since = kNone;
    const auto part = [&](const Undelivered& one, Side sender) {
      if (one.count == 0) return;
      text += (refs.empty() ? "" : " and ") + many(one.count, "message of", "messages of") + ' ' +
              facts_.side_name(sender) + " (first " + facts_.title(one.first) + ")";
      refs.push_back(facts_.ref(one.first));
      since = since == kNone ? one.first : std::min(since, one.first);
    };
    part(ours, side_);
    part(theirs, other_);
    text += " did not arrive on ";
    if (lost_by_break(refs)) {
      if (!say_closed_by_neither()) answer_.sentences.back().cause = true;
      return answer_.say(text + facts_.path_name(path_) + ", in flight when the connection ended",
                         std::move(refs));
    }
    text += lost_place(ours, theirs, since);
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
