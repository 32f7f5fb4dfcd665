// Executes the system calls of storage operations, with io_uring or in threads.
#pragma once

#include <linux/time_types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrsd/storage/op_progress.hpp"

namespace rtrs::daemon {

// A system call on a file or block device.
struct FileStep {
  OpStep kind = OpStep::sync_data;
  int fd = -1;
  std::byte* buffer = nullptr;  // has `length` bytes; for read and write only
  std::uint64_t offset = 0;     // in bytes
  std::uint32_t length = 0;     // in bytes
  bool data_sync = false;       // the write must be durable when it completes (RWF_DSYNC)
  bool may_wait = false;        // even a non-blocking call may block in the file system
};

struct StepDone {
  std::uint32_t index = 0;  // index that was passed to start()
  std::int32_t result = 0;  // return value of the call: a count or a negative errno
};

// All functions must be called from one thread. At most `depth` steps and delays may be in flight. take()
// reports each step exactly once. Steps of different operations complete in any order. A sync_data covers
// every write that take() reported before the sync_data was started. Only wait() blocks. No function
// allocates.
class StepRunner {
 public:
  // Value of StepDone::index that reports that the watched descriptor is readable.
  static constexpr std::uint32_t kWatched = ~std::uint32_t{0};

  StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;
  virtual ~StepRunner() = default;  // nothing may be in flight

  virtual void start(std::uint32_t index, const FileStep& step) noexcept = 0;
  // Starts a delay, whose end take() reports with `index`. `delay` must stay valid until then.
  virtual void start_delay(std::uint32_t index, const __kernel_timespec& delay) noexcept = 0;
  // When the descriptor `watched` becomes readable, makes fd() readable and wakes wait(). The io_uring runner
  // reports kWatched once per call of watch(), so watch() must be called again after each report.
  virtual void watch(int watched) noexcept = 0;
  virtual void hand_over() noexcept = 0;  // submits what the functions above have queued
  virtual bool has_news() const noexcept = 0;
  virtual std::size_t take(std::span<StepDone> done) noexcept = 0;
  virtual void wait() noexcept = 0;               // blocks until has_news() would return true
  virtual int fd() const noexcept = 0;            // readable while take() has something to report
  virtual const char* name() const noexcept = 0;  // "io_uring" or "threads"
};

// Creates a runner with room for `depth` steps and one watched descriptor. The error text says why io_uring
// cannot be used and how to enable it.
tl::expected<std::unique_ptr<StepRunner>, std::string> make_uring_runner(std::uint32_t depth);

// Creates a runner with at most `depth` threads. A thread is started when all others are busy; if that fails,
// steps wait for the existing threads. Returns a positive errno if not even the first thread could be
// started.
tl::expected<std::unique_ptr<StepRunner>, int> make_thread_runner(std::uint32_t depth);

}  // namespace rtrs::daemon
