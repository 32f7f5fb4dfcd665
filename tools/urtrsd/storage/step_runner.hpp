// Runs the system calls of storage operations with io_uring or in threads.
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

// One system call on a file or block device.
struct FileStep {
  OpStep kind = OpStep::sync_data;
  int fd = -1;
  std::byte* buffer = nullptr;  // `length` bytes, for read and write
  std::uint64_t offset = 0;     // bytes
  std::uint32_t length = 0;     // bytes
  bool data_sync = false;       // the write must be durable when it completes (RWF_DSYNC)
  bool may_wait = false;        // even a non-blocking attempt may block in the file system
};

struct StepDone {
  std::uint32_t index = 0;  // as given to start()
  std::int32_t result = 0;  // return value of the call: a count or a negative errno
};

// All functions must be called from one thread. At most `depth` steps and delays may be in flight. take()
// reports each step exactly once; steps of different operations complete in any order. A sync_data covers
// every write that take() reported before its start(). Only wait() blocks. No function allocates.
class StepRunner {
 public:
  // StepDone::index for "the watched descriptor is readable".
  static constexpr std::uint32_t kWatched = ~std::uint32_t{0};

  StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;
  virtual ~StepRunner() = default;  // requires that nothing is in flight

  virtual void start(std::uint32_t index, const FileStep& step) noexcept = 0;
  // Reports `index` after this time. `delay` must stay valid until then.
  virtual void start_delay(std::uint32_t index, const __kernel_timespec& delay) noexcept = 0;
  // Makes fd() readable, and wakes wait(), when `watched` is readable. io_uring reports kWatched once per
  // call, so watch() must be called again after each report.
  virtual void watch(int watched) noexcept = 0;
  virtual void hand_over() noexcept = 0;  // submits everything started since; the functions above only queue
  virtual bool has_news() const noexcept = 0;
  virtual std::size_t take(std::span<StepDone> done) noexcept = 0;
  virtual void wait() noexcept = 0;               // blocks until has_news() would return true
  virtual int fd() const noexcept = 0;            // readable while take() has something to report
  virtual const char* name() const noexcept = 0;  // "io_uring" or "threads"
};

// Has room for `depth` steps and one watched descriptor. The error text says why io_uring cannot be used and
// how to enable it.
tl::expected<std::unique_ptr<StepRunner>, std::string> make_uring_runner(std::uint32_t depth);

// Uses at most `depth` threads. A thread is started when all others are busy; if that fails, steps wait for
// the existing threads. The error is a positive errno: not even one thread could be started.
tl::expected<std::unique_ptr<StepRunner>, int> make_thread_runner(std::uint32_t depth);

}  // namespace rtrs::daemon
