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
/// encode(value, out) writes the whole message at the start of `out`, with reserved bytes zeroed, and returns
/// its length; returns 0 and writes nothing if `out` is too small or the value cannot be encoded.
/// parse_*(bytes) accepts trailing bytes unless documented otherwise, because CM private data arrives padded,
/// and ignores reserved fields, because kernel senders leave garbage in some. No function allocates, throws
/// or keeps a reference. All functions are thread-safe.
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
inline constexpr std::size_t kReadHeaderBytes = 8;  ///< size without the descriptor
inline constexpr std::size_t kWriteHeaderBytes = 4;
inline constexpr std::size_t kFenceBytes = 24;
inline constexpr std::size_t kMaxIoHeaderBytes = kReadHeaderBytes + kDescriptorBytes;
/// Size of the session name field, including the NUL.
inline constexpr std::size_t kNameFieldBytes = 255;
inline constexpr std::size_t kMaxNameBytes = kNameFieldBytes - 1;

/// Message type: the u16 at offset 0 of every SEND and of the RTRS header inside a chunk.
enum class MsgType : std::uint16_t {
  info_req = 0,
  info_rsp = 1,
  write = 2,
  read = 3,
  rkey_rsp = 4,
  fence_req = 0x4001,  ///< urtrs extension; never sent to a peer that did not negotiate kConnRspFence
  fence_rsp = 0x4002,  ///< urtrs extension
};

/// Bits of ConnRsp::flags. A kernel client ignores all except the first.
inline constexpr std::uint32_t kConnRspNewRkey = 0x2;
inline constexpr std::uint32_t kConnRspFence = 0x100;
inline constexpr std::uint32_t kConnRspGeneration = 0x200;
inline constexpr std::uint32_t kConnRspProbe = 0x400;
inline constexpr std::uint32_t kConnRspKeysStay = 0x800;
inline constexpr std::uint32_t kConnRspDataWithAnswer = 0x1000;
inline constexpr std::uint32_t kConnRspKeyProof = 0x2000;  ///< has the server's proof (key_proof.hpp)

/// Returns the extensions that the flags of a ConnRsp grant.
constexpr Extensions granted_extensions(std::uint32_t flags) noexcept {
  const auto of = [flags](std::uint32_t bit, Extensions one) {
    return (flags & bit) != 0 ? one : Extensions::none;
  };
  return of(kConnRspFence, Extensions::fence) | of(kConnRspGeneration, Extensions::generation) |
         of(kConnRspProbe, Extensions::probe) | of(kConnRspKeysStay, Extensions::keys_stay) |
         of(kConnRspDataWithAnswer, Extensions::data_with_answer);
}
/// Returns the flags of a ConnRsp that grant `extensions`.
constexpr std::uint32_t granting_flags(Extensions extensions) noexcept {
  const auto of = [extensions](Extensions one, std::uint32_t bit) { return has(extensions, one) ? bit : 0U; };
  return of(Extensions::fence, kConnRspFence) | of(Extensions::generation, kConnRspGeneration) |
         of(Extensions::probe, kConnRspProbe) | of(Extensions::keys_stay, kConnRspKeysStay) |
         of(Extensions::data_with_answer, kConnRspDataWithAnswer);
}

/// Flag in the read header: the client requests that the server invalidates its key (SEND_WITH_INV).
inline constexpr std::uint16_t kReadNeedInval = 0x1;

/// A memory region of the peer.
struct Descriptor {
  std::uint64_t addr = 0;
  std::uint32_t key = 0;
  std::uint32_t len = 0;  ///< size of the region in bytes
  bool operator==(const Descriptor&) const = default;
};

/// A name held by value: 0..254 bytes, no NUL inside.
struct Name {
  std::array<char, kNameFieldBytes> text{};  ///< always NUL-terminated
  std::uint8_t length = 0;

  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text.data(), length}; }
  constexpr bool operator==(const Name& other) const noexcept { return view() == other.view(); }
};

/// Error: bad_name if `text` is longer than 254 bytes or contains a NUL.
[[nodiscard]] Parsed<Name> make_name(std::string_view text) noexcept;

/// Reads the 255-byte name field at offset `at`. Errors: too_short if the field is incomplete, bad_name if it
/// has no NUL.
[[nodiscard]] Parsed<Name> load_name(Bytes bytes, std::size_t at) noexcept;

/// Writes the name without padding. Precondition: the field lies within `to` and is zeroed.
void store_name(const Name& name, MutableBytes to, std::size_t at) noexcept;

/// True for a valid session name: 1..254 bytes without '/', '.' and control characters.
[[nodiscard]] bool valid_session_name(std::string_view text) noexcept;

/// Private data of a connect request (protocol section 2.1).
struct ConnReq {
  std::uint16_t cid = 0;
  std::uint16_t cid_num = 0;    ///< number of connections, 1..4096
  std::uint16_t recon_cnt = 0;  ///< number of connection attempts of this path; wraps
  Uuid sess_uuid{};             ///< identifies the path
  Uuid paths_uuid{};            ///< identifies the session
  bool first_conn = false;
  Extensions extensions = Extensions::none;  ///< offered extensions; unknown bits are kept
  bool operator==(const ConnReq&) const = default;
};

