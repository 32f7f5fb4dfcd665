// Server: accepts sessions over a fabric and passes their requests to the application, which answers each
// exactly once, in any order. Owns no thread, clock or socket; client.hpp has the rules.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/driver/access.hpp"
#include "core/driver/in_flight.hpp"
#include "core/driver/path_event.hpp"
#include "core/driver/service_times.hpp"
#include "core/fabric/fabric.hpp"
#include "core/proto/config.hpp"
#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"
#include "core/wire/extensions.hpp"

namespace rtrs {

class Recorder;

// Identifies one request until it is answered.
struct RequestId {
  std::uint16_t session = 0;
  std::uint16_t chunk = 0;
  std::uint16_t serial = 0;
  auto operator<=>(const RequestId&) const = default;
  // Converts the id to a number and back, for layers that only return it, and for traces.
  constexpr std::uint64_t number() const noexcept {
    return std::uint64_t{session} << 32 | std::uint64_t{chunk} << 16 | serial;
  }
  static constexpr RequestId of(std::uint64_t number) noexcept {
    return {static_cast<std::uint16_t>(number >> 32), static_cast<std::uint16_t>(number >> 16),
            static_cast<std::uint16_t>(number)};
  }
};

struct ServerEvent {
  enum class Kind : std::uint8_t {
    session_opened,  // the first path is connected; sets session and name
    session_closed,  // all paths are closed and no request is in flight; sets session
    request,         // a request; sets id, direction, data and user_header
  };
  Kind kind = Kind::request;
  Direction direction = Direction::read;
  std::uint16_t session = 0;
  RequestId id{};
  // request: the payload of a write, or the buffer for the data of a read (at most `data.size()` bytes; the
  // response is sent from here). The application may use both spans until it calls respond().
  std::span<std::byte> data{};
  std::span<const std::byte> user_header{};
  std::string_view name{};  // session_opened: valid until the next poll()
};

struct ServerStats {
  std::uint64_t requests = 0, responses = 0, error_responses = 0;
  std::uint64_t sessions_opened = 0, paths_connected = 0, paths_lost = 0;
  std::uint64_t rejected = 0;           // connect requests rejected
  std::uint64_t crowded_out = 0;        // half-open sessions closed to make room for new clients
  std::uint64_t refused_messages = 0;   // messages that could not be parsed; each closed its path
  std::uint64_t gated = 0;              // requests that waited for an older user of their chunk
  std::uint64_t fences = 0;             // fence requests answered
  std::uint64_t dropped_responses = 0;  // responses whose path was lost
  std::uint64_t stale_events = 0;
  std::array<std::uint64_t, kReasonCount> lost_by{};      // `paths_lost`, indexed by Reason
  std::array<std::uint64_t, kReasonCount> rejected_by{};  // `rejected`, indexed by Reason
};

struct ServerPathStatus {
  unsigned path = 0;                    // index, for disconnect_path()
  PathState state = PathState::absent;  // connecting, connected or closing
  Reason reason = Reason::none;         // why the path closes
  std::string peer{};                   // both addresses: "10.0.0.7:40112 > 10.0.0.2:1234"
  DevicePort device{};
  std::uint32_t in_service = 0;   // number of unanswered requests
  std::uint32_t connections = 0;  // number of open connections
  wire::Extensions extensions{};  // granted extensions
  Nanos since = 0;                // time at which the state was entered
  Traffic traffic;
  // Times from the arrival of a request to the post of its response. Null before the path is connected. Valid
  // until the next non-const call on the server.
  const ServiceTimes* times = nullptr;
  std::uint32_t connections_wanted = 0;  // number of connections of a complete path
  std::uint32_t answers_waiting = 0;     // responses that wait for send queue room; part of in_service
  std::uint32_t fences_waiting = 0;      // fences that wait for the end of this path
  Nanos handshake_deadline = kNever;     // connecting: time at which the path is closed
  Nanos heartbeat_deadline = kNever;     // connected: time of the next heartbeat check
  Nanos silent_since = kNever;  // connected: send time of a heartbeat after which nothing was received
};
struct ServerSessionStatus {
  std::uint16_t session = 0;  // session index
  bool opened = false;        // session_opened was reported or is pending
  bool closing = false;       // a close was requested
  std::string name{};         // empty before the first INFO_REQ
  std::string identity{};     // see Server::identity()
  std::vector<ServerPathStatus> paths{};
};

// Returns the configuration reduced to the fabric's capabilities: credits, SEND_WITH_INV, queue depths.
// always_invalidate is unchanged; listen() fails if the fabric does not support it.
ServerConfig clamp_to(const ServerConfig& wanted, const Capabilities& fabric) noexcept;

class Server {
 public:
  // `recorder` may be null; it must outlive the server.
  Server(const ServerConfig&, Recorder* recorder);
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  // Errors: invalid (configuration out of bounds), not_supported (the fabric lacks a capability, see
  // clamp_to()), else the fabric's error. May be called for several addresses of one fabric.
  Errc listen(Fabric&, Nanos now, const PathAddress& local);
  std::size_t poll(Fabric&, Nanos now, std::span<ServerEvent>);
  // `peer_errno`: 0 or a positive Linux errno. A read answered with 0 sends `data` of the request.
  void respond(Fabric&, Nanos now, RequestId, std::uint16_t peer_errno);
  // Collects responses during its lifetime; its destructor passes them to the fabric in one call, which saves
  // system calls if several requests complete at a time. At most one may exist, and poll() must not be called
  // meanwhile.
  class ResponseBatch {
   public:
    ResponseBatch(Server&, Fabric&) noexcept;
    ~ResponseBatch();
    ResponseBatch(const ResponseBatch&) = delete;
    ResponseBatch& operator=(const ResponseBatch&) = delete;

