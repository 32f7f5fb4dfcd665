// RNBD server of one session: its open devices and its requests. A value type: feed inputs, perform the
// listed actions. Uses no clock, allocates no memory and accesses no storage itself.
//
// Rules for the caller
//   - One thread. Clear the list before each input; perform its actions in order; feed no input from within.
//   - Every DeviceRequest leads to exactly one Respond, at the latest when each OpenExport was answered with
//     ExportOpened, each Storage with StorageDone and each MeasureExport with ExportMeasured: exactly one
//     each, in any order.
//   - Data from the peer is not trusted (protocol section 9.3): lengths, direction, access mode and range are
//     checked here, so that a Storage action always lies within its device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
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

inline constexpr unsigned kMaxServerDevices =
    kMaxSlots;  // open devices per session; an OPEN beyond it fails with ENOSPC
inline constexpr unsigned kMaxServerOperations =
    1024;  // unanswered requests per session; a request beyond it fails with EBUSY
// Unanswered OPEN or CLOSE messages per device (caused by client resends); one more fails with EBUSY.
inline constexpr unsigned kMaxDeviceWaiters = 8;

// --- inputs ---
//
// `now` is for the recorder; the state machine does not read it.

// `request` identifies the request to the caller and is returned unchanged.
struct DeviceRequest {
  std::uint64_t request = 0;
  std::uint32_t data_len = 0;  // number of bytes of data, or of room for the response
  Direction direction = Direction::read;
  wire::Bytes header{};  // the message; accessed only during the step
  Nanos now = 0;
};
using LongDeviceRequest [[deprecated("use DeviceRequest")]] = DeviceRequest;
// `error` is 0 or a positive errno. If it is 0, `handle` identifies the export in later actions, until
// CloseExport. If the geometry is not valid(), the OPEN is answered with EIO and the export is closed.
struct ExportOpened {
  std::uint16_t operation = 0;
  int error = 0;
  std::uint64_t handle = 0;
  Geometry geometry{};
  // Instance of the cache that holds written, unflushed data; 0: unknown. Two opens of an export have the
  // same instance if and only if the second sees all data written by the first, flushed or not.
  std::uint64_t instance = 0;
  Nanos now = 0;
  RTRS_FIELDS(now, operation, error, handle, geometry, instance)
};
// Current export size in sectors of 512 bytes; an incomplete last block is not exported. 0: the size is
// unknown and does not change.
struct ExportMeasured {
  std::uint16_t operation = 0;
  std::uint64_t nsectors = 0;
  Nanos now = 0;
  RTRS_FIELDS(now, operation, nsectors)
};
// `error` is 0 or a positive errno. ENOTCONN becomes EIO, because a client interprets ENOTCONN as "the device
// is not open". `sync_failed`: the error concerns the durability of data written earlier, by this or other
// requests.
struct StorageDone {
  std::uint16_t operation = 0;
  int error = 0;
  bool sync_failed = false;
  Nanos now = 0;
  RTRS_FIELDS(now, operation, error, sync_failed)
};
// Another session got a result with `sync_failed` for the same export. Handles that are not open here are
// ignored.
struct SyncFailed {
  std::uint64_t handle = 0;
  int error = 0;
  Nanos now = 0;
  RTRS_FIELDS(now, handle, error)
};
// An operator closes the device. New requests with its id get ENOTCONN; requests in flight complete first.
// The client may reopen the device and then gets another id.
struct DeviceForceClosed {
  std::uint32_t device_id = 0;
  Nanos now = 0;
  RTRS_FIELDS(now, device_id)
};
// The session has no path any more. Each device is closed when its last request has completed. SessionDrained
// reports the end.
struct SessionClosed {
  Nanos now = 0;
  RTRS_FIELDS(now)
};

// --- actions ---

