// Assigns connect requests to sessions, and names to their owners. One step decides and records, so that two
// first requests of one session, or two claims of one name, cannot both succeed. A value type.
#pragma once
#include <cstdint>

#include "core/base/growing_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/inputs.hpp"
#include "core/proto/limits.hpp"

namespace rtrs {

class ServerRegistry {
 public:
  // max_sessions above kMaxSessions counts as kMaxSessions.
  explicit ServerRegistry(const ServerConfig&) noexcept;

  // The last action is AdmitSession or Reject. Errnos: ENXIO for an additional path of an unknown or
  // half-open session, EPERM for a session that a client of another identity created, ENOMEM above a limit,
  // EBUSY while room is being made. After `create` the session exists until SessionDropped, even if the
  // connect request fails. Only connections of a session can fence, replace or end its paths, so this check
  // protects the paths from other identities.
  //
  // A session is half open until INFO_REQ names it. Any client can create half-open sessions with one small
  // message each, so the registry drops them to make room (CrowdOut): if one client address has
  // `max_half_open` of them, the oldest of that address; if there are `max_sessions` sessions, the oldest of
  // the address that has most.
  void on(const SessionSought&, RegistryActions&) noexcept;
  // Answers with AnswerName: EPERM if another session owns the name or this session has another name.
  void on(const NameClaimed&, RegistryActions&) noexcept;
  // The session has ended: its index, identity and name are free again.
  void on(const SessionDropped&, RegistryActions&) noexcept;

  unsigned session_count() const noexcept { return live_; }
  std::uint64_t fingerprint() const noexcept;
  bool operator==(const ServerRegistry&) const = default;
  RTRS_FIELDS(entries_, half_open_, live_, max_sessions_, max_host_sessions_, max_half_open_)

 private:
  struct Entry {
    wire::Uuid uuid{};
    std::uint64_t digest_low = 0;
    std::uint64_t digest_high = 0;
    std::uint32_t host = 0;
    bool live = false;
    bool named = false;
    PeerIdentity identity{};  // identity of the client that created the session
    bool operator==(const Entry&) const = default;
    RTRS_FIELDS(uuid, digest_low, digest_high, host, live, named, identity)
  };
  static constexpr std::size_t kInside = 8;
  using Indices = GrowingVector<std::uint16_t, kInside, kMaxSessions>;

  // Returns 0 for host 0 (unknown).
  unsigned half_open_of(std::uint32_t host) const noexcept;
  unsigned sessions_of(std::uint32_t host) const noexcept;
  // Returns the position in half_open_ of the oldest session of `host`.
  std::size_t oldest_of(std::uint32_t host) const noexcept;
  std::uint32_t host_with_most_half_open() const noexcept;
  void evict_oldest(std::uint32_t host, RegistryActions&) noexcept;
  void forget_half_open(std::uint16_t session) noexcept;

  GrowingVector<Entry, kInside, kMaxSessions> entries_;  // indexed by session
  Indices half_open_;                                    // oldest first, without evicted sessions (CrowdOut)
  std::uint16_t live_ = 0;
  std::uint16_t max_sessions_;
  std::uint16_t max_host_sessions_;
  std::uint16_t max_half_open_;
};

}  // namespace rtrs
