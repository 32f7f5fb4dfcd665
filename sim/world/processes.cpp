#include "sim/world/processes.hpp"

#include <algorithm>
#include <array>

#include "sim/world/lies.hpp"

namespace rtrs::sim {

void Processes::carry_out(const WorldFault& fault) {
  if (fault.kind == WorldFault::Kind::crowd) return crowd_.begin(fault.until);
  if (fault.kind == WorldFault::Kind::lie) return lie();
  Node& node = cluster_.node(fault.node);
  if (fault.kind == WorldFault::Kind::oversleep) return oversleep(node);
  if (fault.kind == WorldFault::Kind::pause) return pause(node, fault.until);
  if (fault.kind == WorldFault::Kind::restart) return restart(fault.node);
  crash(node);
}

void Processes::pause(Node& node, Nanos until) {
  node.paused_until = std::max(node.paused_until, until);
  node.hearts->resumed(node.paused_until);
  if (node.closing) node.closing->paused(node.clock.local_time(node.paused_until));
  const auto& heart = node.id == 0 ? scenario_.server.heartbeat : scenario_.client.heartbeat;
  const bool dead = until - now() > (heart.missed_max + 2) * heart.interval;
  judge_.mark(dead ? Mark::paused_dead_time : Mark::short_pause);
  note(Journal::Kind::paused, node.id, until);
}

// Pauses the node until just after its next timer, or for one of its time limits. The node then handles the
// messages that arrived in time in the same poll as the expired limit.
void Processes::oversleep(Node& node) {
  const bool is_server = node.id == server_.id;
  const ClientConfig& client = scenario_.client;
  const std::array<Nanos, 6> of_server{dead_peer_time(scenario_.server.heartbeat),
                                       scenario_.server.handshake_timeout,
                                       scenario_.server.heartbeat.interval};
  const std::array<Nanos, 6> of_client{
      dead_peer_time(client.heartbeat), client.connect_timeout, client.info_timeout, client.reconnect_max,
      client.request_timeout,           client.queue_timeout};
  const Nanos timer =
      is_server ? server_.driver->transport().next_timer() : clients_[node.id - 1]->driver->next_timer();
  Nanos limit = timer == kNever ? scenario_.interval : std::max<Nanos>(timer - now(node), 0);
  const std::uint32_t which = choice_.draw(2 * (is_server ? 3 : 6), Label::late_fault);
  const std::array<Nanos, 6>& limits = is_server ? of_server : of_client;
  if (which < limits.size() && limits[which] != kNever && limits[which] != 0) limit = limits[which];
  const Nanos late = choice_.draw(2, Label::late_fault) * scenario_.interval / 50;
  pause(node, now() + std::min(node.clock.true_time(limit), 20 * scenario_.interval) + late);
}

void Processes::lie() {
  if (scenario_.liar == kNone) return;
  const Node& liar = cluster_.node(scenario_.liar);
  for (unsigned count = 0; liar.lies && count < 2; ++count)
    liar.lies->plan(draw_lie(choice_, liar.id == server_.id, scenario_.paths, scenario_.client.con_num));
}

void Processes::replace_liar() {
  restart_now(scenario_.liar);
  for (const auto& client : clients_)
    if (scenario_.liar == server_.id) restart_now(client->id);
}

void Processes::restart(NodeId node) {
  note(Journal::Kind::restarted, node);
  judge_.mark(node == 0 ? Mark::server_restart : Mark::client_restart);
  if (node != 0 && scenario_.same_identity) {
    judge_.mark(Mark::same_identity);
    // The server treats both runs of the client as one session: requests of the old run share the chunks, and
    // storage may read them while the new run writes.
    scenario_.fenced = false;
    judge_.excuse(Oracle::data_integrity);
    judge_.excuse(Oracle::history);
  }
  if (node != 0) return start_client(node - 1);
  if (scenario_.server_changes) draw_limits();
  if (disks_ != nullptr) change_disks();
  if (disks_ != nullptr) delay_disks();
  start_server();
}

void Processes::crash(Node& node) {
  note(Journal::Kind::crashed, node.id);
  node.up = node.comes_back = false;
  node.closing.reset();
  if (disks_ != nullptr) crash_disks(node.id);
  if (node.id == 0) {
    if (cluster_.in_storage() != 0) judge_.mark(Mark::work_lost);
    server_.driver.reset();
    server_.answers.clear();
    cluster_.storage.crash();
    books_.slots.clear();
    for (std::uint32_t client = 0; client < clients_.size(); ++client) {
      books_.book.close_windows(client);
      if (cluster_.history) cluster_.history->session_ended(client + 1);
    }
  } else {
    ClientNode& client = *clients_[node.id - 1];
    if (client.under_way != 0) judge_.mark(Mark::client_died_busy);
    client.driver.reset();
    if (cluster_.history) cluster_.history->crashed(node.id);
    const Tick tick = books_.book.tick();
    for (std::size_t io = 1; io <= books_.book.count(); ++io) {
      if (books_.book[io].client != node.id - 1 || books_.book[io].answered != kOpenEnd) continue;
      books_.book[io].answered = tick;
      books_.once.abandoned(static_cast<std::uint32_t>(io));
    }
    std::erase_if(books_.open_ios, [&](std::uint32_t io) { return books_.book[io].client == node.id - 1; });
    client.under_way = client.reads_in_flight = 0;
  }
  node.free_fabrics();
}

void Processes::restart_now(NodeId node) {
  network_.crash(node, true, choice_);
  carry_out(WorldFault{WorldFault::Kind::crash, node, now()});
  network_.restart(node);
  carry_out(WorldFault{WorldFault::Kind::restart, node, now()});
}

void Processes::restart_all() {
  for (NodeId node = 0; node <= clients_.size(); ++node)
    for (std::uint32_t path = 0; path < kMaxPaths; ++path) network_.plug(node, path, choice_);
  for (QpId id = 0; id < network_.qp_count(); ++id) network_.swallow(id, false, choice_);
  for (NodeId node = 0; node <= clients_.size(); ++node) {
    if (network_.is_up(node)) continue;
    network_.restart(node);
    carry_out(WorldFault{WorldFault::Kind::restart, node, now()});
  }
}

void Processes::draw_limits() {
  ServerConfig& server = scenario_.server;
  server.queue_depth = default_server_config_.queue_depth;
  server.chunk_size = default_server_config_.chunk_size;
  server.max_hdr_size = default_server_config_.max_hdr_size;
  if (!scenario_.server_changes || cluster_.healed || choice_.draw(2, Label::cruel) == 0) return;
  cluster_.reconfigured = true;
  static constexpr std::array<std::uint16_t, 6> kDepths{8, 1, 2, 3, 5, 16};
  switch (choice_.draw(3, Label::cruel)) {
    case 0:
      server.queue_depth = kDepths[choice_.draw(kDepths.size(), Label::cruel)];
      return;
    case 1:
      server.chunk_size *= 2;
      return;
    default:
      server.max_hdr_size /= 2;
  }
}

void Processes::restore_limits() {
  if (!cluster_.reconfigured || scenario_.directed) return;
  if (scenario_.server != default_server_config_) restart_now(server_.id);
  for (const auto& client : clients_) {
    const Client& session = client->driver->session();
    // The session depth equals the server's queue depth only if the client's own maximum is higher.
    const bool shows_server_depth = session.depth() < scenario_.client.max_depth;
    const bool has_default_limits =
        shows_server_depth && session.depth() == default_server_config_.queue_depth &&
        session.max_io_size() == default_server_config_.chunk_size - default_server_config_.max_hdr_size;
    // Also restarts a client without a session, because a response with the old limits may be in flight to
    // this client.
    if (!has_default_limits) restart_now(client->id);
  }
}

// Called while the server restarts, before it opens any disk.
void Processes::change_disks() {
  if (!scenario_.disks_change || cluster_.healed) return;
  for (const auto& [name, disk] : disks_->all()) {
    switch (choice_.draw(4, Label::closing)) {
      case 1:
        judge_.mark(Mark::disk_exchanged);
        disks_->exchange(name);
        break;
      case 2:
        disks_->resize(name, kSectorsOfADisk / 2 + choice_.draw(kSectorsOfADisk, Label::closing));
        break;
      case 3:
        judge_.mark(Mark::disk_reshaped);
        disks_->reshape(disks_->at(name));
        break;
      default:
        break;
    }
  }
}

// Simulates a reboot, after which file systems and hardware become available one after the other.
void Processes::delay_disks() {
  if (!scenario_.disks_late || cluster_.healed) return;
  for (const auto& [name, disk] : disks_->all()) {
    if (choice_.draw(2, Label::late_disk) == 0) continue;
    judge_.mark(Mark::disk_late);
    const Nanos time = scenario_.interval * (1 + choice_.draw(12, Label::late_disk));
    disks_->refuse_opens(name, Disks::draw_open_errno(choice_), now() + time);
  }
}

void Processes::crash_disks(NodeId node) {
  if (node != 0) return clients_[node - 1]->disks->dies();
  const bool host = next_death_ ? *next_death_ == Death::host : choice_.draw(2, Label::disk) != 0;
  next_death_.reset();
  disks_->crash(host ? Death::host : Death::process, now());
}

void Processes::begin_close(ClientNode& client) {
  client.promises->leaves();
  const bool has_devices = scenario_.workload.block_device || disks_ != nullptr;
  const Nanos wait = scenario_.client.close_timeout + (has_devices ? BlockClient::kUnmapGrace : 0);
  client.closing.emplace(judge_, "client " + std::to_string(client.id), now(client), wait,
                         client.clock.local_time(drain_bound(scenario_)));
  client.driver->close(*client.fabric, now(client));
}

// A server that closes waits only for its storage. An export that is still being opened is closed when it is
// open, which takes up to two more times `opening`.
void Processes::begin_shutdown() {
  const WorkloadOptions& load = scenario_.workload;
  const Nanos storage = scenario_.storage.longest() + 16 * load.disk_time + 4 * load.opening;
  server_.retired = true;
  server_.closing.emplace(judge_, "the server", now(server_), 0,
                          server_.clock.local_time(storage + drain_bound(scenario_)));
  server_.driver->close(*server_.fabric, now(server_));
}

void Processes::release_client(ClientNode& client) {
  if (client.region != kNoRegion) {
    client.driver->session().forget_region(*client.fabric, client.region);
    client.fabric->release(client.region);
    client.region = kNoRegion;
  }
  check_holdings(judge_, now(), "closed client " + std::to_string(client.id), client.fabric->holdings(),
                 Holdings{});
}

void Processes::rejoin(ClientNode& client) {
  if (!client.driver->closed()) return;
  release_client(client);
  client.driver.reset();
  client.free_fabrics();
  start_client(client.id - 1);
}

void Processes::end_all() {
  if (!scenario_.over_adapters) return;
  const auto end = [](Node& node) {
    node.up = false;
    node.free_fabrics();
  };
  server_.driver.reset();
  end(server_);
  for (const auto& client : clients_) {
    client->driver.reset();
    end(*client);
  }
  cluster_.check_laws();
}

}  // namespace rtrs::sim
