#include "tools/nbdkit/loop_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace rtrs::nbdkit::loop_thread_test {
namespace {

using Error = LoopThread::Error;

TEST(LoopThread, ManyThreadsCallTheLoop) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 2000;
  LoopThread loop;
  // Only the loop thread uses this; ThreadSanitizer would report any other access.
  long counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kCalls; ++n) {
        long seen = 0;
        const Error error = loop.call([&](auto done) {
          seen = ++counter;
          // Half of the calls complete immediately, the other half later in the loop.
          if (n % 2 == 0) return done(Error{EIO, boost::system::generic_category()});
          boost::asio::post(loop.context(), [done] { done(Error{}); });
        });
        EXPECT_EQ(error.value(), n % 2 == 0 ? EIO : 0);
        EXPECT_GT(seen, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop.run([&] { EXPECT_EQ(counter, kThreads * kCalls); });
}

TEST(LoopThread, CallersWaitIndependently) {
  LoopThread loop;
  std::function<void(Error)> first;
  std::thread waiting([&] { loop.call([&](auto done) { first = done; }); });
  // While the first call waits, a second call completes, and also completes the first call.
  for (bool released = false; !released;) {
    loop.run([&] {
      if (!first) return;
      first(Error{});
      released = true;
    });
  }
  waiting.join();
}

TEST(LoopThread, DestructorWaitsForPostedFunctions) {
  auto done = std::make_shared<int>(0);
  {
    LoopThread loop;
    boost::asio::post(loop.context(),
                      [&loop, done] { boost::asio::post(loop.context(), [done] { ++*done; }); });
  }
  EXPECT_EQ(*done, 1);
}

TEST(LoopThread, ReceivesNoSignals) {
  LoopThread loop;
  loop.run([] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
    EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  });
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

}  // namespace
}  // namespace rtrs::nbdkit::loop_thread_test
