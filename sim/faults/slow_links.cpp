// Fault classes that delay messages on a link.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

bool starve(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId link = s.pick(s.network.link_count());
  const Way way = s.choice.draw(2, Label::fault_direction) == 1 ? Way::to_client : Way::to_server;
  s.note_one_way(FaultRecord::Target::link, link, way, s.until());
  s.network.starve(link, way, s.until());
  s.delay_liveness_until(s.until());
  return true;
}

bool latency(FaultContext& s) {
  if (s.network.link_count() == 0) return false;
  const LinkId link = s.pick(s.network.link_count());
  s.note(FaultRecord::Target::link, link, s.until());
  const NetworkConfig& config = s.network.config();
  s.network.set_latency(link, config.latency + s.hold / 16, config.jitter + s.hold / 16);
  s.undo_at(s.until(), [link](FaultContext& end) {
    end.network.set_latency(link, end.network.config().latency, end.network.config().jitter);
  });
  return true;
}

}  // namespace

const FaultKind starve_fault{starve};
const FaultKind latency_fault{latency};

}  // namespace rtrs::sim
