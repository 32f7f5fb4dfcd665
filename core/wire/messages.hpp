#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/direction.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/extensions.hpp"
#include "core/wire/refusal.hpp"

/// RTRS messages, protocol 2.0 (protocol section 2), as values.
///
/// encode(value, out) writes the whole message, reserved bytes zeroed, at the start of `out` and returns its
/// length; it returns 0 and writes nothing when `out` is too small or the value has no wire form.
/// parse_*(bytes) accepts trailing bytes unless it says otherwise, because CM private data arrives padded,
/// and ignores reserved fields, because kernel senders leave garbage in some. Nothing allocates, throws or
/// keeps a reference; all functions are safe from any thread.
namespace rtrs::wire {

inline constexpr std::uint16_t kMagic = 0x1bbd;
inline constexpr std::uint16_t kVersion = 0x0200;
inline constexpr std::uint8_t kVersionMajor = 2;
inline constexpr std::uint16_t kMaxCidNum = 4096;

inline constexpr std::size_t kConnReqBytes = 56;
inline constexpr std::size_t kConnRspBytes = 56;
inline constexpr std::size_t kInfoReqBytes = 272;
inline constexpr std::size_t kInfoRspHeaderBytes = 8;
inline constexpr std::size_t kDescriptorBytes = 16;
inline constexpr std::size_t kRkeyRspBytes = 8;
inline constexpr std::size_t kReadHeaderBytes = 8;  ///< without its descriptor
inline constexpr std::size_t kWriteHeaderBytes = 4;
inline constexpr std::size_t kFenceBytes = 24;
inline constexpr std::size_t kMaxIoHeaderBytes = kReadHeaderBytes + kDescriptorBytes;
/// Session name: field of 255 bytes, NUL included.
inline constexpr std::size_t kNameFieldBytes = 255;
inline constexpr std::size_t kMaxNameBytes = kNameFieldBytes - 1;

/// The u16 at offset 0 of every SEND and of the header inside a chunk.
enum class MsgType : std::uint16_t {
  info_req = 0,
  info_rsp = 1,
  write = 2,
  read = 3,
  rkey_rsp = 4,
  fence_req = 0x4001,  ///< ours; never sent to a peer that did not negotiate kConnRspFence
  fence_rsp = 0x4002,  ///< ours
};

/// ConnRsp::flags. A kernel client ignores all but the first.
inline constexpr std::uint32_t kConnRspNewRkey = 0x2;
inline constexpr std::uint32_t kConnRspFence = 0x100;
inline constexpr std::uint32_t kConnRspGeneration = 0x200;
inline constexpr std::uint32_t kConnRspProbe = 0x400;
inline constexpr std::uint32_t kConnRspKeysStay = 0x800;
inline constexpr std::uint32_t kConnRspDataWithAnswer = 0x1000;
inline constexpr std::uint32_t kConnRspKeyProof = 0x2000;  ///< key_proof.hpp

/// The extensions that the flags of a ConnRsp grant.
constexpr Extensions granted_extensions(std::uint32_t flags) noexcept {
  const auto of = [flags](std::uint32_t bit, Extensions one) {
    return (flags & bit) != 0 ? one : Extensions::none;
  };
  return of(kConnRspFence, Extensions::fence) | of(kConnRspGeneration, Extensions::generation) |
         of(kConnRspProbe, Extensions::probe) | of(kConnRspKeysStay, Extensions::keys_stay) |
         of(kConnRspDataWithAnswer, Extensions::data_with_answer);
}
/// The flags of a ConnRsp that grant `extensions`.
constexpr std::uint32_t granting_flags(Extensions extensions) noexcept {
  const auto of = [extensions](Extensions one, std::uint32_t bit) { return has(extensions, one) ? bit : 0U; };
  return of(Extensions::fence, kConnRspFence) | of(Extensions::generation, kConnRspGeneration) |
         of(Extensions::probe, kConnRspProbe) | of(Extensions::keys_stay, kConnRspKeysStay) |
         of(Extensions::data_with_answer, kConnRspDataWithAnswer);
}

/// Flag of the read header: the client asks for SEND_WITH_INV of its key.
inline constexpr std::uint16_t kReadNeedInval = 0x1;

/// A memory region of the peer.
struct Descriptor {
  std::uint64_t addr = 0;
  std::uint32_t key = 0;
  std::uint32_t len = 0;  ///< bytes
  bool operator==(const Descriptor&) const = default;
};

/// A name held by value: 0..254 bytes, no NUL inside.
struct Name {
  std::array<char, kNameFieldBytes> text{};  ///< always NUL-terminated
  std::uint8_t length = 0;

  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text.data(), length}; }
  constexpr bool operator==(const Name& other) const noexcept { return view() == other.view(); }
};

