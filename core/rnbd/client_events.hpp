// Inputs, actions and results of ClientDevices (core/rnbd/client_devices.hpp).
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/fixed_vector.hpp"
#include "core/base/inline_blob.hpp"
#include "core/base/reflect.hpp"
#include "core/base/time.hpp"
#include "core/rnbd/geometry.hpp"
#include "core/rnbd/slot_id.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::rnbd {

inline constexpr unsigned kMaxClientDevices = 64;  // maximum per session, including devices being unmapped
// If a device is reopened more often than this without a successful IO in between, its IO fails.
inline constexpr unsigned kMaxFutileReopens = 3;

// Identifies a mapped device; never reused for another device.
using DeviceHandle = std::uint32_t;

enum class DeviceState : std::uint8_t {
  init,  // not opened yet
  open,
  closed,     // the device is mapped but disconnected, being reopened, or refused by the server
  unmapping,  // pending IO and messages of the device are completing
  unmapped,   // the handle is invalid
};
[[nodiscard]] const char* to_string(DeviceState state) noexcept;

// --- inputs ---
//
// `now` is for the recorder; the state machine does not read it.

// The session has a connected path. `extended`: the peer granted an extension, so it is not a kernel server
// and initialises the response bytes that kernel servers leave uninitialised.
struct LinkUp {
  bool extended = false;
  Nanos now = 0;
  RTRS_FIELDS(now, extended)
};
// The session has no connected path.
struct LinkDown {
  Nanos now = 0;
  RTRS_FIELDS(now)
};
struct MapRequested {
  std::string_view name;  // device name on the server, 1..254 bytes
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
  Nanos now = 0;
};
struct UnmapRequested {
  DeviceHandle device = 0;
  Nanos now = 0;
  RTRS_FIELDS(now, device)
};
// Retries to open a device that the server refused.
struct RemapRequested {
  DeviceHandle device = 0;
  Nanos now = 0;
  RTRS_FIELDS(now, device)
};
// Sets the size of an open device. The size applies until the device is reopened. Ignored if no block device
// can have this size.
struct ResizeRequested {
  DeviceHandle device = 0;
  std::uint64_t nsectors = 0;  // new size in sectors of 512 bytes
  Nanos now = 0;
  RTRS_FIELDS(now, nsectors, device)
};
// A SendMessage completed. If `delivered` is false, the transport failed the message (no path, session
// closed, queue full), and the server may or may not have executed it. Unexpected tokens are ignored.
struct MessageDone {
  std::uint64_t token = 0;
  bool delivered = true;
  std::uint16_t peer_errno = 0;  // positive errno from the server
  InlineBytes<wire::rnbd::kOpenRspBytes> response{};
  Nanos now = 0;
  RTRS_FIELDS(now, token, peer_errno, delivered, response)
};
// Effect of an IO on its export's cache.
struct IoNature {
  bool changes = false;  // true for write, discard and write-zeroes
  bool durable = false;  // the caller was promised that the change is durable when it succeeds
  // Makes durable every change that completed before this IO began. If `durable` is also set, the IO is the
  // final flush of a FUA change on a device without FUA, and reports losses like that change, not like a
  // user's FLUSH.
  bool flushes = false;
  auto operator<=>(const IoNature&) const = default;
  RTRS_FIELDS(changes, durable, flushes)
};
[[nodiscard]] constexpr IoNature nature_of(wire::rnbd::Opcode opcode, bool durable) noexcept {
  const bool flush = opcode == wire::rnbd::Opcode::flush;
  const bool changes = !flush && opcode != wire::rnbd::Opcode::read;
  return {changes, changes && durable, flush};
}
// State known to the user when an IO arrived. With the default values, too many IOs may fail, but never too
// few.
struct IoArrival {
  std::uint64_t flush_told = 0;  // number of device losses that a FLUSH had reported
  std::uint64_t fua_told = 0;    // number of device losses that a FLUSH or a FUA change had reported
  std::uint64_t changes = 0;     // number of changes that had succeeded
  auto operator<=>(const IoArrival&) const = default;
  RTRS_FIELDS(flush_told, fua_told, changes)
};
// An IO begins: a new IO, or one that is resubmitted after retry_after_remap with its nature and arrival.
struct IoBegun {
  DeviceHandle device = 0;
  IoNature nature{};
  IoArrival arrival{};
  Nanos now = 0;
  RTRS_FIELDS(now, arrival, device, nature)
};
// Result of begin_io(). The caller passes it to the IoDone of the IO.
struct IoTicket {
  IoNature nature{};
  bool doomed = false;      // the IO fails with EIO even if the server reports success
  std::uint32_t cache = 0;  // value of caches() when the IO began
  IoArrival arrival{};
  std::uint64_t losses = 0;  // number of losses known when the IO began
  auto operator<=>(const IoTicket&) const = default;
};
struct IoDone {
  DeviceHandle device = 0;
  bool delivered = true;
  std::uint16_t peer_errno = 0;
  IoTicket ticket{};
  Nanos now = 0;
  // In a trace, the ticket's fields are fields of the event itself.
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self& self, Visitor&& visit) {
    visit("now", self.now);
    visit("arrival", self.ticket.arrival);
    visit("losses", self.ticket.losses);
    visit("device", self.device);
    visit("cache", self.ticket.cache);
    visit("peer_errno", self.peer_errno);
    visit("nature", self.ticket.nature);
    visit("delivered", self.delivered);
    visit("doomed", self.ticket.doomed);
  }
};
static_assert(sizeof(IoDone) == 56, "fits a slot of the recorder's ring");
// Resends undelivered messages that failed while the link was up; see retry_wanted().
struct RetryDue {
  Nanos now = 0;
  RTRS_FIELDS(now)
};
// Reopens devices that the server refused; see reopen_wanted().
struct ReopenDue {
  Nanos now = 0;
  RTRS_FIELDS(now)
};

