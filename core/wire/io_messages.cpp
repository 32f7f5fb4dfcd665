// Encodes and parses INFO_RSP, which describes the chunks, and the headers of reads and writes inside chunks.
#include <array>
#include <cstring>

#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::wire {
namespace {

constexpr std::size_t kCountAt = 2;
constexpr std::size_t kUserLengthAt = 2;
constexpr std::size_t kReadFlagsAt = 4;
constexpr std::size_t kReadSgCountAt = 6;
constexpr std::size_t kReadDescriptorAt = 8;
static_assert(kReadDescriptorAt == kReadHeaderBytes && kMaxIoHeaderBytes == 24 && kWriteHeaderBytes == 4);
static_assert(kInfoRspHeaderBytes == 8 && kDescriptorBytes == 16);

constexpr unsigned kGenerationShift = 8;
constexpr std::uint16_t kTypeMask = 0xff;

Descriptor load_descriptor(Bytes from, std::size_t at) noexcept {
  return Descriptor{load_le64(from, at), load_le32(from, at + 8), load_le32(from, at + 12)};
}

void store_descriptor(MutableBytes to, std::size_t at, const Descriptor& desc) noexcept {
  store_le64(to, at, desc.addr);
  store_le32(to, at + 8, desc.key);
  store_le32(to, at + 12, desc.len);
}

// Precondition: len != 0.
bool address_wraps(const Descriptor& desc) noexcept {
  return desc.addr > UINT64_MAX - (desc.len - 1U);
}

std::uint16_t typed(MsgType type, std::uint8_t generation) noexcept {
  return static_cast<std::uint16_t>(static_cast<unsigned>(type) |
                                    (static_cast<unsigned>(generation) << kGenerationShift));
}

// Prevents the compiler from reading the chunk again after the copy, because the peer can change the chunk at
// any time.
void prevent_rereads() noexcept {
  __asm__ __volatile__("" ::: "memory");
}

struct HeaderCopy {
  std::array<std::byte, kMaxIoHeaderBytes> bytes{};
  std::size_t size = 0;
};

// Precondition: off < chunk.size().
HeaderCopy copy_header(Bytes chunk, std::size_t off) noexcept {
  HeaderCopy header;
  const Bytes rest = chunk.subspan(off);
  header.size = rest.size() < header.bytes.size() ? rest.size() : header.bytes.size();
  // Nearly always the whole header fits; then the copy takes two move instructions instead of a loop.
  if (header.size == header.bytes.size())
    std::memcpy(header.bytes.data(), rest.data(), kMaxIoHeaderBytes);
  else
    std::memcpy(header.bytes.data(), rest.data(), header.size);
  prevent_rereads();
  return header;
}

Refusal parse_read_part(Bytes header, std::size_t chunk_size, IoRequest& request) noexcept {
  if (header.size() < kReadHeaderBytes) return Refusal::bad_offset;
  const std::uint16_t sg_cnt = load_le16(header, kReadSgCountAt);
  if (sg_cnt > 1) return Refusal::bad_sg_count;
  if (sg_cnt == 0) return Refusal::none;
  if (header.size() < kMaxIoHeaderBytes) return Refusal::bad_offset;
  request.has_descriptor = true;
  request.need_inval = (load_le16(header, kReadFlagsAt) & kReadNeedInval) != 0;
  request.desc = load_descriptor(header, kReadDescriptorAt);
  if (request.desc.len == 0 || request.desc.len > chunk_size) return Refusal::bad_descriptor;
  return address_wraps(request.desc) ? Refusal::bad_descriptor : Refusal::none;
}

}  // namespace

std::size_t encode_info_rsp(std::span<const Descriptor> runs, MutableBytes out) noexcept {
  const std::size_t bytes = info_rsp_bytes(runs.size());
  if (runs.empty() || runs.size() > UINT16_MAX || out.size() < bytes) return 0;
  store_zeros(out.first(kInfoRspHeaderBytes));
  store_le16(out, 0, static_cast<std::uint16_t>(MsgType::info_rsp));
  store_le16(out, kCountAt, static_cast<std::uint16_t>(runs.size()));
  for (std::size_t i = 0; i < runs.size(); ++i) store_descriptor(out, info_rsp_bytes(i), runs[i]);
  return bytes;
}

Parsed<InfoRsp> parse_info_rsp(Bytes bytes, std::uint32_t queue_depth, std::uint32_t chunk_size) noexcept {
  if (bytes.size() < kInfoRspHeaderBytes) return refuse<InfoRsp>(Refusal::too_short);
  if (load_le16(bytes, 0) != static_cast<std::uint16_t>(MsgType::info_rsp)) {
    return refuse<InfoRsp>(Refusal::bad_type);
  }
  InfoRsp message;
  message.sg_cnt = load_le16(bytes, kCountAt);
  if (bytes.size() < info_rsp_bytes(message.sg_cnt)) return refuse<InfoRsp>(Refusal::too_short);
  if (const Refusal why = check_geometry(queue_depth, chunk_size); why != Refusal::none) {
    return refuse<InfoRsp>(why);
  }
  if (message.sg_cnt == 0 || queue_depth % message.sg_cnt != 0) return refuse<InfoRsp>(Refusal::bad_count);
  // The sum cannot wrap 64 bits, because there are at most 65535 runs below 4 GiB each.
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < message.sg_cnt; ++i) {
    const Descriptor desc = load_descriptor(bytes, info_rsp_bytes(i));
    if (desc.len == 0 || desc.len % chunk_size != 0 || address_wraps(desc)) {
      return refuse<InfoRsp>(Refusal::bad_descriptor);
    }
    covered += desc.len;
  }
  if (covered != std::uint64_t{queue_depth} * chunk_size) return refuse<InfoRsp>(Refusal::bad_length);
  return accept(message);
}