/// bad_name when longer than 254 bytes or containing NUL.
[[nodiscard]] Parsed<Name> make_name(std::string_view text) noexcept;

/// The 255-byte name field at `at`: too_short when it is not all there, bad_name without a NUL.
[[nodiscard]] Parsed<Name> load_name(Bytes bytes, std::size_t at) noexcept;

/// Writes the name without padding. Precondition: the field is there and already zeroed.
void store_name(const Name& name, MutableBytes to, std::size_t at) noexcept;

/// True for a valid session name: 1..254 bytes without '/', '.' and control characters.
[[nodiscard]] bool valid_session_name(std::string_view text) noexcept;

/// Private data of a connect request (protocol section 2.1).
struct ConnReq {
  std::uint16_t cid = 0;
  std::uint16_t cid_num = 0;    ///< 1..4096
  std::uint16_t recon_cnt = 0;  ///< attempts of this path; wraps
  Uuid sess_uuid{};             ///< the PATH
  Uuid paths_uuid{};            ///< the SESSION
  bool first_conn = false;
  Extensions extensions = Extensions::none;  ///< offered; unknown bits kept
  bool operator==(const ConnReq&) const = default;
};

[[nodiscard]] std::size_t encode(const ConnReq& message, MutableBytes out) noexcept;
/// too_short, bad_magic, bad_version, bad_cid_num, bad_cid, bad_uuid.
[[nodiscard]] Parsed<ConnReq> parse_conn_req(Bytes bytes) noexcept;

/// Private data of an accept or a reject (protocol section 2.2).
struct ConnRsp {
  std::int16_t error = 0;  ///< as on the wire: 0, or a NEGATIVE errno
  std::uint16_t queue_depth = 0;
  std::uint32_t max_io_size = 0;   ///< bytes
  std::uint32_t max_hdr_size = 0;  ///< bytes
  std::uint32_t flags = 0;         ///< kConnRsp* bits; unknown bits kept
  bool operator==(const ConnRsp&) const = default;

  /// 64 bits because two hostile 32-bit fields must not wrap; fits 28 bits once parsed for cid 0.
  [[nodiscard]] constexpr std::uint64_t chunk_size() const noexcept {
    return std::uint64_t{max_io_size} + max_hdr_size;
  }
};

/// ConnRsp of a reject; `positive_errno` outside 1..4095 becomes ECONNRESET, since 0 would leave a kernel
/// client waiting for 30 s.
[[nodiscard]] ConnRsp make_reject(int positive_errno) noexcept;

[[nodiscard]] std::size_t encode(const ConnRsp& message, MutableBytes out) noexcept;
/// Of an accept. too_short, bad_magic, bad_version; a non-zero `error` is returned, not refused, and nothing
/// after it is judged. With error 0 and cid 0 also bad_depth and bad_chunk_size; on other cids the numbers
/// mean nothing and are not judged (protocol section 2.2).
[[nodiscard]] Parsed<ConnRsp> parse_conn_rsp(Bytes bytes, std::uint16_t cid = 0) noexcept;
/// Errno of a reject: positive, 1..4095; ECONNRESET if the payload contains none.
[[nodiscard]] int reject_errno(Bytes bytes) noexcept;

