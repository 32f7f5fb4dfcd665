// Reads and writes exports without blocking and without allocating memory. Uses io_uring, or threads if
// io_uring is not available.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "core/driver/block_actions.hpp"
#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/urtrsd/storage/export.hpp"
#include "tools/urtrsd/storage/fair_slots.hpp"
#include "tools/urtrsd/storage/memory_progress.hpp"
#include "tools/urtrsd/storage/nbd_disk.hpp"
#include "tools/urtrsd/storage/op_progress.hpp"
#include "tools/urtrsd/storage/step_runner.hpp"

namespace rtrs::daemon {

struct StorageResult {
  block::OpId id{};
  std::int32_t error = 0;    // 0 or a positive errno from peer_errno()
  bool sync_failed = false;  // see OpProgress::sync_failed()
  // Set only for a failed operation, for the log message.
  Opcode opcode = Opcode::read;
  std::int32_t cause = 0;  // errno of the system; 0: check() rejected the operation before it was started
  std::uint64_t sector = 0;
  std::uint32_t bytes = 0;
  const Export* target = nullptr;  // valid until the device is closed
};

// Must be used from one thread. poll() reports every operation that submit() accepted exactly once, in no
// particular order; operations cannot be cancelled. Errors: EIO (beyond the end of the device, or the medium
// failed), EPERM (change of a read-only export), EINVAL (not whole logical blocks), EOPNOTSUPP (the device
// does not support discard), ENOSPC and the others of peer_errno(). A flush covers all writes reported before
// it was submitted.
//
// Only wait() blocks, even if a device hangs. With io_uring, operations on files start in a kernel thread,
// because the kernel's first attempt may block in the file system; operations on block devices are first
// tried without blocking. FairSlots divides the slots and threads among the devices, so that a device that
// hangs does not delay operations of other devices.
//
// Event loop: wait until fd() is readable, then call poll() until it returns less than the size of the span.
// After each batch of submit(), call start_submitted(); if it returns true, call poll() without waiting.
// Busy polling: call only submit() and poll(); poll() also starts submitted operations.
class StorageEngine {
 public:
  struct Options {
    // Maximum number of operations that the kernel executes at a time, 1..32767.
    std::uint32_t depth = tools::kStorageOperations;
    bool pollable = true;  // false: busy polling is used, so fd() returns -1
    bool threads = false;  // use threads even if io_uring is available
  };
  // If io_uring is not available, uses threads and sets warning(). Errors: EINVAL for an invalid depth, or
  // the errno with which a thread could not be started.
  static tl::expected<std::unique_ptr<StorageEngine>, OpenError> create(const Options& options);
  // Uses `runner`, which must have room for `depth` steps.
  StorageEngine(const Options& options, std::unique_ptr<StepRunner> runner, std::string warning);
  StorageEngine(const StorageEngine&) = delete;
  StorageEngine& operator=(const StorageEngine&) = delete;
  // Waits for the operations in flight, because the kernel still uses their buffers.
  ~StorageEngine();

  // Makes room for `operations` in flight, whether running or queued. Initially there is room for `depth`.
  // Allocates memory; the room never shrinks.
  void reserve(std::uint32_t operations);

  // Executes `op` on `target`, which must live until poll() reports the operation, even if it fails. Returns
  // false if there is no room for a further operation. On a block device, the address of the data must be a
  // multiple of 4096.
  bool submit(const block::StartStorage& op, Export& target) noexcept;

  // Passes all submitted operations to the kernel with one system call. Returns has_news().
  bool start_submitted() noexcept;

  // True if poll() has something to do. Makes no system call.
  bool has_news() const noexcept;

  // Must be called before an Export is destroyed, when none of its operations is in flight. Does not affect
  // other opens of the same device.
  void leave(Export& target) noexcept;

  // Reports up to done.size() completed operations. Never blocks. Each call also executes a few slices of the
  // operations on memory exports, so call it again while has_news() is true.
  std::size_t poll(std::span<StorageResult> done) noexcept;

