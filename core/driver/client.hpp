// Client of a session: connects the protocol state machine, a fabric and the application, which submits
// requests and polls for completions. Owns no thread, clock or socket, so that simulated and real runs
// execute the same object code. Every call must pass the fabric of the first call (another one aborts the
// program), and no other driver may use that fabric. One thread owns a client; user code never runs inside a
// call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/driver/answer_times.hpp"
#include "core/driver/path_event.hpp"
#include "core/fabric/fabric.hpp"
#include "core/proto/config.hpp"
#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"
#include "core/wire/bytes.hpp"

namespace rtrs {

class Recorder;

struct ClientOptions {
  ClientConfig protocol;
  std::string session_name;        // 1..254 characters, neither '/' nor '.', unique at the server
  std::vector<PathAddress> paths;  // 1..kMaxPaths
  // Identities of the session and of each of kMaxPaths paths: random (backends/platform/system), never
  // reused, not 0.
  wire::Uuid session_uuid{};
  std::vector<wire::Uuid> path_uuids;
  std::uint32_t max_queued = 4096;  // maximum number of requests that wait for a permit
};

// Returns the options reduced to the fabric's capabilities: credits, per-request keys, queue depths.
// open() does not check this: connections with options beyond the capabilities fail repeatedly. A default
// protocol.seed is replaced by one derived from session_uuid, so that clients do not reconnect simultaneously
// after an outage.
ClientOptions clamp_to(const ClientOptions& wanted, const Capabilities& fabric);

struct IoRequest {
  Direction direction = Direction::read;
  bool service = false;        // administrative message, over the service connection; at most 4 KiB of data
  std::uint16_t affinity = 0;  // requests with equal affinity share a connection and stay in order on it
  std::span<const std::byte> user_header;  // copied before submit() returns; at most kMaxUserHeader bytes
  // Data to send (write) or buffer to fill (read). Owned by the client until the completion is polled. With a
  // region the fabric works on it directly, otherwise it is copied through the client's memory.
  std::span<std::byte> data;
  RegionId region = kNoRegion;  // fabric region that contains `data`, at `region_offset`
  std::uint32_t region_offset = 0;
  std::uint64_t user_data = 0;  // returned in the completion
};
inline constexpr std::size_t kMaxUserHeader = 512 - 24;

struct IoCompletion {
  std::uint64_t user_data = 0;
  Errc result = Errc::ok;
  std::uint16_t peer_errno = 0;  // the server's errno (Linux, positive) for Errc::peer_error
};

struct ClientStats {
  std::uint64_t reads = 0, writes = 0, read_bytes = 0, write_bytes = 0;
  std::uint64_t errors = 0;              // completions with a result other than Errc::ok
  std::uint64_t failovers = 0;           // requests resent over another path
  std::uint64_t unfenced_failovers = 0;  // failovers without proof that the old incarnation was dead
  // Writes and service messages that failed with no_path although the server may still execute them, even
  // after later requests. Occurs with a kernel server and kernel_peer=replay, or with fence_failed=replay if
  // a fence is not answered.
  std::uint64_t unproven_failures = 0;
  // Current value, not a counter: permits of failed requests that the server may still execute. A permit is
  // usable again when its path reconnects, when the server answers a fence for that path over another path
  // or, if the server has no fence, fence_timeout after the path was removed.
  std::uint64_t permits_given_up = 0;
  std::uint64_t stale_events = 0;      // events of older incarnations, dropped
  std::uint64_t refused_messages = 0;  // server messages that could not be parsed
  std::uint64_t stale_responses = 0;   // responses to requests that no longer waited for them, dropped
  std::uint64_t copied_reads = 0;      // reads into an application region for which the fabric gave no key
};

class Client {
 public:
  // `recorder` may be null; it must outlive the client.
  Client(const ClientOptions&, Recorder* recorder);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // Starts to connect all paths. Expects options from clamp_to(). Requests can be sent when link_up().
  // Errors: invalid (no path or too many, invalid name, all-zero identity, send_depth below 8, zero heartbeat
  // interval).
  Errc open(Fabric&, Nanos now);
  // Queues a request. Errors: queue_full, too_large, session_closed, invalid, and not_open before the first
  // path ever connected, because the session's limits are unknown until then. On ok, exactly one
  // IoCompletion follows. While no path is connected, requests (including those that wait for a permit) wait
  // at most queue_timeout and then complete with no_path. While the server may still execute failed requests
  // on all permits (ClientStats::permits_given_up), requests also wait at most queue_timeout and then
  // complete with no_permit.
  Errc submit(Fabric&, Nanos now, const IoRequest&);
  // Processes fabric events and due timers; returns completed requests, oldest first. Call again at once if
  // the span was filled, and at the latest at next_deadline().
  std::size_t poll(Fabric&, Nanos now, std::span<IoCompletion>);
  Nanos next_deadline() const noexcept;
  // Like next_deadline(), but without work that is pending for the fabric: time of the next protocol timer.
  Nanos next_timer() const noexcept;
  // Time at which queue_timeout ends for a request that the caller has held back since `since`; kNever if the
  // request waits for neither a path nor a permit.
  Nanos queue_ends(Nanos since) const noexcept;

