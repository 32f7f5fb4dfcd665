#include "core/proto/server_registry.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/fingerprint.hpp"
#include "core/base/fixed_vector.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

ServerRegistry::ServerRegistry(const ServerConfig& config) noexcept
    : max_sessions_(static_cast<std::uint16_t>(std::min<unsigned>(config.max_sessions, kMaxSessions))),
      max_host_sessions_(config.max_host_sessions == 0 ? max_sessions_ : config.max_host_sessions),
      max_half_open_(config.max_half_open == 0 ? static_cast<std::uint16_t>((max_sessions_ + 1) / 2)
                                               : config.max_half_open) {}

unsigned ServerRegistry::half_open_of(std::uint32_t host) const noexcept {
  if (host == 0) return 0;
  return static_cast<unsigned>(
      std::count_if(half_open_.begin(), half_open_.end(),
                    [&](std::uint16_t session) { return entries_[session].host == host; }));
}

unsigned ServerRegistry::sessions_of(std::uint32_t host) const noexcept {
  if (host == 0) return 0;
  return static_cast<unsigned>(std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.live && entry.host == host;
  }));
}

std::size_t ServerRegistry::oldest_of(std::uint32_t host) const noexcept {
  std::size_t at = 0;
  while (entries_[half_open_[at]].host != host) ++at;
  return at;
}

std::uint32_t ServerRegistry::host_with_most_half_open() const noexcept {
  // The list is sorted, because counting each host separately would take quadratic time.
  FixedVector<std::uint32_t, kMaxSessions> hosts;
  for (const std::uint16_t session : half_open_) hosts.push_back(entries_[session].host);
  std::sort(hosts.begin(), hosts.end());
  const auto crowd_of = [&hosts](std::uint32_t host) {
    if (host == 0) return std::ptrdiff_t{0};
    const auto [first, last] = std::equal_range(hosts.begin(), hosts.end(), host);
    return last - first;
  };
  std::uint32_t host = entries_[half_open_[0]].host;
  std::ptrdiff_t most = crowd_of(host);
  for (const std::uint16_t session : half_open_) {
    const std::ptrdiff_t crowd = crowd_of(entries_[session].host);
    if (crowd > most) host = entries_[session].host;
    most = std::max(most, crowd);
  }
  return host;
}

void ServerRegistry::evict_oldest(std::uint32_t host, RegistryActions& out) noexcept {
  const std::size_t at = oldest_of(host);
  out.push_back(CrowdOut{half_open_[at]});
  half_open_.erase_at(at);
}

void ServerRegistry::forget_half_open(std::uint16_t session) noexcept {
  for (std::size_t i = half_open_.size(); i-- > 0;) {
    if (half_open_[i] == session) half_open_.erase_at(i);
  }
}

void ServerRegistry::on(const SessionSought& in, RegistryActions& out) noexcept {
  std::size_t unused = entries_.size();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].live) {
      unused = std::min(unused, i);
    } else if (entries_[i].uuid == in.paths_uuid) {
      // A client may only join an opened session. A half-open session may be left over from an attempt that
      // the client abandoned because its session is on another server.
      if (!in.first_conn && !entries_[i].named) break;
      if (in.identity != entries_[i].identity) {
        out.push_back(Reject{in.request, Reason::other_identity, wire::linux_errno::kEperm});
        return;
      }
      out.push_back(AdmitSession{in.request, static_cast<std::uint16_t>(i), false});
      return;
    }
  }
  if (!in.first_conn) {
    out.push_back(Reject{in.request, Reason::unknown_session, wire::linux_errno::kEnxio});
    return;
  }
  const bool crowded = half_open_of(in.host) >= max_half_open_;
  if (crowded) evict_oldest(in.host, out);
  if (live_ >= max_sessions_ || sessions_of(in.host) >= max_host_sessions_) {
    // If no half-open session can be dropped, the limit holds until a session ends.
    const bool own = half_open_of(in.host) != 0;
    const bool room = crowded || own || (live_ >= max_sessions_ && !half_open_.empty());
    if (room && !crowded) evict_oldest(own ? in.host : host_with_most_half_open(), out);
    out.push_back(
        Reject{in.request, Reason::too_many_sessions,
               static_cast<std::uint16_t>(room ? wire::linux_errno::kEbusy : wire::linux_errno::kEnomem)});
    return;
  }
  if (!entries_.reserve(unused + 1) || !half_open_.reserve(half_open_.size() + 1)) {
    out.push_back(Reject{in.request, Reason::no_resources, wire::linux_errno::kEnomem});
    return;
  }
  Entry entry;
  entry.uuid = in.paths_uuid;
  entry.host = in.host;
  entry.identity = in.identity;
  entry.live = true;
  if (unused == entries_.size()) {
    entries_.push_back(entry);
  } else {
    entries_[unused] = entry;
  }
  ++live_;
  half_open_.push_back(static_cast<std::uint16_t>(unused));
  out.push_back(AdmitSession{in.request, static_cast<std::uint16_t>(unused), true});
}

void ServerRegistry::on(const NameClaimed& in, RegistryActions& out) noexcept {
  Entry& claimant = entries_[in.session];
  RTRS_ASSERT(claimant.live);
  const auto owns = [&in](const Entry& entry) {
    return entry.live && entry.named && entry.digest_low == in.digest_low &&
           entry.digest_high == in.digest_high;
  };
  const bool granted = claimant.named ? owns(claimant) : std::none_of(entries_.begin(), entries_.end(), owns);
  if (granted) {
    claimant.named = true;
    claimant.digest_low = in.digest_low;
    claimant.digest_high = in.digest_high;
  }
  if (granted) forget_half_open(in.session);
  out.push_back(AnswerName{in.session, static_cast<std::uint16_t>(granted ? 0 : wire::linux_errno::kEperm)});
}

void ServerRegistry::on(const SessionDropped& in, RegistryActions&) noexcept {
  RTRS_ASSERT(entries_[in.session].live);
  entries_[in.session] = Entry{};
  forget_half_open(in.session);
  --live_;
  // Drops unused entries at the end, so that registries with equal sessions are equal values.
  std::size_t used = entries_.size();
  while (used > 0 && !entries_[used - 1].live) --used;
  entries_.resize(used);
}

std::uint64_t ServerRegistry::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(entries_);
  hash.add(half_open_);
  hash.add(live_);
  return hash.value();
}

}  // namespace rtrs