struct OpenExport {
  std::uint64_t request = 0;
  std::uint16_t operation = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  std::string_view name;  // unchecked bytes from the peer: confine the name. Valid until the next input.
};
// Closes the export. No operation of the export is in flight. Must be performed before any later OpenExport
// of the same name.
struct CloseExport {
  std::uint64_t handle = 0;
  RTRS_FIELDS(handle)
};
// Measures the size of the export. Emitted when an IO ends beyond the known size, when storage failed with
// EIO, and when an open device is opened again, because an export may grow and shrink while it is open.
struct MeasureExport {
  std::uint64_t handle = 0;
  std::uint16_t operation = 0;
  RTRS_FIELDS(handle, operation)
};
struct Storage {
  std::uint64_t request = 0;
  std::uint64_t handle = 0;
  std::uint64_t sector = 0;  // in units of 512 bytes; whole logical blocks; 0 for flush
  std::uint32_t bytes = 0;   // > 0; 0 for flush. Read and write: the request's data, of exactly this length
  std::uint16_t operation = 0;
  std::uint16_t prio = 0;  // Linux ioprio; 0 from peers that do not support version 2
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;  // never secure_erase
  bool fua = false;       // durable before StorageDone (write, discard, write_zeroes)
  bool preflush = false;  // makes earlier reported writes durable first; never set for a flush
  bool nounmap = false;   // write_zeroes: the blocks stay allocated; otherwise they may be freed
  RTRS_FIELDS(request, handle, sector, bytes, operation, prio, opcode, fua, preflush, nounmap)
};
// Copy the response into the request's data, see fill(). A Respond with error 0 for the same request always
// follows.
struct WriteBack {
  std::uint64_t request = 0;
  InlineBytes<wire::rnbd::kOpenRspBytes> response{};
  RTRS_FIELDS(request, response)
};
struct Respond {
  std::uint64_t request = 0;
  std::uint16_t peer_errno = 0;  // errno, 0..511
  RTRS_FIELDS(request, peer_errno)
};
// Data written to the export may never become durable, and its storage reports this only once: a kernel
// reports a failed writeback once per file description, then marks the pages clean. Every flush of the device
// fails with this error from now on, until the device is closed. Feed SyncFailed to every other session that
// has the export open, give later opens another instance, and log the error.
struct CacheDamaged {
  std::uint64_t handle = 0;
  std::uint16_t error = 0;  // errno, 1..511
  RTRS_FIELDS(handle, error)
};
// Every device is closed and every request answered; the session accepts no further input.
struct SessionDrained {
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self&, Visitor&&) {}
};

using ServerAction = std::variant<Storage, Respond, WriteBack, OpenExport, CloseExport, CacheDamaged,
                                  MeasureExport, SessionDrained>;
// Capacity for the largest steps, which close every device or answer every request.
using ServerActions =
    FixedVector<ServerAction, kMaxServerDevices + 4 * kMaxDeviceWaiters + kMaxServerOperations>;

// Copies the response and zeroes the rest of `data`, because all of `data` travels to the peer and must not
// leak old memory contents. `data` is the request's whole data area.
void fill(const WriteBack& answer, wire::MutableBytes data) noexcept;

struct ServerOptions {
  // First device id. Must differ for every session of every run, so that the ids of an earlier run of the
  // server are unknown and do not name another device.
  std::uint32_t first_generation = 0;
  std::uint32_t generations = kMaxGenerations;  // 1..kMaxGenerations ids per slot, then the slot is retired
  bool operator==(const ServerOptions&) const = default;
  RTRS_FIELDS(first_generation, generations)
};

class ServerDevices {
 public:
  explicit ServerDevices(const ServerOptions& options = {}) noexcept : options_(options) {}

