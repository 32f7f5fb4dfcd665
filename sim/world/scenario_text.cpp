// Describes a scenario as text.
#include <string>

#include "sim/world/scenario_fields.hpp"

namespace rtrs::sim {

std::string extensions_text(wire::Extensions set) {
  if (has(set, ~wire::kKnownExtensions)) return std::to_string(static_cast<unsigned>(set));
  std::string text;
  for (const auto& [word, one] : kExtensionWords)
    if (has(set, one)) (text += text.empty() ? "" : "+") += word;
  return text.empty() ? "none" : text;
}

namespace {
std::string text_of(const Names& names) {
  if (!names.any()) return {};
  return ", names with " + std::to_string(names.addresses()) + " addresses, " + std::to_string(names.before) +
         " dead before it" + (names.dies ? ", one dies" : "");
}
}  // namespace

std::string Scenario::describe() const {
  std::string text =
      std::to_string(clients) + " clients, " + std::to_string(paths) + " paths of " +
      std::to_string(client.con_num) + " connections, depth " + std::to_string(server.queue_depth) +
      " (client up to " + std::to_string(client.max_depth) + "), chunks of " +
      std::to_string(server.chunk_size) + ", policy " + to_string(client.policy) + ", network " +
      network.capabilities.name + ", send queues " + std::to_string(client.send_depth) + "/" +
      std::to_string(server.send_depth) + ", heartbeat " + std::to_string(interval / milliseconds(1)) +
      " ms x " + std::to_string(client.heartbeat.missed_max) + "/" +
      std::to_string(server.heartbeat.missed_max) + ", extensions " + extensions_text(client.extensions) +
      (client.extensions == server.extensions
           ? ""
           : " (client) and " + extensions_text(server.extensions) + " (server)");
  text += fence_off ? ", without the fence" : fenced ? ", fenced" : ", not fenced";
  if (liar != kNone) text += liar == 0 ? ", the server lies" : ", client " + std::to_string(liar) + " lies";
  if (server.always_invalidate) text += ", fresh keys";
  if (client.offer_invalidation) text += ", remote invalidation";
  const auto ms = [](Nanos time) { return std::to_string(time / milliseconds(1)) + " ms"; };
  const auto clock = [](const ClockRate& rate) {
    return std::to_string(rate.num) + "/" + std::to_string(rate.den);
  };
  if (client_clock != server_clock || client_clock != ClockRate{})
    text += ", clocks " + clock(client_clock) + " and " + clock(server_clock) + " as fast";
  if (client.request_timeout != kNever) text += ", answers within " + ms(client.request_timeout);
  if (same_identity) text += ", clients that restart with their uuids";
  if (network.rnr_budget != 0) text += ", receives may be missing for " + ms(network.rnr_budget);
  if (network.channel_spread != 0) text += ", connections apart by up to " + ms(network.channel_spread);
  for (std::uint32_t index = 0; index < clients && dead_links.any(); ++index)
    for (std::uint32_t path = 0; path < paths; ++path)
      if (dead_links.holds(index, path))
        text +=
            ", path " + std::to_string(path) + " of client " + std::to_string(index + 1) + " dead for good";
  if (dead_links.any())
    text += std::string(dead_links.ways == 1   ? " to the server"
                        : dead_links.ways == 2 ? " to the client"
                                               : "") +
            (dead_links.from_start    ? " from the start"
             : dead_links.others_late ? " after the faults, the others cut until then"
                                      : " after the faults");
  if (client.queue_timeout != kNever) text += ", paths within " + ms(client.queue_timeout);
  if (poll_batch != 0) text += ", " + std::to_string(poll_batch) + " events a poll";
  if (submits_always) text += ", submits without a path";
  if (server_changes) text += ", a server that restarts with other limits";
  if (client.lead_head_start == kNever) text += ", one path at a time creates the session";
  if (other_server) text += ", a path of each client leads to another server";
  if (removes_all) text += ", all paths may be removed for a while";
  if (removes_for_good) text += ", paths removed for good";
  text += (keys ? ", shared keys" : "") + text_of(names);
  if (workload.one_export) text += ", disks that are parts of one export";
  if (workload.preflushes) text += ", writes with PREFLUSH";
  if (workload.replaces) text += ", disks replaced amid writes";
  text += (workload.disks != 0     ? "; load of " + std::to_string(workload.disks) + " disks: "
           : workload.block_device ? "; load of a block device: "
                                   : "; load: ") +
          std::to_string(workload.requests) + " requests, window " + std::to_string(workload.window) + ", " +
          std::to_string(storage.sectors) + " sectors, storage up to " +
          std::to_string((storage.latency + storage.slow_latency) / microseconds(1)) + " us";
  text += "; faults: " + faults.describe();
  return text;
}

std::string LivenessBound::describe() const {
  const auto ms = [](Nanos time) { return std::to_string(time / milliseconds(1)) + " ms"; };
  return "detect " + ms(detect) + " + teardown " + ms(teardown) + " + stale " + ms(stale) + " + lead " +
         ms(lead) + " + 3 x attempt " + ms(attempt) + " = " + ms(paths()) + " for the paths, + " +
         ms(request) + " for the requests";
}

}  // namespace rtrs::sim
