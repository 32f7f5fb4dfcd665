// Fault classes that cut links.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

bool cut_both(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId link = s.pick(s.network.link_count());
  s.note(FaultRecord::Target::link, link, s.until());
  s.cut_until(link, kBothWays, s.until());
  return true;
}

bool cut_one_way(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId link = s.pick(s.network.link_count());
  const Way way = s.choice.draw(2, Label::fault_direction) == 1 ? Way::to_client : Way::to_server;
  s.note_one_way(FaultRecord::Target::link, link, way, s.until());
  s.cut_until(link, {way}, s.until());
  return true;
}

bool cut_port(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId link = s.pick(s.network.link_count());
  s.note(FaultRecord::Target::link, link, s.until());
  const LinkInfo chosen = s.network.link_info(link);
  const bool server_side = s.choice.draw(2, Label::fault_direction) == 0;
  for (LinkId other = 0; other < s.network.link_count(); ++other) {
    const LinkInfo info = s.network.link_info(other);
    const bool same = server_side ? info.server == chosen.server && info.server_port == chosen.server_port
                                  : info.client == chosen.client && info.client_port == chosen.client_port;
    if (same) s.cut_until(other, kBothWays, s.until());
  }
  return true;
}

}  // namespace

const FaultKind cut_both_fault{cut_both};
const FaultKind cut_one_way_fault{cut_one_way};
const FaultKind cut_port_fault{cut_port};

}  // namespace rtrs::sim