  void on(const DeviceRequest& input, ServerActions& actions) noexcept;
  void on(const ExportOpened& input, ServerActions& actions) noexcept;
  void on(const StorageDone& input, ServerActions& actions) noexcept;
  void on(const SyncFailed& input, ServerActions& actions) noexcept;
  void on(const ExportMeasured& input, ServerActions& actions) noexcept;
  void on(const DeviceForceClosed& input, ServerActions& actions) noexcept;
  void on(const SessionClosed& input, ServerActions& actions) noexcept;

  enum class DeviceState : std::uint8_t {
    vacant,
    queued,   // the OPEN waits until the device of the same name is closed
    opening,  // OpenExport was emitted, ExportOpened is pending
    open,
    closing,  // the device waits for requests in flight
  };
  struct Device {
    wire::Name name{};
    Geometry geometry{};
    std::uint64_t handle = 0;
    std::uint64_t instance = 0;
    std::uint32_t id = 0;
    std::uint32_t uses = 0;  // number of ids that this slot has issued
    std::uint32_t in_flight = 0;
    std::uint64_t syncs_started = 0;
    std::uint32_t syncs_running = 0;  // number of syncs that storage is executing
    std::uint32_t settling = 0;       // operations of Kind::settling
    std::uint32_t sync_failures = 0;  // number of sync failures that storage reported
    // Access mode of the first OPEN; enforced.
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
    DeviceState state = DeviceState::vacant;
    std::uint16_t sync_error = 0;  // errno of every flush until the device is closed; 0: no failure
    std::uint8_t waiters = 0;
    bool doomed = false;  // the operator removed the device while it was being opened
    bool operator==(const Device&) const = default;
    RTRS_FIELDS(name, geometry, handle, instance, id, uses, in_flight, syncs_started, syncs_running, settling,
                sync_failures, mode, state, sync_error, waiters, doomed)
  };
  // Iterates over all slots in order; the caller must skip vacant slots.
  [[nodiscard]] const Device* begin() const noexcept { return devices_.begin(); }
  [[nodiscard]] const Device* end() const noexcept { return devices_.end(); }
  [[nodiscard]] unsigned open_count() const noexcept;
  [[nodiscard]] unsigned unanswered() const noexcept { return unanswered_; }  // number of unanswered requests
  // Number of IO messages with undefined flags in rw. The flags are ignored: flags of newer kernels only
  // affect how an IO is executed, and mandatory ones have a separate opcode.
  [[nodiscard]] std::uint64_t unknown_flags() const noexcept { return unknown_flags_; }
  // Returns the RNBD version of the client; 0 until its SESS_INFO.
  [[nodiscard]] std::uint8_t version() const noexcept { return version_; }

  // Returns the fingerprint of the whole state. Equal states have equal fingerprints, on every compiler.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  // Returns the name of the first violated invariant of the state, or null. For tests and tools; safe for any
  // state, even one that was read from a damaged snapshot.
  [[nodiscard]] const char* broken_invariant() const noexcept;
  // True if the state machine waits for this result. Only such a result may be fed.
  [[nodiscard]] bool awaits(const ExportOpened& input) const noexcept;
  [[nodiscard]] bool awaits(const StorageDone& input) const noexcept;
  [[nodiscard]] bool awaits(const ExportMeasured& input) const noexcept;
  bool operator==(const ServerDevices&) const = default;
  RTRS_FIELDS(options_, devices_, operations_, first_vacant_, unanswered_, unknown_flags_, version_,
              session_closed_, drained_)

