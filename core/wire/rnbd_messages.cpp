#include "core/wire/rnbd_messages.hpp"

namespace rtrs::wire::rnbd {
namespace {

// Offsets of protocol section 2.9.
constexpr std::size_t kSessVersionAt = 4;
static_assert(kSessVersionAt + 1 + 31 == kSessInfoBytes && kSessInfoRspBytes == kSessInfoBytes);

namespace open_at {
constexpr std::size_t kAccessMode = 4;
constexpr std::size_t kDeviceName = 6;
static_assert(kDeviceName + kNameFieldBytes + 3 == kOpenBytes);
}  // namespace open_at

constexpr std::size_t kCloseDeviceIdAt = 4;
static_assert(kCloseDeviceIdAt + 4 == kCloseBytes);

namespace io_at {
constexpr std::size_t kDeviceId = 4;
constexpr std::size_t kSector = 8;
constexpr std::size_t kRw = 16;
constexpr std::size_t kSize = 20;
constexpr std::size_t kPrio = 24;
static_assert(kPrio + 2 + 6 == kIoBytes && kPrio + 2 + 2 == kIoMinBytes);
}  // namespace io_at

static_assert(kHeaderBytes == 4 && kSessInfoBytes == 36 && kOpenBytes == 264 && kOpenRspBytes == 56 &&
              kCloseBytes == 8 && kIoBytes == 32);
static_assert(kSessInfoFraming.off() == 72 && kOpenFraming.off() == 320 && kCloseFraming.off() == 8);

bool begin(MutableBytes& out, std::size_t bytes, MsgType type) noexcept {
  if (out.size() < bytes) return false;
  out = out.first(bytes);
  store_zeros(out);
  store_le16(out, 0, static_cast<std::uint16_t>(type));
  return true;
}

Refusal check(Bytes bytes, std::size_t needed, MsgType type) noexcept {
  if (bytes.size() < needed) return Refusal::too_short;
  return load_le16(bytes, 0) == static_cast<std::uint16_t>(type) ? Refusal::none : Refusal::bad_type;
}

std::size_t encode_version(MsgType type, std::uint8_t version, MutableBytes out) noexcept {
  if (!begin(out, kSessInfoBytes, type)) return 0;
  store_u8(out, kSessVersionAt, version);
  return kSessInfoBytes;
}

bool valid_block_size(std::uint32_t bytes) noexcept {
  return bytes >= kSectorBytes && (bytes & (bytes - 1)) == 0;
}

bool beyond_any_device(const Io& io) noexcept {
  // Kernel clients send flushes with sector -1 and size 0.
  if (io.opcode == Opcode::flush) return false;
  const std::uint64_t sectors = (std::uint64_t{io.size} + kSectorBytes - 1) / kSectorBytes;
  return io.sector >= kMaxSectors || sectors > kMaxSectors - io.sector;
}

}  // namespace

const char* to_string(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::read:
      return "read";
    case Opcode::write:
      return "write";
    case Opcode::flush:
      return "flush";
    case Opcode::discard:
      return "discard";
    case Opcode::secure_erase:
      return "secure_erase";
    case Opcode::write_zeroes:
      return "write_zeroes";
  }
  return "unknown";
}

const char* to_string(AccessMode mode) noexcept {
  switch (mode) {
    case AccessMode::read_only:
      return "ro";
    case AccessMode::read_write:
      return "rw";
    case AccessMode::migration:
      return "migration";
  }
  return "unknown";
}

Parsed<MsgType> message_type(Bytes bytes) noexcept {
  if (bytes.size() < kHeaderBytes) return refuse<MsgType>(Refusal::too_short);
  const std::uint16_t type = load_le16(bytes, 0);
  if (type > static_cast<std::uint16_t>(MsgType::close)) return refuse<MsgType>(Refusal::bad_type);
  return accept(static_cast<MsgType>(type));
}

std::size_t encode(const SessInfo& message, MutableBytes out) noexcept {
  return encode_version(MsgType::sess_info, message.version, out);
}

std::size_t encode(const SessInfoRsp& message, MutableBytes out) noexcept {
  return encode_version(MsgType::sess_info_rsp, message.version, out);
}

