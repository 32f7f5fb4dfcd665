// Tests when a pump runs the steps of its driver. The fabric is a fake that has only a descriptor. No time is
// measured: the absence of an event is checked up to a bound that even a busy machine does not reach.
#include "backends/bindings/asio/fabric_pump.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <cstdint>
#include <deque>

#include "core/fabric/plain_fabric.hpp"

namespace rtrs::asio::fabric_pump_test {
namespace {

class QuietFabric final : public PlainFabric {
 public:
  QuietFabric() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~QuietFabric() override { ::close(fd_); }
  const Capabilities& capabilities() const noexcept override { return can_; }
  Result<Region> allocate(std::size_t) override { return tl::unexpected(Errc::no_memory); }
  Result<Region> register_memory(std::span<std::byte>) override { return tl::unexpected(Errc::no_memory); }
  void release(RegionId) override {}
  Result<RemoteKey> make_key(RegionId, std::size_t, std::size_t) override { return RemoteKey{}; }
  void release_key(RemoteKeyId) override {}
  void invalidate(ConKey, RemoteKeyId, std::uint64_t) override {}
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override { return 1U; }
  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {}
  void accept(std::uint32_t, ConKey, const ConnectionParams&, std::span<const std::byte>) override {}
  void reject(std::uint32_t, std::span<const std::byte>) override {}
  void disconnect(ConKey) override {}
  std::string describe(ConKey) const override { return {}; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override { return work.size(); }
  std::size_t poll(Nanos, std::span<FabricEvent>) noexcept override { return 0; }
  int wait_fd() const noexcept override { return has_descriptor ? fd_ : -1; }
  bool try_wait() noexcept override {
    ++waits;
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(fd_, &count, sizeof count);
    return true;
  }
  void news() const {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(fd_, &one, sizeof one), 8);
  }

  bool has_descriptor = true;
  int waits = 0;  // number of times that try_wait() allowed sleeping

 private:
  Capabilities can_;
  int fd_;
};

class FabricPumpTest : public ::testing::Test {
 protected:
  void start(WaitMode mode = WaitMode::events, Nanos patience = 0) {
    FabricPump::Hooks hooks{[this](Nanos now) { return step(now); },
                            [this] {
                              ++deadlines_asked;
                              return deadline;
                            },
                            [this] { return idle; }};
    pump = std::make_unique<FabricPump>(context, fabric, mode, std::move(hooks), patience);
    pump->start();
  }
  bool step(Nanos now) {
    ++steps;
    if (deadline <= now) {
      ++due;
      if (due == serves_at) deadline = kNever;
    }
    if (steps == stops_at) pump->stop();
    if (again.empty()) return false;
    const bool more = again.front();
    again.pop_front();
    return more;
  }
  template <class So>
  void until(So so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!so() && std::chrono::steady_clock::now() < end)
      context.run_one_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(so());
  }
  void until_asleep(int times) {
    until([&] { return fabric.waits == times; });
    context.poll();
  }

  QuietFabric fabric;
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
  std::unique_ptr<FabricPump> pump;
  std::deque<bool> again;  // return values of the next steps; false once empty
  Nanos deadline = kNever;
  int serves_at = 1;  // the deadline is cleared by this step of those for which it is due
  int steps = 0;
  int stops_at = 0;
  int due = 0;
  int deadlines_asked = 0;
  bool idle = false;
};

TEST_F(FabricPumpTest, StepThatReturnsTrueIsRepeatedBeforeSleep) {
  again.assign(50, true);
  start();
  until_asleep(1);
  EXPECT_EQ(steps, 51);
}

TEST_F(FabricPumpTest, FabricEventTriggersAStep) {
  start();
  for (int time = 1; time <= 3; ++time) {
    until_asleep(time);
    EXPECT_EQ(steps, time);
    fabric.news();
  }
  until_asleep(4);
}

TEST_F(FabricPumpTest, DueDeadlineTriggersStepsUntilItIsCleared) {
  deadline = steady_now() + milliseconds(1);
  serves_at = 3;
  start();
  until([&] { return due == 3; });
}

TEST_F(FabricPumpTest, EarlierDeadlineIsNoticed) {
  deadline = steady_now() + seconds(10'000);
  start();
  until_asleep(1);
  pump->step_if_due();
  context.poll();
  EXPECT_EQ(steps, 1) << "the deadline did not change";
  deadline = steady_now();
  pump->step_if_due();
  until([&] { return due == 1; });
}

TEST_F(FabricPumpTest, StepSoonTriggersOneStep) {
  start();
  until_asleep(1);
  pump->step_soon();
  pump->step_soon();
  until_asleep(2);
  EXPECT_EQ(steps, 2);
}

TEST_F(FabricPumpTest, EventDuringPollingIsHandledBeforeSleep) {
  // The first step and the first poll after it find nothing; the second poll finds something and requests one
  // more step.
  again = {false, false, true};
  stops_at = 4;
  start(WaitMode::events, seconds(10'000));
  until([&] { return steps == 4 || fabric.waits != 0; });
  EXPECT_EQ(fabric.waits, 0);
}

TEST_F(FabricPumpTest, SleepsWhenThePollingTimeIsOver) {
  start(WaitMode::events, microseconds(10));
  until_asleep(1);
  fabric.news();
  until_asleep(2);
}

TEST_F(FabricPumpTest, StopDuringPollingEndsThePolling) {
  stops_at = 2;
  start(WaitMode::events, seconds(10'000));
  until([&] { return steps == 2; });
  context.poll();
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(deadlines_asked, 0);
  EXPECT_EQ(fabric.waits, 0);
}

TEST_F(FabricPumpTest, WithoutDescriptorAnIdlePumpStepsWithPauses) {
  fabric.has_descriptor = false;
  idle = true;
  start();
  until([&] { return steps == 5; });
  EXPECT_EQ(deadlines_asked, 5) << "each step is followed by a pause";
  EXPECT_EQ(fabric.waits, 0);
}

TEST_F(FabricPumpTest, BusyPollSleepsOnlyWhileIdle) {
  start(WaitMode::busy_poll);
  until([&] { return steps > 100; });
  EXPECT_EQ(fabric.waits, 0);
  idle = true;
  until_asleep(1);
  idle = false;
  fabric.news();
  const int before = steps;
  until([&] { return steps > before + 100; });
}

}  // namespace
}  // namespace rtrs::asio::fabric_pump_test
