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
    if (at == withheld_.end()) at = withheld_.insert(at, Withheld{qp, kNever, kNever});
    const bool connected = client.up && client.hearts->is_connected(info.key.path);
    const bool asks = connected && network_.withholds(qp);
    const bool answers = network_.withholds(info.peer);
    const bool probes = scenario_.can_probe();
    const bool by_client =
        probes ? connected && (asks || answers) : asks && scenario_.client.probe_deliveries;
    const bool by_server = !probes && server_.up && answers && scenario_.server.probe_deliveries;
    at->by_client = by_client ? std::min(at->by_client, now()) : kNever;
    at->by_server = by_server ? std::min(at->by_server, now()) : kNever;
    if (by_client) client.hearts->withheld(info.key.path, at->by_client, now());
    if (by_server) server_.hearts->withheld(info.key.path, at->by_server, now());
  }
}

}  // namespace rtrs::sim
