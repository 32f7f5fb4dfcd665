#include "core/wire/messages.hpp"

#include "core/wire/imm.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::wire {
namespace {

// Offsets of protocol sections 2.1 to 2.5. The assertions check that the fields add up to the size of the
// message.
namespace conn_req {
constexpr std::size_t kMagicAt = 2;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kCidAt = 6;
constexpr std::size_t kCidNumAt = 8;
constexpr std::size_t kReconCntAt = 10;
constexpr std::size_t kSessUuidAt = 12;
constexpr std::size_t kPathsUuidAt = kSessUuidAt + sizeof(Uuid);
constexpr std::size_t kFirstConnAt = kPathsUuidAt + sizeof(Uuid);
constexpr std::size_t kExtensionsAt = kFirstConnAt + 1;
constexpr std::size_t kReservedBytes = 10;
static_assert(sizeof(Uuid) == 16);
static_assert(kExtensionsAt == 45 && kExtensionsAt + 1 + kReservedBytes == kConnReqBytes);
}  // namespace conn_req

namespace conn_rsp {
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 2;
constexpr std::size_t kErrnoAt = 4;
constexpr std::size_t kQueueDepthAt = 6;
constexpr std::size_t kMaxIoSizeAt = 8;
constexpr std::size_t kMaxHdrSizeAt = 12;
constexpr std::size_t kFlagsAt = 16;
constexpr std::size_t kReservedBytes = 36;
static_assert(kFlagsAt + 4 + kReservedBytes == kConnRspBytes);
}  // namespace conn_rsp

namespace info_req {
constexpr std::size_t kNameAt = 2;
constexpr std::size_t kReservedBytes = 15;
static_assert(kNameAt + kNameFieldBytes + kReservedBytes == kInfoReqBytes);
}  // namespace info_req

namespace fence {
constexpr std::size_t kNumberAt = 2;
constexpr std::size_t kSerialAt = 4;
constexpr std::size_t kPathAt = 8;
static_assert(kPathAt + sizeof(Uuid) == kFenceBytes);
}  // namespace fence

static_assert(kRkeyRspBytes == 8);

constexpr std::uint16_t number(MsgType type) noexcept {
  return static_cast<std::uint16_t>(type);
}

// Truncates `out` to `bytes` bytes and zeroes it, so that reserved fields need no code.
bool begin(MutableBytes& out, std::size_t bytes) noexcept {
  if (out.size() < bytes) return false;
  out = out.first(bytes);
  store_zeros(out);
  return true;
}

Refusal check_typed(Bytes bytes, std::size_t needed, MsgType type) noexcept {
  if (bytes.size() < needed) return Refusal::too_short;
  return load_le16(bytes, 0) == number(type) ? Refusal::none : Refusal::bad_type;
}

Refusal check_hello(Bytes bytes, std::size_t needed, std::size_t magic_at, std::size_t version_at) noexcept {
  if (bytes.size() < needed) return Refusal::too_short;
  if (load_le16(bytes, magic_at) != kMagic) return Refusal::bad_magic;
  // Minor versions are compatible, so only the major version is compared.
  if ((load_le16(bytes, version_at) >> 8) != kVersionMajor) return Refusal::bad_version;
  return Refusal::none;
}

bool is_errno(int positive) noexcept {
  return positive > 0 && positive <= linux_errno::kMaxErrno;
}

}  // namespace

Parsed<Name> make_name(std::string_view text) noexcept {
  if (text.size() > kMaxNameBytes) return refuse<Name>(Refusal::bad_name);
  Name name;
  for (const char c : text) {
    if (c == '\0') return refuse<Name>(Refusal::bad_name);
    name.text[name.length] = c;
    ++name.length;
  }
  return accept(name);
}

Parsed<Name> load_name(Bytes bytes, std::size_t at) noexcept {
  if (at > bytes.size() || bytes.size() - at < kNameFieldBytes) return refuse<Name>(Refusal::too_short);
  Name name;
  for (std::size_t i = 0; i < kNameFieldBytes; ++i) {
    const auto c = static_cast<char>(load_u8(bytes, at + i));
    if (c == '\0') return accept(name);
    name.text[i] = c;
    ++name.length;
  }
  return refuse<Name>(Refusal::bad_name);
}

void store_name(const Name& name, MutableBytes to, std::size_t at) noexcept {
  const std::string_view text = name.view();
  for (std::size_t i = 0; i < text.size(); ++i) store_u8(to, at + i, static_cast<std::uint8_t>(text[i]));
}

bool valid_session_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxNameBytes) return false;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '/' || c == '.' || code < 0x20 || code == 0x7f) return false;
  }
  return true;
}

