// A world that follows a script.
#include <algorithm>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

namespace {
constexpr std::uint32_t kToServer = 1, kToClient = 2;
}

LinkId World::link_of(const Step& step) {
  return network_.link(step.client, step.path, server_.id, step.path);
}

World::ClientNode* World::client_of(const Step& step) {
  const bool exists = step.client != 0 && step.client <= clients_.size();
  return exists && clients_[step.client - 1]->up ? clients_[step.client - 1].get() : nullptr;
}

// Living connections of the link at the server.
std::uint32_t World::server_connections(LinkId link, bool connected_only) {
  std::uint32_t count = 0;
  if (!server_.up) return 0;
  for (const ConKey& key : server_.fabric->live()) {
    const QpId qp = network_.find_qp(server_.id, key);
    if (qp == kNone || network_.qp_info(qp).link != link) continue;
    if (!connected_only || server_.hearts->is_connected(key.place())) ++count;
  }
  return count;
}

bool World::has_come(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = client_of(step);
  const auto state = [&] {
    const auto paths = client->driver->session().paths();
    return step.path < paths.size() ? paths[step.path].state : PathState::absent;
  };
  switch (step.verb) {
    case Verb::until:
      return now() >= step.time;
    case Verb::pass:
      return now() >= script_since_ + step.time;
    case Verb::connected:
      return client != nullptr && state() == PathState::connected;
    case Verb::lost:
      return client == nullptr || state() != PathState::connected;
    case Verb::serving:
      return server_connections(link_of(step), true) != 0;
    case Verb::forgotten:
      return server_connections(link_of(step), false) == 0;
    case Verb::connections:
      return server_connections(link_of(step), false) >= step.number;
    case Verb::submitted:
      return book_.count() >= step.number;
    case Verb::delivered:
      return deliveries_ >= step.number;
    case Verb::completed:
      return completions_ >= step.number;
    case Verb::link_up:
      return client != nullptr && client->driver->session().link_up();
    case Verb::link_down:
      return client == nullptr || !client->driver->session().link_up();
    default:
      return has_happened(step);
  }
}

// When a wait for the clock is over; other waits end with whatever else happens.
Nanos World::script_time() const {
  if (!script_on_ || script_at_ >= scenario_.script.size()) return kNever;
  const Step& step = scenario_.script[script_at_];
  if (!step.waits()) return now();
  if (step.verb == Step::Verb::until) return std::max(now(), step.time);
  if (step.verb == Step::Verb::pass) return std::max(now(), script_since_ + step.time);
  return kNever;
}

void World::script_due() {
  while (script_on_ && script_at_ < scenario_.script.size()) {
    const Step& step = scenario_.script[script_at_];
    if (step.waits() && !has_come(step)) return;
    if (!step.waits() && !choice_.skips(Label::planned)) {
      const ScopedGroup group(choice_, Label::planned);
      journal_.add_step(now(), to_text(step));
      carry_out(step);
    }
    script_since_ = now();
    ++script_at_;
  }
}

void World::carry_out(const Step& step) {
  using Verb = Step::Verb;
  switch (step.verb) {
    case Verb::crash:
    case Verb::restart:
    case Verb::pause:
      return node_step(step);
    case Verb::write:
    case Verb::read:
      if (client_of(step) != nullptr)
        client_of(step)->wanted.push_back(
            Wanted{step.verb == Verb::write ? Direction::write : Direction::read, step.number,
                   static_cast<std::uint32_t>(step.time), false, static_cast<std::uint16_t>(step.con)});
      return;
    case Verb::storage:
      return storage_.plan(step.number, {step.time, step.length, 0});
    case Verb::storage_fails:
      return storage_.plan(step.number, {0, 0, static_cast<std::uint16_t>(step.time)});
    case Verb::rate:
      if (rate_at(step.number) != nullptr)
        network_.rates().*rate_at(step.number) = static_cast<std::uint32_t>(step.time);
      return;
    case Verb::disconnect:
    case Verb::reconnect:
    case Verb::remove:
    case Verb::add:
    case Verb::policy:
    case Verb::recover:
    case Verb::drop:
    case Verb::reconnects:
      return operator_step(step);
    case Verb::leave:
    case Verb::rejoin:
    case Verb::retire:
    case Verb::expel:
    case Verb::depth:
    case Verb::fresh_keys:
    case Verb::lie:
    case Verb::inject:
    case Verb::spared:
    case Verb::unharmed:
    case Verb::shortage:
    case Verb::by:
      return act(step);
    case Verb::map:
    case Verb::unmap:
    case Verb::remap:
    case Verb::disk_write:
    case Verb::disk_read:
    case Verb::disk_discard:
    case Verb::disk_flush:
    case Verb::resize:
    case Verb::forbid:
    case Verb::take_away:
    case Verb::fail_sync:
      return disk_step(step);
    default:
      return network_step(step);
  }
}

