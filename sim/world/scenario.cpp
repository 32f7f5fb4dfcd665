#include "sim/world/scenario.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/tcp/tcp_fabric.hpp"
#include "core/wire/messages.hpp"
#include "sim/world/endpoints.hpp"
#include "sim/world/lies.hpp"
#include "sim/world/wide.hpp"

namespace rtrs::sim {
namespace {

constexpr std::uint32_t kHeaderBytes = 4096;

// Draws each option in a separate group, so that a choice log stays valid when an option is changed.
template <class T, std::size_t N>
T one_of(ChoiceSource& choice, const std::array<T, N>& values) {
  const ScopedGroup group(choice, Label::option);
  return values[choice.draw(static_cast<std::uint32_t>(N), Label::swarm)];
}
std::uint32_t number(ChoiceSource& choice, std::uint32_t below) {
  const ScopedGroup group(choice, Label::option);
  return choice.draw(below, Label::swarm);
}
bool chance(ChoiceSource& choice, std::uint32_t percent) {
  const ScopedGroup group(choice, Label::option);
  return choice.hits(percent, 100, Label::swarm);
}
// Sets the option to `value` in `percent` of the runs.
template <class Value, class T>
void sometimes(ChoiceSource& choice, std::uint32_t percent, T& option, Value value) {
  const ScopedGroup group(choice, Label::option);
  if (chance(choice, percent)) option = value();
}

void draw_network(ChoiceSource& choice, Scenario& s) {
  NetworkConfig& net = s.network;
  net.capabilities = chance(choice, 25) ? weak_capabilities() : default_capabilities();
  if (s.over_tcp) net.capabilities = tcp::tcp_capabilities();
  if (s.over_adapters) net.capabilities = default_capabilities();
  const Nanos i = s.interval;
  net.retry_budget = i * (1 + number(choice, 4));
  net.retry_spread = net.retry_budget / 2;
  net.retransmit = i / 50;
  net.torn_hold = i / 100;
  net.ghost_hold = i * (1 + number(choice, 4));
  net.slow_drain_hold = i / 2;
  net.cm_late_hold = 2 * i;
  net.cm_timeout = i / 2;
  net.info_cut_hold = i;
}

void draw_protocol(ChoiceSource& choice, Scenario& s) {
  const Capabilities& can = s.network.capabilities;
  const Nanos i = s.interval;
  ServerConfig& server = s.server;
  ClientConfig& client = s.client;
  server.queue_depth = one_of(choice, std::array<std::uint16_t, 8>{8, 1, 2, 3, 5, 16, 64, 4});
  server.chunk_size = one_of(choice, std::array<std::uint32_t, 3>{8192, 16384, 8192});
  server.max_hdr_size = kHeaderBytes;
  server.max_sessions = 16;
  server.max_half_open = 4;
  server.send_depth = one_of(choice, std::array<std::uint16_t, 4>{128, 8, 9, 16});
  server.always_invalidate = can.invalidation && chance(choice, 30);
  server.imm_consumes_receive = can.imm_consumes_receive;
  server.send_invalidate = can.send_invalidate;
  server.handshake_timeout = 6 * i;
  server.heartbeat.interval = i;
  server.heartbeat.missed_max = one_of(choice, std::array<std::uint32_t, 4>{5, 3, 2, 5});
  client.seed = number(choice, 1U << 30);
  client.con_num = static_cast<std::uint16_t>(2 + number(choice, 4));
  client.max_depth = chance(choice, 10) ? 2 : 512;
  client.send_depth = one_of(choice, std::array<std::uint16_t, 4>{128, 8, 9, 16});
  client.imm_consumes_receive = can.imm_consumes_receive;
  client.offer_invalidation = can.per_io_keys && can.send_invalidate && chance(choice, 30);
  client.policy = static_cast<MultipathPolicy>(number(choice, 3));
  client.connect_timeout = 6 * i;
  client.info_timeout = 2 * i;
  client.fence_timeout = 12 * i;
  client.queue_timeout = kNever;
  sometimes(choice, 15, client.queue_timeout, [&] { return i * number(choice, 20); });
  client.close_timeout = 60 * i;
  client.reconnect_min = i / 10;
  client.reconnect_max = 2 * i;
  client.reconnect_jitter = i / 3;
  client.busy_retry = i / 20;
  client.lead_head_start = i / 2;
  client.heartbeat = server.heartbeat;
  // The two ends may have different heartbeat limits.
  sometimes(choice, 20, client.heartbeat.missed_max, [&] {
    return one_of(choice, std::array<std::uint32_t, 3>{5, 3, 2});
  });
  sometimes(choice, 20, client.extensions, [&] { return static_cast<wire::Extensions>(number(choice, 4)); });
  sometimes(choice, 20, server.extensions, [&] { return static_cast<wire::Extensions>(number(choice, 4)); });
  if (chance(choice, 50)) client.kernel_peer = UnfencedReplay::wait;
  if (chance(choice, 5)) client.fence_failed = UnfencedReplay::replay;
}

void draw_load(ChoiceSource& choice, Scenario& s) {
  const Nanos i = s.interval;
  const std::uint32_t depth = std::min<std::uint32_t>(s.server.queue_depth, s.client.max_depth);
  WorkloadOptions& load = s.workload;
  load.requests = 10 + number(choice, 60);
  load.window = 1 + number(choice, depth + depth / 2 + 1);
  load.gap = one_of(choice, std::array<Nanos, 4>{i / 2, i / 10, microseconds(50), i * 2});
  load.burst_rate = one_of(choice, std::array<std::uint32_t, 3>{0, 100'000, 500'000});
  load.service_rate = chance(choice, 20) ? 100'000 : 0;
  load.write_percent = one_of(choice, std::array<std::uint32_t, 4>{50, 90, 20, 60});
  load.own_region = chance(choice, 40);
  StorageOptions& storage = s.storage;
  storage.sectors = one_of(choice, std::array<std::uint32_t, 3>{24, 8, 64});
  storage.latency = one_of(choice, std::array<Nanos, 3>{microseconds(50), milliseconds(1), i / 20});
  const Nanos dead = (s.server.heartbeat.missed_max + 2) * i;
  {
    const ScopedGroup group(choice, Label::option);
    storage.slow_rate = one_of(choice, std::array<std::uint32_t, 4>{0, 0, 100'000, 400'000});
    if (storage.slow_rate != 0)
      storage.slow_latency = one_of(choice, std::array<Nanos, 3>{i, dead / 2, dead + dead / 2});
  }
  storage.error_rate = one_of(choice, std::array<std::uint32_t, 3>{0, 0, 100'000});
}

// Draws how hung connections are detected. By default both ends support the probe extension. Otherwise, if
// completions prove delivery, both ends probe deliveries, or one end behaves as a kernel peer and probes
// nothing. Connections may hang permanently only if every hang is detected.
void draw_probe(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::hang);
  for (wire::Extensions* extensions : {&s.client.extensions, &s.server.extensions})
    if (choice.hits(15, 100, Label::hang)) *extensions ^= wire::Extensions::probe;
  s.client.probe_deliveries = s.server.probe_deliveries = s.network.capabilities.done_means_delivered;
  if (!s.can_probe() && choice.hits(40, 100, Label::hang))
    (choice.hits(50, 100, Label::hang) ? s.client.probe_deliveries : s.server.probe_deliveries) = false;
  if (s.can_probe() || (s.client.probe_deliveries && s.server.probe_deliveries)) draw_hangs(choice, s.faults);
}

// Draws options without tolerance (label `cruel`). Most worlds have none, which leaves time for long
// sequences of events.
void draw_extreme_options(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::cruel);
  if (!choice.hits(30, 100, Label::cruel)) return;
  const auto happens = [&choice](std::uint32_t percent) {
    const ScopedGroup option(choice, Label::option);
    return choice.hits(percent, 100, Label::cruel);
  };
  const Nanos i = s.interval;
  const Nanos dead = (s.server.heartbeat.missed_max + 2) * i;
  if (happens(50)) s.client.queue_timeout = i / 4 * (1 + choice.draw(8, Label::cruel));
  if (happens(30)) s.client.request_timeout = i / 2 * (1 + choice.draw(8, Label::cruel));
  // Slow storage is drawn only if the client waits for a proof when a fence fails; otherwise it would reuse
  // the chunk of a request that it gave up while slow storage still uses the chunk.
  if (happens(40) && s.client.fence_failed == UnfencedReplay::wait) {
    s.storage.slow_rate = 300'000;
    s.storage.slow_latency = dead * (1 + choice.draw(3, Label::cruel));
  }
  if (happens(60)) draw_blackouts(choice, s.faults);
  const bool hangs_are_found = s.can_probe() || (s.client.probe_deliveries && s.server.probe_deliveries);
  if (happens(40) && hangs_are_found)
    s.faults.weight[static_cast<unsigned>(FaultClass::hang)] = 50 + choice.draw(100, Label::cruel);
  if (happens(40)) {
    // Draws small batches and long pauses: after a pause, more events are pending than one poll reports, and
    // all deadlines have passed.
    s.poll_batch = 1 + choice.draw(4, Label::cruel);
    s.faults.pause_factor = 10;
  }
  s.submits_always = happens(50);
  s.server_changes = happens(30);
  // The disk rules need the results of fences.
  s.removes_for_good = happens(25) && (s.workload.disks == 0 || s.can_fence());
  if (!s.removes_for_good) return;
  if (s.admin_gap == kNever) s.admin_gap = 2 * i;
  s.removes_all = false;
  // Without a fence, nothing proves that the server has stopped executing the requests of a removed path.
  if (!s.can_fence()) s.fenced = false;
}

// A third of the worlds uses a block device; in half of these a large request takes four messages. Derived
// from the client seed instead of a draw, see draw_rare_options().
void draw_block_device(Scenario& s) {
  if (s.client.seed / 64 % 3 != 1) return;
  s.workload.block_device = true;
  s.storage.sectors *= kSectorsPerBlock;
  if (s.client.seed / 192 % 2 == 0)
    s.server.max_hdr_size = s.server.chunk_size - 2 * wire::rnbd::kSectorBytes;
}

// Half of the worlds with a block device use several devices with volatile caches instead, if a fence
// resolves all requests. Without an extension, a server cannot report that its cache was lost.
void draw_disks(ChoiceSource& choice, Scenario& s) {
  const bool reports_instance =
      has(s.client.extensions & s.server.extensions, wire::Extensions::fence | wire::Extensions::generation);
  if (!s.workload.block_device || s.client.seed / 384 % 2 != 0 || !s.fenced || s.same_identity) return;
  if (!reports_instance) return;
  remove_block_device(s);
  const ScopedGroup group(choice, Label::disk);
  WorkloadOptions& load = s.workload;
  load.disks = 1 + choice.draw(3, Label::disk);
  load.requests *= 1 + choice.draw(3, Label::disk);
  const std::array<Nanos, 4> times{microseconds(50), milliseconds(1), s.interval / 20, s.interval / 2};
  load.disk_time = times[choice.draw(times.size(), Label::disk)];
  if (choice.hits(30, 100, Label::disk)) load.opening = draw_time(choice, 2 * s.interval, Label::disk);
  // Derived from the client seed instead of a draw, so that the draws of all other worlds stay the same.
  const std::uint64_t number = s.client.seed / 100'003;
  load.one_export = number % 3 == 1;
  // Simulates a journal, which writes and flushes continuously.
  load.preflushes = number % 3 == 2;
  load.replaces = number % 3 == 0;
  if (!load.one_export) {
    load.requests *= load.preflushes ? 4 : 2;
    load.gap = std::min(load.gap, s.interval / 20);
  }
  if (!load.preflushes && load.opening == 0) load.opening = s.interval / (load.one_export ? 1 : 4);
  if (load.one_export && number / 3 % 2 == 1)
    load.server_actions = static_cast<std::uint32_t>(1 + number / 6 % 3);
}

// In half of the worlds with fault class `crowd`, sets session limits that these clients reach. Derived from
// the client seed instead of a draw.
void draw_session_limits(Scenario& s) {
  const std::uint64_t number = s.client.seed / 768;
  if (s.faults.weight[static_cast<unsigned>(FaultClass::crowd)] == 0 || number % 2 != 0) return;
  static constexpr std::array<std::uint16_t, 4> kHalfOpen{4, 1, 2, 16};
  s.server.max_half_open = kHalfOpen[number / 2 % 4];
  if (number / 8 % 2 == 0)
    s.server.max_sessions = static_cast<std::uint16_t>(s.clients + 2 + number / 16 % 3);
  if (number / 48 % 2 == 0) s.server.max_host_sessions = static_cast<std::uint16_t>(2 + number / 96 % 3);
}

// Draws more than two clients, an operator who also removes a session's last path, and paths that wait
// without limit while another path tries to create the session.
void draw_extra_clients(Scenario& s) {
  const std::uint64_t number = s.client.seed / 1536;
  if (s.clients == 2 && number % 3 == 1) s.clients = 3 + number / 3 % 2;
  s.removes_all = s.admin_gap != kNever && number / 6 % 2 == 1;
  if (number / 12 % 4 == 1) s.client.lead_head_start = kNever;
}

bool rarely(ChoiceSource& choice, std::uint32_t percent) {
  const ScopedGroup group(choice, Label::option);
  return choice.hits(percent, 100, Label::rare_swarm);
}

// Draws options that most runs do not have. Called last, so that earlier draws of a seed stay the same.
void draw_rare_options(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::rare_swarm);
  const Nanos i = s.interval;
  draw_rare_faults(choice, s.faults);
  if (rarely(choice, 20)) s.network.rnr_budget = i / 10 * (1 + choice.draw(40, Label::rare_swarm));
  static constexpr std::array<ClockRate, 6> kClocks{{{1, 1}, {1, 1}, {1, 2}, {2, 1}, {4, 5}, {9, 8}}};
  if (rarely(choice, 20)) {
    s.client_clock = kClocks[choice.draw(kClocks.size(), Label::clock_rate)];
    s.server_clock = kClocks[choice.draw(kClocks.size(), Label::clock_rate)];
  }
  s.same_identity = rarely(choice, 10);
  if (rarely(choice, 15)) s.network.channel_spread = i / 40 * (1 + choice.draw(20, Label::rare_swarm));
  // Lets the server leave the rkeys of READs valid for clients that agree, as urtrsd does over soft-RoCE.
  // Half of the clients agree; the others require invalidation, as old kernels do. Derived from the client
  // seed instead of a draw, which would change all later draws.
  const bool leaves = s.client.offer_invalidation && s.client.seed % 4 == 0;
  const bool agrees = s.client.seed % 8 == 0;
  if (leaves) s.server.extensions |= wire::Extensions::keys_stay;
  if (!leaves || !agrees) s.client.extensions &= ~wire::Extensions::keys_stay;
  if (leaves && agrees) s.client.extensions |= wire::Extensions::keys_stay;
  // Each end toggles the extension for data in responses in a quarter of the seeds.
  if (s.client.seed / 64 % 4 == 1) s.client.extensions ^= wire::Extensions::data_with_answer;
  if (s.client.seed / 256 % 4 == 1) s.server.extensions ^= wire::Extensions::data_with_answer;
  if (s.client.seed % 16 == 7) s.client.request_timeout = i * (2 + s.client.seed / 16 % 38);
}

// A client with a dead link needs another path to take over its requests. Without a fence, a client that
// waits for a proof from the dead path would wait forever.
void draw_dead_links(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  if (!choice.hits(20, 100, Label::dead_link)) return;
  if (s.client.lead_head_start == kNever) return;
  if (s.paths < 2 || !(s.can_fence() || s.client.kernel_peer == UnfencedReplay::replay)) return;
  static constexpr std::array<std::uint32_t, 4> kWays{3, 3, 1, 2};
  for (std::uint32_t client = 0; client < s.clients; ++client)
    s.dead_links.paths[client] = 1 + choice.draw((1U << s.paths) - 2, Label::dead_link);
  s.dead_links.ways = kWays[choice.draw(kWays.size(), Label::dead_link)];
  s.dead_links.from_start = choice.hits(40, 100, Label::dead_link);
  s.dead_links.others_late = !s.dead_links.from_start && choice.hits(50, 100, Label::dead_link);
  // At no time do all links work, so the faults must not wait until all paths are connected.
  s.faults_from_start = s.faults_from_start || s.dead_links.others_late;
}

// Draws whether a path of each client leads to a wrong server, which no oracle watches: hangs are excluded,
// and a fence must resolve the requests of that path. Derived from the client seed.
void draw_other_server(Scenario& s) {
  const bool hangs = s.faults.weight[static_cast<unsigned>(FaultClass::hang)] != 0;
  if (hangs || !s.can_fence() || s.same_identity || s.removes_for_good || s.dead_links.any() ||
      s.paths == kMaxPaths)
    return;
  s.other_server = s.client.seed / 73'728 % 5 == 1;
}

// Draws when processes close, except in worlds that could not judge what a closed process leaves behind.
void draw_closings(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  if (!choice.hits(15, 100, Label::closing) || s.same_identity || s.other_server) return;
  s.close_gap = s.safety / (1 + choice.draw(4, Label::closing));
  const std::array<Nanos, 4> times{s.client.close_timeout, 2 * s.interval, s.interval / 2, 0};
  s.client.close_timeout = times[choice.draw(times.size(), Label::closing)];
}

void draw_recoveries(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  if (choice.hits(20, 100, Label::recover)) s.recover_gap = s.interval * (1 + choice.draw(6, Label::recover));
}

// Draws whether a restarted server may have a different file or disk under an export name.
void draw_other_disks(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  s.disks_change = choice.hits(60, 100, Label::closing) && s.workload.disks != 0;
  // Disks change only while the server restarts, so the server must restart sometimes.
  if (s.disks_change && s.close_gap == kNever && !s.other_server) s.close_gap = s.safety / 4;
}

void draw_late_disks(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  s.disks_late = choice.hits(50, 100, Label::late_disk) && s.workload.disks != 0;
}

// Draws host names with several addresses.
void draw_names(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  if (!choice.hits(12, 100, Label::host_name)) return;
  if (s.over_adapters || s.other_server || s.dead_links.any()) return;
  s.names.before = choice.draw(3, Label::host_name);
  s.names.after = choice.draw(2, Label::host_name);
  s.names.dies = choice.draw(2, Label::host_name) == 1;
}

// Draws shared keys, which need a single server, and new uuids for each client process. Derived from the
// client seed instead of a draw.
void draw_keys(Scenario& s) {
  s.keys = !s.over_tcp && !s.other_server && !s.same_identity && s.client.seed / 1'299'709 % 4 == 1;
}

}  // namespace