   private:
    Server& server_;
    Fabric& fabric_;
  };
  // Latest time of the next poll(); 0: at once.
  Nanos next_deadline() const noexcept;
  // Like next_deadline(), but without work that is pending for the fabric: time of the next protocol timer.
  Nanos next_timer() const noexcept;

  Errc disconnect_path(Fabric&, Nanos now, std::uint16_t session, unsigned path);
  void close_session(Fabric&, Nanos now, std::uint16_t session);
  // Closes every session and accepts no new ones. closed() returns true when everything is drained.
  void close(Fabric&, Nanos now);
  bool closed() const noexcept;

  unsigned session_count() const noexcept;
  // Returns the addresses of the first connected path ("10.0.0.7:40112 > 10.0.0.2:1234"), else of the last
  // path that sent a connect request; empty if the session does not exist.
  std::string peer(std::uint16_t session) const;
  // Fabric::identity_of_request() of the client that created the session; empty if it has none.
  std::string identity(std::uint16_t session) const;
  // Sets the access rules for clients that connect and sessions that are opened from now on.
  void set_access(AccessRules);
  // Limits always_invalidate to sessions whose first connection uses a device on which it protects memory
  // (fresh_keys_protect()). Without this call, always_invalidate applies to all sessions.
  void invalidate_where_it_protects() noexcept;
  // Status of every session, including those being opened or closed. Allocates, so do not call on the IO
  // path.
  std::vector<ServerSessionStatus> sessions() const;
  // Unanswered requests of a session, by chunk. Allocates, so do not call on the IO path. Requests in state
  // Waits::devices are with the application, which knows what they wait for.
  std::vector<RequestInFlight> in_flight(std::uint16_t session) const;
  // Resets the statistics of a path in `session`; no_such_path if it does not exist. A server has no
  // reconnect counters to reset.
  Errc reset_statistics(std::uint16_t session, unsigned path) noexcept;
  bool take_news(PathEvent&);
  const ServerStats& stats() const noexcept;
  std::uint64_t fingerprint() const noexcept;
  // Name of a violated invariant of a session (core/proto/server_invariants.hpp), or null. Linear in the
  // depth of every session.
  const char* broken_invariant() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
