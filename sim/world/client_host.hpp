// Polls the clients, and passes their events and results to Watch and Load.
#pragma once
#include <array>

#include "sim/world/cluster.hpp"
#include "sim/world/load.hpp"
#include "sim/world/watch.hpp"

namespace rtrs::sim {

class ClientHost : private Part {
 public:
  ClientHost(Cluster& cluster, Watch& watch, Load& load) : Part(cluster), watch_(watch), load_(load) {}

  // Returns false if the poll did nothing.
  bool poll(std::uint32_t index);
  void take_news(ClientNode&, std::uint32_t index);

 private:
  void path_event(ClientNode&, std::uint32_t index, const PathEvent&);

  Watch& watch_;
  Load& load_;
  std::array<IoCompletion, 64> done_;  // results of the last poll
};

}  // namespace rtrs::sim
