// A state machine whose state a recorder may read between two steps.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/record/invariants.hpp"
#include "core/record/kinds.hpp"
#include "core/record/state.hpp"

namespace rtrs::trace {

struct Watched {
  // A snapshot of the state.
  struct Kept {
    std::unique_ptr<std::uint8_t[]> bytes;  // `room` bytes; untouched pages take no memory
    std::size_t room = 0;
    std::size_t size = 0;  // size of the state in bytes; 0: no snapshot
    std::uint64_t at = 0;  // number of records before the snapshot
    Nanos now = 0;         // time of the input after the snapshot
  };

  const void* machine = nullptr;
  MachineKind kind = MachineKind::client_session;
  std::uint8_t* (*save)(const void* machine, std::uint8_t* out) noexcept = nullptr;
  std::uint64_t (*fingerprint)(const void* machine) noexcept = nullptr;
  // Name of the first violated invariant of the state, or null.
  const char* (*broken)(const void* machine) noexcept = nullptr;
  // Maximum size of the encoded state, until the machine allocates memory for more paths or connections.
  std::size_t (*bound)(const void* machine) noexcept = nullptr;
  std::uint64_t layout = 0;
  std::uint64_t due = ~std::uint64_t{0};  // number of records at which the next snapshot is due
  std::uint32_t steps = 0;                // steps since the last hash of the state
  unsigned next = 0;                      // index of the snapshot to replace
  std::array<Kept, 2> kept;

  template <class Machine>
  static Watched of(MachineKind kind, const Machine& machine) {
    Watched watched;
    watched.machine = &machine;
    watched.kind = kind;
    watched.save = [](const void* from, std::uint8_t* out) noexcept {
      return state::save(out, *static_cast<const Machine*>(from));
    };
    watched.fingerprint = [](const void* from) noexcept {
      return static_cast<const Machine*>(from)->fingerprint();
    };
    watched.broken = [](const void* from) noexcept {
      return broken_rule(*static_cast<const Machine*>(from));
    };
    watched.bound = [](const void* from) noexcept {
      return state::bound(*static_cast<const Machine*>(from));
    };
    watched.layout = state_layout(machine);
    return watched;
  }
};

}  // namespace rtrs::trace
