// Fault class: an adapter is removed from its host and inserted again. In between, its links and queue pairs
// are broken, and no connection can be opened on it.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

bool device_gone(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId link = s.pick(s.network.link_count());
  const LinkInfo chosen = s.network.link_info(link);
  const bool server_side = s.choice.draw(2, Label::fault_direction) == 1;
  const NodeId node = server_side ? chosen.server : chosen.client;
  const std::uint32_t port = server_side ? chosen.server_port : chosen.client_port;
  if (!s.network.is_up(node) || s.network.is_unplugged(node, port)) return false;
  s.note_one_way(FaultRecord::Target::link, link, server_side ? Way::to_client : Way::to_server, s.until());
  s.network.unplug(node, port, s.choice);
  s.undo_at(s.until(), [node, port](FaultContext& end) { end.network.plug(node, port, end.choice); });
  return true;
}

}  // namespace

const FaultKind device_gone_fault{device_gone};

}  // namespace rtrs::sim
