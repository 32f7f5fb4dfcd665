// Events of the block device machines (RNBD) of a trace, for the specification. Events and fields have the
// names of the trace format. Fields that an event does not have are zero.
#pragma once
#include <cstdint>
#include <string_view>

#include "conformance/spec/event.hpp"

namespace rtrs::spec {

// X(name, class): class is begin, input or action.
#define RTRS_SPEC_DEVICE_EVENTS(X) \
  X(BeginServerDevices, begin)     \
  X(BeginClientDevices, begin)     \
  X(DeviceRequest, input)          \
  X(ExportOpened, input)           \
  X(ExportMeasured, input)         \
  X(StorageDone, input)            \
  X(SyncFailed, input)             \
  X(DeviceForceClosed, input)      \
  X(SessionClosed, input)          \
  X(Storage, action)               \
  X(Respond, action)               \
  X(WriteBack, action)             \
  X(OpenExport, action)            \
  X(CloseExport, action)           \
  X(MeasureExport, action)         \
  X(CacheDamaged, action)          \
  X(SessionDrained, action)        \
  X(LinkUp, input)                 \
  X(LinkDown, input)               \
  X(MapRequested, input)           \
  X(UnmapRequested, input)         \
  X(RemapRequested, input)         \
  X(ResizeRequested, input)        \
  X(MessageDone, input)            \
  X(IoBegun, input)                \
  X(IoDone, input)                 \
  X(RetryDue, input)               \
  X(ReopenDue, input)              \
  X(SendMessage, action)           \
  X(DeviceChanged, action)         \
  X(CacheReplaced, action)         \
  X(MapAnswered, action)           \
  X(IoStarted, action)             \
  X(IoJudged, action)

enum class DeviceKind : std::uint8_t {
#define RTRS_SPEC_EVENT(name, event_class) name,
  RTRS_SPEC_DEVICE_EVENTS(RTRS_SPEC_EVENT)
#undef RTRS_SPEC_EVENT
};
inline constexpr unsigned kDeviceKinds = static_cast<unsigned>(DeviceKind::IoJudged) + 1;
std::string_view name_of(DeviceKind) noexcept;
EventClass class_of(DeviceKind) noexcept;

enum class Opcode : std::uint8_t { read, write, flush, discard, secure_erase, write_zeroes };
std::string_view name_of(Opcode) noexcept;
enum class AccessMode : std::uint8_t { read_only, read_write, migration };
enum class MessageKind : std::uint8_t { sess_info, open, close };
enum class DeviceState : std::uint8_t { init, open, closed, unmapping, unmapped };
std::string_view name_of(DeviceState) noexcept;
enum class Disposition : std::uint8_t { ok, retry_after_remap, fail, lost };
std::string_view name_of(Disposition) noexcept;

struct Geometry {
  std::uint64_t nsectors = 0;  // number of 512-byte sectors
  std::uint32_t logical_block_size = 0;
  std::uint32_t physical_block_size = 0;
  std::uint32_t max_hw_sectors = 0;
  std::uint32_t max_segments = 0;
  std::uint32_t max_discard_sectors = 0;
  std::uint32_t max_write_zeroes_sectors = 0;
  std::uint32_t discard_granularity = 0;
  std::uint32_t discard_alignment = 0;
  bool write_cache = false;
  bool fua = false;
  std::uint8_t features = 0;
  bool operator==(const Geometry&) const = default;
};

// Counters of the device's lost changes when an IO arrived; stored until the IO ends.
struct IoFacts {
  std::uint64_t flush_told = 0;
  std::uint64_t fua_told = 0;
  std::uint64_t changes_before = 0;  // changes that had succeeded when the IO arrived
  std::uint64_t losses = 0;
  std::uint32_t cache = 0;
  bool changes = false;
  bool durable = false;
  bool flushes = false;
  bool doomed = false;
  bool operator==(const IoFacts&) const = default;
};

struct DeviceEvent {
  DeviceKind kind = DeviceKind::RetryDue;
  Time now = 0;
  std::uint64_t seq = 0;  // number of the record
  std::uint64_t request = 0;
  std::uint64_t token = 0;
  std::uint64_t handle = 0;  // handle of an export
  std::uint64_t sector = 0;
  std::uint64_t nsectors = 0;
  std::uint64_t instance = 0;
  std::uint64_t unflushed = 0;
  std::uint32_t data_len = 0;
  std::uint32_t bytes = 0;
  std::uint64_t session = 0;  // begin: index of the server's session
  std::uint32_t device = 0;   // handle of a client's device
  std::uint32_t device_id = 0;
  std::uint32_t generations = 0;  // begin: number of device ids per slot of a server
  std::int32_t error = 0;         // errno reported by storage
  std::uint16_t peer_errno = 0;
  std::uint16_t operation = 0;
  std::uint16_t prio = 0;
  std::uint16_t response_length = 0;
  bool reads = false;  // the request or message is a READ
  bool fua = false;
  bool preflush = false;
  bool nounmap = false;
  bool sync_failed = false;
  bool extended = false;
  bool delivered = false;
  Opcode opcode = Opcode::read;
  AccessMode mode = AccessMode::read_only;
  MessageKind message = MessageKind::sess_info;
  DeviceState state = DeviceState::init;
  Disposition disposition = Disposition::ok;
  Geometry geometry;
  IoFacts io;
  std::string_view header;    // message to the server; not owned
  std::string_view response;  // message to the client; not owned
  std::string_view name;      // device name as text; not owned
};

}  // namespace rtrs::spec
