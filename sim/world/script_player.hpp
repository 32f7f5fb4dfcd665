// Plays the script of a scenario: waits for its conditions and carries out its steps.
#pragma once
#include "sim/world/books.hpp"
#include "sim/world/cluster.hpp"
#include "sim/world/operator.hpp"
#include "sim/world/processes.hpp"
#include "sim/world/watch.hpp"

namespace rtrs::sim {

class ScriptPlayer : private Part {
 public:
  ScriptPlayer(Cluster& cluster, Books& books, Watch& watch, Processes& processes, Operator& an_operator)
      : Part(cluster), books_(books), watch_(watch), processes_(processes), operator_(an_operator) {}

  void start() {
    on_ = true;
    since_ = now();
  }
  bool is_done() const noexcept { return at_ == scenario_.script.size(); }
  std::string place() const;  // the number of the next step, as text
  std::string next() const;   // the next step, or the last one, as text
  // If the next step waits for a time (`until` or `pass`), returns that time; if it is an action, now;
  // otherwise kNever, because conditions are checked after each event.
  Nanos next_time() const;
  void due();
  void execute(const Step&);

 private:
  std::uint32_t server_connections(LinkId, bool connected_only);
  bool has_come(const Step&), has_happened(const Step&);
  void network_step(const Step&), node_step(const Step&), operator_step(const Step&), disk_step(const Step&);
  void act(const Step&);
  void leave(ClientNode&);
  void inject(const Step&);

  Books& books_;
  Watch& watch_;
  Processes& processes_;
  Operator& operator_;
  bool on_ = false;
  std::size_t at_ = 0;  // index of the next step
  Nanos since_ = 0;     // time at which the previous step ended
};

}  // namespace rtrs::sim
