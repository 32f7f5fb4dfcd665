// Reads a trace from start to end, or the part of a file that its index names. The bytes may be arbitrary: on
// invalid data the reader stops and reports position and reason. Memory use is bounded by the header, one
// block, and 24 bytes per block of the trace.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/record/chain_hash.hpp"
#include "core/record/codec.hpp"
#include "core/record/format.hpp"

namespace rtrs::trace {

// Source of bytes. read() returns the number of bytes read, 0 at the end, or a negative errno.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::ptrdiff_t read(void* to, std::size_t size) noexcept = 0;
  // As lseek(): returns the new position, or a negative errno. The default is for a source that can only be
  // read in order.
  virtual std::int64_t seek(std::int64_t, int) noexcept { return -ESPIPE; }
};

class FdSource final : public Source {
 public:
  explicit FdSource(int fd) noexcept : fd_(fd) {}  // does not own `fd`
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;
  std::int64_t seek(std::int64_t offset, int whence) noexcept override;

 private:
  int fd_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string_view bytes) noexcept : left_(bytes) {}  // does not own the bytes
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;

 private:
  std::string_view left_;
};

class Reader {
 public:
  enum class Status : std::uint8_t {
    ok,
    end,              // no more records; the trace was completed
    damaged,          // stop() has position and reason; earlier records are valid
    not_a_trace,      // the file does not start with the magic number
    unknown_version,  // unknown version of the format
    io_error,         // reading the source failed
  };
  struct Stop {
    std::uint64_t offset = 0;  // position of the first unusable byte
    std::string reason;
  };

  explicit Reader(Source& source);  // `source` must outlive the reader
  // Reads the header. Call next() only if it returns ok.
  Status open();
  // Reads the next record, which is valid until the next call. Any status except ok is final.
  Status next(Record& record);

  // These continue with another record, which the index of the file finds, and read few bytes. Call after
  // open(). After a skip the chain hash is not compared.
  //
  // Go to a record by its number, or counted from the end. Return false, and do nothing, if the source cannot
  // seek or the file has no valid index.
  bool go_to_record(std::uint64_t seq);
  bool go_to_last(std::uint64_t last);
  // Skips records that are earlier than `time`, except `context` records; not necessarily all. Does nothing
  // without an index, or if times go back, as in merged traces.
  void skip_to_time(std::int64_t time, std::uint64_t context);
  // True if the index shows that all further records are later than `time`.
  bool is_past(std::int64_t time);

  const Header& header() const noexcept { return header_; }
  const Stop& stop() const noexcept { return stop_; }
  std::uint64_t records() const noexcept { return seq_; }  // number of records read so far
  // Time of the first record that was read, on the clock of the recorder.
  Nanos first_time() const noexcept { return first_time_; }
  Nanos time() const noexcept { return time_; }  // time of the last record that was read
  std::uint64_t blocks() const noexcept { return index_.size(); }
  std::uint64_t bytes() const noexcept { return offset_; }  // number of bytes read so far
  // True if next() will read from the source.
  bool is_block_read() const noexcept { return block_left_ == 0; }
  // Chain hash of the blocks read so far.
  std::uint64_t chain_hash() const noexcept { return chain_.value(); }

 private:
  Status halt(Status status, std::uint64_t offset, std::string reason);
  Status cut(std::uint64_t offset, const char* inside);
  // Returns the number of bytes read; less than `size` only at the end of the source or on failure.
  std::size_t fill(std::uint8_t* to, std::size_t size);
  Status next_frame();
  Status read_block(const FrameHead& head, std::uint64_t at, std::uint32_t crc);
  Status read_trailer(const FrameHead& head, std::uint64_t at, std::uint32_t crc);
  Status skip_frame(const FrameHead& head, std::uint64_t at, std::uint32_t crc);
  const char* decode(Record& record);
  // index.cpp
  bool load_index();
  bool read_index();
  bool read_at(std::uint64_t offset, void* to, std::size_t size);

  Source& source_;
  Header header_;
  Stop stop_;
  Status status_ = Status::ok;
  int source_errno_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<const EventInfo*> events_;  // indexed by event id
  std::vector<Value> values_;
  std::vector<std::uint8_t> block_;
  const std::uint8_t* at_ = nullptr;  // position in the block
  const std::uint8_t* end_ = nullptr;
  std::uint64_t block_offset_ = 0;  // file offset of the block's first record
  std::uint64_t block_left_ = 0;    // records left in the block
  std::uint64_t seq_ = 0;
  Nanos time_ = 0;
  Nanos first_time_ = 0;
  std::vector<IndexEntry> index_;  // blocks read or skipped
  ChainHash chain_;
  bool skipped_ = false;
  // Index of the whole file; empty if there is none.
  std::vector<IndexEntry> file_index_;
  std::uint64_t file_records_ = 0;
  bool index_loaded_ = false;
  bool in_order_ = false;  // the times of the blocks never go back
};

}  // namespace rtrs::trace
