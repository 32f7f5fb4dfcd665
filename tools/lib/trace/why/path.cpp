#include "tools/lib/trace/why/path.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/proto/reasons.hpp"
#include "tools/lib/trace/sequence/explain.hpp"
#include "tools/lib/trace/why/request.hpp"

namespace rtrs::tools::why {

namespace {

bool is_wanted(const std::string& code) {
  const ReasonText* text = text_of(std::string_view(code));
  return text != nullptr && text->kind == ReasonKind::wanted;
}

// Follows the states of all paths at one side.
class States {
 public:
  States(const Facts& facts, Side side) : facts_(facts), side_(side) {}

  std::vector<Loss> run() {
    for (Index at = 0; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      if (!facts_.is_of(step, side_)) continue;
      if (step.event == "BeginClient") forget(step);
      if (step.event == "PathChanged" && step.path != kNone) change(at, step);
    }
    for (Loss& loss : all_) finish(loss);
    return std::move(all_);
  }

 private:
  struct Known {
    bool connected = false, ever = false;
    std::size_t loss = kNoLoss;  // index of the loss that lasts
    Index machine = kNone;
  };
  static constexpr std::size_t kNoLoss = ~std::size_t{0};

  // A process that begins again has no path.
  void forget(const Step& step) {
    for (auto& [path, known] : known_) {
      if (known.machine == kNone) continue;
      const sequence::Machine& before = facts_.story().machines[static_cast<std::size_t>(known.machine)];
      const sequence::Machine& now = facts_.machine_of(step);
      if (before.file == now.file && before.instance == now.instance) known.connected = known.ever = false;
    }
  }

  void change(Index at, const Step& step) {
    // A later session of the server with the same index may be that of another client.
    Known& known = known_[{step.path, side_ == Side::server ? step.machine : kNone}];
    known.machine = step.machine;
    const std::string state = facts_.field(at, "state"), reason = facts_.field(at, "reason");
    if (state == "connected") {
      if (known.loss != kNoLoss) all_[known.loss].back = at;
      known.loss = kNoLoss;
      known.connected = known.ever = true;
      return;
    }
    if (state == "connecting") {
      known.connected = false;
      return;
    }
    const bool fails =
        !known.ever && known.loss == kNoLoss && state == (side_ == Side::client ? "draining" : "closing");
    if (known.connected || fails) {
      known.loss = all_.size();
      all_.push_back({step.path, side_, at, kNone, kNone, known.connected, false, reason});
    }
    known.connected = false;
  }

  // Finds the end of the loss, and whether it belongs to the end of the session.
  void finish(Loss& loss) const {
    const Step& first = facts_.step(loss.at);
    for (Index at = loss.at; at < facts_.count() && (loss.back == kNone || at < loss.back); ++at) {
      const Step& step = facts_.step(at);
      if (step.file != first.file || step.event == sequence::kPauseEvent) continue;
      loss.end = at;
      if (side_ == Side::server && step.machine == first.machine && step.event == "End") break;
      if (step.event == "CloseRequested" && step.machine == first.machine && loss.reason == "requested" &&
          facts_.at(at) - facts_.at(loss.at) < kCloses)
        loss.closed = true;
    }
    if (loss.back != kNone) loss.end = loss.back;
    const sequence::Path& path = facts_.story().paths[static_cast<std::size_t>(loss.path)];
    const Index client = facts_.story().clients[static_cast<std::size_t>(path.owner)].file;
    const bool cut = client != kNone && !facts_.file(client).stopped.empty();
    if (loss.reason == "session_closed") loss.closed = true;
    // The client may have given up a server that did not run.
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t now = facts_.at(loss.at);
    if (side_ == Side::server && loss.back == kNone && loss.reason == "peer_closed" && !cut &&
        !pause_in(facts_, first.file, now - kSecond, now))
      loss.closed = true;
  }

