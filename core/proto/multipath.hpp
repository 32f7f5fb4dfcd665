// Choice of the path for one request (protocol section 6.1).
#pragma once
#include <cstdint>

#include "core/base/growing_vector.hpp"
#include "core/proto/client_path.hpp"
#include "core/proto/limits.hpp"
#include "core/proto/multipath_policy.hpp"

namespace rtrs {

// Table of all paths ever added, with room for a few more.
using PathTable = GrowingVector<ClientPath, kPathsInside, kMaxPaths>;
inline constexpr unsigned kNoPath = kMaxPaths;

// Returns the connected path that the policy prefers among those with send queue room on the request's
// connection; kNoPath if there is none. `cursor` is the position of round-robin.
unsigned choose_path(const PathTable&, MultipathPolicy, unsigned connected, bool service,
                     std::uint16_t affinity, unsigned& cursor) noexcept;

// Returns the connection of a request: cid 0 for service messages, else one of the others by affinity, so
// that requests with the same affinity stay in order.
inline std::uint16_t connection_for(const ClientPath& path, bool service, std::uint16_t affinity) noexcept {
  if (service) return 0;
  return static_cast<std::uint16_t>(1 + affinity % (path.con_count() - 1U));
}

}  // namespace rtrs
