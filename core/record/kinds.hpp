// The numbers of all recorded events, in one table. A trace stores the number; a tool of another version
// finds the name and fields in the trace's own header. Append only: a number is never changed or reused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/base/reflect.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/inputs.hpp"
#include "core/record/named_events.hpp"
#include "core/record/wire_notes.hpp"

namespace rtrs {

// Identifies a recorded state machine. The driver chooses the numbers, unique among the existing machines of
// a recorder.
using InstanceId = std::uint16_t;
enum class MachineKind : std::uint8_t {
  client_session,
  server_session,
  server_registry,
  client_devices,
  server_devices
};
const char* to_string(MachineKind) noexcept;
// Instance of the device state machine in the recorder of a BlockClient; the session is instance 0.
inline constexpr InstanceId kClientDevices = 1;
// In a server's recorder, instance 0 is the registry. Session i is instance i + 1, and its devices (in a
// BlockServer) are instance i + 1 + 1024. From session 1024 on, they are instances 2 i + 1 and 2 i + 2.
inline constexpr InstanceId kServerDevices = 1024;
constexpr InstanceId session_instance(unsigned session) noexcept {
  return static_cast<InstanceId>(session < kServerDevices ? session + 1 : 2 * session + 1);
}
constexpr InstanceId devices_instance(unsigned session) noexcept {
  return static_cast<InstanceId>(session < kServerDevices ? kServerDevices + session + 1 : 2 * session + 2);
}
constexpr bool is_devices_of_server(InstanceId instance) noexcept {
  return instance > kServerDevices && (instance <= 2 * kServerDevices || instance % 2 == 0);
}
// Returns the session of an instance. Precondition: the instance is not the registry.
constexpr unsigned session_of_instance(InstanceId instance) noexcept {
  if (instance > 2 * kServerDevices) return (instance - 1U) / 2;
  return instance - 1U - (instance > kServerDevices ? kServerDevices : 0U);
}

namespace trace {

using KindId = std::uint16_t;
// Readers must also print events of classes that a later version adds.
enum class EventClass : std::uint8_t { control = 0, input = 1, action = 2, note = 3 };

// --- control events: written by the recorder itself ---

// A state machine was created. A second begin of an existing instance replaces it.
struct BeginClient {
  Nanos now = 0;
  ClientConfig config;
  // Default for traces of older versions, in which one path at a time created the session.
  static BeginClient of_older_version() noexcept {
    BeginClient begin{};
    begin.config.lead_head_start = kNever;
    return begin;
  }
  RTRS_FIELDS(now, config)
};
struct BeginServerSession {
  Nanos now = 0;
  std::uint16_t session = 0;
  ServerConfig config;
  RTRS_FIELDS(now, session, config)
};
struct BeginServerRegistry {
  Nanos now = 0;
  ServerConfig config;
  RTRS_FIELDS(now, config)
};
// The device state machine of a client was created.
struct BeginClientDevices {
  Nanos now = 0;
  RTRS_FIELDS(now)
};
// The device state machine of session `session` of a server was created.
struct BeginServerDevices {
  Nanos now = 0;
  std::uint16_t session = 0;
  rnbd::ServerOptions options;
  RTRS_FIELDS(now, session, options)
};
// The state machine was destroyed.
struct End {
  Nanos now = 0;
  RTRS_FIELDS(now)
};
// fingerprint() of the state machine after all inputs before this event.
struct StateHash {
  std::uint64_t fingerprint = 0;
  RTRS_FIELDS(fingerprint)
};
// The whole state of a state machine before its next input (core/record/state.hpp), in consecutive parts of
// at most kMaxStatePart bytes. `layout` identifies the fields of the state.
struct Snapshot {
  Nanos now = 0;
  MachineKind machine = MachineKind::client_session;
  std::uint64_t layout = 0;
  std::uint32_t size = 0;    // size of the whole state in bytes
  std::uint32_t offset = 0;  // offset of this part in the state, in bytes
  wire::Bytes part;          // borrowed
  RTRS_FIELDS(now, machine, layout, size, offset, part)
};
inline constexpr std::size_t kMaxStatePart = 32 * 1024;
// Number of actions of the previous input. Replaces the actions in ring dumps.
struct ActionCount {
  std::uint16_t count = 0;
  RTRS_FIELDS(count)
};

// --- events of the RNBD state machines (core/rnbd) ---

using rnbd::CacheDamaged;
using rnbd::CacheReplaced;
using rnbd::CloseExport;
using rnbd::DeviceChanged;
using rnbd::DeviceForceClosed;
using rnbd::ExportMeasured;
using rnbd::ExportOpened;
using rnbd::IoBegun;
using rnbd::IoDone;
using rnbd::LinkDown;
using rnbd::LinkUp;
using rnbd::MeasureExport;
using rnbd::MessageDone;
using rnbd::RemapRequested;
using rnbd::ReopenDue;
using rnbd::ResizeRequested;
using rnbd::Respond;
using rnbd::RetryDue;
using rnbd::SendMessage;
using rnbd::SessionClosed;
using rnbd::SessionDrained;
using rnbd::Storage;
using rnbd::StorageDone;
using rnbd::SyncFailed;
using rnbd::UnmapRequested;
using rnbd::WriteBack;
using MapAnswered = rnbd::MapOutcome;  // result of MapRequested
using IoStarted = rnbd::IoStart;       // result of IoBegun

// X(number, class, type). 1..15 control; 16..47 inputs of sessions, 52..63 and 112..127 of devices; 48..51
// notes; 64..111 actions. Numbers below 128 take one byte.
#define RTRS_TRACE_EVENTS(X)   \
  RTRS_TRACE_SESSIONS(X)       \
  RTRS_TRACE_CLIENT_DEVICES(X) \
  RTRS_TRACE_SERVER_DEVICES(X)
#define RTRS_TRACE_CLIENT_DEVICES(X) \
  X(8, control, BeginClientDevices)  \
  X(52, input, LinkUp)               \
  X(53, input, LinkDown)             \
  X(54, input, MapRequested)         \
  X(55, input, UnmapRequested)       \
  X(56, input, RemapRequested)       \
  X(57, input, MessageDone)          \
  X(58, input, IoBegun)              \
  X(59, input, IoDone)               \
  X(60, input, RetryDue)             \
  X(61, input, ReopenDue)            \
  X(62, input, ResizeRequested)      \
  X(89, action, SendMessage)         \
  X(90, action, DeviceChanged)       \
  X(91, action, CacheReplaced)       \
  X(92, action, MapAnswered)         \
  X(93, action, IoStarted)           \
  X(94, action, IoJudged)
#define RTRS_TRACE_SERVER_DEVICES(X) \
  X(9, control, BeginServerDevices)  \
  X(112, input, DeviceRequest)       \
  X(113, input, LongDeviceRequest)   \
  X(114, input, ExportOpened)        \
  X(115, input, ExportMeasured)      \
  X(116, input, StorageDone)         \
  X(117, input, SyncFailed)          \
  X(118, input, DeviceForceClosed)   \
  X(119, input, SessionClosed)       \
  X(95, action, Storage)             \
  X(96, action, Respond)             \
  X(97, action, WriteBack)           \
  X(98, action, OpenExport)          \
  X(99, action, CloseExport)         \
  X(100, action, MeasureExport)      \
  X(101, action, CacheDamaged)       \
  X(102, action, SessionDrained)
#define RTRS_TRACE_SESSIONS(X)          \
  X(1, control, BeginClient)            \
  X(2, control, BeginServerSession)     \
  X(3, control, BeginServerRegistry)    \
  X(4, control, End)                    \
  X(5, control, StateHash)              \
  X(6, control, ActionCount)            \
  X(16, input, PathAdded)               \
  X(17, input, PathRemoveRequested)     \
  X(18, input, PathDisconnectRequested) \
  X(19, input, PathReconnectRequested)  \
  X(20, input, PolicyChanged)           \
  X(21, input, CloseRequested)          \
  X(22, input, Connected)               \
  X(23, input, ConnectFailed)           \
  X(24, input, ConnectionLost)          \
  X(25, input, ConnectionClosed)        \
  X(26, input, InfoAccepted)            \
  X(27, input, ImmReceived)             \
  X(28, input, KeyedResponseReceived)   \
  X(29, input, KeyInvalidated)          \
  X(30, input, FenceAnswered)           \
  X(31, input, SendDone)                \
  X(32, input, PeerBroke)               \
  X(33, input, Submitted)               \
  X(34, input, DeadlineReached)         \
  X(35, input, Continued)               \
  X(36, input, ConnectRequested)        \
  X(37, input, InfoRequested)           \
  X(38, input, RequestArrived)          \
  X(39, input, ChunkInvalidated)        \
  X(40, input, FenceRequested)          \
  X(41, input, Responded)               \
  X(42, input, SessionSought)           \
  X(43, input, NameClaimed)             \
  X(44, input, SessionDropped)          \
  X(45, input, AttemptsChanged)         \
  X(46, input, AddressesFound)          \
  X(64, action, PostRequest)            \
  X(65, action, PostResponse)           \
  X(66, action, PostImm)                \
  X(67, action, PostReceive)            \
  X(68, action, Complete)               \
  X(69, action, Deliver)                \
  X(70, action, StoreKey)               \
  X(71, action, InvalidateChunk)        \
  X(72, action, Connect)                \
  X(73, action, Accept)                 \
  X(74, action, Reject)                 \
  X(75, action, Disconnect)             \
  X(76, action, SendInfoReq)            \
  X(77, action, SendInfoRsp)            \
  X(78, action, SendFenceReq)           \
  X(79, action, SendFenceRsp)           \
  X(80, action, PathChanged)            \
  X(81, action, LinkChanged)            \
  X(82, action, FailedOver)             \
  X(83, action, ReleasePath)            \
  X(84, action, EndSession)             \
  X(85, action, AdmitSession)           \
  X(86, action, AnswerName)             \
  X(87, action, CrowdOut)               \
  X(88, action, ProbeDelivery)

// Notes of variable length. Not stored in ring slots.
#define RTRS_TRACE_NOTES(X) \
  X(48, note, WireSent)     \
  X(49, note, WireReceived) \
  X(50, note, WireCm)       \
  X(51, note, WireGap)
#define RTRS_TRACE_LONG(X) \
  RTRS_TRACE_NOTES(X)      \
  X(7, control, Snapshot)

// Built-in events have numbers below this.
inline constexpr KindId kKindLimit = 128;

template <class T>
struct KindOf;
#define RTRS_TRACE_KIND_OF(number, event_class, type)               \
  template <>                                                       \
  struct KindOf<type> {                                             \
    static constexpr KindId id = number;                            \
    static constexpr EventClass category = EventClass::event_class; \
    static constexpr std::string_view name = #type;                 \
  };
RTRS_TRACE_EVENTS(RTRS_TRACE_KIND_OF)
RTRS_TRACE_LONG(RTRS_TRACE_KIND_OF)
#undef RTRS_TRACE_KIND_OF

template <class T>
inline constexpr KindId kKindOf = KindOf<T>::id;

}  // namespace trace
}  // namespace rtrs
