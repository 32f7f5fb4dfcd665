// RNBD client of one session: maps remote devices and keeps them usable over path losses and server restarts.
// A value type: feed inputs, perform the listed actions. No call blocks.
//
// Risk 1: a device id is valid only on the server that assigned it. After a path failure the transport
// resends requests to whatever server answers, and a restarted server may assign the same id to another
// device. Hence the invariant of this state machine:
// while an OPEN is unanswered, no IO and no CLOSE is unanswered. A request with an old id can then only reach
// the server that assigned it, or one that knows no id at all and answers ENOTCONN. Whenever the server may
// be a different one (the link is up again, or an IO was answered with ENOTCONN), a round begins: new IO is
// held, IO in flight completes, then SESS_INFO and one OPEN per device are sent.
//
// Risk 2: a server acknowledges a write that only its cache contains, its host crashes, and the next FLUSH
// succeeds on the restarted server although the write is lost. Therefore OPEN_RSP contains the instance
// number of the export's cache, and the client counts for each device the changes that succeeded and were not
// flushed. If another instance answers an OPEN while there are such changes, the following FLUSHes and FUA
// changes fail with EIO (Disposition::lost) until one of them has reported the loss. The server still
// executes these requests, so that changes on the new instance are flushed. An IO succeeds only on the server
// that assigned its id, hence only on the instance of the last OPEN.
//
// A server may restart before its disk is available. If it refuses to reopen a device, the device's IO is
// held while the reason may be temporary (may_pass() of device_reasons.hpp), and the OPEN is retried
// (reopen_wanted()). The owner of the state machine limits how long IO is held.
//
// A FLUSH covers the changes that had succeeded when it arrived, and only if its success is reported to the
// user. There is no other guarantee: a memory export loses all data with its process, including flushed data.
//
// Rules for the caller
//   - One thread. Clear the list before each input; perform its actions in order; feed no input from within.
//   - Every SendMessage leads to exactly one MessageDone.
//   - When an IO arrives from the user, call arrive() and keep its result in the IO's ticket: the IO may be
//     held for long, and a loss reported by another IO meanwhile is also a loss for this one.
//   - Before submitting an IO, call gate(); on Gate::go call begin_io() and submit the IO with that id. Each
//     begin_io() leads to exactly one IoDone with its ticket, whose result says what to do with the IO.
//   - While the link is down IO goes to the transport, which queues it as long as its policy allows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/base/fixed_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/base/uncompared.hpp"
#include "core/rnbd/client_events.hpp"
#include "core/rnbd/geometry.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::rnbd {

class ClientDevices {
 public:
  void on(const LinkUp& input, ClientActions& actions) noexcept;
  void on(const LinkDown& input, ClientActions& actions) noexcept;
  [[nodiscard]] MapOutcome on(const MapRequested& input, ClientActions& actions) noexcept;
  // Unmaps a device. DeviceChanged{unmapped} reports the end. Sends CLOSE only if the device is open. Unknown
  // handles are ignored.
  void on(const UnmapRequested& input, ClientActions& actions) noexcept;
  void on(const RemapRequested& input, ClientActions& actions) noexcept;
  void on(const ResizeRequested& input, ClientActions& actions) noexcept;
  void on(const MessageDone& input, ClientActions& actions) noexcept;
  [[nodiscard]] Disposition on(const IoDone& input, ClientActions& actions) noexcept;
  void on(const RetryDue& input, ClientActions& actions) noexcept;
  void on(const ReopenDue& input, ClientActions& actions) noexcept;

  [[nodiscard]] Gate gate(DeviceHandle device) const noexcept;
  // Returns the errno of a refused IO: ENODEV (not mapped), else the errno that closed the device.
  [[nodiscard]] std::uint16_t refusal_errno(DeviceHandle device) const noexcept;
  // Returns the errno of the last refusal since the device was last open, even during a retry; 0 if there is
  // none.
  [[nodiscard]] std::uint16_t last_refusal(DeviceHandle device) const noexcept;
  // Returns the state to store for an IO that arrives now, regardless of gate(); all zeroes for dead handles.
  [[nodiscard]] IoArrival arrive(DeviceHandle device) const noexcept;
  // Starts an IO. Precondition: gate() returns go.
  [[nodiscard]] IoStart begin_io(const IoBegun& input) noexcept;

