// Writes what the core of this program does on chosen inputs of a recorded machine.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/actions.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

// Numbers of inputs, ascending.
using Inputs = std::vector<std::uint32_t>;

// Of the machine's kind.
using RecordedActions = std::variant<std::vector<ClientAction>, std::vector<ServerAction>,
                                     std::vector<ClientDevicesAction>, std::vector<ServerDevicesAction>>;

struct Written {
  int error = 0;  // positive errno
  std::uint64_t records = 0;
  const char* broken = nullptr;  // the invariant that the last input broke
};
struct RunOptions {
  // Told of each input, and of its record in the file, before the core gets it: the core may stop the
  // program.
  std::function<void(std::uint32_t input, std::uint64_t record)> before;
  // This input is written and not fed, and it is the last: the one that stops the core.
  std::uint32_t stop_at = ~std::uint32_t{0};
  // What is written for the last input instead of what this core does then. Borrowed; null: what it does.
  const RecordedActions* last_actions = nullptr;
  bool hashes = false;  // the state after every input
};
// Impossible ones among the inputs `kept` are left out. The file replaces what is at `path`.
Written write_run(const MachineTrace&, const Inputs& kept, const std::string& path, const RunOptions& = {});

}  // namespace rtrs::tools
