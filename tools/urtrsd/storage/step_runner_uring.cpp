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

// The kernel need not interrupt this thread for completions, because the thread makes system calls often
// enough. The flags exist since Linux 5.19.
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
    case OpStep::done:  // not reached: finished operations are not started
      io_uring_prep_fsync(sqe, step.fd, IORING_FSYNC_DATASYNC);
      break;
  }
  // For a file, even the first, non-blocking attempt of the kernel can block: read-ahead waits until the disk
  // accepts a request, and a FUSE file system waits for its daemon. For block devices it does not block.
  if (step.may_wait) sqe->flags |= IOSQE_ASYNC;
}

class UringRunner final : public StepRunner {
 public:
  UringRunner() = default;
  ~UringRunner() override {
    if (ready_) io_uring_queue_exit(&ring_);
  }

  // Sets up the ring. Returns nullopt, or the reason why io_uring cannot be used.
  std::optional<tools::IoUringRefusal> open(std::uint32_t depth) {
    // Neither queue of the ring can overflow, because each operation has at most one request in the ring, and
    // the watched descriptor has one more.
    int result = io_uring_queue_init(depth + 1, &ring_, kQuietly);
    if (result == -EINVAL) result = io_uring_queue_init(depth + 1, &ring_, 0);
    if (result < 0) return tools::explain_io_uring_refusal("io_uring_setup", -result);
    ready_ = true;
    // Allows one kernel thread per operation. With the default of four threads per processor, a hanging
    // device could block all threads. The kernel starts a thread only when all others are blocked. The call
    // exists since Linux 5.15.
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
    // The cast is safe, because the kernel does not modify the delay.
    io_uring_prep_timeout(sqe, const_cast<__kernel_timespec*>(&delay), 0, 0);
    io_uring_sqe_set_data64(sqe, index);
  }
  void watch(int watched) noexcept override {
    if (std::exchange(watching_, true)) return;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_poll_add(sqe, watched, POLLIN);
    io_uring_sqe_set_data64(sqe, kWatched);
  }
  void hand_over() noexcept override {
    // After EAGAIN or EBUSY, the remaining requests stay queued. has_news() then returns true, so the caller
    // tries again.
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
  // Returns the descriptor of the ring, not an eventfd, because a request that completes while it is
  // submitted then wakes no thread.
  int fd() const noexcept override { return ring_.ring_fd; }
  const char* name() const noexcept override { return "io_uring"; }

 private:
  // True if the kernel has completions that the next system call will add to the ring (COOP_TASKRUN).
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