std::size_t encode(const ConnReq& message, MutableBytes out) noexcept {
  using namespace conn_req;
  if (!begin(out, kConnReqBytes)) return 0;
  store_le16(out, kMagicAt, kMagic);
  store_le16(out, kVersionAt, kVersion);
  store_le16(out, kCidAt, message.cid);
  store_le16(out, kCidNumAt, message.cid_num);
  store_le16(out, kReconCntAt, message.recon_cnt);
  store_uuid(out, kSessUuidAt, message.sess_uuid);
  store_uuid(out, kPathsUuidAt, message.paths_uuid);
  store_u8(out, kFirstConnAt, message.first_conn ? 1 : 0);
  store_u8(out, kExtensionsAt, static_cast<std::uint8_t>(message.extensions));
  return kConnReqBytes;
}

Parsed<ConnReq> parse_conn_req(Bytes bytes) noexcept {
  using namespace conn_req;
  if (const Refusal why = check_hello(bytes, kConnReqBytes, kMagicAt, kVersionAt); why != Refusal::none) {
    return refuse<ConnReq>(why);
  }
  ConnReq message;
  message.cid = load_le16(bytes, kCidAt);
  message.cid_num = load_le16(bytes, kCidNumAt);
  if (message.cid_num == 0 || message.cid_num > kMaxCidNum) return refuse<ConnReq>(Refusal::bad_cid_num);
  if (message.cid >= message.cid_num) return refuse<ConnReq>(Refusal::bad_cid);
  message.recon_cnt = load_le16(bytes, kReconCntAt);
  message.sess_uuid = load_uuid(bytes, kSessUuidAt);
  message.paths_uuid = load_uuid(bytes, kPathsUuidAt);
  if (message.sess_uuid == Uuid{} || message.paths_uuid == Uuid{}) return refuse<ConnReq>(Refusal::bad_uuid);
  message.first_conn = (load_u8(bytes, kFirstConnAt) & 1U) != 0;
  message.extensions = static_cast<Extensions>(load_u8(bytes, kExtensionsAt));
  return accept(message);
}

ConnRsp make_reject(int positive_errno) noexcept {
  ConnRsp message;
  const int reason = is_errno(positive_errno) ? positive_errno : linux_errno::kEconnreset;
  message.error = static_cast<std::int16_t>(-reason);
  return message;
}

std::size_t encode(const ConnRsp& message, MutableBytes out) noexcept {
  using namespace conn_rsp;
  if (!begin(out, kConnRspBytes)) return 0;
  store_le16(out, kMagicAt, kMagic);
  store_le16(out, kVersionAt, kVersion);
  store_le16(out, kErrnoAt, static_cast<std::uint16_t>(message.error));
  store_le16(out, kQueueDepthAt, message.queue_depth);
  store_le32(out, kMaxIoSizeAt, message.max_io_size);
  store_le32(out, kMaxHdrSizeAt, message.max_hdr_size);
  store_le32(out, kFlagsAt, message.flags);
  return kConnRspBytes;
}

Parsed<ConnRsp> parse_conn_rsp(Bytes bytes, std::uint16_t cid) noexcept {
  using namespace conn_rsp;
  if (const Refusal why = check_hello(bytes, kConnRspBytes, kMagicAt, kVersionAt); why != Refusal::none) {
    return refuse<ConnRsp>(why);
  }
  ConnRsp message;
  message.error = static_cast<std::int16_t>(load_le16(bytes, kErrnoAt));
  message.queue_depth = load_le16(bytes, kQueueDepthAt);
  message.max_io_size = load_le32(bytes, kMaxIoSizeAt);
  message.max_hdr_size = load_le32(bytes, kMaxHdrSizeAt);
  message.flags = load_le32(bytes, kFlagsAt);
  if (message.error != 0 || cid != 0) return accept(message);
  if (const Refusal why = check_geometry(message.queue_depth, message.chunk_size()); why != Refusal::none) {
    return refuse<ConnRsp>(why);
  }
  // IO needs room for data; a read also needs room for the longest RTRS header.
  if (message.max_io_size == 0 || message.max_hdr_size < kMaxIoHeaderBytes) {
    return refuse<ConnRsp>(Refusal::bad_chunk_size);
  }
  return accept(message);
}

int reject_errno(Bytes bytes) noexcept {
  using namespace conn_rsp;
  if (check_hello(bytes, kConnRspBytes, kMagicAt, kVersionAt) != Refusal::none)
    return linux_errno::kEconnreset;
  const int positive = -static_cast<int>(static_cast<std::int16_t>(load_le16(bytes, kErrnoAt)));
  return is_errno(positive) ? positive : linux_errno::kEconnreset;
}

