// Where faults strike, and whether what a hung connection withholds is noticed.
#include <algorithm>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

// Where a fault struck, as the journal keeps it.
std::uint64_t World::place_of(const Strike& strike) const {
  constexpr std::uint64_t kAny = 0xffff;
  const auto packed = [](std::uint64_t client, std::uint64_t path, std::uint64_t con, std::uint64_t way) {
    return way << 48 | con << 32 | path << 16 | client;
  };
  if (strike.target == kNone) return packed(kAny, kAny, kAny, 0);
  const auto at = [&](LinkId link, std::uint64_t con, std::uint64_t way) {
    const LinkInfo info = network_.link_info(link);
    return packed(info.client, info.client_port, con, way);
  };
  const std::uint64_t way = strike.way == Way::to_server ? 1 : 2;
  switch (strike.which) {
    case FaultClass::crash:
    case FaultClass::crash_orderly:
    case FaultClass::pause:
      return strike.target == 0 ? packed(kAny, kAny, kAny, 0) : packed(strike.target, kAny, kAny, 0);
    case FaultClass::break_qp:
    case FaultClass::black_hole:
    case FaultClass::hang:
    case FaultClass::break_path: {
      const QpInfo qp = network_.qp_info(strike.target);
      return at(qp.link, strike.which == FaultClass::break_path ? kAny : qp.key.con, way);
    }
    case FaultClass::cut_one_way:
    case FaultClass::device_gone:
    case FaultClass::starve:
      return at(strike.target, kAny, way);
    default:
      return at(strike.target, kAny, 0);
  }
}

// What a hung connection withholds is noticed within the dead-peer time: by the client between peers that
// know the probe, otherwise by the side that posted it, when that one probes deliveries.
void World::watch_hung() {
  std::erase_if(withheld_, [this](const Withheld& one) {
    const auto& hung = network_.hung();
    return std::find(hung.begin(), hung.end(), one.qp) == hung.end();
  });
  for (const QpId qp : network_.hung()) {
    const QpInfo info = network_.qp_info(qp);
    if (info.node > clients_.size()) continue;  // a stranger's
    const ClientNode& client = *clients_[info.node - 1];
    auto at =
        std::find_if(withheld_.begin(), withheld_.end(), [qp](const Withheld& one) { return one.qp == qp; });
    // What was under way when it began to hang may be of a fence that is over.
    if (at == withheld_.end())
      at = withheld_.insert(at, Withheld{qp, kNever, kNever, kNever, withheld_messages(client, qp)});
    const bool connected = client.up && client.hearts->is_connected(info.key.place());
    const bool asks = connected && network_.withholds(qp);
    const bool answers = network_.withholds(info.peer);
    const bool probes = scenario_.can_probe();
    const bool by_client =
        probes ? connected && (asks || answers) : asks && scenario_.client.probe_deliveries;
    const bool by_server = !probes && server_.up && answers && scenario_.server.probe_deliveries;
    watch_fence(client, *at);
    at->by_client = by_client ? std::min(at->by_client, now()) : kNever;
    at->by_server = by_server ? std::min(at->by_server, now()) : kNever;
    if (by_client) client.hearts->withheld(info.key.place(), at->by_client, now());
    if (by_server) server_.hearts->withheld(info.key.place(), at->by_server, now());
  }
}

// Messages that a probe of the client looks after: its own, and between peers that know the probe the
// answers.
std::uint32_t World::withheld_messages(const ClientNode& client, QpId qp) const {
  const QpInfo info = network_.qp_info(qp);
  if (!client.up || !client.hearts->is_connected(info.key.place())) return 0;
  if (scenario_.can_probe()) return network_.withheld_messages(qp) + network_.withheld_messages(info.peer);
  return scenario_.client.probe_deliveries ? network_.withheld_messages(qp) : 0;
}

// A client that waits for the answer to a fence probes the connection that the fence went over. It waits no
// more when the path that the fence is about is back: then only later messages count.
void World::watch_fence(const ClientNode& client, Withheld& one) {
  const std::uint32_t messages = withheld_messages(client, one.qp);
  if (one.of_fence != kNever && client.last_connected > one.of_fence) {
    one.of_fence = kNever;
    one.fences_over = messages;
  }
  one.of_fence = messages > one.fences_over ? std::min(one.of_fence, now()) : kNever;
  if (one.of_fence == kNever) return;
  client.hearts->withheld(network_.qp_info(one.qp).key.place(), one.of_fence, now());
}

}  // namespace rtrs::sim
