// A client that loses its connections at once.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

// What its connections had sent may still act at the server, which is not told. Where connections may hang,
// in one of three cases one link stays and one of its connections hangs, often that of the service, while the
// others are away for long: what has to go over this link meets the connection that delivers nothing.
bool FaultDriver::strike_client(Net& network, ChoiceSource& choice, Nanos hold) {
  constexpr std::uint32_t both = 3;  // a bit for each Way
  if (network.link_count() == 0) return false;
  const LinkId chosen = choice.draw(static_cast<std::uint32_t>(network.link_count()), Label::cruel);
  const NodeId client = network.link_info(chosen).client;
  const bool one_stays = options_.has(FaultClass::hang) && choice.hits(1, 3, Label::cruel);
  strikes_.push_back({FaultClass::blackout, chosen, Way::to_server, network.now() + hold});
  std::vector<QpId> staying;
  for (QpId id = 0; id < network.qp_count(); ++id) {
    const QpInfo info = network.qp_info(id);
    if (info.node != client || !info.established) continue;
    if (one_stays && info.link == chosen)
      staying.push_back(id);
    else
      network.break_qp(id, choice);
  }
  for (LinkId link = 0; link < network.link_count(); ++link) {
    if (network.link_info(link).client != client || (one_stays && link == chosen)) continue;
    cut(network, link, both);
    const Nanos away = (one_stays ? 8 : 1) * hold;
    const Nanos until = network.now() + options_.min_hold + draw_time(choice, away, Label::cruel);
    undo_at(Ending{until, Ending::Kind::heal, link, both, 0});
  }
  if (staying.empty()) return true;
  const bool any = choice.draw(2, Label::cruel) == 1;
  const auto at = any ? choice.draw(static_cast<std::uint32_t>(staying.size()), Label::cruel) : 0;
  network.hang(staying[at], choice);
  return true;
}

}  // namespace rtrs::sim
