#include "tools/lib/trace/to_scenario/infer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/trace/to_scenario/device_story.hpp"

namespace rtrs::tools {

namespace {

using sim::Step;
using Verb = Step::Verb;
using Trace = ClientInputs;

constexpr std::uint32_t kSectors = 16;  // few sectors, so that requests overlap
constexpr std::uint32_t kMaxSectors = 8;
constexpr std::uint32_t kSectorBytes = 512;

// Limits storage delays, because the disk oracles of the simulator report slower storage as a failure.
Nanos slow_disk(Nanos interval) {
  return std::min(interval / 2, milliseconds(2500));
}

// Why requests are never answered.
enum class Cause : std::uint8_t { storage, stopped_server, black_hole };

class Story {
 public:
  // `devices`: nullptr if the session has no block devices. `hung`: records of requests that are never
  // answered.
  Story(const Trace& trace, const DeviceStory* devices, std::set<std::uint64_t> hung = {})
      : trace_(trace), devices_(devices), hung_(std::move(hung)) {}

  // Reads the trace. Returns false if the client never connected.
  bool read() {
    for (std::size_t at = 0; at < trace_.inputs.size(); ++at)
      std::visit([&](const auto& input) { this->on(input, static_cast<std::uint32_t>(at)); },
                 trace_.inputs[at]);
    for (auto& [path, cut] : cuts_)
      if (cut) add(last_, step(Verb::heal, path));
    if (devices_ != nullptr) steps_.insert(steps_.end(), devices_->steps.begin(), devices_->steps.end());
    return first_info_ != 0;
  }

  // Adds the cause to the world. The last step waits for all requests until the trace ends.
  sim::Scenario hanging(Cause cause) {
    constexpr Nanos kForever = seconds(1'000'000);
    slow_.clear();
    for (const std::size_t at : hung_steps_) {
      Step before = step(Verb::storage, 0);
      before.number = 1;
      before.time = before.length = kForever;
      if (cause == Cause::storage) slow_.emplace(at, before);
    }
    if (cause == Cause::stopped_server) {
      Step pause = step(Verb::pause, 0);
      pause.client = 0;
      pause.time = kForever;
      slow_.emplace(hung_steps_.front(), pause);
    }
    for (const std::uint16_t path : paths_) {
      for (std::uint16_t con = 1; con < trace_.config.con_num && cause == Cause::black_hole; ++con) {
        Step hang = step(Verb::hang, path);
        hang.con = con;
        slow_.emplace(hung_steps_.front(), hang);
      }
    }
    sim::Scenario s = scenario();
    // Without the first wait, a world without the requests would fail in the same way.
    for (const Verb wait : {Verb::submitted, Verb::completed}) {
      s.script.push_back(step(wait, 0));
      s.script.back().number = count_;
    }
    s.safety = std::max(last_ - first_info_, trace_.config.heartbeat.interval);
    return s;
  }
  bool hangs() const { return !hung_steps_.empty(); }
  // Both sides probe each connection with a request in flight.
  bool probes() const {
    return has(trace_.config.extensions & wire::granted_extensions(accepted_->flags),
               wire::Extensions::probe);
  }

  sim::Scenario scenario() const {
    sim::Scenario s;
    const Nanos i = trace_.config.heartbeat.interval;
    s.directed = true;
    s.paths = static_cast<std::uint32_t>(std::max<std::size_t>(paths_.size(), 1));
    s.other_server = last_path_leads_to_other_server();
    if (s.other_server) --s.paths;
    s.interval = i;
    s.client = trace_.config;
    s.server.queue_depth = accepted_->queue_depth;
    s.server.chunk_size = accepted_->max_io_size + accepted_->max_hdr_size;
    s.server.max_hdr_size = accepted_->max_hdr_size;
    s.server.max_sessions = 16;
    s.server.heartbeat = trace_.config.heartbeat;
    s.server.always_invalidate = (accepted_->flags & wire::kConnRspNewRkey) != 0;
    s.server.extensions = wire::granted_extensions(accepted_->flags);
    s.network.capabilities =
        trace_.config.imm_consumes_receive ? sim::default_capabilities() : sim::weak_capabilities();
    s.server.imm_consumes_receive = s.network.capabilities.imm_consumes_receive;
    s.server.send_invalidate = s.network.capabilities.send_invalidate;
    s.client.offer_invalidation &=
        s.network.capabilities.per_io_keys && s.network.capabilities.send_invalidate;
    s.server.always_invalidate &= s.network.capabilities.invalidation;
    s.network.retry_budget = s.network.retry_spread = i;
    s.storage.sectors = kSectors;
    s.workload.requests = 0;
    s.workload.window = std::max<std::uint32_t>(most_, 2);
    if (devices_ != nullptr) {
      s.workload.disks = devices_->disks;
      s.workload.disk_time = std::min(std::max(devices_->slowest, microseconds(50)), slow_disk(i));
    }
    s.fenced = s.client.fence_failed == UnfencedReplay::wait &&
               (s.can_fence() || s.client.kernel_peer == UnfencedReplay::wait);
    s.script = script();
    const Nanos length = last_ > first_info_ ? last_ - first_info_ : 0;
    s.safety = length + sim::liveness_bound(s).requests();
    return s;
  }

