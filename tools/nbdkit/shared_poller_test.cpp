#include "tools/nbdkit/shared_poller.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "backends/bindings/asio/fabric_pump.hpp"

namespace rtrs::nbdkit::shared_poller_test {
namespace {

// A source whose answers come from a server thread; step() completes the operations. The poller's
// lock guards all members except `requests_` and `arrived_`. ThreadSanitizer checks this rule.
class Echo : public SharedPoller::Source {
 public:
  struct Operation : SharedPoller::Waiter {
    int answer = 0;
  };

  explicit Echo(bool has_descriptor)
      : descriptor_(has_descriptor ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1) {}
  ~Echo() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  // Requires the lock of the poller.
  void submit(Operation& operation) {
    operation.answer = ++submitted_;
    const std::lock_guard guard(mutex_);
    requests_.push_back(&operation);
  }
  // Called in the server thread. Answers at most `most` operations. Returns how many were answered.
  std::size_t answer(std::size_t most) {
    const std::lock_guard guard(mutex_);
    std::size_t count = 0;
    for (; count < most && !requests_.empty(); ++count) {
      arrived_.push_back(requests_.front());
      requests_.pop_front();
    }
    const std::uint64_t one = 1;
    if (count == 0 || descriptor_ < 0) return count;
    EXPECT_EQ(::write(descriptor_, &one, sizeof one), 8);
    return count;
  }

  int wait_fd() const noexcept override { return descriptor_; }
  bool try_wait() override {
    ++waits_;
    const std::lock_guard guard(mutex_);
    if (!arrived_.empty()) return false;
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(descriptor_, &count, sizeof count);
    return true;
  }
  void step(Nanos now) override {
    if (deadline_ <= now) {
      deadline_ = kNever;
      ++expired_;
      if (answers_at_deadline_) answer(SIZE_MAX);
      sigset_t blocked;
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      blocks_signals_ = sigismember(&blocked, SIGTERM) == 1;
      poller->announce();
    }
    std::deque<Operation*> arrived;
    {
      const std::lock_guard guard(mutex_);
      arrived.swap(arrived_);
    }
    for (Operation* one : arrived) poller->finish(*one);
  }
  Nanos next_deadline() override { return deadline_; }

  SharedPoller* poller = nullptr;
  int submitted_ = 0;
  int expired_ = 0;
  int waits_ = 0;  // number of calls of try_wait()
  bool answers_at_deadline_ = false;
  bool blocks_signals_ = false;  // the thread that called step() at the deadline blocks SIGTERM
  Nanos deadline_ = kNever;

 private:
  const int descriptor_;
  std::mutex mutex_;
  std::deque<Operation*> requests_;
  std::deque<Operation*> arrived_;
};

class Running {
 public:
  explicit Running(bool has_descriptor = true) : echo(has_descriptor), poller_(echo) { attach(); }
  ~Running() {
    stop_ = true;
    if (server_.joinable()) server_.join();
  }
  void serve() {
    server_ = std::thread([this] {
      for (unsigned round = 0; !stop_; ++round)
        if (echo.answer(1 + round % 7) == 0) std::this_thread::yield();
    });
  }
  int call() {
    Echo::Operation operation;
    SharedPoller::Lock lock(poller_);
    echo.submit(operation);
    poller_.wait(lock, operation);
    return operation.answer;
  }
  SharedPoller& poller() { return poller_; }
  Echo echo;

