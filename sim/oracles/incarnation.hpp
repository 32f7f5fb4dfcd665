// O6: when the server accepts a connection, and when a path becomes connected, all connections of the path
// lead to the same path and incarnation of one peer, in order, and belong to one attempt.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/proto/ids.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

// The peer's end of one connection. `known` is false if the network never connected it to a peer.
struct PeerEnd {
  bool known = false;
  std::uint32_t node = 0;
  ConKey key{};
  std::uint16_t own_con = 0;
};

inline std::string text_of(const PeerEnd& end) {
  const std::string own = "connection " + std::to_string(end.own_con);
  if (!end.known) return own + " has no other end";
  return own + " leads to connection " + std::to_string(end.key.con) + " of path " +
         std::to_string(end.key.place()) + " of " +
         (end.node == 0 ? "the server" : "client " + std::to_string(end.node)) + ", attempt " +
         std::to_string(end.key.epoch);
}

// `who`: for example "server, session 0 path 1". `same_attempt`: the peer is a client, whose epochs count
// attempts, so that all epochs must be equal.
inline void check_incarnation(Judge& judge, Nanos now, const std::string& who, std::span<const PeerEnd> ends,
                              bool same_attempt) {
  for (const PeerEnd& end : ends) {
    const PeerEnd& first = ends.front();
    const bool fits = end.known && end.node == first.node && end.key.place() == first.key.place() &&
                      end.key.con == end.own_con && (!same_attempt || end.key.epoch == first.key.epoch);
    if (!fits)
      return judge.fail(Oracle::incarnation, now,
                        who + ": its connections belong to different attempts: " + text_of(first) + ", and " +
                            text_of(end));
  }
}

}  // namespace rtrs::sim
