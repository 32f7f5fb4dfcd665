// Tests permits, heartbeats, the choice of a path and whole client sessions with random sequences of
// commands. rapidcheck shrinks a failing sequence.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/proto/client_session.hpp"
#include "core/proto/heartbeat.hpp"
#include "core/proto/multipath.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::client_session_property_test {
namespace {

// A command: its kind, and the object to which it applies.
using Command = std::pair<std::uint8_t, std::uint8_t>;
using Commands = std::vector<Command>;

RC_GTEST_PROP(PermitPool, LowestFreePermitIsNext, (const std::vector<std::uint8_t>& commands)) {
  const auto depth = *rc::gen::inRange<unsigned>(1, 200);
  PermitPool pool;
  pool.open(depth);
  std::set<std::uint16_t> free;
  for (std::uint16_t id = 0; id < depth; ++id) free.insert(id);
  std::vector<std::uint16_t> used;
  for (const std::uint8_t command : commands) {
    if (command % 3 != 0 && !free.empty()) {
      const std::uint16_t id = pool.next();
      RC_ASSERT(id == *free.begin());
      pool.take(id);
      pool[id].state = Permit::State::queued;
      free.erase(id);
      used.push_back(id);
    } else if (!used.empty()) {
      const auto at = used.begin() + command % static_cast<std::ptrdiff_t>(used.size());
      pool.put(*at);
      free.insert(*at);
      used.erase(at);
    }
    RC_ASSERT(pool.used() == used.size());
    RC_ASSERT(pool.next() == (free.empty() ? kNoPermit : *free.begin()));
  }
}

RC_GTEST_PROP(HeartbeatBounds, SilenceIsDetectedWithinItsBounds, (const std::vector<std::uint16_t>& gaps)) {
  HeartbeatConfig config;
  config.interval = *rc::gen::inRange<Nanos>(2, 50'000);
  config.missed_max = *rc::gen::inRange<std::uint32_t>(1, 9);
  Heartbeat heartbeat;
  heartbeat.start(0, config);
  Nanos heard = 0;
  unsigned sent = 0;
  // Messages that arrive at the time of a tick are processed after it.
  const auto tick_until = [&](Nanos end) -> std::optional<Nanos> {
    while (heartbeat.deadline() <= end) {
      const Nanos now = heartbeat.deadline();
      const Heartbeat::Tick tick = heartbeat.on_tick(now, config);
      if (tick == Heartbeat::Tick::dead) return now;
      sent += tick == Heartbeat::Tick::send ? 1 : 0;
      if (tick == Heartbeat::Tick::send) RC_ASSERT(now - heard <= config.interval);
    }
    return {};
  };
  const auto alive = static_cast<Nanos>(config.missed_max + 1) * config.interval;
  for (const std::uint16_t gap : gaps) {
    const auto dead = tick_until(heard + gap);
    if (dead) {
      RC_ASSERT(*dead - heard >= alive);
      RC_ASSERT(*dead - heard <= alive + config.interval);
      return;
    }
    heartbeat.received();
    heard += gap;
  }
  const auto dead = tick_until(kNever - 1);
  RC_ASSERT(dead.has_value());
  RC_ASSERT(*dead - heard >= alive);
  RC_ASSERT(*dead - heard <= alive + config.interval);
  RC_ASSERT(sent > 0U);
}

// A client, and the state of its fabric, server and application. Each command does something that one of
// these may do at any time.
class Conversation {
 public:
  explicit Conversation(MultipathPolicy policy = MultipathPolicy::round_robin)
      : session(config_with(policy)) {}

  void run(const Commands& commands) {
    for (std::uint16_t path = 0; path < kPaths; ++path) feed(PathAdded{now, path});
    for (const auto& [what, which] : commands) execute_command(what % 9, which);
  }
  // Ends all faults: the server answers from now on.
  void heal() {
    for (unsigned turn = 0; turn < 2000 && !done(); ++turn) {
      if (!requests.empty()) {
        answer(0);
      } else if (!closing.empty()) {
        drain(0);
      } else if (!connecting.empty()) {
        connect(0);
      } else if (!fences.empty()) {
        answer_fence(0);
      } else {
        pass();
      }
    }
  }
  bool done() const { return outstanding.empty() && session.connected_paths() == kPaths && closing.empty(); }

  static constexpr std::uint16_t kPaths = 3;
  ClientSession session;
  Nanos now = seconds(1);
  std::set<std::uint16_t> outstanding;  // permits in use
  std::vector<PostRequest> requests;    // unanswered requests
  std::vector<ConKey> connecting, closing;
  std::vector<SendFenceReq> fences;
  // Attempt of the path that sent the request, by permit.
  std::map<std::uint16_t, std::uint32_t> sent_attempt;
  std::map<std::uint16_t, std::uint32_t> proven;  // last attempt that the server has drained, by path

 private:
  static ClientConfig config_with(MultipathPolicy policy) {
    ClientConfig config;
    config.con_num = 2;
    config.max_depth = 4;
    config.send_depth = 8;
    config.queue_timeout = kNever;
    config.policy = policy;
    return config;
  }

  void execute_command(unsigned what, std::uint8_t which) {
    switch (what) {
      case 0:
      case 1:
        return submit(which);
      case 2:
        return answer(which);
      case 3:
        return connect(which);
      case 4:
        return drain(which);
      case 5:
        return lose(static_cast<std::uint16_t>(which % kPaths));
      case 6:
        return pass();
      case 7:
        return answer_fence(which);
      default:
        return feed(PathReconnectRequested{now, static_cast<std::uint16_t>(which % kPaths)});
    }
  }
  template <class T>
  static std::optional<T> taken(std::vector<T>& from, std::size_t which) {
    if (from.empty()) return {};
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(which % from.size());
    const T one = *at;
    from.erase(at);
    return one;
  }

  void submit(std::uint8_t which) {
    const std::uint16_t permit = session.next_permit();
    if (permit == kNoPermit) return;
    RC_ASSERT(outstanding.insert(permit).second);
    feed(Submitted{now, permit, which % 2 == 0 ? Direction::write : Direction::read, which % 16 == 15, false,
                   which, 4096, 32});
  }
  // Answers a request. The path of the request may be lost and not drained yet.
  void answer(std::size_t which) {
    const auto request = taken(requests, which);
    if (!request) return;
    // The fabric reports the send completion before the response.
    if (request->cookie != 0) feed(SendDone{now, request->key, request->cookie});
    const std::uint32_t id = wire::tagged_msg_id(session.queue_depth(), request->permit, request->generation);
    feed(ImmReceived{now, request->key, wire::encode_io_rsp(wire::ImmType::io_rsp, id, 0)});
  }
  void connect(std::size_t which) {
    const auto key = taken(connecting, which);
    if (!key) return;
    feed(Connected{now, *key, 126976, 4096,
                   wire::kConnRspFence | wire::kConnRspGeneration | wire::kConnRspProbe, 4});
    if (key->con + 1 != session.config().con_num) return;
    proven[key->path] = std::max(proven[key->path], key->epoch - 1);
    feed(InfoAccepted{now, {key->path, 0, key->epoch}});
  }
  void drain(std::size_t which) {
    const auto key = taken(closing, which);
    if (!key) return;
    requests.erase(
        std::remove_if(requests.begin(), requests.end(), [&](const auto& one) { return one.key == *key; }),
        requests.end());
    feed(ConnectionClosed{now, *key});
  }
  void lose(std::uint16_t path) {
    if (session.path(path).connected())
      feed(ConnectionLost{now, {path, 1, session.path(path).epoch()}, Reason::transport_error});
  }
  void pass() {
    const Nanos next = session.next_deadline();
    if (next == kNever) return;
    now = std::max(now, next);
    feed(DeadlineReached{now});
  }
  void answer_fence(std::size_t which) {
    const auto fence = taken(fences, which);
    if (!fence) return;
    proven[fence->path] = std::max<std::uint32_t>(proven[fence->path], fence->recon_cnt);
    feed(FenceAnswered{now, fence->key, fence->serial, 0});
  }

  template <class Input>
  void feed(const Input& input) {
    step(input);
    while (session.wants_to_continue()) step(Continued{now});
  }
  template <class Input>
  void step(const Input& input) {
    ClientActions out;
    session.on(input, out);
    RC_ASSERT(session.broken_invariant() == nullptr);
    for (const ClientAction& action : out) look(action);
  }
  void look(const ClientAction& action) {
    if (const auto* request = std::get_if<PostRequest>(&action)) {
      RC_ASSERT(session.path(request->key.path).owns(request->key));
      RC_ASSERT(outstanding.count(request->permit) == 1U);
      requests.push_back(*request);
      sent_attempt[request->permit] = request->key.epoch;
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      RC_ASSERT(complete->result == Errc::ok);
      RC_ASSERT(outstanding.erase(complete->permit) == 1U);
    } else if (const auto* control = std::get_if<ClientControlAction>(&action)) {
      look(*control);
    }
  }
  void look(const ClientControlAction& action) {
    if (const auto* connect = std::get_if<Connect>(&action)) {
      connecting.push_back(connect->key);
    } else if (const auto* disconnect = std::get_if<Disconnect>(&action)) {
      RC_ASSERT(std::find(closing.begin(), closing.end(), disconnect->key) == closing.end());
      connecting.erase(std::remove(connecting.begin(), connecting.end(), disconnect->key), connecting.end());
      closing.push_back(disconnect->key);
    } else if (const auto* fence = std::get_if<SendFenceReq>(&action)) {
      fences.push_back(*fence);
    } else if (const auto* moved = std::get_if<FailedOver>(&action)) {
      // The old incarnation must be drained here, and closed and drained at the server.
      const std::uint32_t epoch = sent_attempt[moved->permit];
      RC_ASSERT(std::none_of(closing.begin(), closing.end(), [&](const ConKey& key) {
        return key.path == moved->from && key.epoch == epoch;
      }));
      RC_ASSERT(moved->fenced && proven[moved->from] >= epoch);
      RC_ASSERT(moved->from != kMaxPaths && outstanding.count(moved->permit) == 1U);
    }
  }
};

RC_GTEST_PROP(ClientSessionCommands, EveryRequestCompletesExactlyOnce, ()) {
  const auto commands = *rc::gen::scale(5, rc::gen::arbitrary<Commands>());
  Conversation talk(*rc::gen::element(MultipathPolicy::round_robin, MultipathPolicy::min_inflight,
                                      MultipathPolicy::min_latency));
  talk.run(commands);
  talk.heal();
  RC_ASSERT(talk.done());
  RC_ASSERT(talk.session.permits_used() == 0U);
}

RC_GTEST_PROP(ChoosePath, TakesTheBestConnectedPathWithRoom, (std::uint8_t affinity)) {
  const auto commands = *rc::gen::scale(3, rc::gen::arbitrary<Commands>());
  Conversation talk;
  talk.run(commands);
  PathTable paths;
  unsigned connected = 0;
  for (unsigned path = 0; path < kPathsInside; ++path) {
    paths.push_back(talk.session.path(path));
    connected += paths[path].connected() ? 1 : 0;
  }
  const auto usable = [&](const ClientPath& path) {
    return path.connected() && path.has_room(connection_for(path, false, affinity));
  };
  const bool any = std::any_of(paths.begin(), paths.end(), usable);
  for (const auto policy :
       {MultipathPolicy::round_robin, MultipathPolicy::min_inflight, MultipathPolicy::min_latency}) {
    unsigned cursor = affinity % kPathsInside;
    const unsigned chosen = choose_path(paths, policy, connected, false, affinity, cursor);
    RC_ASSERT((chosen != kNoPath) == any);
    if (!any) continue;
    RC_ASSERT(usable(paths[chosen]));
    for (const ClientPath& path : paths)
      if (policy == MultipathPolicy::min_inflight && usable(path))
        RC_ASSERT(paths[chosen].inflight() <= path.inflight());
  }
}

}  // namespace
}  // namespace rtrs::client_session_property_test
