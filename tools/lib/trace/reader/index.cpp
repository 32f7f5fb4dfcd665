// The index in the trailer of a file: finds it, and skips blocks by it.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/crc32c.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::trace {

bool Reader::read_at(std::uint64_t offset, void* to, std::size_t size) {
  if (source_.seek(static_cast<std::int64_t>(offset), SEEK_SET) != static_cast<std::int64_t>(offset))
    return false;
  auto* at = static_cast<char*>(to);
  while (size != 0) {
    const std::ptrdiff_t got = source_.read(at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// The trailer must end where the file ends, so its size is bounded by that of the file.
bool Reader::read_index() {
  const std::int64_t end = source_.seek(0, SEEK_END);
  std::uint8_t footer[kFooterSize];
  constexpr std::uint64_t kRest = kFrameHeadSize + kCrcSize + kFooterSize;
  if (end < static_cast<std::int64_t>(kRest)) return false;
  const auto size = static_cast<std::uint64_t>(end);
  if (!read_at(size - kFooterSize, footer, kFooterSize) ||
      std::memcmp(footer + 8, kEndMagic.data(), kEndMagic.size()) != 0)
    return false;
  const std::uint64_t at = get_u64(footer);
  std::uint8_t head_bytes[kFrameHeadSize];
  if (at > size - kRest || !read_at(at, head_bytes, kFrameHeadSize)) return false;
  const FrameHead head = decode_frame_head(head_bytes);
  if (head.tag != kTrailerTag || head.size != std::uint64_t{head.count} * kIndexEntrySize ||
      at + head.size + kRest != size)
    return false;
  std::vector<std::uint8_t> bytes(head.size + kCrcSize);
  if (!read_at(at + kFrameHeadSize, bytes.data(), bytes.size())) return false;
  const std::uint32_t crc = crc32c(bytes.data(), head.size, crc32c(head_bytes, kFrameHeadSize));
  if (crc != get_u32(bytes.data() + head.size)) return false;
  std::vector<IndexEntry> entries;
  entries.reserve(head.count);
  IndexEntry before;
  for (std::size_t i = 0; i < head.count; ++i) {
    const IndexEntry entry = decode_index_entry(bytes.data() + i * kIndexEntrySize);
    if (i != 0 && (entry.offset <= before.offset || entry.first_seq <= before.first_seq)) return false;
    entries.push_back(before = entry);
  }
  if (entries.empty() || before.first_seq >= head.first || before.offset >= at) return false;
  file_index_ = std::move(entries);
  file_records_ = head.first;
  return true;
}

bool Reader::load_index() {
  if (index_loaded_) return !file_index_.empty();
  index_loaded_ = true;
  // A source that began elsewhere, as a shared standard input can, has other offsets.
  if ((status_ != Status::ok && status_ != Status::end) ||
      source_.seek(0, SEEK_CUR) != static_cast<std::int64_t>(offset_))
    return false;
  const bool found = read_index();
  if (source_.seek(static_cast<std::int64_t>(offset_), SEEK_SET) < 0) {
    halt(Status::io_error, offset_, "cannot read: the position in the file cannot be set");
    return false;
  }
  in_order_ = found && header_.origin.role != "both" &&
              std::is_sorted(file_index_.begin() + 1, file_index_.end(), [](const auto& a, const auto& b) {
                return static_cast<std::int64_t>(a.base_time) < static_cast<std::int64_t>(b.base_time);
              });
  return found;
}

bool Reader::go_to_record(std::uint64_t seq) {
  if (!load_index()) return false;
  const auto after = std::partition_point(file_index_.begin(), file_index_.end(),
                                          [seq](const IndexEntry& entry) { return entry.first_seq <= seq; });
  const auto block = after == file_index_.begin() ? after : std::prev(after);
  if (source_.seek(static_cast<std::int64_t>(block->offset), SEEK_SET) !=
      static_cast<std::int64_t>(block->offset)) {
    halt(Status::io_error, block->offset, "cannot read: the position in the file cannot be set");
    return true;
  }
  index_.assign(file_index_.begin(), block);
  offset_ = block->offset;
  seq_ = block->first_seq;
  time_ = block->base_time;
  block_left_ = 0;
  status_ = Status::ok;
  skipped_ = true;
  Record record;
  while (seq_ < seq && next(record) == Status::ok) {
  }
  return true;
}

bool Reader::go_to_last(std::uint64_t last) {
  return load_index() && go_to_record(file_records_ - std::min(last, file_records_));
}

void Reader::skip_to_time(std::int64_t time, std::uint64_t context) {
  if (!load_index() || !in_order_) return;
  // The base time of a block is that of the last record before it.
  const auto first = std::partition_point(
      file_index_.begin() + 1, file_index_.end(),
      [time](const IndexEntry& entry) { return static_cast<std::int64_t>(entry.base_time) < time; });
  const std::uint64_t seq = std::prev(first)->first_seq;
  const std::uint64_t from = seq - std::min(seq, context);
  if (from > seq_) go_to_record(from);
}

bool Reader::is_past(std::int64_t time) {
  return block_left_ == 0 && load_index() && in_order_ && index_.size() < file_index_.size() &&
         !index_.empty() && static_cast<std::int64_t>(file_index_[index_.size()].base_time) > time;
}

}  // namespace rtrs::trace
