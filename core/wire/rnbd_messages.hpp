#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/refusal.hpp"

/// RNBD messages (protocol section 2.9): the user header of an RTRS request, or the body of its response.
/// encode() and parse_*() follow the rules in messages.hpp. Padding and reserved bytes are not checked,
/// because kernel senders leave garbage in them.
namespace rtrs::wire::rnbd {

inline constexpr std::uint8_t kProtoMajor = 2;
inline constexpr std::uint32_t kSectorBytes = 512;
/// Exclusive upper bound of sector numbers and counts, so that byte offsets fit a signed 64-bit integer.
inline constexpr std::uint64_t kMaxSectors = std::uint64_t{1} << 54;

inline constexpr std::size_t kHeaderBytes = 4;
inline constexpr std::size_t kSessInfoBytes = 36;
inline constexpr std::size_t kSessInfoRspBytes = 36;
inline constexpr std::size_t kOpenBytes = 264;
inline constexpr std::size_t kOpenRspBytes = 56;
inline constexpr std::size_t kCloseBytes = 8;
inline constexpr std::size_t kIoBytes = 32;
/// Size of the message from a 32-bit x86 peer: the same fields with less padding. The server ignores the
/// priority in such a message.
inline constexpr std::size_t kIoMinBytes = 28;

enum class MsgType : std::uint16_t {
  sess_info = 0,
  sess_info_rsp = 1,
  open = 2,
  open_rsp = 3,
  io = 4,
  close = 5,
};

enum class Opcode : std::uint8_t {
  read = 0,
  write = 1,
  flush = 2,
  discard = 3,
  secure_erase = 4,
  write_zeroes = 5,
};

enum class AccessMode : std::uint8_t { read_only = 0, read_write = 1, migration = 2 };

inline constexpr std::uint32_t kOpcodeMask = 0xff;
inline constexpr std::uint32_t kRwSync = 0x100;
inline constexpr std::uint32_t kRwFua = 0x200;
inline constexpr std::uint32_t kRwPreflush = 0x400;  ///< RNBD minor version 1: flush first
inline constexpr std::uint32_t kRwNounmap = 0x800;   ///< minor version 2: write_zeroes keeps blocks allocated
inline constexpr std::uint32_t kRwUnknown = ~(kOpcodeMask | kRwSync | kRwFua | kRwPreflush | kRwNounmap);

/// Bits of OpenRsp::features, a urtrs extension. Valid only from a peer that granted an extension, because a
/// kernel server may leave this byte uninitialised.
inline constexpr std::uint8_t kFeaturePreflush = 0x1;
inline constexpr std::uint8_t kFeatureNounmap = 0x2;

inline constexpr std::uint8_t kCacheFua = 0x1;
inline constexpr std::uint8_t kCacheWriteback = 0x2;

[[nodiscard]] const char* to_string(Opcode opcode) noexcept;
[[nodiscard]] const char* to_string(AccessMode mode) noexcept;

/// Returns the type at offset 0 of a user header. Errors: too_short, bad_type.
[[nodiscard]] Parsed<MsgType> message_type(Bytes bytes) noexcept;

struct SessInfo {
  std::uint8_t version = kProtoMajor;
  bool operator==(const SessInfo&) const = default;
};
struct SessInfoRsp {
  std::uint8_t version = kProtoMajor;
  bool operator==(const SessInfoRsp&) const = default;
};

/// Returns the version that both sides use: the lower of their versions.
[[nodiscard]] constexpr std::uint8_t negotiated_version(std::uint8_t peer) noexcept {
  return peer < kProtoMajor ? peer : kProtoMajor;
}

[[nodiscard]] std::size_t encode(const SessInfo& message, MutableBytes out) noexcept;
[[nodiscard]] std::size_t encode(const SessInfoRsp& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_type.
[[nodiscard]] Parsed<SessInfo> parse_sess_info(Bytes bytes) noexcept;
[[nodiscard]] Parsed<SessInfoRsp> parse_sess_info_rsp(Bytes bytes) noexcept;

struct Open {
  AccessMode access_mode = AccessMode::read_only;
  Name device_name{};  ///< 1..254 bytes; the server checks slashes and dots
  bool operator==(const Open&) const = default;
};

/// Returns 0 if there is no room, or if the name is empty.
[[nodiscard]] std::size_t encode(const Open& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_type, bad_access_mode, bad_name (empty or no NUL in its 255 bytes).
[[nodiscard]] Parsed<Open> parse_open(Bytes bytes) noexcept;

struct OpenRsp {
  std::uint32_t device_id = 0;
  std::uint64_t nsectors = 0;  ///< in units of 512 bytes, regardless of the block size
  std::uint32_t max_hw_sectors = 0;
  std::uint32_t max_write_zeroes_sectors = 0;
  std::uint32_t max_discard_sectors = 0;
  std::uint32_t discard_granularity = 0;  ///< in bytes
  std::uint32_t discard_alignment = 0;    ///< in bytes
  std::uint16_t physical_block_size = 0;  ///< in bytes; 0 stands for 64 KiB or unknown
  std::uint16_t logical_block_size = 0;   ///< in bytes, a power of two from 512
  std::uint16_t max_segments = 0;
  std::uint16_t secure_discard = 0;  ///< non-zero: secure erase supported
  std::uint8_t cache_policy = 0;     ///< kCache* bits
  std::uint8_t features = 0;         ///< kFeature* bits; unknown bits kept; validity as for `instance`
  /// urtrs only: id of the cache that holds written, unflushed data. If the value changes, that cache is
  /// lost. 0: unknown. A kernel server treats these bytes as reserved and before Linux 7.0 sends
  /// uninitialised memory in them, so they are valid only from a peer that granted an extension.
  std::uint64_t instance = 0;
  bool operator==(const OpenRsp&) const = default;
};

/// Offsets of the fields of OpenRsp in the message, in bytes.
namespace open_rsp_at {
inline constexpr std::size_t kDeviceId = 4;
inline constexpr std::size_t kSectors = 8;
inline constexpr std::size_t kMaxHwSectors = 16;
inline constexpr std::size_t kMaxWriteZeroes = 20;
inline constexpr std::size_t kMaxDiscard = 24;
inline constexpr std::size_t kDiscardGranularity = 28;
inline constexpr std::size_t kDiscardAlignment = 32;
inline constexpr std::size_t kPhysicalBlock = 36;
inline constexpr std::size_t kLogicalBlock = 38;
inline constexpr std::size_t kMaxSegments = 40;
inline constexpr std::size_t kSecureDiscard = 42;
inline constexpr std::size_t kCachePolicy = 45;
inline constexpr std::size_t kFeatures = 46;
inline constexpr std::size_t kInstance = 48;
static_assert(kFeatures + 2 == kInstance && kInstance + 8 == kOpenRspBytes);
}  // namespace open_rsp_at

[[nodiscard]] std::size_t encode(const OpenRsp& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_type, bad_block_size, bad_count (2^54 sectors or more). For the last two errors
/// `value` is filled nevertheless, because the device is open at the server and its device_id is needed to
/// close it.
[[nodiscard]] Parsed<OpenRsp> parse_open_rsp(Bytes bytes) noexcept;

struct Close {
  std::uint32_t device_id = 0;
  bool operator==(const Close&) const = default;
};

[[nodiscard]] std::size_t encode(const Close& message, MutableBytes out) noexcept;
/// Errors: too_short, bad_type.
[[nodiscard]] Parsed<Close> parse_close(Bytes bytes) noexcept;

struct Io {
  std::uint32_t device_id = 0;
  std::uint64_t sector = 0;  ///< in units of 512 bytes
  Opcode opcode = Opcode::read;
  bool sync = false;
  bool fua = false;
  bool preflush = false;
  bool nounmap = false;
  std::uint32_t unknown_flags = 0;  ///< undefined bits of rw
  std::uint32_t size = 0;           ///< in bytes
  std::uint16_t prio = 0;           ///< priority in the format of the Linux ioprio
  bool operator==(const Io&) const = default;
  RTRS_FIELDS(device_id, sector, opcode, sync, fua, preflush, nounmap, unknown_flags, size, prio)
};

[[nodiscard]] std::size_t encode(const Io& message, MutableBytes out) noexcept;
/// Errors: too_short (below 28 bytes), bad_type, bad_opcode, bad_offset (ends beyond 2^54 sectors). Unknown
/// flag bits are kept in unknown_flags. The server checks size and alignment against the device.
[[nodiscard]] Parsed<Io> parse_io(Bytes bytes) noexcept;

/// Returns `io` with the flags that a kernel client would send (protocol section 9.2): SYNC on reads, SYNC
/// and FUA on flushes and FUA writes, FUA on no other operation.
[[nodiscard]] constexpr Io with_kernel_flags(Io io) noexcept {
  const bool flush = io.opcode == Opcode::flush;
  io.fua = flush || (io.opcode == Opcode::write && io.fua);
  io.sync = io.sync || io.fua || io.opcode == Opcode::read;
  return io;
}

/// RTRS framing of a message (protocol section 9.1). The RTRS header is at offset data_len + usr_len.
struct Framing {
  Direction direction = Direction::write;
  std::uint32_t data_len = 0;
  std::uint16_t usr_len = 0;
  bool has_descriptor = false;
  bool service_connection = false;  ///< sent on cid 0; never for writes with data
  bool operator==(const Framing&) const = default;
  [[nodiscard]] constexpr std::uint32_t off() const noexcept { return data_len + usr_len; }
};

inline constexpr Framing kSessInfoFraming{Direction::read, kSessInfoRspBytes, kSessInfoBytes, true, true};
inline constexpr Framing kOpenFraming{Direction::read, kOpenRspBytes, kOpenBytes, true, true};
inline constexpr Framing kCloseFraming{Direction::write, 0, kCloseBytes, false, true};

/// A flush is sent as a read without a descriptor, as in the kernel. Discard, write-zeroes and secure erase
/// are sent as writes without data.
[[nodiscard]] constexpr Framing io_framing(const Io& io) noexcept {
  switch (io.opcode) {
    case Opcode::read:
      return {Direction::read, io.size, kIoBytes, true, false};
    case Opcode::write:
      return {Direction::write, io.size, kIoBytes, false, false};
    case Opcode::flush:
      return {Direction::read, 0, kIoBytes, false, false};
    case Opcode::discard:
    case Opcode::secure_erase:
    case Opcode::write_zeroes:
      break;
  }
  return {Direction::write, 0, kIoBytes, false, false};
}

/// Checks an IO against the RTRS request that carried it; the kernel server does not check this. Errors:
/// bad_direction for a read carried by a write or a change carried by a read; bad_length if the data length
/// is not the size (read, write), not 0 (flush, write_zeroes), or neither (other operations). write_zeroes
/// must carry no data because up to Linux 5.17 its opcode 5 was WRITE_SAME, which carries one block. A flush
/// may arrive in either direction.
[[nodiscard]] Refusal check_io_framing(const Io& io, Direction direction, std::uint32_t data_len) noexcept;

}  // namespace rtrs::wire::rnbd