 private:
  static Step step(Verb verb, std::uint32_t path) {
    Step step;
    step.verb = verb;
    step.path = path;
    return step;
  }
  void add(Nanos time, const Step& step) { steps_.push_back({time, step}); }
  bool another_is_up(std::uint16_t path) const {
    return std::any_of(up_.begin(), up_.end(),
                       [path](const auto& one) { return one.first != path && one.second; });
  }
  // Returns true if the last path leads to another server. Simulated worlds allow this only for the last
  // path.
  bool last_path_leads_to_other_server() const {
    if (paths_.size() < 2) return false;
    const auto last = strange_.find(*paths_.rbegin());
    return last != strange_.end() && last->second >= 2 && joined_.count(last->first) == 0;
  }

  sim::Script script() const {
    std::vector<Timed> sorted;
    for (std::size_t at = 0; at < steps_.size(); ++at) {
      const auto [first, last] = slow_.equal_range(at);
      for (auto slow = first; slow != last; ++slow) sorted.push_back({steps_[at].time, slow->second});
      sorted.push_back(steps_[at]);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Timed& a, const Timed& b) { return a.time < b.time; });
    sim::Script script;
    Nanos clock = first_info_;
    for (const Timed& one : sorted) {
      if (one.time > clock) {
        Step pass;
        pass.verb = Verb::pass;
        pass.time = one.time - clock;
        script.push_back(pass);
        clock = one.time;
      }
      script.push_back(one.step);
    }
    return script;
  }

  template <class Input>
  void on(const Input& input, std::uint32_t index) {
    last_ = std::max(last_, input.now);
    if constexpr (std::is_same_v<Input, PathAdded>) {
      removed_.erase(input.path);
      if (!paths_.insert(input.path).second) add(input.now, step(Verb::add, input.path));
    } else if constexpr (std::is_same_v<Input, Connected>) {
      if (!accepted_) accepted_ = input;
    } else if constexpr (std::is_same_v<Input, InfoAccepted>) {
      if (first_info_ == 0) first_info_ = input.now;
      end_cut(input.key.path, input.now);
      if (another_is_up(input.key.path)) joined_.insert(input.key.path);
      up_[input.key.path] = true;
      heard(input.key.path, input.now);
    } else if constexpr (std::is_same_v<Input, ConnectionLost>) {
      lost(input.key.path, input.now, input.reason);
    } else if constexpr (std::is_same_v<Input, ConnectionClosed>) {
      // The path was closed without a user request or an event from the peer, so the peer was silent.
      if (up_[input.key.path] && !asked_[input.key.path]) cut(input.key.path, heard_[input.key.path]);
      asked_[input.key.path] = up_[input.key.path] = false;
    } else if constexpr (std::is_same_v<Input, ConnectFailed>) {
      // Another path is up, but the server of this path does not know the session, so this path leads to
      // another server.
      if (input.peer_errno == ENXIO && another_is_up(input.key.path)) ++strange_[input.key.path];
      // The peer did not answer, so the link is still cut.
      if (input.peer_errno == 0 && first_info_ != 0) cut(input.key.path, heard_[input.key.path]);
    } else if constexpr (std::is_same_v<Input, ImmReceived> || std::is_same_v<Input, KeyedResponseReceived>) {
      heard(input.key.path, input.now);
      answered(trace_.metas[index].request, input.now);
    } else if constexpr (std::is_same_v<Input, Submitted>) {
      submitted(input, index);
    } else {
      operated(input);
    }
  }

