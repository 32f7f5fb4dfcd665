// Choice of path and connection for a request, and the order in which requests are posted.
#include <algorithm>

#include "conformance/spec/client.hpp"

namespace rtrs::spec {

// True if the connection certainly has room. A client reserves an unspecified small number of send queue
// entries.
bool ClientSpec::has_room(const Path& path, const Permit& permit) const {
  constexpr std::uint32_t kSpare = 5;
  if (path.cons.size() < 2) return false;
  const std::size_t con = permit.service ? 0 : 1 + permit.affinity % (path.cons.size() - 1);
  return path.cons[con].has_room(settings_.send_depth, kSpare);
}

// True if the multipath policy certainly prefers path `index` to path `other`.
bool ClientSpec::is_preferred(unsigned index, unsigned other) const {
  const Path& path = paths_[index];
  const Path& than = paths_[other];
  switch (settings_.policy) {
    case Policy::round_robin:
      return turn_ && (index + kPaths - *turn_) % kPaths < (other + kPaths - *turn_) % kPaths;
    case Policy::min_inflight:
      return path.flying < than.flying || (path.flying == than.flying && index < other);
    case Policy::min_latency: {
      if (!path.latency || !than.latency) return false;
      const Time mine = *path.latency == 0 ? kNever : *path.latency;
      const Time theirs = *than.latency == 0 ? kNever : *than.latency;
      return mine < theirs || (mine == theirs && index < other);
    }
    case Policy::unknown:
      break;
  }
  return false;
}

void ClientSpec::check_choice(const Permit& permit) {
  const unsigned chosen = event_.key.path;
  if (!whole_ || !permit.described || chosen >= paths_.size()) return;
  for (unsigned index = 0; index < paths_.size(); ++index) {
    const Path& path = paths_[index];
    if (index == chosen || path.state != PathState::connected || !has_room(path, permit)) continue;
    if (!context().check(
            !is_preferred(index, chosen), Rule::request_choice,
            [&] {
              return "a request over path " + std::to_string(chosen) + " with " +
                     std::to_string(paths_[chosen].flying) + " in flight";
            },
            [&] {
              return "path " + std::to_string(index) + " with " + std::to_string(path.flying) +
                     ", which the policy puts before it";
            }))
      break;
  }
  if (settings_.policy == Policy::round_robin) turn_ = (chosen + 1) % kPaths;
}

void ClientSpec::check_affinity(const Path& path, const Permit& permit) {
  if (!permit.described || permit.service || event_.key.con == 0 || path.cons.size() < 2) return;
  const std::size_t expected = 1 + permit.affinity % (path.cons.size() - 1);
  context().check(
      event_.key.con == expected, Rule::request_affinity,
      [&] { return "affinity " + std::to_string(permit.affinity) + " over " + to_string(event_.key); },
      [&] { return "connection " + std::to_string(expected); });
}

void ClientSpec::check_order(Permit& permit, Connection& con) {
  if (!permit.described || !permit.fresh) return;
  permit.fresh = false;
  context().check(
      permit.order > con.last_request, Rule::request_order,
      [&] {
        return "permit " + std::to_string(event_.permit) + " is posted on " + to_string(con.key()) +
               " behind a request that was submitted later";
      },
      [] { return std::string("the order of Submitted"); });
  con.last_request = std::max(con.last_request, permit.order);
}

}  // namespace rtrs::spec
