// Reads and writes exports, without blocking and without allocating: through io_uring, or in threads where
// that is refused.
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

#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/urtrsd/storage/export.hpp"
#include "tools/urtrsd/storage/fair_slots.hpp"
#include "tools/urtrsd/storage/memory_progress.hpp"
#include "tools/urtrsd/storage/nbd_disk.hpp"
#include "tools/urtrsd/storage/op_progress.hpp"
#include "tools/urtrsd/storage/step_runner.hpp"

namespace rtrs::daemon {

struct StorageOp {
  std::uint64_t cookie = 0;  // returned in StorageResult, not interpreted
  Export* target = nullptr;  // must live until the operation is reported
  Opcode opcode = Opcode::read;
  std::uint64_t sector = 0;  // of 512 bytes; ignored by flush
  std::uint32_t bytes = 0;   // multiple of the logical block, > 0; ignored by flush
  // `bytes` long, for read and write; belongs to the engine until reported. For a block device it begins at a
  // multiple of 4096.
  std::byte* buffer = nullptr;
  bool fua = false;       // write, discard, write_zeroes: durable before it is reported
  bool preflush = false;  // what was reported before is made durable first; not of a flush
  bool nounmap =
      false;  // write_zeroes: the blocks stay allocated; else they are freed where that is possible
};

struct StorageResult {
  std::uint64_t cookie = 0;
  std::int32_t error = 0;    // 0 or a positive errno out of peer_errno
  bool sync_failed = false;  // see OpProgress::sync_failed()
  // Of a failed operation, for the log.
  Opcode opcode = Opcode::read;
  std::int32_t cause = 0;  // errno of the system; 0: refused, and nothing was done
  std::uint64_t sector = 0;
  std::uint32_t bytes = 0;
  const Export* target = nullptr;  // as long as it is open
};

// One thread only. Every operation that submit() accepts is reported by poll() exactly once, in no particular
// order; nothing is ever cancelled. Errors: EIO (beyond the end of the device, or the medium failed), EPERM
// (change of a read-only export), EINVAL (not whole logical blocks), EOPNOTSUPP (discard the device cannot
// do), ENOSPC and the others of peer_errno. A flush covers all writes reported before it was submitted.
//
// No call but wait() blocks, whatever a device does. With io_uring, operations on files begin in a thread of
// the kernel, because the kernel's first attempt may wait for the file system; those on block devices are
// tried without waiting. FairSlots divides the slots of the queue and the threads among the devices, so that
// a device that hangs does not delay operations of other devices.
//
// Event loop: wait until fd() is readable, then poll() until it returns less than the span
// holds. After each batch of submit(), start_submitted(); when that returns true, poll() without waiting.
// Busy polling: only submit() and poll(), which does that by itself.
class StorageEngine {
 public:
  struct Options {
    std::uint32_t depth = kStorageOperations;  // operations at work at a time, 1..32767
    bool pollable = true;                      // false: fd() is -1, for callers that only poll
    bool threads = false;                      // io_uring is not tried
  };
  // Uses threads if io_uring is refused, see warning(). Fails with a sentence if threads are refused too, or
  // EINVAL.
  static tl::expected<std::unique_ptr<StorageEngine>, OpenError> create(const Options& options);
  // Over a runner of the caller, which has room for `depth` steps.
  StorageEngine(const Options& options, std::unique_ptr<StepRunner> runner, std::string warning);
  StorageEngine(const StorageEngine&) = delete;
  StorageEngine& operator=(const StorageEngine&) = delete;
  // Waits for the operations in flight: the kernel still uses their buffers.
  ~StorageEngine();

  // Makes room for `operations` in flight, at work or waiting; at first there is room for `depth`. Allocates,
  // and is never undone.
  void reserve(std::uint32_t operations);

  // false: there is no room; the caller keeps this operation. Errors are reported by poll() like everything
  // else.
  bool submit(const StorageOp& op) noexcept;

