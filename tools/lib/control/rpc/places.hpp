// Who has to leave when all places of a socket are taken. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::rpc {

// Whoever may only look, whoever may change things, and the superuser and the user of the server.
enum class Rank : std::uint8_t { stranger, member, owner };

struct Place {
  Rank rank = Rank::stranger;
  bool busy = false;           // waits for an answer, or for events
  std::uint64_t last_use = 0;  // grows with each request and connection
};

// The place that a newcomer gets: the one that has been idle for longest, of the lowest rank first and of
// none above its own. Where all are busy, the longest unused of a rank below its own. Nothing: it is refused.
std::optional<std::size_t> gives_way(std::span<const Place> places, Rank newcomer);

}  // namespace rtrs::rpc