  // Like poll(), but blocks until at least one operation has completed. Returns 0 only if no operation is in
  // flight or `done` is empty.
  std::size_t wait(std::span<StorageResult> done) noexcept;

  // The descriptor is readable while the kernel or a thread has completed something that poll() has not
  // processed.
  int fd() const noexcept { return options_.pollable ? runner_->fd() : -1; }
  const char* runner() const noexcept { return runner_->name(); }  // "io_uring" or "threads"
  // Explains why io_uring is not used, what that costs, and how to enable it. Empty if io_uring is used or
  // Options::threads is set.
  const std::string& warning() const noexcept { return warning_; }
  // Number of operations accepted but not reported.
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  std::uint32_t depth() const noexcept { return options_.depth; }
  // Returns the id of each operation that has not been reported, and what the operation waits for. Use it
  // only for messages to an operator, because it allocates memory.
  std::vector<std::pair<block::OpId, const char*>> pending_waits() const;

 private:
  enum class Phase : std::uint8_t { waiting, delayed, kernel, execute, report };
  struct Slot {
    block::StartStorage op;
    Export* target = nullptr;
    OpProgress progress;
    MemoryProgress memory;
    NbdCommand nbd;
    __kernel_timespec delay{};
    std::uint32_t next = 0;
    std::int32_t error = 0;
    std::int32_t cause = 0;
    bool sync_failed = false;
    Phase phase = Phase::report;
  };
  struct List {
    std::uint32_t first = SlotShare::kNone;
    std::uint32_t last = SlotShare::kNone;
    bool empty() const noexcept { return first == SlotShare::kNone; }
  };

  static std::int32_t check(const block::StartStorage& op, const Export& target) noexcept;
  std::uint32_t take_slot() noexcept;
  void admit(std::uint32_t index) noexcept;
  void begin(std::uint32_t index) noexcept;
  void start(std::uint32_t index) noexcept;
  void release_slot(Slot& slot) noexcept;
  void prepare_step(std::uint32_t index) noexcept;
  void prepare_delay(std::uint32_t index) noexcept;
  // Defined in storage_nbd.cpp.
  void submit_nbd(std::uint32_t index) noexcept;
  void take_nbd() noexcept;
  void append(List& list, std::uint32_t index) noexcept;
  std::uint32_t remove_first(List& list) noexcept;
  void make_ready(std::uint32_t index, Phase phase) noexcept;
  void reap() noexcept;
  void on_completion(std::uint32_t index, std::int32_t result) noexcept;
  void advance(std::uint32_t index, std::int32_t result) noexcept;
  static std::byte* zeroes() noexcept;  // OpProgress::kZeroBytes bytes, which are never modified
  std::size_t report(std::span<StorageResult> done) noexcept;
  StorageResult finish(std::uint32_t index) noexcept;

  Options options_;
  std::unique_ptr<StepRunner> runner_;
  std::string warning_;
  std::array<StepDone, 64> steps_done_;  // buffer of reap()
  FairSlots fair_;
  NbdResults nbd_results_;
  std::uint32_t nbd_in_flight_ = 0;
  // Memory for a slot. A slot is constructed when it is first needed, so that memory that is only reserved is
  // not touched.
  union Place {
    Place() noexcept {}
    Slot slot;
  };
  // Slots are in blocks that never move, because the runner holds addresses of slots.
  static constexpr std::size_t kBlock = 512;
  using Block = std::array<Place, kBlock>;
  Slot& slot_at(std::uint32_t index) const noexcept {
    return (*blocks_[index / kBlock])[index % kBlock].slot;
  }
  std::vector<std::unique_ptr<Block>> blocks_;  // grows only in reserve()
  std::uint32_t room_ = 0;  // maximum number of operations in flight; not more than the blocks have slots
  std::uint32_t used_ = 0;  // number of slots constructed so far
  List vacant_;             // constructed slots that no operation uses
  List ready_;              // operations to report, and memory operations that have not started
  List long_;               // started memory operations that have slices left
  std::uint32_t in_flight_ = 0;
};

}  // namespace rtrs::daemon
