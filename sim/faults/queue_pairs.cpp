// Fault classes that break connections or stop their traffic.
#include <algorithm>

#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

std::vector<QpId> established(const Net& network) {
  std::vector<QpId> found;
  for (QpId id = 0; id < network.qp_count(); ++id) {
    if (network.qp_info(id).established) found.push_back(id);
  }
  return found;
}

bool break_qp(FaultContext& s) {
  const std::vector<QpId> all = established(s.network);
  if (all.empty()) return false;
  const QpId chosen = all[s.pick(all.size())];
  s.note_one_way(FaultRecord::Target::connection, chosen, s.network.qp_info(chosen).way, 0);
  s.network.break_qp(chosen, s.choice);
  return true;
}

bool break_path(FaultContext& s) {
  const std::vector<QpId> all = established(s.network);
  if (all.empty()) return false;
  const QpId chosen = all[s.pick(all.size())];
  const QpInfo info = s.network.qp_info(chosen);
  s.note_one_way(FaultRecord::Target::path, chosen, info.way, 0);
  for (const QpId id : all) {
    const QpInfo other = s.network.qp_info(id);
    if (other.link == info.link && other.way == info.way) s.network.break_qp(id, s.choice);
  }
  return true;
}

bool black_hole(FaultContext& s) {
  const std::vector<QpId> all = established(s.network);
  if (all.empty()) return false;
  const QpId chosen = all[s.pick(all.size())];
  s.note_one_way(FaultRecord::Target::connection, chosen, s.network.qp_info(chosen).way, s.until());
  s.network.swallow(chosen, true, s.choice);
  s.undo_at(s.until(), [chosen](FaultContext& end) { end.network.swallow(chosen, false, end.choice); });
  return true;
}

bool hang(FaultContext& s) {
  const std::vector<QpId> all = established(s.network);
  if (all.empty()) return false;
  const QpId chosen = all[s.pick(all.size())];
  s.note_one_way(FaultRecord::Target::connection, chosen, s.network.qp_info(chosen).way, 0);
  return s.network.hang(chosen, s.choice);
}

// Delivers what one end sends byte by byte. At most 8, 32 or 128 bytes arrive while the fault lasts, because
// each byte is an event of the simulation.
bool trickle(FaultContext& s) {
  const std::vector<QpId> all = established(s.network);
  if (all.empty()) return false;
  const QpId chosen = all[s.pick(all.size())];
  if (!s.network.trickle(chosen, std::max<Nanos>(s.hold / (8U << 2 * s.pick(3)), 1))) return false;
  s.note_one_way(FaultRecord::Target::connection, chosen, s.network.qp_info(chosen).way, s.until());
  s.undo_at(s.until(), [chosen](FaultContext& end) { end.network.trickle(chosen, 0); });
  return true;
}

}  // namespace

const FaultKind break_qp_fault{break_qp};
const FaultKind break_path_fault{break_path};
const FaultKind black_hole_fault{black_hole};
const FaultKind hang_fault{hang};
const FaultKind trickle_fault{trickle, nullptr, true};

}  // namespace rtrs::sim
