// O10: correct peers use only valid keys, so that a peer never refuses one; the key that a READ offers is
// invalid when the READ completes.
#pragma once
#include <cstdint>
#include <string>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class KeyHygiene {
 public:
  explicit KeyHygiene(Judge& judge) : judge_(judge) {}
  // `count`: messages that the network has refused because of their key.
  void refused(std::uint64_t count, Nanos now) {
    if (count != 0)
      judge_.fail(Oracle::keys, now, "a peer refused a message: its key was dead or not its own");
  }
  // `keys`: number of keys that one client currently offers to its peers. `reads`: its READs in flight.
  void offered(std::uint32_t client, std::uint64_t keys, std::uint64_t reads, Nanos now) {
    if (keys <= reads) return;
    judge_.fail(Oracle::keys, now,
                "client " + std::to_string(client) + " offers " + std::to_string(keys) + " keys for " +
                    std::to_string(reads) + " READs: a key outlived its request");
  }
  // `keys`: number of READ keys that a client's peers left valid although the client had asked for their
  // invalidation and had not agreed to leave keys valid.
  void left(std::uint32_t client, std::uint64_t keys, Nanos now) {
    if (keys == 0) return;
    judge_.fail(Oracle::keys, now,
                "client " + std::to_string(client) +
                    ": a READ with NEED_INVAL was answered but its key was left valid without agreement: a "
                    "kernel client before 6.12 never completes it");
  }

 private:
  Judge& judge_;
};

}  // namespace rtrs::sim
