// One simulated run: real clients and a real server over a simulated network, with storage, load, faults and
// the oracles that watch them. A seed gives the scenario and all random draws of the run; time moves only
// from event to event. World holds the parts of a run; each part is a class in a file of its own.
#pragma once
#include <string>

#include "sim/world/phases.hpp"

namespace rtrs::sim {

class World {
 public:
  World(const WorldOptions&, ChoiceSource&);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A broken invariant of a machine ends the program; the traces are complete up to the step that broke it.
  // Only one world runs at a time in a process.
  WorldResult run();
  const Scenario& scenario() const noexcept { return cluster_.scenario; }
  std::string describe() const { return cluster_.describe(); }
  const Journal& journal() const noexcept { return cluster_.journal; }
  Nanos now() const noexcept { return cluster_.now(); }

  // The parts, for whoever drives a world step by step.
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