void World::network_step(const Step& step) {
  using Verb = Step::Verb;
  const LinkId link = link_of(step);
  switch (step.verb) {
    case Verb::cut:
      if ((step.ways & kToServer) != 0) network_.cut(link, Way::to_server);
      if ((step.ways & kToClient) != 0) network_.cut(link, Way::to_client);
      return;
    case Verb::heal:
      if ((step.ways & kToServer) != 0) network_.heal(link, Way::to_server, choice_);
      if ((step.ways & kToClient) != 0) network_.heal(link, Way::to_client, choice_);
      return;
    case Verb::starve:
      if ((step.ways & kToServer) != 0) network_.starve(link, Way::to_server, now() + step.time);
      if ((step.ways & kToClient) != 0) network_.starve(link, Way::to_client, now() + step.time);
      return;
    case Verb::unplug:
    case Verb::plug: {
      const bool at_server = step.ways == kToClient;
      const NodeId node = at_server ? server_.id : step.client;
      if (step.verb == Verb::unplug) return network_.unplug(node, step.path, choice_);
      return network_.plug(node, step.path, choice_);
    }
    case Verb::slow:
      return network_.set_latency(link, network_.config().latency + step.time, network_.config().jitter);
    default:
      break;
  }
  const Way way = step.ways == kToClient ? Way::to_client : Way::to_server;
  for (QpId id = 0; id < network_.qp_count(); ++id) {
    const QpInfo qp = network_.qp_info(id);
    if (!qp.alive || qp.link != link || qp.way != way) continue;
    if (step.verb == Verb::swallow || step.verb == Verb::let_through) {
      if (qp.key.con == step.con) network_.swallow(id, step.verb == Verb::swallow, choice_);
      continue;
    }
    if (step.verb == Verb::hang) {
      if (qp.key.con == step.con) network_.hang(id, choice_);
      continue;
    }
    if (step.verb == Step::Verb::break_con) judge_.mark(Mark::single_connection);
    if (step.verb == Verb::break_path || qp.key.con == step.con) network_.break_qp(id, choice_);
  }
}

void World::node_step(const Step& step) {
  if (step.client > clients_.size()) return;
  WorldFault fault{WorldFault::Kind::pause, step.client, now() + step.time};
  if (step.verb == Step::Verb::crash) {
    if (!network_.is_up(step.client)) return;
    network_.crash(step.client, step.number == 1, choice_);
    fault.kind = WorldFault::Kind::crash;
  } else if (step.verb == Step::Verb::restart) {
    if (network_.is_up(step.client)) return;
    network_.restart(step.client);
    fault.kind = WorldFault::Kind::restart;
  }
  carry_out(fault);
}

void World::operator_step(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = client_of(step);
  if (client == nullptr) return;
  switch (step.verb) {
    case Verb::reconnects: {
      const auto paths = client->driver->session().paths();
      const auto count = step.path < paths.size() ? paths[step.path].reconnects : 0;
      if (count != step.number)
        judge_.fail(Oracle::legality, now(),
                    "path " + std::to_string(step.path) + " came back " + std::to_string(count) +
                        " times instead of " + std::to_string(step.number));
      return;
    }
    case Verb::disconnect:
      return operate(*client, Operation::disconnect, step.path);
    case Verb::reconnect:
      return operate(*client, Operation::reconnect, step.path);
    case Verb::remove:
      return operate(*client, Operation::remove, step.path);
    case Verb::add:
      return operate(*client, Operation::add, step.path);
    case Verb::policy:
      return operate(*client, Operation::policy, step.number);
    case Verb::recover:
      return operate(*client, Operation::recover, 0);
    default:
      return operate(*client, Operation::drop, step.path);
  }
}

// Nodes that the script left down.
void World::restart_all() {
  for (NodeId node = 0; node <= clients_.size(); ++node)
    for (std::uint32_t path = 0; path < kMaxPaths; ++path) network_.plug(node, path, choice_);
  for (QpId id = 0; id < network_.qp_count(); ++id) network_.swallow(id, false, choice_);
  for (NodeId node = 0; node <= clients_.size(); ++node) {
    if (network_.is_up(node)) continue;
    network_.restart(node);
    carry_out(WorldFault{WorldFault::Kind::restart, node, now()});
  }
}

}  // namespace rtrs::sim
