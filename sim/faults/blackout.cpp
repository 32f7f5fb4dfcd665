// A client loses all connections at once.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

// Messages that its connections sent may still take effect at the server, which is not notified. If
// connections may hang, then in one of three cases one link stays, and one of its connections hangs (often
// the service connection) while the other links are down for a long time: all traffic has to use the link
// with the hung connection.
bool FaultDriver::strike_client(Net& network, ChoiceSource& choice, Nanos hold) {
  constexpr std::uint32_t both = 3;  // one bit per Way
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