/// none, bad_depth or bad_chunk_size: 1 <= depth <= 65535, chunk != 0, and both together within the 28 bits
/// of the immediate (protocol section 1.3).
[[nodiscard]] Refusal check_geometry(std::uint32_t queue_depth, std::uint64_t chunk_size) noexcept;

/// SEND on cid 0, client to server (protocol section 2.3).
struct InfoReq {
  Name name{};
  bool operator==(const InfoReq&) const = default;
};

/// 0 also when the name is not a valid session name.
[[nodiscard]] std::size_t encode(const InfoReq& message, MutableBytes out) noexcept;
/// too_short, bad_length (longer than 272), bad_type, bad_name.
[[nodiscard]] Parsed<InfoReq> parse_info_req(Bytes bytes) noexcept;

/// SEND on cid 0, server to client (protocol section 2.4). The descriptors stay in the received bytes.
struct InfoRsp {
  std::uint16_t sg_cnt = 0;
  bool operator==(const InfoRsp&) const = default;
};

/// Address and key of one chunk.
struct ChunkRef {
  std::uint64_t addr = 0;
  std::uint32_t key = 0;
  bool operator==(const ChunkRef&) const = default;
};

[[nodiscard]] constexpr std::size_t info_rsp_bytes(std::size_t sg_cnt) noexcept {
  return kInfoRspHeaderBytes + kDescriptorBytes * sg_cnt;
}

/// 0 also for no descriptor or more than 65535.
[[nodiscard]] std::size_t encode_info_rsp(std::span<const Descriptor> runs, MutableBytes out) noexcept;
/// Accepts only runs that cover exactly `queue_depth` chunks of `chunk_size` bytes: too_short, bad_type,
/// bad_depth, bad_chunk_size, bad_count, bad_descriptor, bad_length.
[[nodiscard]] Parsed<InfoRsp> parse_info_rsp(Bytes bytes, std::uint32_t queue_depth,
                                             std::uint32_t chunk_size) noexcept;
/// Descriptor i as it came; bad_count beyond the message or its sg_cnt.
[[nodiscard]] Parsed<Descriptor> info_rsp_descriptor(Bytes bytes, std::size_t index) noexcept;
/// Chunk i, walking the runs: O(sg_cnt). Safe on any bytes; bad_buffer_id when no run holds the chunk. To
/// fill a table of all chunks use ChunkWalk.
[[nodiscard]] Parsed<ChunkRef> info_rsp_chunk(Bytes bytes, std::uint32_t index,
                                              std::uint32_t chunk_size) noexcept;

/// All chunks in order, O(1) each. Borrows `bytes`.
class ChunkWalk {
 public:
  ChunkWalk(Bytes info_rsp, std::uint32_t chunk_size) noexcept : bytes_(info_rsp), chunk_size_(chunk_size) {}
  /// The next chunk; refused with bad_buffer_id past the last one.
  [[nodiscard]] Parsed<ChunkRef> next() noexcept;

 private:
  Bytes bytes_;
  std::uint32_t chunk_size_;
  std::size_t run_ = 0;
  std::uint64_t into_run_ = 0;  ///< bytes
};

/// Payload of SEND_WITH_IMM, server to client: the key for the next request on a chunk (protocol
/// section 2.5).
struct RkeyRsp {
  std::uint16_t buf_id = 0;
  std::uint32_t rkey = 0;
  bool operator==(const RkeyRsp&) const = default;
};

[[nodiscard]] std::size_t encode(const RkeyRsp& message, MutableBytes out) noexcept;
/// too_short, bad_type, bad_buffer_id. The caller still compares buf_id with the immediate's.
[[nodiscard]] Parsed<RkeyRsp> parse_rkey_rsp(Bytes bytes, std::uint32_t queue_depth) noexcept;

