// The client of a session: joins the protocol machine, a fabric and the application, which submits requests
// and polls for what finished. It owns no thread, clock or socket: simulated and real runs execute the same
// object code. The fabric of the first call is that of all (another ends the program), and no other driver
// may use it. One thread owns a client; user code never runs inside a call.
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
  // Identities of the session and of each of kMaxPaths paths: random (backends/system), never reused, not 0.
  wire::Uuid session_uuid{};
  std::vector<wire::Uuid> path_uuids;
  std::uint32_t max_queued = 4096;  // requests that wait for a permit
};

// The options as far as the fabric can do what they ask for: credits, keys of single requests, depth of
// queues. open() does not look at that: with options beyond them connections fail, again and again.
// A protocol.seed at its default becomes one from session_uuid, or clients reconnect in step after an outage.
ClientOptions clamp_to(const ClientOptions& wanted, const Capabilities& fabric);

struct IoRequest {
  Direction direction = Direction::read;
  bool service = false;        // administrative message, over the service connection; at most 4 KiB of data
  std::uint16_t affinity = 0;  // requests with equal affinity share a connection and stay in order on it
  std::span<const std::byte> user_header;  // copied before submit() returns; at most kMaxUserHeader bytes
  // The data: sent (write) or filled (read). Owned by the client until the completion is polled. With a
  // region the fabric works on it directly, otherwise it is copied through memory of the client.
  std::span<std::byte> data;
  RegionId region = kNoRegion;  // `data` lies in this region, from `region_offset` on
  std::uint32_t region_offset = 0;
  std::uint64_t user_data = 0;  // comes back with the completion
};
inline constexpr std::size_t kMaxUserHeader = 512 - 24;

struct IoCompletion {
  std::uint64_t user_data = 0;
  Errc result = Errc::ok;
  std::uint16_t peer_errno = 0;  // Linux errno, positive, for Errc::peer_error
};

struct ClientStats {
  std::uint64_t reads = 0, writes = 0, read_bytes = 0, write_bytes = 0;
  std::uint64_t errors = 0;              // completions that were not ok
  std::uint64_t failovers = 0;           // requests sent again on another path
  std::uint64_t unfenced_failovers = 0;  // of which without proof that the old incarnation was dead
  // Writes and service messages that failed with no_path although the server may still execute them, after
  // later requests too: a kernel server with kernel_peer=replay, or no answer to a fence with
  // fence_failed=replay
  std::uint64_t unproven_failures = 0;
  // Now, not a count: permits of requests that failed and that the server may still execute. They come back
  // when their path does, when the server answers for it over another one, or, with a server that cannot be
  // asked, fence_timeout after the path was removed.
  std::uint64_t permits_given_up = 0;
  std::uint64_t stale_events = 0;      // events of older incarnations, dropped
  std::uint64_t refused_messages = 0;  // messages of the server that did not parse
  std::uint64_t stale_responses = 0;   // responses to requests that no longer waited for them, dropped
  std::uint64_t copied_reads = 0;      // into a region of the application that the fabric gave no key for
};

class Client {
 public:
  // `recorder` may be null; it must outlive the client.
  Client(const ClientOptions&, Recorder* recorder);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // Starts to connect all paths. For options from clamp_to(). Usable when link_up(). Errors: invalid (no path
  // or too many, a name that cannot be, an identity of all zeroes, a send_depth below 8, no heartbeat time).
  Errc open(Fabric&, Nanos now);
  // Queues a request. Errors: queue_full, too_large, session_closed, not_open (before the first path ever
  // connected, the session's limits are not known: submit is refused), invalid. On ok, exactly one
  // IoCompletion follows. While no path is connected, requests wait for queue_timeout at most, those that
  // wait for a permit too, and then complete with no_path. While all permits are given up
  // (ClientStats::permits_given_up), requests wait for that long too, and then complete with no_permit.
  Errc submit(Fabric&, Nanos now, const IoRequest&);
  // Takes events from the fabric and runs due timers; returns finished requests, oldest first. Call again at
  // once when the span came back full, and at the latest at next_deadline().
  std::size_t poll(Fabric&, Nanos now, std::span<IoCompletion>);
  Nanos next_deadline() const noexcept;
  // The same without what waits for the fabric: when the protocol's next timer is due.
  Nanos next_timer() const noexcept;
  // When a request that the user holds back since then has waited for a path or a permit as long as
  // queue_timeout allows; kNever: it waits for neither.
  Nanos queue_ends(Nanos since) const noexcept;

  // Its index: path_count() - 1 afterwards, or a free one. path_exists: one has this address, in these words;
  // the server takes one path for a pair of addresses.
  Errc add_path(Fabric&, Nanos now, const PathAddress&);
  Errc remove_path(Fabric&, Nanos now, unsigned path);
  Errc disconnect_path(Fabric&, Nanos now, unsigned path);
  Errc reconnect_path(Fabric&, Nanos now, unsigned path);
  // Tries again at once what is not connected, also paths that were disconnected or gave up; how many those
  // are. Paths that are connected or being connected stay as they are.
  unsigned recover(Fabric&, Nanos now);
  // Call before releasing memory that requests of this client used by its region; none may be in flight.
  void forget_region(Fabric&, RegionId);
  void set_policy(Fabric&, Nanos now, MultipathPolicy);
  // As ClientConfig::max_reconnect_attempts, from the next attempt that fails.
  void set_max_reconnect_attempts(Fabric&, Nanos now, std::int32_t);
  // Fails what is queued, waits for what is in flight, disconnects. closed() tells when all is drained.
  void close(Fabric&, Nanos now);

  bool link_up() const noexcept;  // at least one path is connected
  // And its server granted an extension of the protocol, hence is no kernel.
  bool peer_extends() const noexcept;
  bool closed() const noexcept;
  unsigned inflight() const noexcept;          // requests accepted and not yet polled as complete
  std::uint32_t max_io_size() const noexcept;  // bytes; 0 until the first path connected
  std::uint32_t depth() const noexcept;        // permits; 0 until then
  // News since the last call, oldest first: path states, link changes. False when there is none.
  bool take_news(PathEvent&);
  bool has_news() const noexcept;
  std::span<const PathStatus> paths() const noexcept;
  // Where a path leads; an index that paths() has.
  const PathAddress& address(unsigned path) const noexcept;
  // Fabric::describe() and Fabric::device_of() of the first connection of the path when it was last made;
  // empty before.
  const std::string& peer(unsigned path) const noexcept;
  const DevicePort& device(unsigned path) const noexcept;
  // Of requests that ended well over the path, since it was added or its traffic was reset.
  const AnswerTimes& answer_times(unsigned path, Direction) const noexcept;
  MultipathPolicy policy() const noexcept;
  std::int32_t max_reconnect_attempts() const noexcept;
  std::size_t queued() const noexcept;  // requests that wait for a permit
  // no_such_path: of an index that paths() does not have.
  Errc reset_statistics(unsigned path, PathStatistics) noexcept;
  // The request that the server has not answered for longest: since when, and where. False: there is none.
  // Linear in the depth.
  bool oldest_in_flight(OldestRequest&) const noexcept;
  const ClientStats& stats() const noexcept;
  std::uint64_t fingerprint() const noexcept;  // of the protocol state
  // Name of the first broken rule of the protocol state, or null; linear in the depth. For tests and
  // simulation.
  const char* broken_invariant() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
