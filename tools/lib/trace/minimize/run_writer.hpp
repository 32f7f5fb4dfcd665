// Runs this program's protocol core on selected inputs of a recorded state machine, and writes the trace.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/actions.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

// Indexes of inputs, ascending.
using Inputs = std::vector<std::uint32_t>;

// Recorded actions of one state machine; its kind determines the alternative.
using RecordedActions = std::variant<std::vector<ClientAction>, std::vector<ServerAction>,
                                     std::vector<ClientDevicesAction>, std::vector<ServerDevicesAction>>;

struct Written {
  int error = 0;  // positive errno if the trace could not be written; 0: none
  std::uint64_t records = 0;
  const char* broken = nullptr;  // invariant that the last input broke; nullptr: none
};
struct RunOptions {
  // Called before each input with its index and its record number, because the core may crash. May be empty.
  std::function<void(std::uint32_t input, std::uint64_t record)> before;
  // Index of the last input, which is written but not executed, because it crashes the core.
  std::uint32_t stop_at = ~std::uint32_t{0};
  // Actions to write for the last input, not owned. nullptr: writes the actions of this core.
  const RecordedActions* last_actions = nullptr;
  bool hashes = false;  // write a state hash after every input
};
// Runs the inputs `kept`, except impossible ones. Replaces the file at `path`.
Written write_run(const MachineTrace&, const Inputs& kept, const std::string& path, const RunOptions& = {});

}  // namespace rtrs::tools
