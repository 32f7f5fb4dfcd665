// Writes a trace: header, blocks of at most 64 KiB, trailer. Equal records always give equal bytes.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/record/chain_hash.hpp"
#include "core/record/codec.hpp"
#include "core/record/format.hpp"

namespace rtrs::trace {

// Destination of a trace. write() consumes all bytes or returns a positive errno.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual int write(const void* bytes, std::size_t size) noexcept = 0;
};

// Writes to a file descriptor, which it owns.
class FdSink final : public Sink {
 public:
  explicit FdSink(int fd) noexcept : fd_(fd) {}
  ~FdSink() override;
  FdSink(const FdSink&) = delete;
  FdSink& operator=(const FdSink&) = delete;
  int write(const void* bytes, std::size_t size) noexcept override;
  // Creates the file, or replaces an empty file or a trace. The file is readable only by its owner, because
  // traces may contain user data. On failure returns null and sets `error`: see may_replace().
  static std::unique_ptr<FdSink> create(const char* path, int& error);

 private:
  int fd_;
};

// Returns 0 if a trace may be written to `path`: nothing is there, or an empty file, or a file that begins
// like a trace. EEXIST for anything else, including a pipe or a device, which is neither opened nor changed;
// otherwise the errno of the check.
int may_replace(const char* path) noexcept;

// User-readable text for an error of creating or writing a trace.
std::string file_error_text(int error);

// Appends to a string, which must outlive this object.
class StringSink final : public Sink {
 public:
  explicit StringSink(std::string& to) noexcept : to_(to) {}
  int write(const void* bytes, std::size_t size) noexcept override;

 private:
  std::string& to_;
};

// Every function returns 0 or a positive errno; after an error, write nothing more.
class Writer {
 public:
  // Without a sink, records are encoded and hashed but not stored.
  explicit Writer(std::unique_ptr<Sink> sink);
  // Call first. EOVERFLOW if the header exceeds the limits of the format.
  int start(const Header& header);
  // Appends a value of built-in kind `kind`. An event without `now` gets the time of the previous one.
  int append(KindId kind, InstanceId instance, const void* value) noexcept;
  // Appends a wire note or a Snapshot. EOVERFLOW if its bytes are longer than kMaxHead.
  template <class Note>
  int append_note(InstanceId instance, const Note& note) noexcept {
    std::size_t size = 0;
    visit_leaves(note, [&size](const auto& field) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, wire::Bytes>) size += field.size();
    });
    if (size > kMaxHead) return EOVERFLOW;
    if (note_.empty() && !reserve_note()) return ENOMEM;
    const std::uint8_t* end = put_record(note_.data(), instance, note, last_time_);
    return commit(note_.data(), static_cast<std::size_t>(end - note_.data()));
  }
  // Appends any event of the header's schema. EINVAL if the values do not fit, EOVERFLOW if they exceed a
  // block.
  int append_values(const EventInfo& event, InstanceId instance, Nanos time, std::span<const Value> values);
  // Writes the current block to the sink.
  int flush() noexcept;
  // Writes the current block and the trailer.
  int finish() noexcept;
  // Destroys the sink; hash and counters are kept.
  void release() noexcept { sink_.reset(); }

  std::uint64_t records() const noexcept { return first_seq_ + count_; }
  std::uint64_t unflushed() const noexcept { return count_; }  // number of records
  std::uint64_t bytes() const noexcept { return offset_; }
  std::size_t blocks() const noexcept { return index_.size(); }
  std::uint64_t chain_hash() const noexcept { return chain_.value_with(payload(), used_); }

 private:
  const std::uint8_t* payload() const noexcept { return frame_.data() + kFrameHeadSize; }
  int commit(const void* record, std::size_t size) noexcept;
  int write(const void* bytes, std::size_t size) noexcept;
  bool reserve_note() noexcept;

  std::unique_ptr<Sink> sink_;
  std::vector<std::uint8_t> note_;   // one record; allocated with the first note
  std::vector<std::uint8_t> frame_;  // head, payload and CRC of the current block
  std::size_t used_ = 0;             // used bytes of the payload
  std::uint32_t count_ = 0;
  std::uint64_t first_seq_ = 0;
  Nanos base_time_ = 0;  // time of the last record of the previous block
  Nanos last_time_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<IndexEntry> index_;
  ChainHash chain_;
};

}  // namespace rtrs::trace
