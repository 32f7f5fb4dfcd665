#include "sim/world/scenario_fields.hpp"

namespace rtrs::sim {

const char* problem_of(const Scenario& s) {
  if (s.paths < 1 || s.paths > kMaxPaths) return "\"paths\" of the scenario is out of range";
  if (s.clients < 1 || s.clients > 2) return "\"clients\" of the scenario must be 1 or 2";
  for (const std::uint32_t dead : s.dead_links.paths)
    if (s.paths < 32 && dead >= (1U << s.paths) - 1)
      return "at least one path of each client in the scenario must not be dead";
  if (s.dead_links.ways < 1 || s.dead_links.ways > 3)
    return "\"dead_ways\" of the scenario must be 1, 2 or 3";
  if (s.liar != kNone && s.liar > s.clients)
    return "\"liar\" of the scenario must be 0 for the server, or a client";
  for (const ClockRate& clock : {s.client_clock, s.server_clock})
    if (clock.num < 1 || clock.den < 1 || clock.num > 4 * clock.den || clock.den > 4 * clock.num)
      return "the speed of a clock of the scenario must be from a quarter to four times real time";
  if (s.client.con_num < 2 || s.client.con_num > kMaxCons)
    return "\"con_num\" of the scenario is out of range";
  if (s.client.max_depth < 1 || s.client.max_depth > kMaxPermits || s.server.queue_depth < 1 ||
      s.server.queue_depth > kMaxPermits)
    return "a depth of the scenario is out of range";
  if (s.server.max_sessions < 1) return "\"max_sessions\" of the scenario must be 1 or more";
  if (s.client.send_depth < 8 || s.server.send_depth < 8)
    return "\"send_depth\" of the scenario must be 8 or more";
  if (s.server.chunk_size < 8192 || (s.server.chunk_size & (s.server.chunk_size - 1)) != 0)
    return "\"chunk_size\" of the scenario must be a power of two of 8192 or more";
  if (s.storage.sectors < 8 || s.storage.sectors > 1'000'000)
    return "\"sectors\" of the scenario is out of range";
  if (s.workload.own_disks != s.play.adds_disks)
    return "\"own_disks\" of the scenario must be true in scenarios of block devices, and only there";
  const bool has_load = s.workload.requests != 0 || s.workload.disks != 0 || s.workload.block_device;
  if (s.play.adds_disks && (s.clients != 1 || s.paths != 2 || s.other_server || has_load))
    return "a scenario of block devices must have one client, two paths to one server, and no load besides "
           "its steps";
  if (s.workload.disks > 8) return "a client of the scenario must have at most 8 \"disks\"";
  if (s.workload.max_queued < 256 || s.workload.max_queued > 65536 || s.workload.max_requests < 1 ||
      s.workload.server_actions < 1)
    return "\"max_queued\" of the scenario must be 256 to 65536, \"max_requests\" and \"server_actions\" 1 "
           "or more";
  if (s.workload.window < 1 || s.workload.window > 10'000)
    return "\"window\" of the scenario is out of range";
  if (s.names.before > 2 || s.names.after > 2)
    return "\"names_before\" and \"names_after\" of the scenario must be at most 2";
  if (s.names.any() && (s.over_adapters || s.other_server || s.dead_links.any()))
    return "\"names\" of the scenario exclude adapters, two servers and dead links";
  if (s.keys && (s.other_server || s.same_identity))
    return "\"keys\" of the scenario exclude two servers, and clients that restart with their uuids";
  return nullptr;
}

}  // namespace rtrs::sim
