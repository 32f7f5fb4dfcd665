// Reads a trace front to back. Never fails on what the bytes are: it stops and says where and why. Memory is
// bounded by the header, one block and 24 bytes a block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/record/chain_hash.hpp"
#include "core/record/codec.hpp"
#include "core/record/format.hpp"

namespace rtrs::trace {

// Where the bytes come from. read() answers 0 at the end and a negative errno on failure.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::ptrdiff_t read(void* to, std::size_t size) noexcept = 0;
};

class FdSource final : public Source {
 public:
  explicit FdSource(int fd) noexcept : fd_(fd) {}  // borrowed
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;

 private:
  int fd_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string_view bytes) noexcept : left_(bytes) {}  // borrowed
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;

 private:
  std::string_view left_;
};

class Reader {
 public:
  enum class Status : std::uint8_t {
    ok,
    end,              // after the last record of a trace that was completed
    damaged,          // stop() tells where and why; what was read before is sound
    not_a_trace,      // the file does not start like one
    unknown_version,  // of the format
    io_error,         // the source failed
  };
  struct Stop {
    std::uint64_t offset = 0;  // first byte that could not be used
    std::string reason;
  };

  explicit Reader(Source& source);  // borrowed
  // Reads the header. Only after ok is next() allowed.
  Status open();
  // The next record, borrowed until the next call. Every answer but ok is final.
  Status next(Record& record);

  const Header& header() const noexcept { return header_; }
  const Stop& stop() const noexcept { return stop_; }
  std::uint64_t records() const noexcept { return seq_; }  // read so far
  std::uint64_t blocks() const noexcept { return index_.size(); }
  std::uint64_t bytes() const noexcept { return offset_; }              // read so far
  std::uint64_t chain_hash() const noexcept { return chain_.value(); }  // of the blocks read so far

 private:
  Status halt(Status status, std::uint64_t offset, std::string reason);
  Status cut(std::uint64_t offset, const char* inside);
  // Bytes read, fewer only at the end of the source.
  std::size_t fill(std::uint8_t* to, std::size_t size);
  Status next_frame();
  Status read_block(const FrameHead& head, std::uint64_t at, std::uint32_t crc);
  Status read_trailer(const FrameHead& head, std::uint64_t at, std::uint32_t crc);
  Status skip_frame(const FrameHead& head, std::uint64_t at, std::uint32_t crc);
  const char* decode(Record& record);

  Source& source_;
  Header header_;
  Stop stop_;
  Status status_ = Status::ok;
  int source_errno_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<const EventInfo*> events_;  // by id
  std::vector<Value> values_;
  std::vector<std::uint8_t> block_;
  const std::uint8_t* at_ = nullptr;  // in the block
  const std::uint8_t* end_ = nullptr;
  std::uint64_t block_offset_ = 0;  // of the first record in the file
  std::uint64_t block_left_ = 0;    // records
  std::uint64_t seq_ = 0;
  Nanos time_ = 0;
  std::vector<IndexEntry> index_;
  ChainHash chain_;
};

}  // namespace rtrs::trace
