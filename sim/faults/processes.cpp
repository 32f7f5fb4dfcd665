// Fault classes that crash or pause processes, and the crowd of clients that complete no session.
#include <algorithm>

#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

// Draws a node that is up. Returns kNone if there is none.
NodeId pick_node(FaultContext& s, bool clients, bool servers) {
  std::vector<NodeId> nodes;
  if (clients) nodes.insert(nodes.end(), s.clients().begin(), s.clients().end());
  if (servers) nodes.insert(nodes.end(), s.servers().begin(), s.servers().end());
  std::erase_if(nodes, [&](NodeId node) { return !s.network.is_up(node); });
  return nodes.empty() ? kNone : nodes[s.pick(nodes.size())];
}

bool crash_node(FaultContext& s, bool orderly) {
  const NodeId node = pick_node(s, s.options().crash_client, s.options().crash_server);
  if (node == kNone) return false;
  s.note(FaultRecord::Target::node, node, s.until());
  s.network.crash(node, orderly, s.choice);
  s.world({WorldFault::Kind::crash, node, s.until()});
  s.undo_at(s.until(), [node](FaultContext& end) {
    end.network.restart(node);
    end.world({WorldFault::Kind::restart, node, end.network.now()});
  });
  return true;
}

bool crash(FaultContext& s) {
  return crash_node(s, false);
}
bool crash_orderly(FaultContext& s) {
  return crash_node(s, true);
}

bool pause(FaultContext& s) {
  const NodeId node = pick_node(s, true, true);
  if (node == kNone) return false;
  const Nanos until = s.network.now() + s.hold * s.options().pause_factor;
  s.note(FaultRecord::Target::node, node, until);
  s.world({WorldFault::Kind::pause, node, until});
  s.delay_liveness_until(until);
  return true;
}

bool oversleep(FaultContext& s) {
  const NodeId node = pick_node(s, true, true);
  if (node == kNone) return false;
  s.note(FaultRecord::Target::node, node, 0);
  s.world({WorldFault::Kind::oversleep, node, 0});
  return true;
}

bool crowd(FaultContext& s) {
  s.note(FaultRecord::Target::everything, kNone, s.until());
  s.world({WorldFault::Kind::crowd, kNone, s.until()});
  s.delay_liveness_until(s.until());
  return true;
}

}  // namespace

const FaultKind crash_fault{crash};
const FaultKind crash_orderly_fault{crash_orderly};
const FaultKind pause_fault{pause};
const FaultKind oversleep_fault{oversleep};
const FaultKind crowd_fault{crowd};

}  // namespace rtrs::sim