Parsed<Descriptor> info_rsp_descriptor(Bytes bytes, std::size_t index) noexcept {
  if (bytes.size() < kInfoRspHeaderBytes || index >= load_le16(bytes, kCountAt) ||
      bytes.size() < info_rsp_bytes(index + 1)) {
    return refuse<Descriptor>(Refusal::bad_count);
  }
  return accept(load_descriptor(bytes, info_rsp_bytes(index)));
}

Parsed<Descriptor> info_rsp_chunk(Bytes bytes, std::uint32_t index, std::uint32_t chunk_size) noexcept {
  if (chunk_size == 0) return refuse<Descriptor>(Refusal::bad_buffer_id);
  std::uint64_t left = index;
  for (std::size_t run = 0;; ++run) {
    const Parsed<Descriptor> desc = info_rsp_descriptor(bytes, run);
    if (!desc) return refuse<Descriptor>(Refusal::bad_buffer_id);
    const std::uint64_t chunks = desc.value.len / chunk_size;
    if (left < chunks)
      return accept(Descriptor{desc.value.addr + left * chunk_size, desc.value.key, chunk_size});
    left -= chunks;
  }
}

Parsed<Descriptor> ChunkWalk::next() noexcept {
  if (chunk_size_ == 0) return refuse<Descriptor>(Refusal::bad_buffer_id);
  for (;; ++run_, into_run_ = 0) {
    const Parsed<Descriptor> desc = info_rsp_descriptor(bytes_, run_);
    if (!desc) return refuse<Descriptor>(Refusal::bad_buffer_id);
    if (into_run_ + chunk_size_ > desc.value.len) continue;
    const Descriptor chunk{desc.value.addr + into_run_, desc.value.key, chunk_size_};
    into_run_ += chunk_size_;
    return accept(chunk);
  }
}

std::size_t encode(const IoRequest& request, MutableBytes out) noexcept {
  const std::size_t bytes = encoded_bytes(request);
  if (out.size() < bytes) return 0;
  const bool read = request.direction == Direction::read;
  store_le16(out, 0, typed(read ? MsgType::read : MsgType::write, request.generation));
  store_le16(out, kUserLengthAt, request.usr_len);
  if (!read) return bytes;
  store_le16(out, kReadFlagsAt, request.need_inval ? kReadNeedInval : std::uint16_t{0});
  store_le16(out, kReadSgCountAt, request.has_descriptor ? 1 : 0);
  if (request.has_descriptor) store_descriptor(out, kReadDescriptorAt, request.desc);
  return bytes;
}

Parsed<IoRequest> parse_io_request(Bytes chunk, std::uint32_t buf_id, std::uint32_t off,
                                   bool generation_ext) noexcept {
  if (off >= chunk.size()) return refuse<IoRequest>(Refusal::bad_offset);
  const HeaderCopy copy = copy_header(chunk, off);
  const Bytes header = Bytes{copy.bytes}.first(copy.size);
  if (header.size() < kWriteHeaderBytes) return refuse<IoRequest>(Refusal::bad_offset);

  const std::uint16_t type = load_le16(header, 0);
  const unsigned kind = type & kTypeMask;
  const bool read = kind == static_cast<unsigned>(MsgType::read);
  if (!read && kind != static_cast<unsigned>(MsgType::write)) return refuse<IoRequest>(Refusal::bad_type);
  IoRequest request;
  request.direction = read ? Direction::read : Direction::write;
  request.generation = static_cast<std::uint8_t>(type >> kGenerationShift);
  if (request.generation != 0 && !generation_ext) return refuse<IoRequest>(Refusal::unnegotiated_generation);
  request.buf_id = buf_id;
  request.off = off;
  request.usr_len = load_le16(header, kUserLengthAt);
  if (read) {
    if (const Refusal why = parse_read_part(header, chunk.size(), request); why != Refusal::none) {
      return refuse<IoRequest>(why);
    }
  }
  if (request.usr_len > off) return refuse<IoRequest>(Refusal::bad_user_length);
  request.data_len = off - request.usr_len;
  return accept(request);
}

Bytes user_header(Bytes chunk, const IoRequest& request) noexcept {
  const std::size_t end = std::size_t{request.data_len} + request.usr_len;
  return end <= chunk.size() ? chunk.subspan(request.data_len, request.usr_len) : Bytes{};
}

}  // namespace rtrs::wire
