// How one operation on a memory export advances: slice by slice, so that no operation keeps the others
// waiting for longer than one slice takes. Pure.
#pragma once

#include <cstdint>

#include "tools/urtrsd/op_progress.hpp"

namespace rtrs::daemon {

// What to do with the range now. release: give whole pages back to the system, they read as zeroes then.
enum class MemoryStep : std::uint8_t { read, write, zero, release, done };

class MemoryProgress {
 public:
  static constexpr std::uint32_t kCopySlice = 256 * 1024;          // bytes of one read, write or zero
  static constexpr std::uint32_t kReleaseSlice = 4 * 1024 * 1024;  // bytes of one release

  MemoryProgress() = default;  // done
  // Bytes throughout; the range lies within the device. `page` is the system's page size, a power of two; the
  // memory begins at a multiple of it. `keep_pages`: write_zeroes leaves the pages where they are. A discard
  // always releases.
  MemoryProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes, std::uint32_t page,
                 bool keep_pages) noexcept;

  MemoryStep step() const noexcept { return step_; }
  std::uint64_t offset() const noexcept { return offset_; }  // in the device
  std::uint32_t length() const noexcept { return length_; }  // of the step
  std::uint32_t buffer_offset() const noexcept { return completed_; }

  void on_done() noexcept;  // the step was carried out
  // The system did not take the pages: the rest is zeroed.
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