  // True if a message failed although the link is up. The caller then feeds RetryDue after a pause, whose
  // length it chooses; IO is held until then.
  [[nodiscard]] bool retry_wanted() const noexcept { return paused_; }
  // True if the server refused the device and no retry has started.
  [[nodiscard]] bool refused(DeviceHandle) const noexcept;
  // True if the server refused a device that was open before: the file of the device may be missing or locked
  // only for a moment. Feed ReopenDue after reopen_pause_s().
  [[nodiscard]] bool reopen_wanted() const noexcept;
  // Seconds until the next ReopenDue, 1 .. kReopenPauseMax. Doubles with each attempt, because each round
  // holds the IO of all devices. Returns to 1 s when a device opens.
  static constexpr unsigned kReopenPauseMax = 15;
  [[nodiscard]] unsigned reopen_pause_s() const noexcept;
  // DeviceState::unmapped for dead handles.
  [[nodiscard]] DeviceState state(DeviceHandle device) const noexcept;
  // Returns nullptr for dead handles; valid until the next input.
  [[nodiscard]] const Geometry* geometry(DeviceHandle device) const noexcept;
  [[nodiscard]] bool link_up() const noexcept { return link_up_; }
  [[nodiscard]] unsigned mapped_count() const noexcept;  // includes devices that are being unmapped
  [[nodiscard]] unsigned io_in_flight() const noexcept { return io_in_flight_; }
  [[nodiscard]] unsigned io_in_flight(DeviceHandle device) const noexcept;  // 0 for dead handles
  // Returns the number of times that another instance of the export's cache answered an OPEN; 0 for dead
  // handles. Changes that succeeded with another number in their ticket may be lost.
  [[nodiscard]] std::uint32_t caches(DeviceHandle device) const noexcept;
  // Returns the number of times that a server opened the device; 0 for dead handles. A failed sync may be
  // known only to the server process, and the next process reports the same instance. Therefore a successful
  // FLUSH proves durability only for changes of the same opening.
  [[nodiscard]] std::uint32_t openings(DeviceHandle device) const noexcept;
  // Returns the number of successful changes that no FLUSH covers yet; 0 for dead handles.
  [[nodiscard]] std::uint64_t unflushed(DeviceHandle device) const noexcept;
  [[nodiscard]] unsigned messages_in_flight() const noexcept;
  // Returns the RNBD version of the server; 0 until SESS_INFO was answered.
  [[nodiscard]] std::uint8_t version() const noexcept { return version_; }

  // Returns the fingerprint of the whole state. Equal states have equal fingerprints, on every compiler.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  // Returns the name of the first violated invariant of the state, or null. For tests and tools; safe for any
  // state, even one that was read from a damaged snapshot.
  [[nodiscard]] const char* broken_invariant() const noexcept;
  bool operator==(const ClientDevices&) const = default;
  RTRS_FIELDS(devices_, last_token_, info_token_, io_in_flight_, version_, reopens_, link_up_, extended_,
              needs_info_, paused_, holding_, ending_)

