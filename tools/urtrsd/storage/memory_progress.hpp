// Divides an operation on a memory export into slices, so that the operation delays others by at most one
// slice. Pure.
#pragma once

#include <cstdint>

#include "tools/urtrsd/storage/op_progress.hpp"

namespace rtrs::daemon {

// Action for the current slice. release: return whole pages to the system, so that they read as zeroes.
enum class MemoryStep : std::uint8_t { read, write, zero, release, done };

class MemoryProgress {
 public:
  // Maximum size of a read, write or zero slice in bytes.
  static constexpr std::uint32_t kCopySlice = 256 * 1024;
  static constexpr std::uint32_t kReleaseSlice = 4 * 1024 * 1024;  // maximum size of a release slice in bytes

  MemoryProgress() = default;  // an operation that is complete
  // `offset`, `bytes` and `page` are in bytes. The range must lie within the device. `page` is the page size
  // of the system, a power of two to which the memory is aligned. With `keep_pages`, write_zeroes keeps the
  // pages allocated; a discard always releases them.
  MemoryProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes, std::uint32_t page,
                 bool keep_pages) noexcept;

  MemoryStep step() const noexcept { return step_; }
  // Start of the current slice in the device, in bytes.
  std::uint64_t offset() const noexcept { return offset_; }
  std::uint32_t length() const noexcept { return length_; }  // length of the current slice in bytes
  std::uint32_t buffer_offset() const noexcept { return completed_; }

  void on_done() noexcept;  // the current slice is complete
  // The system refused to release pages, so the rest of the range is zeroed.
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
