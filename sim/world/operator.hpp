// Path operations of the client and server operators, and random closing of processes.
#pragma once
#include <algorithm>
#include <cstdint>

#include "sim/world/cluster.hpp"
#include "sim/world/processes.hpp"

namespace rtrs::sim {

enum class PathOperation : std::uint8_t { disconnect, reconnect, remove, add, policy, drop, recover };

class Operator : private Part {
 public:
  Operator(Cluster& cluster, Processes& processes) : Part(cluster), processes_(processes) {}

  void start();
  void stop() noexcept { next_operation_ = next_recovery_ = kNever; }
  void stop_closing() noexcept { next_closing_ = kNever; }
  Nanos next_time() const noexcept { return std::min({next_operation_, next_closing_, next_recovery_}); }
  void due();
  // Closes a random process at the drawn times. Restarts processes that have closed, unless a script or the
  // end of the run closed them.
  void closings_due();

  void operate(ClientNode&, PathOperation, std::uint32_t path);
  void restore_missing_path(ClientNode&);

 private:
  void change_paths(), recover_due();
  void operate(ClientNode&);
  void recover(ClientNode&);
  void remove(ClientNode&, std::uint32_t path);
  bool may_remove(const ClientNode&, std::uint32_t path) const;
  void close_random_node();

  Processes& processes_;
  Nanos next_operation_ = kNever, next_closing_ = kNever, next_recovery_ = kNever;
};

}  // namespace rtrs::sim
