// Chooses the connection that a server closes when a client connects and the maximum number of connections is
// reached. Has no side effects.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::rpc {

// Rights of a client. stranger: read access only. member: may also change things. owner: root or the user of
// the server.
enum class Rank : std::uint8_t { stranger, member, owner };

struct Place {
  Rank rank = Rank::stranger;
  bool busy = false;           // waits for a response, or is subscribed to events
  std::uint64_t last_use = 0;  // grows with each request and each new connection
};

// Returns the index of the connection to close for a new client. First choice: an idle connection whose rank
// is not above that of the new client. Second choice: a busy connection of a lower rank. If there are several
// candidates, the one with the lowest rank is closed, and among equal ranks the least recently used one.
// Returns nullopt if the new client must be refused.
std::optional<std::size_t> gives_way(std::span<const Place> places, Rank newcomer);

}  // namespace rtrs::rpc
