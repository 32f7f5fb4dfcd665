// How one operation advances: which system call comes next, given what the last one returned. Pure.
#pragma once

#include <cstdint>

#include "core/wire/rnbd_messages.hpp"

namespace rtrs::daemon {

using wire::rnbd::Opcode;

// The system call to make now. zero_range and punch_hole never change the size of a file.
enum class OpStep : std::uint8_t { read, write, sync_data, punch_hole, zero_range, write_zero_bytes, done };

class OpProgress {
 public:
  // Retries of a call that was interrupted or told to try again before it is given up with EAGAIN.
  static constexpr std::uint32_t kMaxStalls = 64;
  // The longest single write of zero bytes.
  static constexpr std::uint32_t kZeroBytes = 256 * 1024;

  OpProgress() = default;  // done, without error
  // How the range is treated besides the opcode.
  struct Manner {
    bool fua = false;           // durable before it is done
    bool block_device = false;  // never zero_range: a device that cannot zero without unmapping would answer
                                // it by giving up write_zeroes and discard for good
    bool nounmap = false;       // write_zeroes keeps the blocks allocated: never punch_hole
    bool preflush = false;      // sync_data first
  };
  // Bytes throughout. The range must lie within the device.
  OpProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes, const Manner& manner) noexcept;

  OpStep step() const noexcept { return step_; }
  std::uint64_t offset() const noexcept { return offset_ + completed_; }
  std::uint32_t length() const noexcept;  // of the call to make now
  std::uint32_t buffer_offset() const noexcept { return completed_; }
  bool data_sync() const noexcept { return manner_.fua; }  // the write itself must be durable (RWF_DSYNC)

  // `result`: what the call returned, a count or a negative errno. Short counts continue where they stopped,
  // a count of zero is EIO (the file was cut behind our back). write_zeroes frees the blocks by punch_hole,
  // and falls back to zero_range and to writing zeroes where the file system cannot.
  void on_result(std::int32_t result) noexcept;

  std::int32_t error() const noexcept { return error_; }  // 0 or a positive errno, see peer_errno
  std::int32_t cause() const noexcept { return cause_; }  // of it, as the system said
  // The error is that of making data durable, perhaps data of earlier operations: of a sync_data, or EIO of a
  // durable write to a file, behind which stands the writeback of the whole file. The kernel reports it once.
  bool sync_failed() const noexcept { return sync_failed_; }

 private:
  void finish(std::int32_t error) noexcept;
  OpStep first_step() const noexcept;
  void on_transferred(std::uint32_t count) noexcept;
  void on_failed(std::int32_t error) noexcept;

  std::uint64_t offset_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint32_t completed_ = 0;
  std::int32_t error_ = 0;
  std::int32_t cause_ = 0;
  std::uint32_t stalls_ = 0;
  Opcode opcode_ = Opcode::flush;
  OpStep step_ = OpStep::done;
  Manner manner_;
  bool flushing_ = false;  // the sync_data under way is the one in front
  bool sync_failed_ = false;
};

}  // namespace rtrs::daemon