  template <class Input>
  void operated(const Input& input) {
    if constexpr (std::is_same_v<Input, PathDisconnectRequested>) {
      asked_[input.path] = true;
      add(input.now, step(Verb::disconnect, input.path));
    } else if constexpr (std::is_same_v<Input, PathReconnectRequested>) {
      asked_[input.path] = true;
      add(input.now, step(Verb::reconnect, input.path));
    } else if constexpr (std::is_same_v<Input, PathRemoveRequested>) {
      asked_[input.path] = true;
      // Removing a path again has no effect.
      if (removed_.insert(input.path).second) add(input.now, step(Verb::remove, input.path));
    } else if constexpr (std::is_same_v<Input, PolicyChanged>) {
      Step policy = step(Verb::policy, 0);
      policy.number = static_cast<std::uint32_t>(input.policy);
      add(input.now, policy);
    }
  }

  void heard(std::uint16_t path, Nanos now) { heard_[path] = now; }
  void cut(std::uint16_t path, Nanos now) {
    if (cuts_[path]) return;
    cuts_[path] = true;
    add(now, step(Verb::cut, path));
  }
  void end_cut(std::uint16_t path, Nanos now) {
    if (!cuts_[path]) return;
    cuts_[path] = false;
    add(now > microseconds(100) ? now - microseconds(100) : now, step(Verb::heal, path));
  }
  void lost(std::uint16_t path, Nanos now, Reason reason) {
    if (!up_[path]) return;
    up_[path] = false;
    asked_[path] = true;
    add(now, step(reason == Reason::peer_closed ? Verb::drop : Verb::break_path, path));
  }

  void submitted(const Submitted& input, std::uint32_t index) {
    if (devices_ != nullptr) return;
    Step request = step(input.direction == Direction::write ? Verb::write : Verb::read, 0);
    request.con = input.affinity;
    request.number = std::clamp<std::uint32_t>(input.data_len / kSectorBytes, 1, kMaxSectors);
    // Consecutive requests overlap, and later requests use the same sectors again.
    request.time = count_++ % (kSectors - kMaxSectors);
    begun_[index] = {input.now, steps_.size()};
    if (hung_.count(trace_.metas[index].record) != 0) hung_steps_.push_back(steps_.size());
    add(input.now, request);
    most_ = std::max(most_, static_cast<std::uint32_t>(begun_.size()));
  }
  // If a response was slow, the storage is assumed to be slow, unless the path was lost before the response.
  void answered(std::uint32_t request, Nanos now) {
    const auto found = begun_.find(request);
    if (found == begun_.end()) return;
    const auto [since, at] = found->second;
    begun_.erase(found);
    constexpr Nanos kSlow = milliseconds(5);
    if (now - since < kSlow) return;
    Step slow = step(Verb::storage, 0);
    slow.number = 1;
    slow.time = slow.length = now - since;
    slow_.emplace(at, slow);
  }

