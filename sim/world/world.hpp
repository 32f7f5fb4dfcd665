// One simulated run: real clients and a real server over a simulated network, with storage, load, faults and
// the oracles that watch them. A seed determines the scenario and all random draws of the run; virtual time
// advances from event to event. World holds the parts of a run; each part is a class in its own file.
#pragma once
#include <cstdint>
#include <string>

#include "sim/world/phases.hpp"

namespace rtrs::sim {

class World {
 public:
  World(const WorldOptions&, ChoiceSource&);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A violated invariant of a protocol state machine ends the program; the traces are complete up to the step
  // that violated the invariant. A process can run only one world at a time.
  WorldResult run();
  const Scenario& scenario() const noexcept { return cluster_.scenario; }
  std::string describe() const { return cluster_.describe(); }
  const Journal& journal() const noexcept { return cluster_.journal; }
  Nanos now() const noexcept { return cluster_.now(); }
  // Events of the network and of the applications so far.
  std::uint64_t events() const noexcept { return cluster_.judge.events() + cluster_.network.stats().events; }

  // Parts of the world, for callers that drive it step by step.
  Cluster& cluster() noexcept { return cluster_; }
  Processes& processes() noexcept { return processes_; }
  ClientHost& client_host() noexcept { return client_host_; }
  ServerHost& server_host() noexcept { return server_host_; }
  ScriptPlayer& script() noexcept { return script_; }
  Timeline& timeline() noexcept { return timeline_; }

 private:
  void fold_final_state();

  Cluster cluster_;
  Books books_;
  Watch watch_;
  Crowd crowd_;
  Load load_;
  ClientHost client_host_;
  ServerHost server_host_;
  Processes processes_;
  Operator operator_;
  ScriptPlayer script_;
  TimelineParts parts_;
  Timeline timeline_;
  Phases phases_;
};

}  // namespace rtrs::sim