 private:
  // Counter of openings for the caller; does not affect this state machine.
  struct Openings {
    std::uint32_t count = 0;
  };
  struct Device {
    wire::Name name{};
    Geometry geometry{};
    std::uint64_t open_token = 0;   // token of the unanswered OPEN; 0: none
    std::uint64_t close_token = 0;  // token of the unanswered CLOSE; 0: none
    std::uint64_t instance = 0;     // the export's cache instance in the last OPEN response; 0: none
    std::uint64_t changes = 0;      // number of successful changes without FUA
    // Number of successful changes without FUA that are flushed or known to be lost.
    std::uint64_t flushed = 0;
    std::uint64_t losses = 0;  // number of times that another instance answered while changes were unflushed
    std::uint64_t flush_told = 0;  // number of losses that a FLUSH reported
    std::uint64_t fua_told = 0;    // number of losses that a FLUSH or a FUA change reported
    DeviceHandle handle = 0;
    std::uint32_t caches = 0;  // number of replaced instances
    Uncompared<Openings> openings{};
    static constexpr std::size_t kNoFields = 1;  // members that RTRS_FIELDS omits: openings
    std::uint32_t uses = 0;                      // number of handles that this slot has issued
    std::uint32_t device_id = 0;
    std::uint32_t in_flight = 0;
    std::uint16_t peer_errno = 0;  // the server's errno, if `refused`
    std::uint8_t futile_reopens = 0;
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
    DeviceState state = DeviceState::unmapped;
    bool id_known = false;    // device_id was assigned by the last server that answered
    bool needs_open = false;  // the next round must open the device
    bool refused = false;     // the server refused the last OPEN; reset by a new link or a remap
    bool close_due = false;   // CLOSE is due when no IO is in flight and no OPEN is unanswered
    bool operator==(const Device&) const = default;
    RTRS_FIELDS(name, geometry, open_token, close_token, instance, changes, flushed, losses, flush_told,
                fua_told, handle, caches, uses, device_id, in_flight, peer_errno, futile_reopens, mode, state,
                id_known, needs_open, refused, close_due)
  };

  // Does everything that can be done now: finishes unmaps, then starts a round.
  void advance(ClientActions& actions) noexcept;
  void send_closes(ClientActions& actions) noexcept;
  void send_opens(ClientActions& actions) noexcept;
  void send_sess_info(ClientActions& actions) noexcept;
  void finish_sess_info(const MessageDone& input, ClientActions& actions) noexcept;
  void finish_open(Device& device, const MessageDone& input, ClientActions& actions) noexcept;
  void accept_open(Device& device, const wire::rnbd::OpenRsp& response, ClientActions& actions) noexcept;
  void note_instance(Device& device, std::uint64_t instance, ClientActions& actions) noexcept;
  [[nodiscard]] static Disposition end_well(Device& device, const IoTicket& ticket) noexcept;
  void invalidate_ids() noexcept;
  void refuse_device(Device& device, std::uint16_t peer_errno, ClientActions& actions) noexcept;
  void undelivered_open(const Device& device) noexcept;
  void require_reopen_of_all() noexcept;
  void end_device(Device& device, std::uint16_t peer_errno, ClientActions& actions) noexcept;
  void change(Device& device, DeviceState state, std::uint16_t peer_errno, ClientActions& actions) noexcept;

  [[nodiscard]] bool round_wanted() const noexcept;
  [[nodiscard]] bool any_open_pending() const noexcept;
  [[nodiscard]] bool is_id_held_by_another(const Device& device, std::uint32_t device_id) const noexcept;
  [[nodiscard]] const Device* find(DeviceHandle handle) const noexcept {
    const std::uint32_t slot = slot_of(handle);
    if (slot >= devices_.size()) return nullptr;
    const Device& device = devices_[slot];
    return device.handle == handle && device.state != DeviceState::unmapped ? &device : nullptr;
  }
  [[nodiscard]] Device* find(DeviceHandle handle) noexcept {
    return const_cast<Device*>(std::as_const(*this).find(handle));
  }

  FixedVector<Device, kMaxClientDevices> devices_;
  std::uint64_t last_token_ = 0;
  std::uint64_t info_token_ = 0;  // token of the unanswered SESS_INFO; 0: none
  std::uint32_t io_in_flight_ = 0;
  std::uint8_t version_ = 0;
  std::uint8_t reopens_ = 0;  // failed reopens since a device opened; at most kReopenPauseMax
  bool link_up_ = false;
  bool extended_ = false;
  bool needs_info_ = true;  // the client must send SESS_INFO before the next OPEN
  bool paused_ = false;
  // Cached by advance(), so that an IO needs to check only its own device.
  bool holding_ = false;  // no IO may begin on any device
  bool ending_ = false;   // at least one device waits for its last IO
};

}  // namespace rtrs::rnbd
