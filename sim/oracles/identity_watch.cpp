#include "sim/oracles/identity_watch.hpp"

#include <algorithm>
#include <string>

#include "core/proto/limits.hpp"

namespace rtrs::sim {

void IdentityWatch::asked(std::uint32_t request, PeerIdentity identity) {
  asked_.push_back({request, identity});
}

PeerIdentity IdentityWatch::take(std::uint32_t request) {
  const auto at =
      std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.request == request; });
  if (at == asked_.end()) return {};
  const PeerIdentity identity = at->identity;
  asked_.erase(at);
  return identity;
}

void IdentityWatch::accepted(std::uint32_t request, ConKey key, Nanos now) {
  const PeerIdentity identity = take(request);
  const std::uint32_t index = key.session;
  const auto known = std::find_if(sessions_.begin(), sessions_.end(),
                                  [&](const Session& one) { return one.index == index; });
  if (known == sessions_.end()) {
    sessions_.push_back({index, identity, {key}});
    return;
  }
  known->connections.push_back(key);
  if (known->identity != identity)
    judge_.fail(Oracle::identities, now,
                "a client of identity " + std::to_string(identity.low) + " joined session " +
                    std::to_string(index) + ", which belongs to identity " +
                    std::to_string(known->identity.low) + " made");
}

void IdentityWatch::rejected(std::uint32_t request) {
  take(request);
}

void IdentityWatch::closed(ConKey key) {
  for (Session& one : sessions_) std::erase(one.connections, key);
  std::erase_if(sessions_, [](const Session& one) { return one.connections.empty(); });
}

}  // namespace rtrs::sim
