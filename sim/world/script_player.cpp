#include "sim/world/script_player.hpp"

#include <algorithm>

namespace rtrs::sim {

namespace {

constexpr std::uint32_t kToServer = 1, kToClient = 2;

}  // namespace

// Number of the link's live connections at the server.
std::uint32_t ScriptPlayer::server_connections(LinkId link, bool connected_only) {
  std::uint32_t count = 0;
  if (!server_.up) return 0;
  for (const ConKey& key : server_.fabric->live()) {
    const QpId qp = network_.find_qp(server_.id, key);
    if (qp == kNone || network_.qp_info(qp).link != link) continue;
    if (!connected_only || server_.hearts->is_connected(key.place())) ++count;
  }
  return count;
}

bool ScriptPlayer::has_come(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = cluster_.client_of(step);
  const auto state = [&] {
    const auto paths = client->driver->session().paths();
    return step.path < paths.size() ? paths[step.path].state : PathState::absent;
  };
  switch (step.verb) {
    case Verb::until:
      return now() >= step.time;
    case Verb::pass:
      return now() >= since_ + step.time;
    case Verb::connected:
      return client != nullptr && state() == PathState::connected;
    case Verb::lost:
      return client == nullptr || state() != PathState::connected;
    case Verb::serving:
      return server_connections(cluster_.link_of(step), true) != 0;
    case Verb::forgotten:
      return server_connections(cluster_.link_of(step), false) == 0;
    case Verb::connections:
      return server_connections(cluster_.link_of(step), false) >= step.number;
    case Verb::submitted:
      return books_.book.count() >= step.number;
    case Verb::delivered:
      return books_.deliveries >= step.number;
    case Verb::completed:
      return books_.completions >= step.number;
    case Verb::link_up:
      return client != nullptr && client->driver->session().link_up();
    case Verb::link_down:
      return client == nullptr || !client->driver->session().link_up();
    default:
      return has_happened(step);
  }
}

Nanos ScriptPlayer::next_time() const {
  if (!on_ || at_ >= scenario_.script.size()) return kNever;
  const Step& step = scenario_.script[at_];
  if (!step.waits()) return now();
  if (step.verb == Step::Verb::until) return std::max(now(), step.time);
  if (step.verb == Step::Verb::pass) return std::max(now(), since_ + step.time);
  return kNever;
}

std::string ScriptPlayer::place() const {
  return "step " + std::to_string(at_ + 1) + " of the scenario";
}

std::string ScriptPlayer::next() const {
  return to_text(scenario_.script[std::min(at_, scenario_.script.size() - 1)]);
}

void ScriptPlayer::due() {
  while (on_ && at_ < scenario_.script.size()) {
    const Step& step = scenario_.script[at_];
    if (step.waits() && !has_come(step)) return;
    if (!step.waits() && !choice_.skips(Label::planned)) {
      const ScopedGroup group(choice_, Label::planned);
      cluster_.journal.add_step(now(), to_text(step));
      if (is_fault(step)) cluster_.journal.add_fault(now(), to_text(step));
      execute(step);
    }
    since_ = now();
    ++at_;
  }
}

void ScriptPlayer::execute(const Step& step) {
  using Verb = Step::Verb;
  switch (step.verb) {
    case Verb::crash:
    case Verb::restart:
    case Verb::pause:
      return node_step(step);
    case Verb::write:
    case Verb::read:
      if (cluster_.client_of(step) != nullptr)
        cluster_.client_of(step)->wanted.push_back(WantedRequest{
            step.verb == Verb::write ? Direction::write : Direction::read, step.number,
            static_cast<std::uint32_t>(step.time), false, static_cast<std::uint16_t>(step.con)});
      return;
    case Verb::storage:
      return cluster_.storage.plan(step.number, {step.time, step.length, 0});
    case Verb::storage_fails:
      return cluster_.storage.plan(step.number, {0, 0, static_cast<std::uint16_t>(step.time)});
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

void ScriptPlayer::network_step(const Step& step) {
  using Verb = Step::Verb;
  const LinkId link = cluster_.link_of(step);
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

void ScriptPlayer::node_step(const Step& step) {
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
  processes_.carry_out(fault);
}

void ScriptPlayer::operator_step(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = cluster_.client_of(step);
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
      return operator_.operate(*client, PathOperation::disconnect, step.path);
    case Verb::reconnect:
      return operator_.operate(*client, PathOperation::reconnect, step.path);
    case Verb::remove:
      return operator_.operate(*client, PathOperation::remove, step.path);
    case Verb::add:
      return operator_.operate(*client, PathOperation::add, step.path);
    case Verb::policy:
      return operator_.operate(*client, PathOperation::policy, step.number);
    case Verb::recover:
      return operator_.operate(*client, PathOperation::recover, 0);
    default:
      return operator_.operate(*client, PathOperation::drop, step.path);
  }
}

bool ScriptPlayer::has_happened(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = cluster_.client_of(step);
  const auto reason = std::uint64_t{1} << step.number % 64;
  switch (step.verb) {
    case Verb::errors:
      return books_.errors >= step.number;
    case Verb::ended:
      return client != nullptr && step.path < kMaxPaths && (client->loss_reasons[step.path] & reason) != 0;
    case Verb::dropped: {
      const LinkId link = cluster_.link_of(step);
      return link < server_.loss_reasons.size() && (server_.loss_reasons[link] & reason) != 0;
    }
    case Verb::reached:
      watch_.counted_marks();
      return judge_.marks()[step.number % kMarks];
    case Verb::held:
      return cluster_.in_storage() >= step.number;
    case Verb::sessions:
      return server_.up && server_.driver->transport().session_count() == step.number;
    case Verb::gone:
      return client != nullptr && client->driver->closed();
    case Verb::retired:
      return server_.up && server_.driver->closed();
    default:
      return true;
  }
}

void ScriptPlayer::act(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = cluster_.client_of(step);
  Node* node = step.client == 0 ? static_cast<Node*>(&server_) : client;
  switch (step.verb) {
    case Verb::leave:
      return client != nullptr ? leave(*client) : void();
    case Verb::rejoin:
      return client != nullptr ? processes_.rejoin(*client) : void();
    case Verb::retire:
      if (!server_.up) return;
      return processes_.begin_shutdown();
    case Verb::expel:
      for (std::uint16_t session = 0; server_.up && session < server_.session_of.size(); ++session)
        if (server_.session_of[session] == step.client - 1)
          server_.driver->close_session(*server_.fabric, now(server_), session);
      return;
    case Verb::depth:
      cluster_.reconfigured = true;
      scenario_.server.queue_depth =
          static_cast<std::uint16_t>(std::clamp<std::uint32_t>(step.number, 1, kMostDepth));
      return;
    case Verb::fresh_keys:
      scenario_.server.always_invalidate = step.number == 1 && network_.capabilities().invalidation;
      return;
    case Verb::lie:
      if (node != nullptr && node->up && node->lies)
        node->lies->plan(
            {static_cast<Lie>(step.number), step.path, step.con, step.at, step.size, step.value, step.count});
      return;
    case Verb::inject:
      return inject(step);
    case Verb::by:
      if (now() > step.time)
        judge_.fail(Oracle::liveness, now(), "this should have happened by " + to_seconds(step.time));
      return;
    case Verb::spared:
      if (books_.errors != 0)
        judge_.fail(Oracle::liveness, now(),
                    std::to_string(books_.errors) + " requests failed, and none should have");
      return;
    case Verb::shortage:
      if (step.client <= clients_.size()) network_.plan_shortage(step.client, step.number, step.count);
      return;
    case Verb::unharmed:
      if (client != nullptr && client->losses != 0)
        judge_.fail(Oracle::hostile, now(),
                    "client " + std::to_string(step.client) + " lost a path " +
                        std::to_string(client->losses) + " times");
      return;
    default:
      return;
  }
}

// Posts an immediate that no protocol state machine requested, on connection `con` of the path.
void ScriptPlayer::inject(const Step& step) {
  Node* node = step.client == 0 ? static_cast<Node*>(&server_) : cluster_.client_of(step);
  if (node == nullptr || !node->up) return;
  Step whose = step;
  whose.client = std::max(step.client, 1U);
  const LinkId link = cluster_.link_of(whose);
  for (const ConKey& key : node->fabric->live()) {
    const QpId qp = network_.find_qp(node->id, key);
    if (key.con != step.con || qp == kNone || network_.qp_info(qp).link != link) continue;
    WorkRequest work;
    work.key = key;
    work.op = WorkRequest::Op::write_imm;
    work.imm = static_cast<std::uint32_t>(step.value);
    for (std::uint32_t time = 0; time < step.count; ++time) node->sim->post(std::span(&work, 1));
    judge_.mark(Mark::tampered);
    return;
  }
}

void ScriptPlayer::leave(ClientNode& client) {
  client.leaving = true;
  client.left = 0;
  client.wanted.clear();
  client.disk_steps.clear();
  processes_.begin_close(client);
}

void ScriptPlayer::disk_step(const Step& step) {
  if (disks_ == nullptr || step.client == 0 || step.client > clients_.size()) return;
  if (step.con >= scenario_.workload.disks) return;
  const std::string name = disk_names(step.client - 1, scenario_.workload.disks)[step.con];
  BlockDisk& disk = disks_->at(name);
  switch (step.verb) {
    case Step::Verb::resize:
      return disks_->resize(name, std::clamp<std::uint32_t>(step.number, kSmallestDisk, kLargestDisk));
    case Step::Verb::forbid:
      disk.writable = step.number == 0;
      return;
    case Step::Verb::take_away:
      disk.removal_planned = true;
      return;
    case Step::Verb::fail_sync:
      disk.next_sync_fails = true;
      return;
    default:
      if (cluster_.client_of(step) != nullptr) cluster_.client_of(step)->disk_steps.push_back(step);
  }
}

}  // namespace rtrs::sim