Scenario draw_scenario(ChoiceSource& choice, bool over_tcp, bool over_adapters) {
  ScopedGroup group(choice, Label::swarm);
  Scenario s;
  s.over_tcp = over_tcp;
  s.over_adapters = over_adapters;
  s.paths = 1 + number(choice, 4);
  s.clients = chance(choice, 25) ? 2 : 1;
  s.interval =
      one_of(choice, std::array<Nanos, 4>{seconds(1), milliseconds(100), seconds(5), milliseconds(20)});
  const Wide wide = draw_wide(choice);
  prepare(s, wide);
  draw_network(choice, s);
  draw_protocol(choice, s);
  draw_load(choice, s);
  s.faults = draw_fault_options(choice, s.interval);
  s.safety = s.interval * (10 + number(choice, 30));
  s.faults_from_start = chance(choice, 40);
  sometimes(choice, 25, s.admin_gap, [&] { return s.interval * (1 + number(choice, 6)); });
  s.fenced = s.client.fence_failed == UnfencedReplay::wait &&
             (s.can_fence() || s.client.kernel_peer == UnfencedReplay::wait);
  draw_rare_options(choice, s);
  draw_extra_clients(s);
  draw_dead_links(choice, s);
  draw_crowd(choice, s.faults);
  draw_session_limits(s);
  draw_probe(choice, s);
  draw_block_device(s);
  draw_disks(choice, s);
  draw_extreme_options(choice, s);
  draw_other_server(s);
  draw_closings(choice, s);
  draw_other_disks(choice, s);
  draw_recoveries(choice, s);
  draw_keys(s);
  draw_late_disks(choice, s);
  draw_names(choice, s);
  draw_late_faults(choice, s.faults);
  draw_liar(choice, s);
  widen(s, wide);
  return s;
}

void remove_block_device(Scenario& s) {
  s.workload.disks = 0;
  if (!std::exchange(s.workload.block_device, false)) return;
  s.storage.sectors /= kSectorsPerBlock;
  s.server.max_hdr_size = kHeaderBytes;
}

void disable_fence(Scenario& s) {
  s.client.extensions &= ~wire::Extensions::fence;
  s.server.extensions &= ~wire::Extensions::fence;
  s.client.kernel_peer = UnfencedReplay::replay;
  s.fenced = s.fence_off = true;
}

}  // namespace rtrs::sim
