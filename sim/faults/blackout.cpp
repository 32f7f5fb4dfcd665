// Fault class: a client loses all its connections at once, and its links are restored at different times. The
// server is not notified, and may still execute messages that were in flight. If hangs are on, one strike in
// three leaves one link up and makes one of its connections hang (often connection 0). The other links are
// then cut for eight times as long, so that failover has to deal with a connection that delivers nothing.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

bool blackout(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId chosen = s.choice.draw(static_cast<std::uint32_t>(s.network.link_count()), Label::cruel);
  const NodeId client = s.network.link_info(chosen).client;
  const bool one_stays = s.options().has(FaultClass::hang) && s.choice.hits(1, 3, Label::cruel);
  s.note(FaultRecord::Target::link, chosen, s.until());
  std::vector<QpId> staying;
  for (QpId id = 0; id < s.network.qp_count(); ++id) {
    const QpInfo info = s.network.qp_info(id);
    if (info.node != client || !info.established) continue;
    if (one_stays && info.link == chosen)
      staying.push_back(id);
    else
      s.network.break_qp(id, s.choice);
  }
  for (LinkId link = 0; link < s.network.link_count(); ++link) {
    if (s.network.link_info(link).client != client || (one_stays && link == chosen)) continue;
    s.cut(link, kBothWays);
    const Nanos away = (one_stays ? 8 : 1) * s.hold;
    s.continue_at(s.network.now() + s.options().min_hold + draw_time(s.choice, away, Label::cruel),
                  [link](FaultContext& end) { end.heal(link, kBothWays); });
  }
  if (staying.empty()) return true;
  const bool any = s.choice.draw(2, Label::cruel) == 1;
  const auto at = any ? s.choice.draw(static_cast<std::uint32_t>(staying.size()), Label::cruel) : 0;
  s.network.hang(staying[at], s.choice);
  return true;
}

}  // namespace

const FaultKind blackout_fault{blackout};

}  // namespace rtrs::sim
