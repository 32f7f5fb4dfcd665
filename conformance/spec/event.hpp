// Protocol events for the specification, in separate types, so that the checks share no code with the
// product. Events and fields have the names of the trace format (docs/trace_format.md). Fields that an event
// does not have are zero.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

namespace rtrs::spec {

using Time = std::uint64_t;  // in nanoseconds
inline constexpr Time kNever = ~Time{0};
using Uuid = std::array<std::uint8_t, 16>;

// One incarnation of one connection, numbered by the recording side.
struct Key {
  std::uint16_t path = 0;
  std::uint16_t con = 0;
  std::uint32_t epoch = 0;
  auto operator<=>(const Key&) const = default;
};

// X(name, class): class is begin, input, action or wire.
#define RTRS_SPEC_EVENTS(X)         \
  X(BeginClient, begin)             \
  X(BeginServerSession, begin)      \
  X(BeginServerRegistry, begin)     \
  X(End, begin)                     \
  X(PathAdded, input)               \
  X(PathRemoveRequested, input)     \
  X(PathDisconnectRequested, input) \
  X(PathReconnectRequested, input)  \
  X(PolicyChanged, input)           \
  X(AttemptsChanged, input)         \
  X(CloseRequested, input)          \
  X(AddressesFound, input)          \
  X(Connected, input)               \
  X(ConnectFailed, input)           \
  X(ConnectionLost, input)          \
  X(ConnectionClosed, input)        \
  X(InfoAccepted, input)            \
  X(ImmReceived, input)             \
  X(KeyedResponseReceived, input)   \
  X(KeyInvalidated, input)          \
  X(FenceAnswered, input)           \
  X(SendDone, input)                \
  X(PeerBroke, input)               \
  X(Submitted, input)               \
  X(DeadlineReached, input)         \
  X(Continued, input)               \
  X(ConnectRequested, input)        \
  X(InfoRequested, input)           \
  X(RequestArrived, input)          \
  X(ChunkInvalidated, input)        \
  X(FenceRequested, input)          \
  X(Responded, input)               \
  X(SessionSought, input)           \
  X(NameClaimed, input)             \
  X(SessionDropped, input)          \
  X(PostRequest, action)            \
  X(PostResponse, action)           \
  X(PostImm, action)                \
  X(PostReceive, action)            \
  X(Complete, action)               \
  X(Deliver, action)                \
  X(StoreKey, action)               \
  X(InvalidateChunk, action)        \
  X(Connect, action)                \
  X(Accept, action)                 \
  X(Reject, action)                 \
  X(Disconnect, action)             \
  X(SendInfoReq, action)            \
  X(SendInfoRsp, action)            \
  X(SendFenceReq, action)           \
  X(SendFenceRsp, action)           \
  X(PathChanged, action)            \
  X(LinkChanged, action)            \
  X(FailedOver, action)             \
  X(ReleasePath, action)            \
  X(EndSession, action)             \
  X(AdmitSession, action)           \
  X(AnswerName, action)             \
  X(CrowdOut, action)               \
  X(ProbeDelivery, action)          \
  X(WireSent, wire)                 \
  X(WireReceived, wire)             \
  X(WireCm, wire)                   \
  X(WireGap, wire)

enum class EventClass : std::uint8_t { begin, input, action, wire };
enum class Kind : std::uint8_t {
#define RTRS_SPEC_EVENT(name, event_class) name,
  RTRS_SPEC_EVENTS(RTRS_SPEC_EVENT)
#undef RTRS_SPEC_EVENT
};
inline constexpr unsigned kKinds = static_cast<unsigned>(Kind::WireGap) + 1;
std::string_view name_of(Kind) noexcept;
inline constexpr EventClass kClassOf[] = {
#define RTRS_SPEC_EVENT(name, event_class) EventClass::event_class,
    RTRS_SPEC_EVENTS(RTRS_SPEC_EVENT)
#undef RTRS_SPEC_EVENT
};
constexpr EventClass class_of(Kind kind) noexcept {
  return kClassOf[static_cast<unsigned>(kind)];
}

enum class PathState : std::uint8_t {
  unknown,
  absent,
  connecting,
  connected,
  draining,
  waiting,
  closing,
  closed,
};
std::string_view name_of(PathState) noexcept;
// The reasons that rules distinguish.
enum class Reason : std::uint8_t { other, heartbeat_lost, other_path_leads, connection_silent, challenged };
enum class Result : std::uint8_t {
  other,
  ok,
  peer_error,
  no_path,
  session_closed,
  too_large,
  request_timeout,
};
enum class ReceiveKind : std::uint8_t { empty, message, info };
enum class Policy : std::uint8_t { unknown, round_robin, min_inflight, min_latency };
enum class WireOp : std::uint8_t { write, write_imm, send, send_imm, send_inv };
std::string_view name_of(WireOp) noexcept;
enum class CmKind : std::uint8_t { req, rep, rej, dreq, closed };

// Settings of either side that rules use.
struct Settings {
  std::uint16_t con_num = 0;
  std::uint16_t depth = 0;  // client: maximum number of permits; server: number of chunks
  std::uint16_t send_depth = 0;
  std::uint8_t extensions = 0;
  bool imm_consumes_receive = true;
  bool always_invalidate = false;
  bool send_invalidate = true;
  bool probe_deliveries = false;
  bool kernel_peer_replays = false;
  bool fence_failed_replays = false;
  Policy policy = Policy::unknown;
  Time queue_timeout = kNever;
  Time request_timeout = kNever;
  Time fence_timeout = kNever;
  Time handshake_timeout = kNever;
  Time heartbeat_interval = 0;  // 0: unknown
  std::uint32_t heartbeat_missed_max = 0;
};

struct Event {
  Kind kind = Kind::Continued;
  Time now = 0;
  std::uint64_t seq = 0;  // number of the record
  Key key;
  std::uint16_t path = 0;
  std::uint16_t from = 0;
  std::uint16_t to = 0;
  std::uint16_t permit = 0;  // only set at a client
  std::uint16_t chunk = 0;   // server: chunk; both sides: buf_id
  std::uint16_t serial16 = 0;
  std::uint16_t count = 0;
  std::uint16_t cid_num = 0;
  std::uint16_t recon_cnt = 0;
  std::uint16_t error = 0;  // positive errno
  std::uint16_t queue_depth = 0;
  std::uint16_t session = 0;
  std::uint16_t affinity = 0;
  std::uint8_t generation = 0;
  std::uint8_t extensions = 0;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint32_t serial = 0;
  std::uint32_t flags = 0;
  std::uint32_t request = 0;
  std::uint32_t data_len = 0;
  std::uint32_t usr_len = 0;
  std::uint32_t max_io_size = 0;
  std::uint32_t max_hdr_size = 0;
  std::uint32_t address_pair = 0;
  std::uint64_t cookie = 0;
  std::uint64_t digest_low = 0;
  std::uint64_t digest_high = 0;
  Uuid uuid{};
  bool first_conn = false;
  std::uint64_t identity[2] = {};
  bool create = false;
  bool service = false;
  bool offers_invalidation = false;
  bool reads = false;  // the request is a read
  bool need_invalidate = false;
  bool has_descriptor = false;
  bool write_data = false;
  bool send_invalidate = false;
  bool fresh_key = false;
  bool data_with_answer = false;
  bool parked = false;
  bool fenced = false;
  bool up = false;
  bool ok = false;
  PathState state = PathState::unknown;
  Reason reason = Reason::other;
  Result result = Result::other;
  ReceiveKind receive = ReceiveKind::empty;
  Policy policy = Policy::unknown;
  // Wire notes. `bytes`: message header or private data; not owned.
  WireOp op = WireOp::write;
  CmKind cm = CmKind::req;
  bool has_imm = false;
  bool sent = false;
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;
  std::uint64_t digest = 0;  // digest of user data that is not in `bytes`; 0: none
  std::string_view bytes;
  Settings settings;  // begin events only
};

}  // namespace rtrs::spec
