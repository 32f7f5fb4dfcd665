// The phases of a run, and the condition that ends each: connect; load under faults; end of faults and
// recovery within its time limits; new requests; check that nothing is left over; close.
#pragma once
#include "sim/world/books.hpp"
#include "sim/world/cluster.hpp"
#include "sim/world/crowd.hpp"
#include "sim/world/load.hpp"
#include "sim/world/operator.hpp"
#include "sim/world/processes.hpp"
#include "sim/world/script_player.hpp"
#include "sim/world/timeline.hpp"

namespace rtrs::sim {

class Phases : private Part {
 public:
  Phases(Cluster& cluster, Books& books, const TimelineParts& parts, Timeline& timeline)
      : Part(cluster),
        books_(books),
        crowd_(parts.crowd),
        load_(parts.load),
        processes_(parts.processes),
        operator_(parts.an_operator),
        script_(parts.script),
        timeline_(timeline) {}

  void play();
  // True if the run failed because a script wait timed out.
  bool script_stuck() const noexcept { return script_stuck_; }

 private:
  bool connects_in_time();
  bool follow_script();
  // Waits for the processes that were closed at random. Called before the faults end, because the links that
  // die at that time would delay a close.
  bool finish_closings();
  void heal();
  // Waits until each connection has ended on which a process violated the protocol, and then replaces that
  // process.
  bool end_protocol_violations();
  void liveness();
  void probe();
  void check_books();
  void close();
  bool all_connected();
  bool devices_open();
  bool drain_backlog(Nanos each);
  bool blocks_permits(const ClientNode&, unsigned path) const;
  bool remove_path_blocking_permits();
  bool requests_end(Nanos each);
  void disconnect_dead();

  Books& books_;
  Crowd& crowd_;
  Load& load_;
  Processes& processes_;
  Operator& operator_;
  ScriptPlayer& script_;
  Timeline& timeline_;
  bool script_stuck_ = false;
};

}  // namespace rtrs::sim
