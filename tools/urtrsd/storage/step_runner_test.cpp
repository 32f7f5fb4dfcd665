// Tests of both step runners, which execute the system calls of the storage engine.
#include "tools/urtrsd/storage/step_runner.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "tools/urtrsd/storage/unique_fd.hpp"
#include "tools/urtrsd/storage/wake_up.hpp"

namespace {
// Flags of the last write that was passed to the kernel. The functions below record them; these functions
// replace those of libc and liburing.
std::atomic<int> seen_flags = -1;
}  // namespace

extern "C" ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  seen_flags = flags;
  return ::syscall(SYS_pwritev2, fd, parts, count, offset, 0, flags);
}

extern "C" int io_uring_submit(io_uring* ring) {
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; ++at) {
    const io_uring_sqe& one = ring->sq.sqes[at & ring->sq.ring_mask];
    if (one.opcode == IORING_OP_WRITE) seen_flags = static_cast<int>(one.rw_flags);
  }
  static const auto submit = reinterpret_cast<int (*)(io_uring*)>(::dlsym(RTLD_NEXT, "io_uring_submit"));
  return submit(ring);
}

namespace rtrs::daemon {
namespace {

constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kBytes = 512;

UniqueFd scratch_file() {
  std::string path = "/tmp/urtrs-step-runner-XXXXXX";
  UniqueFd fd(::mkstemp(path.data()));
  ::unlink(path.c_str());
  return fd;
}

class StepRunnerTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      runner_ = std::move(*make_thread_runner(kDepth));
      return;
    }
    auto uring = make_uring_runner(kDepth);
    if (!uring) GTEST_SKIP() << uring.error();
    runner_ = std::move(*uring);
  }
  FileStep step(OpStep kind, std::uint32_t place) {
    return {kind,           file_.get(), buffers_[place].data(), std::uint64_t{place} * kBytes, kBytes,
            place % 2 == 0, true};
  }
  // Waits for the next completed step.
  StepDone next() {
    std::array<StepDone, 1> done;
    for (;;) {
      runner_->hand_over();
      if (runner_->take(done) == 1) return done[0];
      runner_->wait();
    }
  }

  const UniqueFd file_ = scratch_file();
  std::array<std::array<std::byte, kBytes>, kDepth> buffers_{};
  std::unique_ptr<StepRunner> runner_;
};

INSTANTIATE_TEST_SUITE_P(Runners, StepRunnerTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "threads" : "io_uring"; });

TEST_P(StepRunnerTest, EachStepIsReportedOnceWithItsResult) {
  for (unsigned round = 0; round < 200; ++round) {
    for (std::uint32_t place = 0; place < kDepth; ++place) {
      buffers_[place].fill(static_cast<std::byte>(round + place));
      runner_->start(place, step(OpStep::write, place));
    }
    std::array<unsigned, kDepth> seen{};
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      const StepDone done = next();
      ASSERT_EQ(done.result, static_cast<std::int32_t>(kBytes));
      ++seen.at(done.index);
      buffers_[done.index].fill(std::byte{0});
    }
    for (std::uint32_t place = 0; place < kDepth; ++place) runner_->start(place, step(OpStep::read, place));
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      const StepDone done = next();
      ASSERT_EQ(done.result, static_cast<std::int32_t>(kBytes));
      ++seen.at(done.index);
    }
    for (const unsigned count : seen) ASSERT_EQ(count, 2U);
    for (std::uint32_t place = 0; place < kDepth; ++place)
      ASSERT_EQ(buffers_[place].back(), static_cast<std::byte>(round + place));
  }
}

// A durable write of zero bytes must use the same flag as a durable write of user data.
TEST_P(StepRunnerTest, DurableWritesPassTheFlagToTheKernel) {
  for (const OpStep kind : {OpStep::write, OpStep::write_zero_bytes}) {
    for (const std::uint32_t place : {0U, 1U}) {
      FileStep one = step(kind, place);
      one.data_sync = place == 0;
      seen_flags = -1;
      runner_->start(place, one);
      ASSERT_EQ(next().result, static_cast<std::int32_t>(kBytes));
      EXPECT_EQ(seen_flags, place == 0 ? RWF_DSYNC : 0) << static_cast<int>(kind);
    }
  }
}

TEST_P(StepRunnerTest, FailuresReturnANegativeErrno) {
  FileStep bad = step(OpStep::read, 0);
  bad.fd = -1;
  runner_->start(7, bad);
  const StepDone done = next();
  EXPECT_EQ(done.index, 7U);
  EXPECT_EQ(done.result, -EBADF);
}

TEST_P(StepRunnerTest, DescriptorIsReadableWhileResultsArePending) {
  pollfd waited{runner_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 0), 0);
  runner_->start(0, step(OpStep::sync_data, 0));
  runner_->hand_over();
  std::array<StepDone, 2> done;
  while (runner_->take(done) == 0) ASSERT_EQ(::poll(&waited, 1, 60'000), 1);
  EXPECT_EQ(done[0].result, 0);
  EXPECT_EQ(::poll(&waited, 1, 0), 0);
  EXPECT_FALSE(runner_->has_news());
}

TEST_P(StepRunnerTest, DelaysEndInOrder) {
  const __kernel_timespec longer{0, 30'000'000};
  const __kernel_timespec shorter{0, 1'000'000};
  runner_->start_delay(1, longer);
  runner_->start_delay(2, shorter);
  EXPECT_EQ(next().index, 2U);
  EXPECT_EQ(next().index, 1U);
}

TEST_P(StepRunnerTest, WatchedDescriptorWakesTheRunner) {
  WakeUp event;
  runner_->watch(event.fd());
  runner_->hand_over();
  pollfd waited{runner_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 0), 0);
  event.signal();
  EXPECT_EQ(::poll(&waited, 1, 60'000), 1);
}

}  // namespace
}  // namespace rtrs::daemon