/// Header of a read inside the chunk (protocol section 2.6): 8 bytes, 24 with a descriptor.
struct RdmaReadHeader {
  std::uint16_t usr_len = 0;    ///< bytes of user header right before this header
  std::uint8_t generation = 0;  ///< high byte of the type; 0 unless negotiated
  bool need_inval = false;
  bool has_descriptor = false;
  Descriptor desc{};  ///< encoded only with has_descriptor
  bool operator==(const RdmaReadHeader&) const = default;
};

/// Header of a write inside the chunk (protocol section 2.7): 4 bytes.
struct RdmaWriteHeader {
  std::uint16_t usr_len = 0;
  std::uint8_t generation = 0;
  bool operator==(const RdmaWriteHeader&) const = default;
};

[[nodiscard]] constexpr std::size_t encoded_bytes(const RdmaReadHeader& header) noexcept {
  return kReadHeaderBytes + (header.has_descriptor ? kDescriptorBytes : 0);
}
[[nodiscard]] std::size_t encode(const RdmaReadHeader& header, MutableBytes out) noexcept;
[[nodiscard]] std::size_t encode(const RdmaWriteHeader& header, MutableBytes out) noexcept;

/// A request as the server takes it from the chunk. Layout of the chunk: data_len bytes of data (or of room
/// for the answer), usr_len bytes of user header, the RTRS header at `off` (protocol section 5.3).
struct IoRequest {
  Direction direction = Direction::write;
  std::uint8_t generation = 0;
  std::uint32_t buf_id = 0;
  std::uint32_t off = 0;
  std::uint32_t data_len = 0;  ///< off - usr_len
  std::uint16_t usr_len = 0;
  bool need_inval = false;      ///< never without a descriptor
  bool has_descriptor = false;  ///< reads only
  Descriptor desc{};            ///< desc.len, not data_len, is what a read writes back; 1..chunk size
  bool operator==(const IoRequest&) const = default;
};

/// `chunk` is the whole chunk `buf_id`, `off` comes from the immediate (check_io_req has bounded both). The
/// header is read exactly once into private memory, since the peer can still write the chunk. bad_offset (the
/// header does not fit), bad_type, unnegotiated_generation, bad_sg_count, bad_user_length, bad_descriptor
/// (length 0, longer than the chunk, address wrap).
[[nodiscard]] Parsed<IoRequest> parse_io_request(Bytes chunk, std::uint32_t buf_id, std::uint32_t off,
                                                 bool generation_ext) noexcept;
/// The user header of a request parsed from `chunk`.
[[nodiscard]] Bytes user_header(Bytes chunk, const IoRequest& request) noexcept;

/// Ours, SEND on cid 0 of a living path: "close and drain the incarnation `recon_cnt` of `path`".
struct FenceReq {
  std::uint16_t recon_cnt = 0;
  std::uint32_t serial = 0;  ///< echoed in the answer
  Uuid path{};               ///< sess_uuid of the path to fence
  bool operator==(const FenceReq&) const = default;
};

/// Ours, the answer on the same connection: the incarnation can no longer touch memory when error is 0.
struct FenceRsp {
  std::uint16_t error = 0;  ///< 0 or a positive errno up to 4095
  std::uint32_t serial = 0;
  Uuid path{};
  bool operator==(const FenceRsp&) const = default;
};

[[nodiscard]] std::size_t encode(const FenceReq& message, MutableBytes out) noexcept;
[[nodiscard]] std::size_t encode(const FenceRsp& message, MutableBytes out) noexcept;
/// too_short, bad_type.
[[nodiscard]] Parsed<FenceReq> parse_fence_req(Bytes bytes) noexcept;
/// too_short, bad_type, bad_errno.
[[nodiscard]] Parsed<FenceRsp> parse_fence_rsp(Bytes bytes) noexcept;

/// The type of a SEND, to choose its parser; need not be an enumerator. too_short only.
[[nodiscard]] Parsed<MsgType> send_type(Bytes bytes) noexcept;

}  // namespace rtrs::wire
