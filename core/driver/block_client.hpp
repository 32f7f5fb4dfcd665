// Client of a server's block devices: a session, the devices mapped over it, and their requests. Splits
// requests into messages within the limits of session and device, reopens the devices after a server restart,
// and resends requests that the restarted server did not receive. Owns no thread, clock or socket, like
// Client (core/driver/client.hpp): simulated and real runs execute the same object code.
//
// One thread owns a block client; user code never runs inside a call. All calls must pass the same fabric. If
// open() or map() throws bad_alloc because there is no memory to record the client, nothing has changed and
// the call may be repeated. Allocates only while the number of requests and messages in flight reaches a new
// maximum.
//
// Requests in flight at the same time are unordered. A FLUSH covers every change that completed before the
// FLUSH was submitted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include "core/driver/client.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/io_request.hpp"

namespace rtrs {

struct BlockClientOptions {
  // max_queued must be at least 256, so that there is room for device messages in addition to the requests.
  ClientOptions session;
  std::uint32_t max_requests = 65536;  // maximum number of requests in flight, over all devices
};

// One request; `offset` and `length` in bytes, whole logical blocks of the device. A FLUSH has neither.
struct BlockRequest {
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  // Read, write: `length` bytes, owned by the client until the completion is polled; a write only reads them.
  std::byte* data = nullptr;
  bool fua = false;  // the change is durable when the request completes
  // write_zeroes: the blocks stay allocated. A server without this flag (see Geometry::features; also any
  // kernel server before RNBD minor version 2) zeroes the blocks and may free them.
  bool nounmap = false;
  // Linux ioprio, for the server's storage; 0: none. A server ignores the priority until it has received
  // SESS_INFO.
  std::uint16_t prio = 0;
  RegionId region = kNoRegion;      // fabric region that contains `data`, at `region_offset`
  std::uint32_t region_offset = 0;  // offset of `data` in the region, in bytes
  std::uint64_t user_data = 0;      // returned in the completion
};

// `error`: 0 with Errc::ok, otherwise the Linux errno to report, positive. Result and errno:
//   peer_error   the server's errno, including that of a refused OPEN. If the reason may be temporary
//                (rnbd::may_pass(), for example ENOENT when a server restarts before its disk), requests
//                first wait for queue_timeout, counted from their submission or from the first refusal,
//                whichever is later
//   invalid      EINVAL: not whole logical blocks; EIO: beyond the end; EPERM: mapped read-only;
//                EOPNOTSUPP: the device cannot do this
//   cache_lost   EIO: acknowledged changes are lost. Reported once by a FLUSH, and until then by each change
//                with FUA
//   not_open     ENODEV: the handle is dead or being unmapped, for example because the first OPEN was refused
//   request_timeout  ETIMEDOUT: session timeout; or the device was not open for queue_timeout while
//                the link was up or flapping. The time counts from the submission of the request, or from the
//                end of the client's last request in flight, whichever is later. If queue_timeout is 0,
//                requests that would have to wait fail at the next poll()
//   no_path, no_permit, session_closed: session errors, see Client::submit()
//
// A request split into several messages reports the first error of any message. The error of an unanswered
// message takes precedence, because a server may still execute that message.
struct BlockCompletion {
  std::uint64_t user_data = 0;
  Errc result = Errc::ok;
  std::uint16_t error = 0;
};

using BlockEvent = std::variant<PathEvent, rnbd::DeviceChanged, rnbd::CacheReplaced>;

class BlockClient {
 public:
  // Longest time that close() waits for an unanswered CLOSE.
  static constexpr Nanos kUnmapGrace = seconds(5);
  // Delay between two attempts to open a device whose OPEN was not delivered while the link is up.
  static constexpr Nanos kRetryPause = milliseconds(250);

  // `recorder` may be null; it must outlive the client.
  BlockClient(const BlockClientOptions&, Recorder*);
  ~BlockClient();
  BlockClient(const BlockClient&) = delete;
  BlockClient& operator=(const BlockClient&) = delete;

  // Starts to connect. Errors: those of Client::open(); invalid if max_queued is below 256.
  Errc open(Fabric&, Nanos now);
  // Errors: EEXIST, EINVAL (name), ENOSPC (too many devices), ESHUTDOWN (after close()). On 0 a DeviceChanged
  // follows: open, or unmapped with the server's errno. The OPEN waits until a path is connected.
  rnbd::MapOutcome map(Fabric&, Nanos now, std::string_view name, wire::rnbd::AccessMode);
  // Unmaps a device: waiting requests fail with not_open, requests at the server complete, then
  // DeviceChanged{unmapped} follows. Unknown handles are ignored.
  void unmap(Fabric&, Nanos now, rnbd::DeviceHandle);
  // Retries at once to open a device that the server refused. Without this call, the client retries within 15
  // s.
  void remap(Fabric&, Nanos now, rnbd::DeviceHandle);
  // Sets the size of an open device, in sectors of 512 bytes, regardless of the server's size, until the
  // device is opened again. DeviceChanged reports the change; no message is sent. Requests beyond the new end
  // fail with EIO. Returns false if the handle is dead or the size is impossible with the block size. A
  // closed device keeps its size.
  bool resize(Fabric&, Nanos now, rnbd::DeviceHandle, std::uint64_t sectors);

  // Queues a request. Allowed after map(); the request waits until the device is open. Errors: session_closed
  // (after close()), queue_full (max_requests). On ok, exactly one BlockCompletion follows.
  Errc submit(Fabric&, Nanos now, rnbd::DeviceHandle, const BlockRequest&);
  // Processes fabric events and due timers; returns completed requests, oldest first. Call again at once if
  // the span was filled, and at the latest at next_deadline().
  std::size_t poll(Fabric&, Nanos now, std::span<BlockCompletion>);
  Nanos next_deadline() const noexcept;
  // Like next_deadline(), but without work that is pending for the fabric; see Client::next_timer().
  Nanos next_timer() const noexcept;
  // Takes the oldest event; false if there is none. Call it after every call above: beyond 1,024 events, the
  // oldest are dropped.
  bool take_event(BlockEvent& into);

  // Closes the client: unsent requests fail with session_closed, sent requests complete, then devices are
  // unmapped and the session disconnects. Allowed at any time, even before open(). Call once only.
  void close(Fabric&, Nanos now);
  // True if the session is closed and every request completed, even if its completion was not polled.
  bool closed() const noexcept;

  // The session: paths, link, statistics, limits. Only the block client may call the session's submit(),
  // poll(), take_news() and close().
  Client& session() noexcept;
  const Client& session() const noexcept;
  rnbd::DeviceState state(rnbd::DeviceHandle) const noexcept;
  // True if the device is mapped and the server refused the last OPEN. Until the next attempt, requests fail,
  // or wait if the reason may be temporary.
  bool refused(rnbd::DeviceHandle) const noexcept;
  // Geometry from the last OPEN response; nullptr for a dead handle. Valid until the next call.
  const rnbd::Geometry* geometry(rnbd::DeviceHandle) const noexcept;
  bool writable(rnbd::DeviceHandle) const noexcept;  // false for dead handles
  unsigned mapped_count() const noexcept;            // including devices being unmapped
  unsigned messages_in_flight() const noexcept;      // unanswered SESS_INFO, OPEN and CLOSE
  std::uint32_t under_way() const noexcept;          // requests whose completion was not polled yet

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
