// What followed the loss of a path.
#include <algorithm>
#include <map>
#include <set>

#include "tools/lib/trace/why/path.hpp"

namespace rtrs::tools::why {

namespace {

class After {
 public:
  After(const Facts& facts, const Loss& loss, Answer& answer) : facts_(facts), loss_(loss), answer_(answer) {
    end_ = loss.end;
  }

  void say() {
    say_other_paths();
    say_link();
    say_moves();
    say_failures();
    say_attempts();
    say_return();
  }

 private:
  bool is_ours(const Step& step) const { return step.machine == facts_.step(loss_.at).machine; }

  void say_other_paths() {
    const auto& paths = facts_.story().paths;
    const Index owner = paths[static_cast<std::size_t>(loss_.path)].owner;
    for (Index path = 0; path < static_cast<Index>(paths.size()); ++path) {
      if (path == loss_.path || paths[static_cast<std::size_t>(path)].owner != owner) continue;
      const Index before = facts_.last_change(path, loss_.side, loss_.at);
      if (before == kNone) continue;
      const bool connected = facts_.field(before, "state") == "connected";
      Index lost = kNone;
      for (Index at = loss_.at; at < end_ && lost == kNone; ++at)
        if (facts_.step(at).event == "PathChanged" && facts_.step(at).path == path &&
            is_ours(facts_.step(at)) && facts_.field(at, "state") != "connected")
          lost = at;
      if (connected && lost == kNone)
        answer_.say(facts_.path_name(path) + " stayed connected meanwhile", {facts_.ref(before)});
      else if (connected && facts_.field(lost, "reason") == "session_closed")
        answer_.say(facts_.path_name(path) + " stayed connected until the session was closed",
                    {facts_.ref(before), facts_.ref(lost)});
      else if (connected)
        answer_.say(facts_.path_name(path) + " was lost too, " + moment(lost) + ": " + facts_.reason(lost),
                    {facts_.ref(lost)});
      else
        say_not_connected(path, before);
    }
  }

  void say_not_connected(Index path, Index before) {
    const Index lost = facts_.loss_of(path, loss_.side, loss_.at);
    if (lost == kNone || lost > loss_.at)
      return answer_.say(
          facts_.path_name(path) + " was not connected then either: it was " + facts_.field(before, "state"),
          {facts_.ref(before)});
    answer_.say(facts_.path_name(path) + " was lost too, " + moment(lost) + ": " + facts_.reason(lost),
                {facts_.ref(lost)});
  }

  // Returns "2.000 s later", compared with the loss that is explained.
  std::string moment(Index lost) const {
    const std::int64_t later = facts_.at(lost) - facts_.at(loss_.at);
    if (later == 0) return "at the same moment";
    return later > 0 ? duration_words(later) + " later" : duration_words(-later) + " before";
  }

  void say_link() {
    Index down = kNone, up = kNone;
    for (Index at = loss_.at; at < facts_.count() && up == kNone; ++at) {
      const Step& step = facts_.step(at);
      if (!is_ours(step)) continue;
      if (step.event == "CloseRequested" && down == kNone) return;
      if (step.event != "LinkChanged") continue;
      if (facts_.field(at, "up") == "true") {
        if (down == kNone) return;
        up = at;
      } else if (at <= end_) {
        down = at;
      }
    }
    if (down == kNone) return;
    const std::string who = loss_.side == Side::server ? "this session" : facts_.side_name(facts_.step(down));
    if (up == kNone)
      answer_.say("no path of " + who + " was connected from then on", {facts_.ref(down)});
    else
      answer_.say(
          "no path of " + who + " was connected for " + duration_words(facts_.at(up) - facts_.at(down)),
          {facts_.ref(down), facts_.ref(up)});
  }

  void say_moves() {
    const std::uint16_t number = facts_.story().paths[static_cast<std::size_t>(loss_.path)].number;
    Index first = kNone, last = kNone;
    std::uint64_t count = 0, fenced = 0;
    std::set<std::string> to;
    for (Index at = loss_.at; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      if (step.event != "FailedOver" || !is_ours(step) || facts_.number(at, "from") != number) continue;
      if (at > end_ + 1000) break;
      if (first == kNone) first = at;
      last = at;
      ++count;
      fenced += facts_.field(at, "fenced") == "true" ? 1 : 0;
      to.insert(facts_.field(at, "to"));
    }
    if (count == 0) return;
    std::string where;
    for (const std::string& one : to) where += (where.empty() ? "path " : " and path ") + one;
    answer_.say(many(count, "request", "requests") + " in flight failed over to " + where + ", " +
                    (fenced == count ? "fenced"
                     : fenced == 0   ? "without a fence"
                                     : "some of them fenced") +
                    ", " + duration_words(facts_.at(first) - facts_.at(loss_.at)) + " after the loss",
                range(first, last));
  }

