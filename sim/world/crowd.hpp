// Many clients with one address. Each opens a session with one connect request and never completes it.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "sim/world/cluster.hpp"

namespace rtrs::sim {

class Crowd : private Part {
 public:
  explicit Crowd(Cluster& cluster) : Part(cluster) {}

  void begin(Nanos until);
  void end() noexcept { stranger_.until = now(); }
  Nanos next_time() const noexcept;
  void due();

 private:
  struct Stranger {
    NodeId id = kNone;
    std::unique_ptr<Fabric> sim;  // nullptr before the first begin()
    Fabric* bare = nullptr;       // inner fabric, which adds no key proof
    std::vector<ConKey> open;
    std::uint32_t requests = 0;
    Nanos next = kNever;
    Nanos until = 0;
  };

  void send_stray_request();
  void use_wrong_key();
  bool replay_client_request(std::span<std::byte> request);

  Stranger stranger_;
};

}  // namespace rtrs::sim
