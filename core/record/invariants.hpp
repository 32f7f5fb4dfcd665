// Invariant check for any recorded or replayed machine.
#pragma once
#include "core/proto/server_invariants.hpp"

namespace rtrs::trace {

// Name of the first violated invariant; null if there is none, or if the state machine has no invariants.
template <class Machine>
const char* broken_rule(const Machine& machine) noexcept {
  if constexpr (requires { machine.broken_invariant(); })
    return machine.broken_invariant();
  else if constexpr (requires { rtrs::broken_invariant(machine); })
    return rtrs::broken_invariant(machine);
  else
    return nullptr;
}

}  // namespace rtrs::trace