  const Trace& trace_;
  const DeviceStory* devices_;
  std::set<std::uint64_t> hung_;
  std::vector<std::size_t> hung_steps_;  // indexes of the steps of hung_
  std::optional<Connected> accepted_;
  Nanos first_info_ = 0;
  Nanos last_ = 0;
  std::vector<Timed> steps_;
  // Steps that delay a request, by index of its step.
  std::multimap<std::size_t, Step> slow_;
  std::set<std::uint16_t> paths_, removed_;
  std::set<std::uint16_t> joined_;             // paths that connected while another path was already up
  std::map<std::uint16_t, unsigned> strange_;  // refusals because of an unknown session, by path
  std::map<std::uint16_t, bool> up_, asked_, cuts_;
  std::map<std::uint16_t, Nanos> heard_;
  // Submit time and index of the step, by request.
  std::map<std::uint32_t, std::pair<Nanos, std::size_t>> begun_;
  std::uint32_t most_ = 0;
  std::uint32_t count_ = 0;
};

// Adds late messages, slow drains and slow storage to the world. A client's trace does not show these, but
// they cause races.
sim::Scenario rough(sim::Scenario s) {
  const auto chance = [&s](const char* name, Nanos per_million) {
    Step rate;
    rate.verb = Verb::rate;
    rate.number = *sim::rate_named(name);
    rate.time = per_million;
    s.script.insert(s.script.begin(), rate);
  };
  chance("ghost_delay", 400'000);
  chance("slow_drain", 400'000);
  chance("late_placement", 200'000);
  const Nanos dead = (s.server.heartbeat.missed_max + 2) * s.interval;
  s.storage.slow_rate = 300'000;
  s.storage.slow_latency = dead;
  if (s.workload.disks != 0) s.workload.disk_time = slow_disk(s.interval);
  s.network.ghost_hold = dead / 2;
  s.safety += sim::liveness_bound(s).requests();
  return s;
}

// Returns a variant of the world in which the server crashes wherever a path was lost, or nullopt if no path
// was lost.
std::optional<sim::Scenario> crashed(sim::Scenario s) {
  bool any = false;
  sim::Script script;
  for (const Step& step : s.script) {
    script.push_back(step);
    if (step.verb != Verb::break_path && step.verb != Verb::drop) continue;
    any = true;
    script.back() = Step{};
    script.back().verb = Verb::crash;
    script.back().client = 0;
    Step wait;
    wait.verb = Verb::pass;
    wait.time = s.interval;
    script.push_back(wait);
    wait.verb = Verb::restart;
    wait.client = 0;
    wait.time = 0;
    script.push_back(wait);
  }
  s.safety += script.size() * s.interval;
  s.script = std::move(script);
  return any ? std::optional(s) : std::nullopt;
}

// Returns true if the world may have simulated disks. The disk oracles need the fence extension, because a
// server without it cannot report that its cache was replaced.
bool may_have_disks(const sim::Scenario& s) {
  return s.fenced && has(s.client.extensions & s.server.extensions,
                         wire::Extensions::fence | wire::Extensions::generation);
}

// Makes the most faithful world. Returns nullopt if the client never connected.
std::optional<sim::Scenario> world_of(const Trace& trace, const DeviceStory* devices) {
  Story story(trace, devices);
  return story.read() ? std::optional(story.scenario()) : std::nullopt;
}

}  // namespace

std::vector<Guess> infer(const Trace& trace, const ClientDevicesInputs* devices) {
  DeviceStory of_devices;
  if (devices != nullptr) of_devices = device_story(*devices, trace);
  const bool has_devices = of_devices.disks != 0;
  auto world = world_of(trace, has_devices ? &of_devices : nullptr);
  if (has_devices && world && !may_have_disks(*world)) world = world_of(trace, nullptr);
  if (!world) return {};
  const sim::Scenario& plain = *world;
  std::vector<Guess> guesses{{"paths as they were lost", plain}, {"and a rough network", rough(plain)}};
  if (const auto crash = crashed(plain)) guesses.push_back({"the server crashed", *crash});
  return guesses;
}

std::vector<Guess> infer_hang(const ClientInputs& trace, InstanceId instance,
                              const std::vector<trace::Unanswered>& unanswered) {
  std::set<std::uint64_t> hung;
  // Did the server, or its end of the connection, send something after it had the request?
  bool server_lives = false, connection_lives = false;
  for (const trace::Unanswered& one : unanswered) {
    if (one.instance != instance || !one.last.front().client) continue;
    hung.insert(one.request.begun.record);
    const Nanos later = one.request.last.time + trace.config.heartbeat.interval;
    server_lives |= one.heard && one.heard->at.time > later;
    connection_lives |= one.connection_heard > later;
  }
  Story story(trace, nullptr, std::move(hung));
  if (!story.read() || !story.hangs()) return {};
  std::vector<Guess> guesses{{"storage that never completes the request", story.hanging(Cause::storage)},
                             {"a server that does not run", story.hanging(Cause::stopped_server)},
                             {"connections that deliver nothing", story.hanging(Cause::black_hole)}};
  if (!server_lives)
    std::swap(guesses[0], guesses[1]);
  else if (!connection_lives && story.probes())
    std::swap(guesses[0], guesses[2]);
  return guesses;
}

}  // namespace rtrs::tools