Parsed<SessInfo> parse_sess_info(Bytes bytes) noexcept {
  if (const Refusal why = check(bytes, kSessInfoBytes, MsgType::sess_info); why != Refusal::none) {
    return refuse<SessInfo>(why);
  }
  return accept(SessInfo{load_u8(bytes, kSessVersionAt)});
}

Parsed<SessInfoRsp> parse_sess_info_rsp(Bytes bytes) noexcept {
  if (const Refusal why = check(bytes, kSessInfoRspBytes, MsgType::sess_info_rsp); why != Refusal::none) {
    return refuse<SessInfoRsp>(why);
  }
  return accept(SessInfoRsp{load_u8(bytes, kSessVersionAt)});
}

std::size_t encode(const Open& message, MutableBytes out) noexcept {
  if (message.device_name.length == 0 || message.device_name.length > kMaxNameBytes) return 0;
  if (!begin(out, kOpenBytes, MsgType::open)) return 0;
  store_u8(out, open_at::kAccessMode, static_cast<std::uint8_t>(message.access_mode));
  store_name(message.device_name, out, open_at::kDeviceName);
  return kOpenBytes;
}

Parsed<Open> parse_open(Bytes bytes) noexcept {
  if (const Refusal why = check(bytes, kOpenBytes, MsgType::open); why != Refusal::none) {
    return refuse<Open>(why);
  }
  const std::uint8_t mode = load_u8(bytes, open_at::kAccessMode);
  if (mode > static_cast<std::uint8_t>(AccessMode::migration)) return refuse<Open>(Refusal::bad_access_mode);
  const Parsed<Name> name = load_name(bytes, open_at::kDeviceName);
  if (!name || name.value.length == 0) return refuse<Open>(Refusal::bad_name);
  return accept(Open{static_cast<AccessMode>(mode), name.value});
}

std::size_t encode(const OpenRsp& message, MutableBytes out) noexcept {
  using namespace open_rsp_at;
  if (!begin(out, kOpenRspBytes, MsgType::open_rsp)) return 0;
  store_le32(out, kDeviceId, message.device_id);
  store_le64(out, kSectors, message.nsectors);
  store_le32(out, kMaxHwSectors, message.max_hw_sectors);
  store_le32(out, kMaxWriteZeroes, message.max_write_zeroes_sectors);
  store_le32(out, kMaxDiscard, message.max_discard_sectors);
  store_le32(out, kDiscardGranularity, message.discard_granularity);
  store_le32(out, kDiscardAlignment, message.discard_alignment);
  store_le16(out, kPhysicalBlock, message.physical_block_size);
  store_le16(out, kLogicalBlock, message.logical_block_size);
  store_le16(out, kMaxSegments, message.max_segments);
  store_le16(out, kSecureDiscard, message.secure_discard);
  store_u8(out, kCachePolicy, message.cache_policy);
  store_le64(out, kInstance, message.instance);
  store_u8(out, kFeatures, message.features);
  return kOpenRspBytes;
}

Parsed<OpenRsp> parse_open_rsp(Bytes bytes) noexcept {
  using namespace open_rsp_at;
  if (const Refusal why = check(bytes, kOpenRspBytes, MsgType::open_rsp); why != Refusal::none) {
    return refuse<OpenRsp>(why);
  }
  Parsed<OpenRsp> parsed;
  OpenRsp& message = parsed.value;
  message.device_id = load_le32(bytes, kDeviceId);
  message.nsectors = load_le64(bytes, kSectors);
  message.max_hw_sectors = load_le32(bytes, kMaxHwSectors);
  message.max_write_zeroes_sectors = load_le32(bytes, kMaxWriteZeroes);
  message.max_discard_sectors = load_le32(bytes, kMaxDiscard);
  message.discard_granularity = load_le32(bytes, kDiscardGranularity);
  message.discard_alignment = load_le32(bytes, kDiscardAlignment);
  message.physical_block_size = load_le16(bytes, kPhysicalBlock);
  message.logical_block_size = load_le16(bytes, kLogicalBlock);
  message.max_segments = load_le16(bytes, kMaxSegments);
  message.secure_discard = load_le16(bytes, kSecureDiscard);
  message.cache_policy = load_u8(bytes, kCachePolicy);
  message.instance = load_le64(bytes, kInstance);
  message.features = load_u8(bytes, kFeatures);
  if (!valid_block_size(message.logical_block_size)) {
    parsed.why = Refusal::bad_block_size;
  } else if (message.nsectors >= kMaxSectors) {
    parsed.why = Refusal::bad_count;
  }
  return parsed;
}

