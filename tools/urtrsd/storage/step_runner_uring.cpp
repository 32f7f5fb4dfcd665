#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>

#include "tools/lib/files/io_uring_access.hpp"
#include "tools/urtrsd/storage/step_runner.hpp"

namespace rtrs::daemon {
namespace {

// Completions do not interrupt this thread, because it enters the kernel often enough. Supported since Linux
// 5.19.
constexpr unsigned kQuietly = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;

void prepare(io_uring_sqe* sqe, const FileStep& step) noexcept {
  switch (step.kind) {
    case OpStep::read:
      io_uring_prep_read(sqe, step.fd, step.buffer, step.length, step.offset);
      break;
    case OpStep::write:
    case OpStep::write_zero_bytes:
      io_uring_prep_write(sqe, step.fd, step.buffer, step.length, step.offset);
      if (step.data_sync) sqe->rw_flags = RWF_DSYNC;
      break;
    case OpStep::punch_hole:
      io_uring_prep_fallocate(sqe, step.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(step.offset), step.length);
      break;
    case OpStep::zero_range:
      io_uring_prep_fallocate(sqe, step.fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(step.offset), step.length);
      break;
    case OpStep::sync_data:
    case OpStep::done:  // not reached: a finished operation is reported instead
      io_uring_prep_fsync(sqe, step.fd, IORING_FSYNC_DATASYNC);
      break;
  }
  // For a file, even the non-blocking first attempt can block: read-ahead waits for a free request of the
  // disk, and a FUSE file system for its daemon. Block devices do not block then.
  if (step.may_wait) sqe->flags |= IOSQE_ASYNC;
}

class UringRunner final : public StepRunner {
 public:
  UringRunner() = default;
  ~UringRunner() override {
    if (ready_) io_uring_queue_exit(&ring_);
  }

  // Returns the reason why io_uring cannot be used, or nullopt.
  std::optional<tools::IoUringRefusal> open(std::uint32_t depth) {
    // Each operation has at most one request in the ring, and the watched descriptor has one, so neither
    // queue of the ring can overflow.
    int result = io_uring_queue_init(depth + 1, &ring_, kQuietly);
    if (result == -EINVAL) result = io_uring_queue_init(depth + 1, &ring_, 0);
    if (result < 0) return tools::explain_io_uring_refusal("io_uring_setup", -result);
    ready_ = true;
    // One thread for each operation: with the kernel's default of four threads a processor, a device that
    // hangs could block all threads. The kernel starts a thread only when all others are blocked. The call is
    // supported since Linux 5.15.
    std::array<unsigned, 2> threads{depth, 0};
    io_uring_register_iowq_max_workers(&ring_, threads.data());
    return tools::try_ring(ring_.ring_fd);
  }

  void start(std::uint32_t index, const FileStep& step) noexcept override {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    prepare(sqe, step);
    io_uring_sqe_set_data64(sqe, index);
  }
  void start_delay(std::uint32_t index, const __kernel_timespec& delay) noexcept override {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_timeout(sqe, const_cast<__kernel_timespec*>(&delay), 0, 0);  // the kernel only reads it
    io_uring_sqe_set_data64(sqe, index);
  }
  void watch(int watched) noexcept override {
    if (std::exchange(watching_, true)) return;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_poll_add(sqe, watched, POLLIN);
    io_uring_sqe_set_data64(sqe, kWatched);
  }
  void hand_over() noexcept override {
    // After EAGAIN or EBUSY the other requests stay queued, and has_news() returns true, so the caller
    // retries.
    while (io_uring_sq_ready(&ring_) != 0) {
      const int result = io_uring_submit(&ring_);
      if (result <= 0 && result != -EINTR) break;
    }
  }
  bool has_news() const noexcept override {
    return io_uring_cq_ready(&ring_) != 0 || io_uring_sq_ready(&ring_) != 0 || done_in_kernel();
  }
  std::size_t take(std::span<StepDone> done) noexcept override {
    if (done_in_kernel()) io_uring_get_events(&ring_);
    unsigned int head = 0;
    unsigned int count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      if (count == done.size()) break;
      const auto index = static_cast<std::uint32_t>(io_uring_cqe_get_data64(cqe));
      if (index == kWatched) watching_ = false;
      done[count++] = {index, cqe->res};
    }
    io_uring_cq_advance(&ring_, count);
    return count;
  }
  void wait() noexcept override { io_uring_submit_and_wait(&ring_, 1); }
  // Uses the descriptor of the ring instead of an eventfd, so that a request that completes during its
  // submission wakes no thread.
  int fd() const noexcept override { return ring_.ring_fd; }
  const char* name() const noexcept override { return "io_uring"; }

 private:
  // True if the kernel has completions that it adds to the ring only at the next system call (COOP_TASKRUN).
  bool done_in_kernel() const noexcept {
    return (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN) != 0;
  }

  io_uring ring_{};
  bool ready_ = false;
  bool watching_ = false;
};

}  // namespace

tl::expected<std::unique_ptr<StepRunner>, std::string> make_uring_runner(std::uint32_t depth) {
  auto runner = std::make_unique<UringRunner>();
  if (const auto refused = runner->open(depth))
    return tl::unexpected("io_uring cannot be used: " + refused->why + "; to use it: " + refused->remedy);
  return runner;
}

}  // namespace rtrs::daemon
