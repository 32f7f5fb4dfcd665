// Clients and servers that are closed while anything may be broken, and come back.
#include <algorithm>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

void World::begin_close(ClientNode& client) {
  client.promises->leaves();
  const bool has_devices = scenario_.workload.block_device || disks_ != nullptr;
  const Nanos wait = scenario_.client.close_timeout + (has_devices ? BlockClient::kUnmapGrace : 0);
  client.closing.emplace(judge_, "client " + std::to_string(client.id), now(client), wait,
                         client.clock.local_time(drain_bound(scenario_)));
  client.driver->close(*client.fabric, now(client));
}

// It waits for nothing but its storage. An export that is being opened is closed when it is open.
void World::begin_shutdown() {
  const WorkloadOptions& load = scenario_.workload;
  const Nanos storage = scenario_.storage.longest() + 12 * load.disk_time + 4 * load.opening;
  server_.retired = true;
  server_.closing.emplace(judge_, "the server", now(server_), 0,
                          server_.clock.local_time(storage + drain_bound(scenario_)));
  server_.driver->close(*server_.fabric, now(server_));
}

// Whoever has closed comes back, unless a script or the end of the run closed it.
void World::closings_due() {
  if (next_closing_ <= now()) close_somebody();
  if (server_.closing && server_.driver->closed()) {
    server_.closing.reset();
    if (std::exchange(server_.comes_back, false)) restart_now(server_.id);
  } else if (server_.closing && server_.paused_until <= now()) {
    server_.closing->check(server_.fabric->connections().all_ended(), now(server_));
  }
  for (const auto& client : clients_) {
    if (!client->closing) continue;
    if (client->driver->closed() && client->under_way == 0) {
      client->closing.reset();
      if (!std::exchange(client->comes_back, false)) continue;
      if (client->disks) client->disks->dies();
      rejoin(*client);
    } else if (client->paused_until <= now()) {
      client->closing->check(client->fabric->connections().all_ended(), now(*client));
    }
  }
}

void World::close_somebody() {
  next_closing_ = now() + draw_exponential(choice_, microseconds(1), scenario_.close_gap, Label::closing);
  if (choice_.skips(Label::closing)) return;
  const ScopedGroup group(choice_, Label::closing);
  if (choice_.draw(4, Label::closing) == 3) {
    if (!server_.up || server_.retired || server_.paused_until > now()) return;
    note(Journal::Kind::closing, server_.id);
    if (server_.driver->transport().session_count() != 0) judge_.mark(Mark::shut_down);
    server_.comes_back = true;
    return begin_shutdown();
  }
  const auto which = choice_.draw(static_cast<std::uint32_t>(clients_.size()), Label::closing);
  ClientNode& client = *clients_[which];
  if (!client.up || client.leaving || client.paused_until > now()) return;
  note(Journal::Kind::closing, client.id);
  if (client.under_way != 0)
    judge_.mark(client.driver->session().link_up() ? Mark::left_busy : Mark::left_dead);
  client.leaving = client.comes_back = true;
  client.wanted.clear();
  begin_close(client);
}

// Those that were closed at random; while faults go on, so that nothing that is dead holds them up.
bool World::finish_closings() {
  next_closing_ = kNever;
  const auto over = [this] {
    return !server_.comes_back && std::none_of(clients_.begin(), clients_.end(),
                                               [](const auto& client) { return client->comes_back; });
  };
  if (!run_while(kNever, over)) stalled("who was told to close does not close");
  return !judge_.failed();
}

}  // namespace rtrs::sim