// --- actions ---

enum class MessageKind : std::uint8_t { sess_info, open, close };

// Send a request over the service connection. A READ has room for `response_length` bytes; a WRITE has no
// data.
struct SendMessage {
  std::uint64_t token = 0;
  MessageKind kind = MessageKind::sess_info;
  Direction direction = Direction::read;
  std::uint16_t response_length = 0;
  InlineBytes<wire::rnbd::kOpenBytes> header{};
  RTRS_FIELDS(token, kind, direction, response_length, header)
};
// State change of a device. `peer_errno`: reason why the device is closed or unmapped; 0 after a link loss or
// an operator's request. The geometry is valid in state open; the size can differ from the previous one.
struct DeviceChanged {
  DeviceHandle device = 0;
  DeviceState state = DeviceState::init;
  std::uint16_t peer_errno = 0;
  Geometry geometry{};
  RTRS_FIELDS(device, state, peer_errno, geometry)
};

// The cache of the export is another than at the last OPEN: the server's host was restarted, or the server
// now exports something else. `unflushed`: number of changes that succeeded, were not flushed and may be
// lost. If it is not 0, the next FLUSH and the next FUA change fail. This action is for the log.
struct CacheReplaced {
  DeviceHandle device = 0;
  std::uint64_t unflushed = 0;
  RTRS_FIELDS(device, unflushed)
};

using ClientAction = std::variant<SendMessage, DeviceChanged, CacheReplaced>;
using ClientActions = FixedVector<ClientAction, 3 * kMaxClientDevices>;

// `error` is 0, or a positive errno: EEXIST (mapped already), EINVAL (name), ENOSPC (too many devices).
// With 0 the outcome follows as DeviceChanged: open, or unmapped with the server's errno.
struct MapOutcome {
  std::uint16_t error = 0;
  DeviceHandle device = 0;
  RTRS_FIELDS(error, device)
};

enum class Gate : std::uint8_t {
  go,      // call begin_io() and submit the IO
  hold,    // keep the IO and call gate() again after the next input
  refuse,  // fail the IO with refusal_errno()
};

enum class Disposition : std::uint8_t {
  ok,
  retry_after_remap,  // keep the IO, call gate() and resubmit the IO with its new id
  fail,               // fail with the peer's errno, or with EIO if the IO was not delivered
  lost,               // fail with EIO: earlier successful changes are lost
};

struct IoStart {
  std::uint32_t device_id = 0;  // id for the IO's header
  IoTicket ticket{};
  // In a trace, the ticket's fields are fields of the event itself.
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self& self, Visitor&& visit) {
    visit("device_id", self.device_id);
    visit("cache", self.ticket.cache);
    visit("losses", self.ticket.losses);
    visit("doomed", self.ticket.doomed);
    visit("nature", self.ticket.nature);
    visit("arrival", self.ticket.arrival);
  }
};

}  // namespace rtrs::rnbd
