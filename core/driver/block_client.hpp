// The client of a server's block devices: a session, the devices that are mapped over it, and their requests.
// It splits requests into messages that session and device take, opens the devices again after a server was
// restarted, and sends again what the new server did not know. It owns no thread, clock or socket, as Client
// (core/driver/client.hpp) does not: simulated and real runs execute the same object code.
//
// One thread owns it; user code never runs inside a call. The fabric of a call is the same in all calls.
// Where open() or map() throws bad_alloc because there is no memory to record the client, nothing has begun,
// and the call may be made again. Nothing is allocated per request once the most requests and messages that
// were under way together are.
//
// There is no order between requests that are under way together. A FLUSH covers every change that completed
// before it was submitted.
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
  // At least 256 of max_queued: messages of the devices find room beside those of requests.
  ClientOptions session;
  std::uint32_t max_requests = 65536;  // under way together, of all devices
};

// One request; `offset` and `length` in bytes, whole logical blocks of the device. A FLUSH has none.
struct BlockRequest {
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  // Read, write: `length` bytes, owned by the client until the completion is polled; a write only reads them.
  std::byte* data = nullptr;
  RegionId region = kNoRegion;      // `data` lies in this region of the fabric, from `region_offset` on
  std::uint32_t region_offset = 0;  // bytes
  bool fua = false;                 // durable before it completes
  bool nounmap = false;             // write_zeroes: the blocks stay allocated, see rnbd::IoPiece
  // Linux ioprio, for the server's storage; 0: none. A server ignores it until it has SESS_INFO.
  std::uint16_t prio = 0;
  std::uint64_t user_data = 0;  // comes back with the completion
};

// `error`: 0 with Errc::ok, otherwise the Linux errno to report, positive. Result and errno:
//   peer_error   the server's errno, also that with which it refused to open the device. Where the reason may
//   pass
//                (rnbd::may_pass(), as ENOENT when a server is back before its disk), requests wait before:
//                for queue_timeout from when they were submitted, or from the first refusal, if that was
//                later
//   invalid      EINVAL: not whole logical blocks; EIO: beyond the end; EPERM: mapped read-only;
//                EOPNOTSUPP: the device cannot do this
//   cache_lost   EIO: changes that were acknowledged before are lost. A FLUSH tells so once, and until then
//                each change with FUA
//   not_open     ENODEV: the handle is dead or being unmapped, also since the first OPEN was refused
//   request_timeout  ETIMEDOUT: the session's; or the device was not open for queue_timeout while the link
//                was up, or while it came and went. The time counts from when the request was submitted, or
//                from when the last request of the client that was at the session ended, if that was later.
//                With a queue_timeout of 0 nothing waits: it is the result at the next poll()
//   no_path, no_permit, session_closed: of the session, see Client::submit()
// A request of several messages has the first error of one; but one that nobody answered goes first, because
// a server may still execute it.
struct BlockCompletion {
  std::uint64_t user_data = 0;
  Errc result = Errc::ok;
  std::uint16_t error = 0;
};

using BlockEvent = std::variant<PathEvent, rnbd::DeviceChanged, rnbd::CacheReplaced>;

class BlockClient {
 public:
  // A CLOSE that no server answers holds close() up for this long.
  static constexpr Nanos kUnmapGrace = seconds(5);
  // Between two attempts to open a device that failed undelivered while the link is up.
  static constexpr Nanos kRetryPause = milliseconds(250);

  // `recorder` may be null; it must outlive the client.
  BlockClient(const BlockClientOptions&, Recorder*);
  ~BlockClient();
  BlockClient(const BlockClient&) = delete;
  BlockClient& operator=(const BlockClient&) = delete;

  // Starts to connect. Errors: what Client::open() says; invalid, when max_queued is below 256.
  Errc open(Fabric&, Nanos now);
  // Errors: EEXIST, EINVAL (name), ENOSPC (too many devices), ESHUTDOWN (after close()). On 0 a DeviceChanged
  // follows: open, or unmapped with the errno of the server. Waits while no path is connected.
  rnbd::MapOutcome map(Fabric&, Nanos now, std::string_view name, wire::rnbd::AccessMode);
  // What waits fails with not_open; what is at the server ends; then DeviceChanged{unmapped}. Unknown handles
  // are ignored.
  void unmap(Fabric&, Nanos now, rnbd::DeviceHandle);
  // Try now to open a device that the server refused. It is tried by itself, after up to 15 s.
  void remap(Fabric&, Nanos now, rnbd::DeviceHandle);
  // An open device has this many sectors of 512 bytes from now on, whatever the server has, until it is
  // opened again; DeviceChanged tells it. Nothing is sent. Requests beyond the new end fail with EIO. False:
  // the handle is dead, or no device with its block size can have that size. One that is closed keeps its
  // size.
  bool resize(Fabric&, Nanos now, rnbd::DeviceHandle, std::uint64_t sectors);

  // Queues a request, from map() on: until the device is open it waits here. Errors: session_closed (after
  // close()), queue_full (max_requests). On ok, exactly one BlockCompletion follows.
  Errc submit(Fabric&, Nanos now, rnbd::DeviceHandle, const BlockRequest&);
  // Takes events from the fabric and runs due timers; returns finished requests, oldest first. Call again at
  // once when the span came back full, and at the latest at next_deadline().
  std::size_t poll(Fabric&, Nanos now, std::span<BlockCompletion>);
  Nanos next_deadline() const noexcept;
  // The same without what waits for the fabric, as Client::next_timer().
  Nanos next_timer() const noexcept;
  // Events since the last call, oldest first; false: there is none. Take them after every call above; of more
  // than 1,024 the oldest are dropped.
  bool take_event(BlockEvent& into);

  // Requests that are not at the server yet fail with session_closed, what is there ends; unmaps,
  // disconnects. Allowed at any time, also before open(). Once only.
  void close(Fabric&, Nanos now);
  // The session is closed and every request is over, its completion polled or not.
  bool closed() const noexcept;

  // Paths, link, statistics, limits. Its submit(), poll(), take_news() and close() belong to this object.
  Client& session() noexcept;
  const Client& session() const noexcept;
  rnbd::DeviceState state(rnbd::DeviceHandle) const noexcept;
  // Mapped, and the server refused to open it the last time: until it is tried again, requests fail, or wait
  // where the reason may pass.
  bool refused(rnbd::DeviceHandle) const noexcept;
  // Of the last OPEN that the server answered; nullptr for dead handles. Valid until the next call.
  const rnbd::Geometry* geometry(rnbd::DeviceHandle) const noexcept;
  bool writable(rnbd::DeviceHandle) const noexcept;  // false for dead handles
  unsigned mapped_count() const noexcept;            // those being unmapped included
  unsigned messages_in_flight() const noexcept;      // SESS_INFO, OPEN and CLOSE without an answer
  std::uint32_t under_way() const noexcept;          // requests whose completion was not polled yet

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