  // Adds a path. The new path gets an unused index below path_count(), or else path_count() - 1 after the
  // call. path_exists: a path with the same address text exists; the server accepts one path per address
  // pair.
  Errc add_path(Fabric&, Nanos now, const PathAddress&);
  Errc remove_path(Fabric&, Nanos now, unsigned path);
  Errc disconnect_path(Fabric&, Nanos now, unsigned path);
  Errc reconnect_path(Fabric&, Nanos now, unsigned path);
  // Reconnects at once all paths that are not connected, including those that were disconnected or exhausted
  // their attempts; returns their number. Does not affect connected or connecting paths.
  unsigned recover(Fabric&, Nanos now);
  // Call before a region that requests of this client used is released. None of these requests may be in
  // flight.
  void forget_region(Fabric&, RegionId);
  void set_policy(Fabric&, Nanos now, MultipathPolicy);
  // Changes ClientConfig::max_reconnect_attempts; takes effect at the next failed attempt.
  void set_max_reconnect_attempts(Fabric&, Nanos now, std::int32_t);
  // Fails queued requests, waits for requests in flight, then disconnects. closed() returns true when
  // everything is drained.
  void close(Fabric&, Nanos now);

  bool link_up() const noexcept;  // at least one path is connected
  // True if the server of a connected path granted an extension, so that it is not a kernel server.
  bool peer_extends() const noexcept;
  bool closed() const noexcept;
  unsigned inflight() const noexcept;          // accepted requests whose completion was not polled yet
  std::uint32_t max_io_size() const noexcept;  // in bytes; 0 until the first path connected
  std::uint32_t depth() const noexcept;        // number of permits; 0 until the first path connected
  // Takes the oldest path state or link change that was not taken yet. False if there is none.
  bool take_news(PathEvent&);
  bool has_news() const noexcept;
  std::span<const PathStatus> paths() const noexcept;
  // Address of a path. Precondition: paths() contains the index.
  const PathAddress& address(unsigned path) const noexcept;
  // Fabric::describe() and Fabric::device_of() of the first connection of the path when it was last
  // connected; empty before.
  const std::string& peer(unsigned path) const noexcept;
  const DevicePort& device(unsigned path) const noexcept;
  // Response times of successful requests over the path, since it was added or its statistics were reset.
  const AnswerTimes& answer_times(unsigned path, Direction) const noexcept;
  MultipathPolicy policy() const noexcept;
  std::int32_t max_reconnect_attempts() const noexcept;
  std::size_t queued() const noexcept;  // requests that wait for a permit
  // Returns no_such_path if paths() does not contain the index.
  Errc reset_statistics(unsigned path, PathStatistics) noexcept;
  // Finds the oldest unanswered request: its send time and location. Returns false if there is none. Linear
  // in the depth.
  bool oldest_in_flight(OldestRequest&) const noexcept;
  const ClientStats& stats() const noexcept;
  std::uint64_t fingerprint() const noexcept;  // hash of the protocol state
  // Name of the first violated invariant of the protocol state, or null. Linear in the depth. For tests and
  // simulation.
  const char* broken_invariant() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
