// Fault class: all links are cut at the same moment and restored at the same moment, as when a switch
// restarts. Every path of every client fails and reconnects together.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

bool cut_all(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  s.note(FaultRecord::Target::everything, kNone, s.until());
  for (LinkId link = 0; link < s.network.link_count(); ++link) s.cut_until(link, kBothWays, s.until());
  return true;
}

}  // namespace

const FaultKind cut_all_fault{cut_all};

}  // namespace rtrs::sim
