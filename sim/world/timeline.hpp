// Advances virtual time from event to event and runs everything that is due.
#pragma once
#include <functional>
#include <vector>

#include "sim/world/client_host.hpp"
#include "sim/world/cluster.hpp"
#include "sim/world/crowd.hpp"
#include "sim/world/load.hpp"
#include "sim/world/operator.hpp"
#include "sim/world/processes.hpp"
#include "sim/world/script_player.hpp"
#include "sim/world/server_host.hpp"
#include "sim/world/watch.hpp"

namespace rtrs::sim {

// The parts of the world that produce events.
struct TimelineParts {
  Watch& watch;
  Crowd& crowd;
  Load& load;
  ClientHost& client_host;
  ServerHost& server_host;
  Processes& processes;
  Operator& an_operator;
  ScriptPlayer& script;
};

class Timeline : private Part {
 public:
  Timeline(Cluster& cluster, const TimelineParts& parts)
      : Part(cluster),
        watch_(parts.watch),
        crowd_(parts.crowd),
        load_(parts.load),
        client_host_(parts.client_host),
        server_host_(parts.server_host),
        processes_(parts.processes),
        operator_(parts.an_operator),
        script_(parts.script) {}

  Nanos next_time();
  // Advances to the next event and runs everything that is due then. Returns false if no event is left or the
  // run failed.
  bool step() { return step(next_time()); }
  // Runs until done() is true or `deadline` has passed. Returns true if done() is true.
  bool run_while(Nanos deadline, const std::function<bool()>& done);
  // Returns false if the run has failed.
  bool run_until(Nanos time);
  // True if the run exceeded WorldOptions::max_events.
  bool out_of_events() const noexcept { return out_of_events_; }

 private:
  // `next`: result of next_time().
  bool step(Nanos next);
  template <class Timer>
  Nanos wake(const Node&, const Timer& timer) const;
  void poll_nodes();
  void faults_due();
  std::uint64_t place_of(const FaultRecord&) const;

  Watch& watch_;
  Crowd& crowd_;
  Load& load_;
  ClientHost& client_host_;
  ServerHost& server_host_;
  Processes& processes_;
  Operator& operator_;
  ScriptPlayer& script_;
  std::uint64_t steps_at_once_ = 0;
  bool out_of_events_ = false;
};

}  // namespace rtrs::sim