[[nodiscard]] std::size_t encode(const ConnReq& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_magic, bad_version, bad_cid_num, bad_cid, bad_uuid.
[[nodiscard]] Parsed<ConnReq> parse_conn_req(Bytes bytes) noexcept;

/// Private data of an accept or a reject (protocol section 2.2).
struct ConnRsp {
  std::int16_t error = 0;  ///< value on the wire: 0, or a NEGATIVE errno
  std::uint16_t queue_depth = 0;
  std::uint32_t max_io_size = 0;   ///< in bytes
  std::uint32_t max_hdr_size = 0;  ///< in bytes
  std::uint32_t flags = 0;         ///< kConnRsp* bits; unknown bits kept
  bool operator==(const ConnRsp&) const = default;

  /// 64 bits, because the sum of two 32-bit fields of a hostile peer must not overflow. At most 28 bits after
  /// a successful parse for cid 0.
  [[nodiscard]] constexpr std::uint64_t chunk_size() const noexcept {
    return std::uint64_t{max_io_size} + max_hdr_size;
  }
};

/// Makes the ConnRsp of a reject. A `positive_errno` outside 1..4095 becomes ECONNRESET, because 0 would make
/// a kernel client wait for 30 s.
[[nodiscard]] ConnRsp make_reject(int positive_errno) noexcept;

[[nodiscard]] std::size_t encode(const ConnRsp& message, MutableBytes out) noexcept;
/// Parses the private data of an accept. Errors: too_short, bad_magic, bad_version. A message with a non-zero
/// `error` field parses successfully, and the fields after `error` are not checked. With `error` 0 and cid 0
/// also: bad_depth, bad_chunk_size. On other cids these fields have no meaning and are not checked (protocol
/// section 2.2).
[[nodiscard]] Parsed<ConnRsp> parse_conn_rsp(Bytes bytes, std::uint16_t cid = 0) noexcept;
/// Returns the errno of a reject: positive, 1..4095; ECONNRESET if the payload contains none.
[[nodiscard]] int reject_errno(Bytes bytes) noexcept;

/// Checks that 1 <= depth <= 65535, that the chunk size is not 0, and that both fit the 28 bits of the
/// immediate (protocol section 1.3). Returns none, bad_depth or bad_chunk_size.
[[nodiscard]] Refusal check_geometry(std::uint32_t queue_depth, std::uint64_t chunk_size) noexcept;

/// SEND on cid 0, client to server (protocol section 2.3).
struct InfoReq {
  Name name{};
  bool operator==(const InfoReq&) const = default;
};

/// Returns 0 if there is no room, or if the name is not a valid session name.
[[nodiscard]] std::size_t encode(const InfoReq& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_length (longer than 272 bytes), bad_type, bad_name.
[[nodiscard]] Parsed<InfoReq> parse_info_req(Bytes bytes) noexcept;

/// SEND on cid 0, server to client (protocol section 2.4). The descriptors stay in the received bytes.
struct InfoRsp {
  std::uint16_t sg_cnt = 0;
  bool operator==(const InfoRsp&) const = default;
};

using ChunkRef [[deprecated("use wire::Descriptor")]] = Descriptor;

[[nodiscard]] constexpr std::size_t info_rsp_bytes(std::size_t sg_cnt) noexcept {
  return kInfoRspHeaderBytes + kDescriptorBytes * sg_cnt;
}

/// Returns 0 if there is no room, or if `runs` has no descriptor or more than 65535.
[[nodiscard]] std::size_t encode_info_rsp(std::span<const Descriptor> runs, MutableBytes out) noexcept;
/// Accepts only runs that cover exactly `queue_depth` chunks of `chunk_size` bytes. Errors: too_short,
/// bad_type, bad_depth, bad_chunk_size, bad_count, bad_descriptor, bad_length.
[[nodiscard]] Parsed<InfoRsp> parse_info_rsp(Bytes bytes, std::uint32_t queue_depth,
                                             std::uint32_t chunk_size) noexcept;
/// Returns descriptor `index` without checking it. Error: bad_count if `index` is beyond the message or its
/// sg_cnt.
[[nodiscard]] Parsed<Descriptor> info_rsp_descriptor(Bytes bytes, std::size_t index) noexcept;
/// Returns chunk `index`. Takes O(sg_cnt), because it walks the runs. Safe on any bytes. Error: bad_buffer_id
/// if no run contains the chunk. To fill a table of all chunks, use ChunkWalk.
[[nodiscard]] Parsed<Descriptor> info_rsp_chunk(Bytes bytes, std::uint32_t index,
                                                std::uint32_t chunk_size) noexcept;

/// Iterates over all chunks in order, O(1) each. Borrows the message bytes.
class ChunkWalk {
 public:
  ChunkWalk(Bytes info_rsp, std::uint32_t chunk_size) noexcept : bytes_(info_rsp), chunk_size_(chunk_size) {}
  /// Returns the next chunk. Error: bad_buffer_id after the last one.
  [[nodiscard]] Parsed<Descriptor> next() noexcept;

 private:
  Bytes bytes_;
  std::uint32_t chunk_size_;
  std::size_t run_ = 0;
  std::uint64_t into_run_ = 0;  ///< offset in the current run, in bytes
};

/// Payload of SEND_WITH_IMM, server to client: contains the key for the next request on a chunk (protocol
/// section 2.5).
struct RkeyRsp {
  std::uint16_t buf_id = 0;
  std::uint32_t rkey = 0;
  bool operator==(const RkeyRsp&) const = default;
};

[[nodiscard]] std::size_t encode(const RkeyRsp& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_type, bad_buffer_id. The caller must compare buf_id with the one in the immediate.
[[nodiscard]] Parsed<RkeyRsp> parse_rkey_rsp(Bytes bytes, std::uint32_t queue_depth) noexcept;

/// A request in a chunk. Layout of the chunk: `data_len` bytes of data (or of room for the response),
/// `usr_len` bytes of user header, the RTRS header at `off` (protocol section 5.3).
struct IoRequest {
  Direction direction = Direction::write;
  std::uint8_t generation = 0;  ///< high byte of the type; 0 unless negotiated
  std::uint32_t buf_id = 0;
  std::uint32_t off = 0;
  std::uint32_t data_len = 0;  ///< number of data bytes: off - usr_len
  std::uint16_t usr_len = 0;
  bool need_inval = false;      ///< set only with a descriptor
  bool has_descriptor = false;  ///< only set for reads
  Descriptor desc{};            ///< the response to a read has desc.len bytes, not data_len; 1..chunk size
  bool operator==(const IoRequest&) const = default;
};
using RdmaWriteHeader [[deprecated("use IoRequest")]] = IoRequest;
struct [[deprecated("use IoRequest")]] RdmaReadHeader
    : IoRequest{RdmaReadHeader() noexcept {direction = Direction::read;
}  // namespace rtrs::wire
}
;

/// Size of the RTRS header: 4 bytes for a write (protocol section 2.7); 8 for a read, 24 with a descriptor
/// (protocol section 2.6).
[[nodiscard]] constexpr std::size_t encoded_bytes(const IoRequest& request) noexcept {
  if (request.direction == Direction::write) return kWriteHeaderBytes;
  return kReadHeaderBytes + (request.has_descriptor ? kDescriptorBytes : 0);
}
/// Encodes the RTRS header. `buf_id` and `off` travel in the immediate.
[[nodiscard]] std::size_t encode(const IoRequest& request, MutableBytes out) noexcept;

/// Parses the request in `chunk`, the whole chunk `buf_id`. `buf_id` and `off` come from the immediate and
/// were checked by check_io_req(). Copies the header exactly once, because the peer can still write to the
/// chunk. Errors: bad_offset (the header does not fit), bad_type, unnegotiated_generation, bad_sg_count,
/// bad_user_length, bad_descriptor (length 0, longer than the chunk, or the address wraps).
[[nodiscard]] Parsed<IoRequest> parse_io_request(Bytes chunk, std::uint32_t buf_id, std::uint32_t off,
                                                 bool generation_ext) noexcept;
/// Returns the user header of a request parsed from `chunk`.
[[nodiscard]] Bytes user_header(Bytes chunk, const IoRequest& request) noexcept;

/// urtrs extension, SEND on cid 0 of a connected path: asks the server to close and drain incarnation
/// `recon_cnt` of `path`.
struct FenceReq {
  std::uint16_t recon_cnt = 0;
  std::uint32_t serial = 0;  ///< echoed in the answer
  Uuid path{};               ///< sess_uuid of the path to fence
  bool operator==(const FenceReq&) const = default;
};

/// urtrs extension, response on the same connection. If `error` is 0, the incarnation can no longer access
/// memory.
struct FenceRsp {
  std::uint16_t error = 0;  ///< 0 or a positive errno up to 4095
  std::uint32_t serial = 0;
  Uuid path{};
  bool operator==(const FenceRsp&) const = default;
};

[[nodiscard]] std::size_t encode(const FenceReq& message, MutableBytes out) noexcept;
[[nodiscard]] std::size_t encode(const FenceRsp& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_type.
[[nodiscard]] Parsed<FenceReq> parse_fence_req(Bytes bytes) noexcept;
/// Errors: too_short, bad_type, bad_errno.
[[nodiscard]] Parsed<FenceRsp> parse_fence_rsp(Bytes bytes) noexcept;

/// Returns the type of a SEND, to choose its parser. The type may be an unknown one. Error: too_short.
[[nodiscard]] Parsed<MsgType> send_type(Bytes bytes) noexcept;

}  // namespace rtrs::wire