 private:
  void attach() {
    const SharedPoller::Lock lock(poller_);
    echo.poller = &poller_;
  }
  SharedPoller poller_;
  std::atomic<bool> stop_ = false;
  std::thread server_;
};

void many_threads_call(bool has_descriptor) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 2000;
  Running running(has_descriptor);
  running.serve();
  std::vector<std::vector<int>> answers(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < kCalls; ++n) answers[static_cast<std::size_t>(i)].push_back(running.call());
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> all;
  for (const auto& some : answers) all.insert(all.end(), some.begin(), some.end());
  std::ranges::sort(all);
  for (int i = 0; i < kThreads * kCalls; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i + 1);
}

TEST(SharedPoller, EveryOperationOfManyThreadsCompletes) {
  many_threads_call(true);
}

TEST(SharedPoller, EveryOperationCompletesWithoutADescriptor) {
  many_threads_call(false);
}

TEST(SharedPoller, KeeperServesDeadlinesWhileNoThreadWaits) {
  Running running;
  SharedPoller::Lock lock(running.poller());
  running.echo.deadline_ = asio::steady_now() + milliseconds(1);
  while (running.echo.expired_ == 0) running.poller().wait_for_news(lock, kNever);
}

// The waiting thread sleeps without a deadline. The operation can complete only if nudge() wakes the thread
// for the new deadline.
TEST(SharedPoller, EarlierDeadlineWakesThePoller) {
  Running running;
  std::thread waiting([&] { running.call(); });
  {
    SharedPoller::Lock lock(running.poller());
    while (running.echo.submitted_ == 0)
      running.poller().wait_for_news(lock, asio::steady_now() + milliseconds(1));
    running.echo.deadline_ = asio::steady_now();
    running.poller().nudge();
    while (running.echo.expired_ == 0) running.poller().wait_for_news(lock, kNever);
  }
  running.serve();
  waiting.join();
}

// A poller that sleeps. Each test wakes it in a different way.
class SleepingPoller : public testing::Test {
 protected:
  SleepingPoller() {
    {
      const SharedPoller::Lock lock(running.poller());
      running.echo.answers_at_deadline_ = true;
    }
    // The poller holds the lock from submit() until it sleeps, so it sleeps when the lock is available again.
    while (submitted() == 0) std::this_thread::yield();
  }
  ~SleepingPoller() override { waiting.join(); }
  int submitted() {
    const SharedPoller::Lock lock(running.poller());
    return running.echo.submitted_;
  }
  bool expired() {
    const SharedPoller::Lock lock(running.poller());
    return running.echo.expired_ != 0;
  }
  Running running;
  std::thread waiting{[this] { EXPECT_EQ(running.call(), 1); }};
};

TEST_F(SleepingPoller, IsWokenByANudge) {
  {
    const SharedPoller::Lock lock(running.poller());
    running.echo.deadline_ = asio::steady_now();
    running.poller().nudge();
  }
  while (!expired()) std::this_thread::yield();
}

TEST_F(SleepingPoller, IsWokenByAnOperationWithADeadline) {
  Echo::Operation operation;
  SharedPoller::Lock lock(running.poller());
  running.echo.submit(operation);
  running.echo.deadline_ = asio::steady_now();
  running.poller().wait(lock, operation);
  EXPECT_EQ(operation.answer, 2);
}

TEST_F(SleepingPoller, IsWokenByAWaitForNews) {
  SharedPoller::Lock lock(running.poller());
  running.echo.deadline_ = asio::steady_now();
  while (running.echo.expired_ == 0) running.poller().wait_for_news(lock, kNever);
}

// Sets the deadline to the current time and waits until the polling thread has called step() for it.
void expire(Running& running) {
  SharedPoller::Lock lock(running.poller());
  running.echo.expired_ = 0;
  running.echo.deadline_ = asio::steady_now();
  while (running.echo.expired_ == 0) running.poller().wait_for_news(lock, kNever);
}

// Waits as long as `pauses` pauses of the keeper take.
void wait_keeper_pauses(Running& running, int pauses) {
  SharedPoller::Lock lock(running.poller());
  const Nanos until = asio::steady_now() + static_cast<Nanos>(pauses) * SharedPoller::kPause;
  while (asio::steady_now() < until) running.poller().wait_for_news(lock, until);
}

void until_submitted(Running& running, int count) {
  const Nanos end = asio::steady_now() + seconds(60);
  for (bool all = false; !all; std::this_thread::yield()) {
    const SharedPoller::Lock lock(running.poller());
    all = running.echo.submitted_ == count;
    ASSERT_TRUE(all || asio::steady_now() < end);
  }
}

TEST(SharedPoller, WokenPollerSleepsAgain) {
  Running running;
  const auto waits = [&running] {
    const SharedPoller::Lock lock(running.poller());
    return running.echo.waits_;
  };
  const Nanos end = asio::steady_now() + seconds(60);
  while (waits() == 0 && asio::steady_now() < end) std::this_thread::yield();
  ASSERT_NE(waits(), 0);
  expire(running);
  wait_keeper_pauses(running, 1);
  const int before = waits();
  wait_keeper_pauses(running, 4);
  // One more call is allowed, because a thread may have been delayed before it.
  EXPECT_LE(waits(), before + 1) << "the poller loops without sleeping";
}

// No thread has polled for a long time, so the keeper has the turn. After the first answer the keeper must
// pass the turn to the waiting thread.
TEST(SharedPoller, KeeperWakesTheThreadThatGetsItsTurn) {
  Running running;
  expire(running);
  std::thread one([&] { running.call(); });
  std::thread two([&] { running.call(); });
  until_submitted(running, 2);
  EXPECT_EQ(running.echo.answer(1), 1U);
  while (running.echo.answer(1) == 0) std::this_thread::yield();
  one.join();
  two.join();
}

// A thread polls for several pauses of the keeper. After that, the keeper must poll again and call step() at
// a deadline.
TEST(SharedPoller, KeeperPollsAgainAfterALongTurn) {
  Running running;
  std::thread waiting([&] { running.call(); });
  until_submitted(running, 1);
  wait_keeper_pauses(running, 4);
  EXPECT_EQ(running.echo.answer(1), 1U);
  waiting.join();
  expire(running);
}

TEST(SharedPoller, WaitForNewsTimesOut) {
  Running running;
  SharedPoller::Lock lock(running.poller());
  const Nanos until = asio::steady_now() + milliseconds(2);
  while (asio::steady_now() < until) running.poller().wait_for_news(lock, until);
}

TEST(SharedPoller, KeeperReceivesNoSignals) {
  Running running;
  SharedPoller::Lock lock(running.poller());
  running.echo.deadline_ = asio::steady_now();
  while (running.echo.expired_ == 0) running.poller().wait_for_news(lock, kNever);
  EXPECT_TRUE(running.echo.blocks_signals_);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

}  // namespace
}  // namespace rtrs::nbdkit::shared_poller_test
