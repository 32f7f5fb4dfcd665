// Fault class: a process violates the protocol. The world draws which process, and how.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

bool lie(FaultContext& s) {
  s.note(FaultRecord::Target::everything, kNone, 0);
  s.world({WorldFault::Kind::lie, kNone, 0});
  return true;
}

}  // namespace

const FaultKind lie_fault{lie};

}  // namespace rtrs::sim