Refusal check_geometry(std::uint32_t queue_depth, std::uint64_t chunk_size) noexcept {
  if (queue_depth == 0 || queue_depth > kMaxQueueDepth) return Refusal::bad_depth;
  if (chunk_size == 0) return Refusal::bad_chunk_size;
  const bool fits = chunk_bits(queue_depth) + ceil_log2(chunk_size) <= kImmPayloadBits;
  return fits ? Refusal::none : Refusal::bad_chunk_size;
}

std::size_t encode(const InfoReq& message, MutableBytes out) noexcept {
  if (!valid_session_name(message.name.view()) || !begin(out, kInfoReqBytes)) return 0;
  store_le16(out, 0, number(MsgType::info_req));
  store_name(message.name, out, info_req::kNameAt);
  return kInfoReqBytes;
}

Parsed<InfoReq> parse_info_req(Bytes bytes) noexcept {
  if (bytes.size() > kInfoReqBytes) return refuse<InfoReq>(Refusal::bad_length);
  if (const Refusal why = check_typed(bytes, kInfoReqBytes, MsgType::info_req); why != Refusal::none) {
    return refuse<InfoReq>(why);
  }
  const Parsed<Name> name = load_name(bytes, info_req::kNameAt);
  if (!name || !valid_session_name(name.value.view())) return refuse<InfoReq>(Refusal::bad_name);
  InfoReq message;
  message.name = name.value;
  return accept(message);
}

std::size_t encode(const RkeyRsp& message, MutableBytes out) noexcept {
  if (!begin(out, kRkeyRspBytes)) return 0;
  store_le16(out, 0, number(MsgType::rkey_rsp));
  store_le16(out, 2, message.buf_id);
  store_le32(out, 4, message.rkey);
  return kRkeyRspBytes;
}

Parsed<RkeyRsp> parse_rkey_rsp(Bytes bytes, std::uint32_t queue_depth) noexcept {
  if (const Refusal why = check_typed(bytes, kRkeyRspBytes, MsgType::rkey_rsp); why != Refusal::none) {
    return refuse<RkeyRsp>(why);
  }
  RkeyRsp message;
  message.buf_id = load_le16(bytes, 2);
  message.rkey = load_le32(bytes, 4);
  if (message.buf_id >= queue_depth) return refuse<RkeyRsp>(Refusal::bad_buffer_id);
  return accept(message);
}

std::size_t encode(const FenceReq& message, MutableBytes out) noexcept {
  if (!begin(out, kFenceBytes)) return 0;
  store_le16(out, 0, number(MsgType::fence_req));
  store_le16(out, fence::kNumberAt, message.recon_cnt);
  store_le32(out, fence::kSerialAt, message.serial);
  store_uuid(out, fence::kPathAt, message.path);
  return kFenceBytes;
}

std::size_t encode(const FenceRsp& message, MutableBytes out) noexcept {
  if (message.error > linux_errno::kMaxErrno || !begin(out, kFenceBytes)) return 0;
  store_le16(out, 0, number(MsgType::fence_rsp));
  store_le16(out, fence::kNumberAt, message.error);
  store_le32(out, fence::kSerialAt, message.serial);
  store_uuid(out, fence::kPathAt, message.path);
  return kFenceBytes;
}

Parsed<FenceReq> parse_fence_req(Bytes bytes) noexcept {
  if (const Refusal why = check_typed(bytes, kFenceBytes, MsgType::fence_req); why != Refusal::none) {
    return refuse<FenceReq>(why);
  }
  FenceReq message;
  message.recon_cnt = load_le16(bytes, fence::kNumberAt);
  message.serial = load_le32(bytes, fence::kSerialAt);
  message.path = load_uuid(bytes, fence::kPathAt);
  return accept(message);
}

Parsed<FenceRsp> parse_fence_rsp(Bytes bytes) noexcept {
  if (const Refusal why = check_typed(bytes, kFenceBytes, MsgType::fence_rsp); why != Refusal::none) {
    return refuse<FenceRsp>(why);
  }
  FenceRsp message;
  message.error = load_le16(bytes, fence::kNumberAt);
  if (message.error > linux_errno::kMaxErrno) return refuse<FenceRsp>(Refusal::bad_errno);
  message.serial = load_le32(bytes, fence::kSerialAt);
  message.path = load_uuid(bytes, fence::kPathAt);
  return accept(message);
}

Parsed<MsgType> send_type(Bytes bytes) noexcept {
  if (bytes.size() < sizeof(std::uint16_t)) return refuse<MsgType>(Refusal::too_short);
  return accept(static_cast<MsgType>(load_le16(bytes, 0)));
}

}  // namespace rtrs::wire
