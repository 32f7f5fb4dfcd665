// Progress of one operation on a memory export. Operations run slice by slice, so that each delays the others
// by at most one slice. Pure.
#pragma once

#include <cstdint>

#include "tools/urtrsd/storage/op_progress.hpp"

namespace rtrs::daemon {

// Next step for the current range. release: return whole pages to the system, after which they read as
// zeroes.
enum class MemoryStep : std::uint8_t { read, write, zero, release, done };

class MemoryProgress {
 public:
  static constexpr std::uint32_t kCopySlice = 256 * 1024;          // bytes of one read, write or zero
  static constexpr std::uint32_t kReleaseSlice = 4 * 1024 * 1024;  // bytes of one release

  MemoryProgress() = default;  // an operation that is complete
  // `offset`, `bytes` and `page` are in bytes; the range must lie within the device. `page`: page size of the
  // system, a power of two to which the memory is aligned. `keep_pages`: write_zeroes keeps the pages
  // allocated. A discard always releases them.
  MemoryProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes, std::uint32_t page,
                 bool keep_pages) noexcept;

  MemoryStep step() const noexcept { return step_; }
  std::uint64_t offset() const noexcept { return offset_; }  // offset of the step in the device, in bytes
  std::uint32_t length() const noexcept { return length_; }  // length of the step in bytes
  std::uint32_t buffer_offset() const noexcept { return completed_; }

  void on_done() noexcept;  // the step is complete
  // The system rejected the release: the rest is zeroed instead.
  void on_not_released() noexcept;

 private:
  void choose() noexcept;

  std::uint64_t offset_ = 0;
  std::uint32_t left_ = 0;
  std::uint32_t completed_ = 0;
  std::uint32_t length_ = 0;
  std::uint32_t page_ = 4096;
  Opcode opcode_ = Opcode::flush;
  MemoryStep step_ = MemoryStep::done;
  bool release_ = false;
};

}  // namespace rtrs::daemon
