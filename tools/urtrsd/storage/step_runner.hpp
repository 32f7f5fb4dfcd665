// Carries out the system calls of storage operations: through io_uring, or in threads.
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
  bool data_sync = false;       // a write is durable before it is done
  bool may_wait = false;        // the first attempt may wait for the file system
};

struct StepDone {
  std::uint32_t index = 0;  // as given to start()
  std::int32_t result = 0;  // what the call returned: a count, or a negative errno
};

// One thread calls all functions. At most `depth` steps and delays are at work at a time. A step is reported
// by take() exactly once; steps of different operations end in any order. A sync_data covers every write that
// take() reported before its start(). No function but wait() blocks, and none allocates.
class StepRunner {
 public:
  // Index of StepDone when the watched descriptor became readable.
  static constexpr std::uint32_t kWatched = ~std::uint32_t{0};

  StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;
  virtual ~StepRunner() = default;  // nothing is at work

  virtual void start(std::uint32_t index, const FileStep& step) noexcept = 0;
  // Reported after this time. `delay` stays where it is until then.
  virtual void start_delay(std::uint32_t index, const __kernel_timespec& delay) noexcept = 0;
  // Wakes whoever waits for fd() or in wait() when `watched` is readable. io_uring reports kWatched once, and
  // is asked again.
  virtual void watch(int watched) noexcept = 0;
  virtual void hand_over() noexcept = 0;  // what was started since; all functions above only collect
  virtual bool has_news() const noexcept = 0;
  virtual std::size_t take(std::span<StepDone> done) noexcept = 0;
  virtual void wait() noexcept = 0;               // until there are news
  virtual int fd() const noexcept = 0;            // readable while there are news
  virtual const char* name() const noexcept = 0;  // "io_uring" or "threads"
};

// Room for `depth` steps, and one descriptor to watch. The error is a sentence: why io_uring cannot be used,
// and how it could.
tl::expected<std::unique_ptr<StepRunner>, std::string> make_uring_runner(std::uint32_t depth);

// At most `depth` threads, started when the others are busy. If the system gives no more threads, steps wait
// for those there are. The error, a positive errno, means that there is not even one.
tl::expected<std::unique_ptr<StepRunner>, int> make_thread_runner(std::uint32_t depth);

}  // namespace rtrs::daemon