  const Facts& facts_;
  Side side_;
  std::map<std::pair<Index, Index>, Known> known_;  // by path and, at the server, machine
  std::vector<Loss> all_;
};

// True if the client recorded a loss of the same connections.
bool is_known_to_client(const Facts& facts, const std::vector<Loss>& clients, const Loss& server) {
  const Index connected = [&] {
    for (Index at = server.at - 1; at >= 0; --at)
      if (facts.step(at).event == "PathChanged" && facts.step(at).path == server.path &&
          facts.is_of(facts.step(at), Side::server) && facts.field(at, "state") == "connected")
        return at;
    return Index{0};
  }();
  Index end = server.at + 1;
  while (end < facts.count() &&
         !(facts.step(end).event == "PathChanged" && facts.step(end).path == server.path &&
           facts.is_of(facts.step(end), Side::server) && facts.field(end, "state") == "connected"))
    ++end;
  return std::any_of(clients.begin(), clients.end(), [&](const Loss& one) {
    return one.path == server.path && one.at >= connected && one.at <= end;
  });
}

}  // namespace

bool is_wanted(const Loss& loss) {
  return is_wanted(loss.reason);
}

bool is_farewell(const Loss& loss) {
  return loss.closed;
}

std::vector<Loss> losses_of(const Facts& facts) {
  std::vector<Loss> all = States(facts, Side::client).run();
  std::vector<Loss> more;
  for (Loss& one : States(facts, Side::server).run())
    if (!is_known_to_client(facts, all, one)) more.push_back(std::move(one));
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end(), [](const Loss& a, const Loss& b) { return a.at < b.at; });
  return all;
}

std::int64_t outage(const Facts& facts, const Loss& loss) {
  return facts.at(loss.end) - facts.at(loss.at);
}

const Loss* most_important(const Facts& facts, const std::vector<Loss>& all) {
  // A loss that only the server saw, or that the trace of the client ends in, has no known end.
  const auto rank = [&](const Loss& one) {
    return std::tuple(!is_wanted(one.reason), one.reason != "other_path_leads",
                      one.back == kNone && (one.side == Side::server || facts.step(one.end).event != "End"),
                      outage(facts, one));
  };
  const Loss* found = nullptr;
  for (const Loss& one : all)
    if (!is_farewell(one) && (found == nullptr || rank(one) > rank(*found))) found = &one;
  return found;
}

Index lost_before(const Facts& facts, Index step) {
  const Step& now = facts.step(step);
  for (Index at = step; at >= 0; --at) {
    const Step& one = facts.step(at);
    if (one.event != "PathChanged" || one.machine != now.machine) continue;
    const std::string state = facts.field(at, "state");
    if ((state == "draining" || state == "closing") && (now.path == kNone || now.path == one.path)) return at;
  }
  return kNone;
}

namespace {

// Returns the first attempt that failed for the most frequent reason; of equal ones, the earliest.
Index typical_attempt(const Facts& facts, const Loss& loss) {
  const Step& first = facts.step(loss.at);
  const Index end = loss.end;
  std::map<std::string, std::pair<unsigned, Index>> reasons;  // how often, and the first one
  for (Index at = loss.at; at < end; ++at) {
    const Step& step = facts.step(at);
    if (step.event != "PathChanged" || step.path != loss.path || step.machine != first.machine) continue;
    if (facts.field(at, "state") != (loss.side == Side::client ? "draining" : "closing")) continue;
    auto& [count, where] = reasons.try_emplace(facts.field(at, "reason"), 0U, at).first->second;
    ++count;
  }
  const auto most = std::max_element(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.first, b.second.second) < std::pair(b.second.first, a.second.second);
  });
  return most == reasons.end() ? loss.at : most->second.second;
}

}  // namespace

Answer why_path(const Facts& facts, const Loss& given) {
  Loss loss = given;
  if (!loss.was_connected) loss.at = typical_attempt(facts, given);
  Answer answer;
  answer.subject = Subject::path;
  const Step& step = facts.step(loss.at);
  const std::string name = facts.path_name(step.path);
  answer.title = name + (loss.was_connected ? " was lost" : " could not be connected") +
                 (loss.back == kNone ? "" : " for " + duration_words(outage(facts, given))) + ": " +
                 facts.field(loss.at, "reason");
  answer.say(facts.side_name(step) + (loss.was_connected ? " lost " : " could not connect ") + name + ": " +
                 facts.reason(loss.at),
             {facts.ref(loss.at)});
  const std::size_t chain = answer.sentences.size();
  say_end(facts, loss.at, answer, 2);
  const bool caused = std::any_of(answer.sentences.begin(), answer.sentences.end(),
                                  [](const Sentence& one) { return one.cause; });
  if (!caused && answer.sentences.size() > chain) answer.sentences.back().cause = true;
  say_after(facts, given, answer);
  answer.shorten();
  return answer;
}

}  // namespace rtrs::tools::why
