// Where faults strike, and whether what a hung connection withholds is noticed.
#include <algorithm>

#include "sim/world.hpp"

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

// Between peers that know the probe, a request or response that a hung connection withholds ends the path
// within the dead-peer time.
void World::watch_hung() {
  if (!scenario_.can_probe()) return;
  std::erase_if(withheld_, [this](const Withheld& one) {
    const auto& hung = network_.hung();
    return std::find(hung.begin(), hung.end(), one.qp) == hung.end();
  });
  for (const QpId qp : network_.hung()) {
    const QpInfo info = network_.qp_info(qp);
    const ClientNode& client = *clients_[info.node - 1];
    auto at =
        std::find_if(withheld_.begin(), withheld_.end(), [qp](const Withheld& one) { return one.qp == qp; });
    if (at == withheld_.end()) at = withheld_.insert(at, Withheld{qp, kNever});
    const bool withholds = network_.withholds(qp) || network_.withholds(info.peer);
    if (!withholds || !client.up || !client.hearts->is_connected(info.key.path)) {
      at->since = kNever;
      continue;
    }
    if (at->since == kNever) at->since = now();
    client.hearts->withheld(info.key.path, at->since, now());
  }
}

}  // namespace rtrs::sim
