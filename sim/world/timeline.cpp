#include "sim/world/timeline.hpp"

#include <algorithm>

namespace rtrs::sim {

// Returns the time of the node's next poll. `timer` returns the driver's next timer.
template <class Timer>
Nanos Timeline::wake(const Node& node, const Timer& timer) const {
  constexpr unsigned kMaxIdlePolls = 4;
  if (!node.up) return kNever;
  if (node.paused_until > now()) return node.paused_until;
  if (cluster_.has_events(node)) return std::max(now(), node.paused_until);
  Nanos deadline = node.clock.true_time(node.deadline);
  // If a driver asks to be polled at once but several polls did nothing, waits for a network event or for the
  // driver's next timer.
  const bool stuck = deadline <= now() && node.idle_polls >= kMaxIdlePolls;
  if (stuck) deadline = node.clock.true_time(timer());
  if (stuck && deadline <= now()) return kNever;
  return deadline == kNever ? kNever : std::max({deadline, now(), node.paused_until});
}

Nanos Timeline::next_time() {
  Nanos next = std::min({network_.next_time(), cluster_.storage.next_time(), cluster_.faults.next_time(),
                         operator_.next_time()});
  if (server_.up) {
    server_.deadline = server_.driver->next_deadline();
    next = std::min(next, wake(server_, [this] { return server_.driver->transport().next_timer(); }));
    if (!server_.answers.empty()) next = std::min(next, std::max(now(), server_.paused_until));
  }
  next = std::min({next, script_.next_time(), crowd_.next_time(), server_host_.disks_time()});
  if (cluster_.other_server != nullptr) next = std::min(next, cluster_.other_server->next_time());
  for (const auto& client : clients_) {
    if (!client->up) continue;
    client->deadline = client->driver->next_deadline();
    next = std::min(next, wake(*client, [&client] { return client->driver->next_timer(); }));
    if (client->leaving) continue;
    if (!client->wanted.empty() && client->under_way < client->buffers.size() &&
        cluster_.takes_requests(*client))
      next = std::min(next, std::max(now(), client->paused_until));
    if (client->next_submit != kNever && (client->left > 0) && cluster_.takes_requests(*client))
      next = std::min(next, std::max({now(), client->next_submit, client->paused_until}));
  }
  return next;
}

bool Timeline::step(Nanos next) {
  if (next == kNever) return false;
  constexpr std::uint64_t kLivelock = 200'000;
  if (next > now()) {
    steps_at_once_ = 0;
  } else if (++steps_at_once_ > kLivelock) {
    cluster_.stalled("no end of work at one instant");
    return false;
  }
  watch_.check_idle(next);
  network_.run_until(next, choice_);
  judge_.count_event();
  if (cluster_.faults.next_time() <= now()) faults_due();
  crowd_.due();
  operator_.due();
  if (cluster_.storage.next_time() <= now() || !server_.answers.empty()) server_host_.storage_due();
  if (server_host_.disks_time() <= now()) server_host_.disks_due();
  poll_nodes();
  if (cluster_.other_server != nullptr) cluster_.other_server->poll();
  operator_.closings_due();
  script_.due();
  for (std::uint32_t index = 0; index < clients_.size(); ++index) load_.submit_due(index);
  if (scenario_.liar == kNone) watch_.keys().refused(network_.stats().refused, now());
  cluster_.check_laws();
  if (judge_.events() > cluster_.options.max_events) {
    out_of_events_ = !judge_.failed();
    cluster_.stalled("more events than a run of this size can need");
    return false;
  }
  return !judge_.failed();
}

void Timeline::poll_nodes() {
  bool ready[1 + kMaxClients] = {};
  unsigned count = 0;
  const auto nodes = static_cast<std::uint32_t>(1 + clients_.size());
  for (std::uint32_t node = 0; node < nodes; ++node) {
    ready[node] = node == 0
                      ? server_.up && cluster_.due(server_, server_.driver->next_deadline())
                      : clients_[node - 1]->up &&
                            cluster_.due(*clients_[node - 1], clients_[node - 1]->driver->next_deadline());
    count += ready[node] ? 1 : 0;
  }
  const std::uint32_t first = count > 1 ? choice_.draw(nodes, Label::poll_order) : 0;
  for (std::uint32_t step = 0; step < nodes; ++step) {
    const std::uint32_t node = (first + step) % nodes;
    if (!ready[node]) continue;
    Node& state = node == 0 ? static_cast<Node&>(server_) : *clients_[node - 1];
    const bool worked = node == 0 ? server_host_.poll() : client_host_.poll(node - 1);
    state.idle_polls = worked ? 0 : state.idle_polls + 1;
    watch_.watch_timer(state, node == 0 ? server_.driver->transport().next_timer()
                                        : clients_[node - 1]->driver->next_timer());
    state.hearts->check(now());
  }
  if (!network_.hung().empty()) watch_.check_hung();
}

void Timeline::faults_due() {
  std::vector<WorldFault> faults;
  cluster_.faults.advance(network_, choice_, faults);
  for (const FaultRecord& strike : cluster_.faults.strikes())
    note(Journal::Kind::struck, kNone, static_cast<std::uint64_t>(strike.which), strike.until,
         place_of(strike));
  for (const WorldFault& fault : faults) processes_.carry_out(fault);
}

// Packs the place of a fault for the journal.
std::uint64_t Timeline::place_of(const FaultRecord& strike) const {
  constexpr std::uint64_t kAny = 0xffff;
  const auto packed = [](std::uint64_t client, std::uint64_t path, std::uint64_t con, std::uint64_t way) {
    return way << 48 | con << 32 | path << 16 | client;
  };
  const auto at = [&](LinkId link, std::uint64_t con) {
    const LinkInfo info = network_.link_info(link);
    const std::uint64_t way = !strike.one_way ? 0 : strike.way == Way::to_server ? 1 : 2;
    return packed(info.client, info.client_port, con, way);
  };
  switch (strike.target) {
    case FaultRecord::Target::everything:
      break;
    case FaultRecord::Target::node:
      return strike.id == 0 ? packed(kAny, kAny, kAny, 0) : packed(strike.id, kAny, kAny, 0);
    case FaultRecord::Target::link:
      return at(strike.id, kAny);
    case FaultRecord::Target::path:
      return at(network_.qp_info(strike.id).link, kAny);
    case FaultRecord::Target::connection: {
      const QpInfo qp = network_.qp_info(strike.id);
      return at(qp.link, qp.key.con);
    }
  }
  return packed(kAny, kAny, kAny, 0);
}

bool Timeline::run_while(Nanos deadline, const std::function<bool()>& done) {
  while (!judge_.failed()) {
    if (done()) return true;
    const Nanos next = next_time();
    if (next > deadline) {
      network_.run_until(deadline, choice_);
      return done();
    }
    if (!step(next)) return false;
  }
  return false;
}

bool Timeline::run_until(Nanos time) {
  run_while(time, [] { return false; });
  return !judge_.failed();
}

}  // namespace rtrs::sim
