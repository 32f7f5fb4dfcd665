#include "sim/blocks/block_world.hpp"

#include <algorithm>
#include <vector>

namespace rtrs::sim {

namespace {

constexpr NodeId kServer = 0, kClient = 1;

}  // namespace

Scenario block_world_of(const BlockOptions& options) {
  ZeroChoice calm;
  Scenario s = draw_scenario(calm);
  s.directed = true;
  s.paths = BlockWorld::kPaths;
  s.interval = seconds(1);
  s.network = NetworkConfig{default_capabilities()};
  s.network.retry_budget = seconds(1);
  s.network.retry_spread = milliseconds(500);
  s.network.cm_timeout = milliseconds(500);
  const auto rate = [&s](std::string_view name, std::uint32_t per_million) {
    Step step;
    step.verb = Step::Verb::rate;
    step.number = rate_named(name).value();
    step.time = per_million;
    s.script.push_back(step);
  };
  rate("post_short", options.post_short);
  for (const char* name : {"torn_write", "late_placement", "ghost_delay"}) rate(name, 100'000);
  s.server = ServerConfig{};
  s.server.queue_depth = options.depth;
  s.server.chunk_size = 16384;
  s.server.max_hdr_size = 4096;
  s.server.heartbeat.interval = seconds(1);
  s.server.handshake_timeout = seconds(6);
  s.client = ClientConfig{};
  s.client.queue_timeout = options.queue_timeout;
  s.client.request_timeout = options.request_timeout;
  s.client.heartbeat.interval = seconds(1);
  s.client.reconnect_min = milliseconds(100);
  s.client.reconnect_max = seconds(2);
  s.client.reconnect_jitter = milliseconds(300);
  s.workload = WorkloadOptions{};
  s.workload.requests = 0;
  s.workload.disk_time = options.storage;
  s.workload.opening = options.opening;
  s.workload.max_requests = options.max_requests;
  s.workload.max_queued = options.max_queued;
  s.workload.server_actions = options.actions;
  s.workload.own_disks = true;
  s.fenced = s.can_fence();
  return s;
}

BlockWorld::BlockWorld(World& world) : w_(world) {
  for (const Step& step : w_.cluster().scenario.script) w_.script().execute(step);
}

BlockDisk& BlockWorld::add_disk(const std::string& name, std::uint64_t sectors) {
  return w_.cluster().disks->add(name, sectors, book());
}

void BlockWorld::start_server() {
  if (!w_.cluster().network.is_up(kServer)) w_.cluster().network.restart(kServer);
  w_.processes().start_server();
}

void BlockWorld::start_client() {
  w_.cluster().scenario.client.seed = w_.cluster().choice.draw(1U << 30, Label::swarm);
  w_.processes().start_client(0);
}

void BlockWorld::cut(std::uint32_t path) {
  const LinkId link = w_.cluster().network.link(kClient, path, kServer, path);
  w_.cluster().network.cut(link, Way::to_server);
  w_.cluster().network.cut(link, Way::to_client);
}

void BlockWorld::heal(std::uint32_t path) {
  const LinkId link = w_.cluster().network.link(kClient, path, kServer, path);
  w_.cluster().network.heal(link, Way::to_server, w_.cluster().choice);
  w_.cluster().network.heal(link, Way::to_client, w_.cluster().choice);
}

void BlockWorld::break_path(std::uint32_t path) {
  const LinkId link = w_.cluster().network.link(kClient, path, kServer, path);
  const Way side = draw(2) == 0 ? Way::to_server : Way::to_client;
  for (QpId id = 0; id < w_.cluster().network.qp_count(); ++id) {
    const QpInfo qp = w_.cluster().network.qp_info(id);
    if (qp.alive && qp.link == link && qp.way == side) w_.cluster().network.break_qp(id, w_.cluster().choice);
  }
}

void BlockWorld::crash_server(Death death) {
  if (!w_.cluster().server.up) return;
  w_.cluster().network.crash(kServer, draw(2) == 1, w_.cluster().choice);
  w_.processes().set_next_death(death);
  w_.processes().carry_out(WorldFault{WorldFault::Kind::crash, kServer, now()});
}

void BlockWorld::pause_server(Nanos time) {
  w_.processes().carry_out(WorldFault{WorldFault::Kind::pause, kServer, now() + time});
}

void BlockWorld::pause_client(Nanos time) {
  w_.processes().carry_out(WorldFault{WorldFault::Kind::pause, kClient, now() + time});
}

void BlockWorld::replace_server() {
  if (!w_.cluster().server.up) return;
  w_.cluster().server.driver->close(*w_.cluster().server.fabric, now());
  until("the server ends", [this] { return w_.cluster().server.driver->closed(); });
  expect(w_.cluster().disks->idle(), "a server that has ended keeps nothing");
  crash_server(Death::process);
  start_server();
}

void BlockWorld::fail_sync(const std::string& name) {
  disk(name).foreign_sync_fails = true;
  if (w_.cluster().server.up)
    w_.server_host().disks_due();
  else
    w_.cluster().disks->fail_sync(name, nullptr, now());
}

void BlockWorld::take_away(const std::string& name) {
  disk(name).removal_planned = true;
  w_.server_host().disks_due();
}

std::int64_t BlockWorld::map(const std::string& name, AccessMode mode) {
  const rnbd::MapOutcome outcome = client().map(client_fabric(), now(), name, mode);
  if (outcome.error == 0) book().mapped(outcome.device, name, mode);
  take_events();
  return outcome.error != 0 ? -std::int64_t{outcome.error} : std::int64_t{outcome.device};
}

void BlockWorld::unmap(DeviceHandle device) {
  book().unmapped(device);
  client().unmap(client_fabric(), now(), device);
  take_events();
}

void BlockWorld::remap(DeviceHandle device) {
  client().remap(client_fabric(), now(), device);
  take_events();
}

void BlockWorld::take_events() {
  w_.client_host().take_news(node(), 0);
}

std::uint32_t BlockWorld::submit(DeviceHandle device, Opcode opcode, std::uint64_t sector,
                                 std::uint32_t sectors, bool fua, bool nounmap) {
  const std::string disk = book().at(device).disk;
  until("other IO of these sectors has ended", [&] { return !overlaps(disk, sector, sectors); });
  const BlockRequest request = book().open(device, opcode, sector, sectors, fua, nounmap, now(), now());
  book().check_submit(client().submit(client_fabric(), now(), device, request));
  return static_cast<std::uint32_t>(request.user_data);
}

bool BlockWorld::until(const std::string& what, const std::function<bool()>& done,
                       const std::function<std::string()>& seen) {
  const Nanos end = now() + seconds(600);
  while (!failed() && !done()) {
    if (w_.timeline().next_time() > end || !w_.timeline().step())
      fail("not within ten virtual minutes: " + what + (seen ? "; " + seen() : ""));
  }
  return !failed();
}

void BlockWorld::pass(Nanos time) {
  w_.timeline().run_until(now() + time);
}

void BlockWorld::expect(bool holds, const std::string& what) {
  if (!holds) fail("not so: " + what);
}

void BlockWorld::fail(const std::string& seen) {
  w_.cluster().judge.fail(Oracle::devices, now(), (place_.empty() ? "" : place_ + ": ") + seen);
}

void BlockWorld::unmap_all() {
  std::vector<std::string> open;
  for (const auto& [handle, mapped] : book().mapped())
    if (state(handle) == rnbd::DeviceState::open) open.push_back(mapped.disk);
  const std::uint64_t losses_before = losses();
  for (const auto& [handle, mapped] : book().mapped()) unmap(handle);
  until("every device is unmapped", [this] { return client().mapped_count() == 0; });
  for (const std::string& name : open) until_closed(name, losses_before);
}

// The client does not repeat a CLOSE that was lost with its path. The server then closes the device when its
// session ends.
void BlockWorld::until_closed(const std::string& name, std::uint64_t losses_before) {
  until(name + " is closed", [&, this] { return disk(name).holders == 0 || losses() != losses_before; });
}

void BlockWorld::close_session() {
  w_.cluster().clients.front()->promises->leaves();
  client().close(client_fabric(), now());
  take_events();
}

void BlockWorld::finish() {
  if (failed()) return;
  for (std::uint32_t path = 0; path < kPaths; ++path) heal(path);
  if (!w_.cluster().server.up) start_server();
  until("every IO has ended", [this] { return all_completed(); });
  if (failed()) return;
  unmap_all();
  if (failed()) return;
  w_.cluster().closing = true;
  close_session();
  until("the session is closed", [this] {
    return client().closed() &&
           w_.cluster().server.driver->transport().session_count() + w_.cluster().disks->sessions() == 0;
  });
  w_.cluster().check_closed_disks();
}

}  // namespace rtrs::sim
