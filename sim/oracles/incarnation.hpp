// O6: whenever the server accepts a connection, and when a path becomes connected, all its connections lead
// to one path of one incarnation of one peer, connection by connection, and belong to one attempt.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/proto/ids.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

// The peer's end of one connection; `known` is false when the network never paired it.
struct PeerEnd {
  bool known = false;
  std::uint32_t node = 0;
  ConKey key{};
  std::uint16_t own_con = 0;
};

// `same_attempt`: the peer's epochs count attempts, so they are equal (seen from the server).
inline void check_incarnation(Judge& judge, Nanos now, const std::string& who, std::span<const PeerEnd> ends,
                              bool same_attempt) {
  for (const PeerEnd& end : ends) {
    const PeerEnd& first = ends.front();
    const bool fits = end.known && end.node == first.node && end.key.path == first.key.path &&
                      end.key.con == end.own_con && (!same_attempt || end.key.epoch == first.key.epoch);
    if (!fits)
      return judge.fail(Oracle::incarnation, now,
                        who + ": connection " + std::to_string(end.own_con) +
                            " does not belong to the same attempt as connection " +
                            std::to_string(first.own_con));
  }
}

}  // namespace rtrs::sim
