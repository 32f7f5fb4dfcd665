// Progress of one storage operation: chooses the next system call from the result of the previous one. Pure.
#pragma once

#include <cstdint>

#include "core/wire/rnbd_messages.hpp"

namespace rtrs::daemon {

using wire::rnbd::Opcode;

// The next system call. zero_range and punch_hole never change the size of a file.
enum class OpStep : std::uint8_t { read, write, sync_data, punch_hole, zero_range, write_zero_bytes, done };

class OpProgress {
 public:
  // Maximum number of retries after EINTR or EAGAIN. After that, the operation fails with EAGAIN.
  static constexpr std::uint32_t kMaxStalls = 64;
  // Maximum size of a write of zero bytes.
  static constexpr std::uint32_t kZeroBytes = 256 * 1024;

  OpProgress() = default;  // represents a successfully completed operation
  // Properties of an operation in addition to its opcode.
  struct OpOptions {
    bool fua = false;           // the operation must be durable before it completes
    bool block_device = false;  // never use zero_range: a device that cannot zero without unmapping
                                // would disable write_zeroes and discard permanently after the call
    bool nounmap = false;       // write_zeroes keeps the blocks allocated, so never punch_hole
    bool preflush = false;      // begin with sync_data
  };
  // `offset` and `bytes` are in bytes. The range must lie within the device.
  OpProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes, const OpOptions& manner) noexcept;

  OpStep step() const noexcept { return step_; }
  std::uint64_t offset() const noexcept { return offset_ + completed_; }
  std::uint32_t length() const noexcept;  // length of the next call in bytes
  std::uint32_t buffer_offset() const noexcept { return completed_; }
  bool data_sync() const noexcept { return options_.fua; }  // the write itself must be durable (RWF_DSYNC)

  // Processes the return value of the call: a count or a negative errno. After a short count, the operation
  // continues behind the completed part. A count of zero becomes EIO, because it means that another process
  // truncated the file. write_zeroes tries punch_hole, then zero_range, then writes of zero bytes, until the
  // file system supports the call.
  void on_result(std::int32_t result) noexcept;

  std::int32_t error() const noexcept { return error_; }  // 0 or a positive errno from peer_errno()
  std::int32_t cause() const noexcept { return cause_; }  // errno of the system that caused error()
  // True if data could not be made durable, possibly data of earlier operations: sync_data failed, or a
  // durable write to a file failed with EIO (such a write waits for the writeback of the whole file). The
  // kernel reports such an error only once.
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
  OpOptions options_;
  bool flushing_ = false;  // sync_data is in flight for the preflush
  bool sync_failed_ = false;
};

}  // namespace rtrs::daemon