  // Hands what was submitted to the kernel, one system call for all. True when poll() has something to do.
  bool start_submitted() noexcept;

  // True when poll() has something to do. No system call.
  bool has_news() const noexcept;

  // To be called before an Export is destroyed; nothing of it is in flight. Other opens of its device go on.
  void leave(Export& target) noexcept;

  // Reports up to done.size() finished operations, never blocks. Operations on memory exports are carried out
  // here, a few slices of MemoryProgress at a time: poll() again while has_news().
  std::size_t poll(std::span<StorageResult> done) noexcept;

  // As poll(), but blocks until at least one operation is done; 0 only when none is in flight or `done` is
  // empty.
  std::size_t wait(std::span<StorageResult> done) noexcept;

  // Readable while something that the kernel or a thread finished waits for poll().
  int fd() const noexcept { return options_.pollable ? runner_->fd() : -1; }
  const char* runner() const noexcept { return runner_->name(); }  // "io_uring" or "threads"
  // Why io_uring is not used, what that costs, and how to get it; empty: it is used, or was not asked for.
  const std::string& warning() const noexcept { return warning_; }
  std::uint32_t in_flight() const noexcept { return in_flight_; }  // accepted and not yet reported
  std::uint32_t depth() const noexcept { return options_.depth; }
  // What each operation that is not reported waits for, in words, by cookie. Allocates: for an operator.
  std::vector<std::pair<std::uint64_t, const char*>> what_they_wait_for() const;

 private:
  enum class Phase : std::uint8_t { waiting, delayed, kernel, execute, report };
  struct Slot {
    StorageOp op;
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

  std::int32_t check(const StorageOp& op) const noexcept;
  std::uint32_t take_slot() noexcept;
  void admit(std::uint32_t index) noexcept;
  void begin(std::uint32_t index) noexcept;
  void start(std::uint32_t index) noexcept;
  void release_slot(Slot& slot) noexcept;
  void prepare_step(std::uint32_t index) noexcept;
  void prepare_delay(std::uint32_t index) noexcept;
  // storage_nbd.cpp
  void submit_nbd(std::uint32_t index) noexcept;
  void take_nbd() noexcept;
  void append(List& list, std::uint32_t index) noexcept;
  std::uint32_t remove_first(List& list) noexcept;
  void make_ready(std::uint32_t index, Phase phase) noexcept;
  void reap() noexcept;
  void on_completion(std::uint32_t index, std::int32_t result) noexcept;
  void advance(std::uint32_t index, std::int32_t result) noexcept;
  static std::byte* zeroes() noexcept;  // OpProgress::kZeroBytes, never written to
  std::size_t report(std::span<StorageResult> done) noexcept;
  StorageResult finish(std::uint32_t index) noexcept;

  Options options_;
  std::unique_ptr<StepRunner> runner_;
  std::string warning_;
  std::array<StepDone, 64> steps_done_;  // of one reap()
  FairSlots fair_;
  NbdResults nbd_results_;
  std::uint32_t nbd_in_flight_ = 0;
  // Room for a slot. The slot is constructed when it is first needed, so that room alone occupies no memory.
  union Place {
    Place() noexcept {}
    Slot slot;
  };
  // Slots by index. The blocks never move, because the runner holds addresses of slots.
  static constexpr std::size_t kBlock = 512;
  using Block = std::array<Place, kBlock>;
  Slot& slot_at(std::uint32_t index) const noexcept {
    return (*blocks_[index / kBlock])[index % kBlock].slot;
  }
  std::vector<std::unique_ptr<Block>> blocks_;  // grows only in reserve()
  std::uint32_t room_ = 0;  // operations that may be in flight; the blocks hold as many or more
  std::uint32_t used_ = 0;  // slots that were constructed
  List vacant_;             // of these
  List ready_;              // to be reported, and memory operations that have not begun
  List long_;               // memory operations that have more slices to go
  std::uint32_t in_flight_ = 0;
};

}  // namespace rtrs::daemon