std::size_t encode(const Close& message, MutableBytes out) noexcept {
  if (!begin(out, kCloseBytes, MsgType::close)) return 0;
  store_le32(out, kCloseDeviceIdAt, message.device_id);
  return kCloseBytes;
}

Parsed<Close> parse_close(Bytes bytes) noexcept {
  if (const Refusal why = check(bytes, kCloseBytes, MsgType::close); why != Refusal::none) {
    return refuse<Close>(why);
  }
  return accept(Close{load_le32(bytes, kCloseDeviceIdAt)});
}

std::size_t encode(const Io& message, MutableBytes out) noexcept {
  using namespace io_at;
  if (!begin(out, kIoBytes, MsgType::io)) return 0;
  const std::uint32_t rw = static_cast<std::uint32_t>(message.opcode) | (message.sync ? kRwSync : 0U) |
                           (message.fua ? kRwFua : 0U) | (message.preflush ? kRwPreflush : 0U) |
                           (message.nounmap ? kRwNounmap : 0U) | (message.unknown_flags & kRwUnknown);
  store_le32(out, kDeviceId, message.device_id);
  store_le64(out, kSector, message.sector);
  store_le32(out, kRw, rw);
  store_le32(out, kSize, message.size);
  store_le16(out, kPrio, message.prio);
  return kIoBytes;
}

Parsed<Io> parse_io(Bytes bytes) noexcept {
  using namespace io_at;
  if (const Refusal why = check(bytes, kIoMinBytes, MsgType::io); why != Refusal::none)
    return refuse<Io>(why);
  const std::uint32_t rw = load_le32(bytes, kRw);
  if ((rw & kOpcodeMask) > static_cast<std::uint32_t>(Opcode::write_zeroes)) {
    return refuse<Io>(Refusal::bad_opcode);
  }
  Io message;
  message.device_id = load_le32(bytes, kDeviceId);
  message.sector = load_le64(bytes, kSector);
  message.opcode = static_cast<Opcode>(rw & kOpcodeMask);
  message.sync = (rw & kRwSync) != 0;
  message.fua = (rw & kRwFua) != 0;
  message.preflush = (rw & kRwPreflush) != 0;
  message.nounmap = (rw & kRwNounmap) != 0;
  message.unknown_flags = rw & kRwUnknown;
  message.size = load_le32(bytes, kSize);
  if (bytes.size() >= kIoBytes) message.prio = load_le16(bytes, kPrio);
  if (beyond_any_device(message)) return refuse<Io>(Refusal::bad_offset);
  return accept(message);
}

Refusal check_io_framing(const Io& io, Direction direction, std::uint32_t data_len) noexcept {
  const bool read = direction == Direction::read;
  switch (io.opcode) {
    case Opcode::flush:
      return data_len == 0 ? Refusal::none : Refusal::bad_length;
    case Opcode::read:
      if (!read) return Refusal::bad_direction;
      return data_len == io.size ? Refusal::none : Refusal::bad_length;
    case Opcode::write:
      if (read) return Refusal::bad_direction;
      return data_len == io.size ? Refusal::none : Refusal::bad_length;
    case Opcode::write_zeroes:
      if (read) return Refusal::bad_direction;
      return data_len == 0 ? Refusal::none : Refusal::bad_length;
    case Opcode::discard:
    case Opcode::secure_erase:
      break;
  }
  if (read) return Refusal::bad_direction;
  return data_len == 0 || data_len == io.size ? Refusal::none : Refusal::bad_length;
}

}  // namespace rtrs::wire::rnbd