  std::vector<Ref> range(Index first, Index last) const {
    std::vector<Ref> refs{facts_.ref(first)};
    if (last != first) refs.push_back(facts_.ref(last));
    return refs;
  }

  void say_failures() {
    Index first = kNone, last = kNone;
    std::uint64_t count = 0;
    for (Index at = loss_.at; at <= end_; ++at) {
      const Step& step = facts_.step(at);
      if (step.event != "Complete" || !is_ours(step) || facts_.field(at, "result") == "ok") continue;
      if (first == kNone) first = at;
      last = at;
      ++count;
    }
    if (count != 0)
      answer_.say(many(count, "request", "requests") +
                      " completed with an error meanwhile; the first: " + facts_.title(first),
                  range(first, last));
  }

  void say_attempts() {
    Index first = kNone, last = kNone;
    std::map<std::string, unsigned> reasons;
    const Index begin = loss_.was_connected ? loss_.at + 1 : loss_.at;
    for (Index at = begin; at <= end_; ++at) {
      const Step& step = facts_.step(at);
      if (step.event != "PathChanged" || step.path != loss_.path || !is_ours(step)) continue;
      if (facts_.field(at, "state") != (loss_.side == Side::client ? "draining" : "closing")) continue;
      if (first == kNone) first = at;
      last = at;
      ++reasons[facts_.reason(at)];
    }
    if (first == kNone) return;
    std::string text;
    unsigned count = 0;
    for (const auto& [reason, times] : reasons) {
      text +=
          (text.empty() ? "" : "; ") + reason + (times == 1 ? "" : ", " + std::to_string(times) + " times");
      count += times;
    }
    answer_.say(many(count, "attempt", "attempts") + " to connect failed: " + text, range(first, last));
    if (text.find("depth_changed") != std::string::npos) say_depth(last);
  }

  // The depth that the server announced before and after it changed.
  void say_depth(Index first) {
    const auto announced = [&](Index from, Index to) {
      Index found = kNone;
      for (Index at = from; at < to; ++at)
        if (facts_.step(at).event == "Connected" && is_ours(facts_.step(at)) &&
            facts_.number(at, "queue_depth") != 0)
          found = at;
      return found;
    };
    const Index before = announced(0, loss_.at), now = announced(loss_.at, first);
    if (before != kNone && now != kNone)
      answer_.say("the server announced queue depth " + facts_.field(now, "queue_depth") + " and IO up to " +
                      facts_.field(now, "max_io_size") + " bytes, before " +
                      facts_.field(before, "queue_depth") + " and " + facts_.field(before, "max_io_size"),
                  {facts_.ref(before), facts_.ref(now)});
  }

  void say_return() {
    const std::string name = facts_.path_name(loss_.path);
    for (Index at = loss_.at; at < end_; ++at) {
      const Step& step = facts_.step(at);
      if ((step.event != "PathReconnectRequested" && step.event != "PathAdded") || step.path != loss_.path ||
          !is_ours(step))
        continue;
      answer_.say(
          std::string("an operator ") + (step.event == "PathAdded" ? "added " : "reconnected ") + name,
          {facts_.ref(at)});
      break;
    }
    if (loss_.back != kNone)
      answer_.say(name + " was connected " + (loss_.was_connected ? "again " : "") +
                      duration_words(outage(facts_, loss_)) + " later",
                  {facts_.ref(loss_.back)});
    else
      answer_.say(name + " was not connected " + (loss_.was_connected ? "again " : "") +
                      "by the end of the " + (facts_.step(end_).event == "End" ? "session, " : "trace, ") +
                      duration_words(outage(facts_, loss_)) + " later",
                  {facts_.ref(end_)});
  }

  const Facts& facts_;
  const Loss& loss_;
  Answer& answer_;
  Index end_ = kNone;
};

}  // namespace

void say_after(const Facts& facts, const Loss& loss, Answer& answer) {
  After(facts, loss, answer).say();
}

}  // namespace rtrs::tools::why
