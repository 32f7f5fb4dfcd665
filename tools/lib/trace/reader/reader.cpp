#include "tools/lib/trace/reader/reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/crc32c.hpp"

namespace rtrs::trace {

std::ptrdiff_t FdSource::read(void* to, std::size_t size) noexcept {
  for (;;) {
    const ssize_t got = ::read(fd_, to, size);
    if (got >= 0) return got;
    if (errno != EINTR) return -errno;
  }
}

std::int64_t FdSource::seek(std::int64_t offset, int whence) noexcept {
  const off_t at = ::lseek(fd_, offset, whence);
  return at >= 0 ? at : -errno;
}

std::ptrdiff_t MemorySource::read(void* to, std::size_t size) noexcept {
  const std::size_t taken = std::min(size, left_.size());
  if (taken != 0) std::memcpy(to, left_.data(), taken);
  left_.remove_prefix(taken);
  return static_cast<std::ptrdiff_t>(taken);
}

Reader::Reader(Source& source) : source_(source), block_(kMaxBlock + kCrcSize) {}

Reader::Status Reader::halt(Status status, std::uint64_t offset, std::string reason) {
  if (source_errno_ != 0) {
    status = Status::io_error;
    reason = std::string("cannot read: ") + std::strerror(source_errno_);
  }
  stop_ = {offset, std::move(reason)};
  return status_ = status;
}

Reader::Status Reader::cut(std::uint64_t offset, const char* inside) {
  return halt(Status::damaged, offset, std::string("the file ends inside ") + inside);
}

std::size_t Reader::fill(std::uint8_t* to, std::size_t size) {
  std::size_t have = 0;
  while (have < size) {
    const std::ptrdiff_t got = source_.read(to + have, size - have);
    if (got < 0) source_errno_ = static_cast<int>(-got);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  offset_ += have;
  return have;
}

Reader::Status Reader::open() {
  std::vector<std::uint8_t> bytes(kPreambleSize);
  const std::size_t have = fill(bytes.data(), kPreambleSize);
  if (std::memcmp(bytes.data(), kMagic.data(), std::min(have, kMagic.size())) != 0 || have == 0) {
    return halt(Status::not_a_trace, 0, have == 0 ? "the file is empty" : "the file is not a trace");
  }
  if (have < kPreambleSize) return cut(have, "the header");
  header_.major = static_cast<std::uint16_t>(get_u16(bytes.data() + 8));
  header_.minor = static_cast<std::uint16_t>(get_u16(bytes.data() + 10));
  if (header_.major != kMajor) {
    return halt(Status::unknown_version, 8,
                "the format is version " + std::to_string(header_.major) + "." +
                    std::to_string(header_.minor) + ", this program reads version " + std::to_string(kMajor));
  }
  const std::size_t size = get_u32(bytes.data() + 12);
  if (size > kMaxHeader) return halt(Status::damaged, 12, "the header is too long");
  bytes.resize(kPreambleSize + size + kCrcSize);
  if (fill(bytes.data() + kPreambleSize, size + kCrcSize) != size + kCrcSize) return cut(0, "the header");
  const std::size_t covered = kPreambleSize + size;
  if (crc32c(bytes.data(), covered) != get_u32(bytes.data() + covered)) {
    return halt(Status::damaged, 0, "the header's checksum is wrong");
  }
  if (const char* why = parse_header({bytes.data() + kPreambleSize, size}, header_)) {
    return halt(Status::damaged, kPreambleSize, why);
  }
  events_.resize(header_.schema.events.back().id + std::size_t{1});
  for (const EventInfo& event : header_.schema.events) events_[event.id] = &event;
  values_.resize(kMaxFields);
  return Status::ok;
}

Reader::Status Reader::next(Record& record) {
  while (status_ == Status::ok && block_left_ == 0) next_frame();
  if (status_ != Status::ok) return status_;
  const std::uint64_t offset = block_offset_ + static_cast<std::uint64_t>(at_ - block_.data());
  const char* why = decode(record);
  if (why == nullptr && --block_left_ == 0 && at_ != end_) why = "the block has more bytes than records";
  if (why != nullptr) return halt(Status::damaged, offset, why);
  record.offset = offset;
  if (seq_ == 0) first_time_ = record.time;
  record.seq = seq_++;
  return Status::ok;
}

const char* Reader::decode(Record& record) {
  std::uint64_t kind = 0;
  std::uint64_t instance = 0;
  std::uint64_t delta = 0;
  at_ = get_varint(at_, end_, kind);
  if (at_ != nullptr) at_ = get_varint(at_, end_, instance);
  if (at_ != nullptr) at_ = get_varint(at_, end_, delta);
  if (at_ == nullptr || instance > 0xffff) return "a record is malformed";
  if (kind >= events_.size() || events_[kind] == nullptr) {
    return "a record has a number that the header does not describe";
  }
  record.event = events_[kind];
  record.instance = static_cast<InstanceId>(instance);
  time_ += static_cast<std::uint64_t>(unzigzag(delta));
  record.time = time_;
  const std::uint8_t* const fields = at_;
  at_ = get_values(fields, end_, *record.event, values_.data());
  if (at_ == nullptr) return "a record is malformed";
  record.fields = {reinterpret_cast<const char*>(fields), static_cast<std::size_t>(at_ - fields)};
  record.values = {values_.data(), record.event->fields.size()};
  return nullptr;
}

Reader::Status Reader::next_frame() {
  const std::uint64_t at = offset_;
  std::uint8_t bytes[kFrameHeadSize];
  const std::size_t have = fill(bytes, kFrameHeadSize);
  if (have == 0) {
    return halt(Status::damaged, at, "the file ends without a trailer: the recording was not completed");
  }
  if (have < kFrameHeadSize) return cut(at, "the head of a block");
  const FrameHead head = decode_frame_head(bytes);
  const std::uint32_t crc = crc32c(bytes, kFrameHeadSize);
  if (head.tag == kBlockTag) return read_block(head, at, crc);
  if (head.tag == kTrailerTag) return read_trailer(head, at, crc);
  return skip_frame(head, at, crc);
}

Reader::Status Reader::read_block(const FrameHead& head, std::uint64_t at, std::uint32_t crc) {
  if (head.size > kMaxBlock || head.count == 0 || head.size < head.count) {
    return halt(Status::damaged, at, "the head of a block is damaged");
  }
  if (fill(block_.data(), head.size + kCrcSize) != head.size + kCrcSize) return cut(at, "a block");
  if (crc32c(block_.data(), head.size, crc) != get_u32(block_.data() + head.size)) {
    return halt(Status::damaged, at, "the checksum of a block is wrong");
  }
  if (head.first != seq_ || head.second != time_) {
    return halt(Status::damaged, at, "a block does not follow the one before");
  }
  at_ = block_.data();
  end_ = at_ + head.size;
  block_left_ = head.count;
  block_offset_ = at + kFrameHeadSize;
  index_.push_back({at, seq_, time_});
  chain_.add(at_, head.size);
  return Status::ok;
}

Reader::Status Reader::read_trailer(const FrameHead& head, std::uint64_t at, std::uint32_t crc) {
  if (head.count != index_.size() || head.size != index_.size() * kIndexEntrySize || head.first != seq_) {
    return halt(Status::damaged, at, "the trailer does not agree with the blocks");
  }
  bool agrees = true;
  for (const IndexEntry& entry : index_) {
    std::uint8_t bytes[kIndexEntrySize];
    if (fill(bytes, sizeof bytes) != sizeof bytes) return cut(at, "the trailer");
    crc = crc32c(bytes, sizeof bytes, crc);
    agrees &= decode_index_entry(bytes) == entry;
  }
  std::uint8_t bytes[kCrcSize + kFooterSize + 1];
  const std::size_t have = fill(bytes, sizeof bytes);
  if (have < kCrcSize + kFooterSize) return cut(at, "the trailer");
  if (get_u32(bytes) != crc) return halt(Status::damaged, at, "the checksum of the trailer is wrong");
  if (!agrees || get_u64(bytes + kCrcSize) != at ||
      std::memcmp(bytes + kCrcSize + 8, kEndMagic.data(), kEndMagic.size()) != 0) {
    return halt(Status::damaged, at, "the trailer does not agree with the blocks");
  }
  if (!skipped_ && head.second != chain_.value()) {
    return halt(Status::damaged, at, "the chain hash does not agree with the records");
  }
  if (have == sizeof bytes) return halt(Status::damaged, offset_ - 1, "there are bytes after the trailer");
  return halt(Status::end, at, "");
}

// Skips a frame of an unknown kind, which a later minor version added.
Reader::Status Reader::skip_frame(const FrameHead& head, std::uint64_t at, std::uint32_t crc) {
  for (std::size_t left = head.size; left != 0;) {
    const std::size_t part = std::min(left, kMaxBlock);
    if (fill(block_.data(), part) != part) return cut(at, "a frame of an unknown kind");
    crc = crc32c(block_.data(), part, crc);
    left -= part;
  }
  std::uint8_t bytes[kCrcSize];
  if (fill(bytes, kCrcSize) != kCrcSize) return cut(at, "a frame of an unknown kind");
  return get_u32(bytes) == crc ? Status::ok
                               : halt(Status::damaged, at, "a frame is of an unknown kind or damaged");
}

}  // namespace rtrs::trace
