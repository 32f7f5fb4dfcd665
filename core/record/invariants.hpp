// The invariants of any machine that is recorded or replayed.
#pragma once
#include "core/proto/server_invariants.hpp"

namespace rtrs::trace {

// Name of the first broken rule of the whole state; null when all hold, or when the machine has none.
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
