// Which session a connect request belongs to, and which session owns a name. One step decides and records at
// once, so that two first requests of one session, or two claims of one name, cannot both win. A value.
#pragma once
#include <cstdint>

#include "core/base/fixed_vector.hpp"
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

  // Answered by AdmitSession, or by Reject: ENXIO for an additional path of an unknown session, ENOMEM beyond
  // the limit. After `create` the session exists until SessionDropped, whatever becomes of the request.
  void on(const SessionSought&, ActionList&) noexcept;
  // Answered by AnswerName: EPERM when another session owns the name or this one has another.
  void on(const NameClaimed&, ActionList&) noexcept;
  // The session is over: index, identity and name are free again.
  void on(const SessionDropped&, ActionList&) noexcept;

  unsigned session_count() const noexcept { return live_; }
  std::uint64_t fingerprint() const noexcept;
  bool operator==(const ServerRegistry&) const = default;
  RTRS_FIELDS(entries_, live_, max_sessions_)

 private:
  struct Entry {
    wire::Uuid uuid{};
    std::uint64_t digest_low = 0;
    std::uint64_t digest_high = 0;
    bool live = false;
    bool named = false;
    bool operator==(const Entry&) const = default;
    RTRS_FIELDS(uuid, digest_low, digest_high, live, named)
  };

  FixedVector<Entry, kMaxSessions> entries_;  // by session index
  std::uint16_t live_ = 0;
  std::uint16_t max_sessions_;
};

}  // namespace rtrs
