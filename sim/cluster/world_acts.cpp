// What scripts do to one process, and what they wait for besides the paths.
#include <algorithm>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

bool World::has_happened(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = client_of(step);
  const auto reason = std::uint64_t{1} << step.number % 64;
  switch (step.verb) {
    case Verb::errors:
      return errors_ >= step.number;
    case Verb::ended:
      return client != nullptr && step.path < kMaxPaths && (client->lost_for[step.path] & reason) != 0;
    case Verb::dropped: {
      const LinkId link = link_of(step);
      return link < server_.lost_for.size() && (server_.lost_for[link] & reason) != 0;
    }
    case Verb::reached:
      counted_marks();
      return judge_.marks()[step.number % kMarks];
    case Verb::held:
      return in_storage() >= step.number;
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

void World::act(const Step& step) {
  using Verb = Step::Verb;
  ClientNode* client = client_of(step);
  Node* node = step.client == 0 ? static_cast<Node*>(&server_) : client;
  switch (step.verb) {
    case Verb::leave:
      return client != nullptr ? leave(*client) : void();
    case Verb::rejoin:
      return client != nullptr ? rejoin(*client) : void();
    case Verb::retire:
      if (!server_.up) return;
      return begin_shutdown();
    case Verb::expel:
      for (std::uint16_t session = 0; server_.up && session < server_.session_of.size(); ++session)
        if (server_.session_of[session] == step.client - 1)
          server_.driver->close_session(*server_.fabric, now(server_), session);
      return;
    case Verb::depth:
      reconfigured_ = true;
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
      if (errors_ != 0)
        judge_.fail(Oracle::liveness, now(),
                    std::to_string(errors_) + " requests failed, and none should have");
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

void World::leave(ClientNode& client) {
  client.leaving = true;
  client.left = 0;
  client.wanted.clear();
  client.disk_steps.clear();
  begin_close(client);
}

// What an application gives back when its session has closed; nothing is left then.
void World::let_go(ClientNode& client) {
  if (client.region != kNoRegion) {
    client.driver->session().forget_region(*client.fabric, client.region);
    client.fabric->release(client.region);
    client.region = kNoRegion;
  }
  check_holdings(judge_, now(), "closed client " + std::to_string(client.id), client.fabric->holdings(),
                 Holdings{});
}

// Only after it has closed: a script waits for that.
void World::rejoin(ClientNode& client) {
  if (!client.driver->closed()) return;
  let_go(client);
  client.driver.reset();
  client.fabric.reset();
  client.keyed.reset();
  client.preflushes.reset();
  client.lies.reset();
  client.sim.reset();
  start_client(client.id - 1);
}

// An immediate that no machine asked for, on connection `con` of the path as it is now.
void World::inject(const Step& step) {
  Node* node = step.client == 0 ? static_cast<Node*>(&server_) : client_of(step);
  if (node == nullptr || !node->up) return;
  Step whose = step;
  whose.client = std::max(step.client, 1U);
  const LinkId link = link_of(whose);
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

}  // namespace rtrs::sim
