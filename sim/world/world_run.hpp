// What a run of a world is asked for, and what it tells.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/record/recorder.hpp"
#include "sim/faults/faults.hpp"
#include "sim/oracles/judge.hpp"
#include "sim/world/fault_filter.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::sim {

inline constexpr unsigned kPathStates = static_cast<unsigned>(PathState::closed) + 1;

// Who hears what the nodes of a world record, while it plays.
class NodeListeners {
 public:
  virtual ~NodeListeners() = default;
  // Asked once for each node, 0 is the server. The listener has to outlive the world.
  virtual trace::Listener& of(NodeId node) = 0;
};

struct WorldOptions {
  std::uint64_t seed = 0;
  std::string trace;                   // prefix of trace files, one a node; empty: none
  NodeListeners* listeners = nullptr;  // borrowed; null: none. Not asked where there are trace files
  bool verbose = false;                // print the journal as it grows
  std::uint64_t max_events = 5'000'000;
  const Scenario* scenario = nullptr;  // borrowed; null: drawn from the choices
  bool over_tcp = false;               // see Scenario; one that says so itself is left as it is
  MakeNet make_net = nullptr;          // of the adapters of Scenario::over_adapters; null: not over them
  // Borrowed; null: none. Only the classes: see run_seed() for the labels.
  const FaultFilter* filter = nullptr;
};

struct WorldResult {
  bool failed = false;
  Failure failure;
  // Everybody kept the protocol: traces may be judged. Not so with a liar, nor with a client that came back
  // as the one that it was.
  bool honest = true;
  bool stalled = false;       // the failure is a lack of progress
  bool exhausted = false;     // and that only for max_events
  bool script_stuck = false;  // and that only because the scenario could not be played
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  Nanos virtual_time = 0;
  std::uint64_t requests = 0;
  std::array<std::uint64_t, kFaultClasses> faults{};
  std::array<bool, kMarks> marks{};
  // Which states the two ends of a path were in at a time: [client's PathState][server's].
  std::array<std::array<bool, kPathStates>, kPathStates> pairs{};
  // The first trace file that could not be written as a whole, and its errno; 0: none.
  std::string trace_file;
  int trace_errno = 0;
};

// Draws the scenario, or takes that of the options, and makes its network.
std::unique_ptr<Net> make_network(Scenario&, const WorldOptions&, ChoiceSource&);

// One seed from beginning to end, without what the filter takes out.
WorldResult run_seed(const WorldOptions&);

}  // namespace rtrs::sim