 private:
  enum class Kind : std::uint8_t {
    vacant,
    storage,
    open,
    close,
    late,      // an IO beyond the known end waits for ExportMeasured
    failed,    // storage failed with EIO; answered after ExportMeasured
    reopen,    // an OPEN of an already open device waits for ExportMeasured
    settling,  // a sync succeeded and waits for syncs that ran concurrently
  };
  struct Operation {
    std::uint64_t request = 0;
    wire::rnbd::Io io{};  // set for Kind::late
    std::uint32_t data_len = 0;
    std::uint16_t device = 0;
    std::uint16_t next_vacant = 0;
    Kind kind = Kind::vacant;
    bool flushes = false;  // the operation is a flush or has the flag PREFLUSH
    bool syncs = false;  // the operation must make data durable: `flushes` is set, or it is a change with FUA
    // While `kind` is storage: number of this sync among the device's syncs. While it is settling: number of
    // the last sync that had started when this sync succeeded.
    std::uint64_t sync = 0;
    std::uint32_t failures = 0;  // value of Device::sync_failures when the operation started
    bool operator==(const Operation&) const = default;
    RTRS_FIELDS(request, io, data_len, device, next_vacant, kind, flushes, syncs, sync, failures)
  };
  static constexpr std::uint16_t kNone = 0xffff;

  static void respond(std::uint64_t request, int error, ServerActions& actions) noexcept;
  [[nodiscard]] static bool is_query(const DeviceRequest& input, std::size_t answer_bytes) noexcept;
  void on_sess_info(const DeviceRequest& input, ServerActions& actions) noexcept;
  void on_open(const DeviceRequest& input, ServerActions& actions) noexcept;
  void on_close(const DeviceRequest& input, ServerActions& actions) noexcept;
  void on_io(const DeviceRequest& input, ServerActions& actions) noexcept;

  void start_storage(std::uint16_t operation, const wire::rnbd::Io& io, ServerActions& actions) noexcept;
  void end_sync(std::uint16_t operation, ServerActions& actions) noexcept;
  // Answers each settling operation of the device if all syncs that started before the success of the
  // operation have ended.
  void settle(std::uint16_t slot, ServerActions& actions) noexcept;
  // Continues the requests that waited for ExportMeasured.
  void finish_measured(std::uint16_t operation, ServerActions& actions) noexcept;
  void closing_if_idle(std::uint16_t slot, ServerActions& actions) noexcept;

  void open_new(const DeviceRequest& input, const wire::rnbd::Open& open, ServerActions& actions) noexcept;
  void open_known(const DeviceRequest& input, std::uint16_t slot, ServerActions& actions) noexcept;
  void start_opening(std::uint16_t slot, ServerActions& actions) noexcept;
  void answer_open(std::uint64_t request, std::uint32_t data_len, const Device& device,
                   ServerActions& actions) noexcept;
  // Answers every waiter of the slot; sends OPEN_RSP if `error` is 0 and the device is open.
  void answer_waiters(std::uint16_t slot, std::uint16_t error, ServerActions& actions) noexcept;
  void start_closing(std::uint16_t slot, ServerActions& actions) noexcept;
  void finish_closing(std::uint16_t slot, ServerActions& actions) noexcept;
  void vacate(std::uint16_t slot, ServerActions& actions) noexcept;
  void end_if_drained(ServerActions& actions) noexcept;

  [[nodiscard]] std::uint16_t slot_by_id(std::uint32_t id) const noexcept;  // kNone: no such device
  [[nodiscard]] std::uint16_t slot_by_name(const wire::Name& name) const noexcept;
  [[nodiscard]] bool is_name_closing(const wire::Name& name) const noexcept;
  [[nodiscard]] std::uint16_t vacant_slot() noexcept;
  // Returns kNone if the table is full.
  [[nodiscard]] std::uint16_t begin_operation(const DeviceRequest& input, std::uint16_t slot,
                                              Kind kind) noexcept;
  void end_operation(std::uint16_t operation) noexcept;

  ServerOptions options_;
  FixedVector<Device, kMaxServerDevices> devices_;
  FixedVector<Operation, kMaxServerOperations> operations_;
  std::uint16_t first_vacant_ = kNone;  // list of vacant operations through next_vacant
  std::uint32_t unanswered_ = 0;
  std::uint64_t unknown_flags_ = 0;
  std::uint8_t version_ = 0;
  bool session_closed_ = false;
  bool drained_ = false;
};

}  // namespace rtrs::rnbd
