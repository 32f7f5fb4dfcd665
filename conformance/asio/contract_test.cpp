// Checks that RemoteDevice follows Boost.Asio's rules for asynchronous operations: completion tokens,
// executors, work guards, allocators, cancellation, destruction.
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "conformance/asio/contract.hpp"

namespace rtrs::conformance::contract_test {
namespace {

using net::cancellation_type;

struct AllocationCounts {
  int allocated = 0;
  int freed = 0;
};
template <class T>
struct CountingAllocator {
  using value_type = T;
  explicit CountingAllocator(AllocationCounts& all) : counts(&all) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : counts(other.counts) {}
  T* allocate(std::size_t count) {
    ++counts->allocated;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) {
    ++counts->freed;
    std::allocator<T>().deallocate(memory, count);
  }
  template <class U>
  bool operator==(const CountingAllocator<U>& other) const {
    return counts == other.counts;
  }
  AllocationCounts* counts;
};

// --- completion tokens ---

TEST_F(Contract, UseFutureAndAsTuple) {
  make_mapped_device();
  auto future = device->async_write(0, data, false, net::use_future);
  serve_until_ready(future);
  EXPECT_NO_THROW(future.get());
  auto refused = device->async_read(1, data, net::use_future);
  serve_until_ready(refused);
  EXPECT_THROW(refused.get(), boost::system::system_error);
  spawn([](asio::RemoteDevice& remote, std::span<std::byte> block) -> net::awaitable<void> {
    const auto [read] = co_await remote.async_read(0, block, net::as_tuple(net::use_awaitable));
    EXPECT_FALSE(read);
    const auto [beyond] = co_await remote.async_read(1 << 20, block, net::as_tuple(net::use_awaitable));
    EXPECT_EQ(beyond, boost::system::errc::io_error);
  }(*device, data));
}

TEST_F(Contract, DeferredOperationStartsWhenCalled) {
  make_mapped_device();
  disks["disk"].bytes[0] = std::byte{42};
  auto read = device->async_read(0, data, net::deferred);
  for (unsigned i = 0; i < 100; ++i) {
    server.step();
    turn(1);
  }
  EXPECT_EQ(data[0], std::byte{0});
  std::optional<Error> result;
  std::move(read)([&result](Error error) { result = error; });
  serve_until([&result] { return result.has_value(); });
  EXPECT_FALSE(*result);
  EXPECT_EQ(data[0], std::byte{42});
}

TEST_F(Contract, SecondMapIsRefusedWhileOneIsOutstanding) {
  make_device();
  std::optional<Error> second;
  device->async_map([](Error) {});
  device->async_map([&second](Error error) { second = error; });
  EXPECT_FALSE(second);
  turn();
  EXPECT_EQ(second, asio::to_error_code(Errc::invalid));
}

TEST_F(Contract, DeviceIsMappedOnceAndMayBeClosedTwice) {
  make_mapped_device();
  const auto result_of = [this](auto start) {
    std::optional<Error> result;
    start([&result](Error error) { result = error; });
    serve_until([&result] { return result.has_value(); });
    return *result;
  };
  const auto map = [this](auto done) { device->async_map(done); };
  const auto close = [this](auto done) { device->async_close(done); };
  EXPECT_EQ(result_of(map), asio::to_error_code(Errc::invalid));
  EXPECT_FALSE(result_of(close));
  EXPECT_FALSE(result_of(close));
  EXPECT_EQ(result_of(map), asio::to_error_code(Errc::session_closed));
}

// --- handlers and their memory ---

TEST_F(Contract, LargeHandlerUsesItsAllocatorAndIsFreedBeforeItRuns) {
  make_mapped_device();
  AllocationCounts counts;
  std::array<char, 1024> ballast{};
  ballast.back() = 'x';
  bool done = false;
  device->async_read(0, data, net::bind_allocator(CountingAllocator<void>(counts), [&, ballast](Error error) {
                       EXPECT_FALSE(error);
                       EXPECT_EQ(ballast.back(), 'x');
                       EXPECT_EQ(counts.freed, 1);
                       done = true;
                     }));
  EXPECT_EQ(counts.allocated, 1);
  serve_until([&done] { return done; });
  EXPECT_EQ(counts.allocated, 1);
  EXPECT_EQ(counts.freed, 1);
}

TEST_F(Contract, SmallHandlerNeedsNoAllocation) {
  make_mapped_device();
  AllocationCounts counts;
  bool done = false;
  device->async_read(0, data,
                     net::bind_allocator(CountingAllocator<void>(counts), [&done](Error) { done = true; }));
  serve_until([&done] { return done; });
  EXPECT_EQ(counts.allocated, 0);
}

TEST_F(Contract, UncalledLargeHandlerIsFreed) {
  AllocationCounts counts;
  std::array<char, 1024> ballast{};
  bool called = false;
  {
    net::io_context other;
    LoopServer silent{disks};
    asio::RemoteDevice dropped(other, silent.take_client_fabric(), device_options());
    dropped.async_map(net::bind_allocator(CountingAllocator<void>(counts), [&, ballast](Error) {
      called = true;
      (void)ballast;
    }));
  }
  EXPECT_FALSE(called);
  EXPECT_EQ(counts.allocated, counts.freed);
}

TEST_F(Contract, HandlerMayBeMoveOnly) {
  make_mapped_device();
  int result = 0;
  device->async_read(0, data, [owned = std::make_unique<int>(7), &result](Error) { result = *owned; });
  serve_until([&result] { return result != 0; });
  EXPECT_EQ(result, 7);
}

// --- executors and work ---

TEST_F(Contract, ExecutorIsThatOfTheContext) {
  make_device();
  static_assert(std::is_same_v<asio::RemoteDevice::executor_type, net::io_context::executor_type>);
  EXPECT_TRUE(device->get_executor() == context.get_executor());
}

TEST_F(Contract, HandlerRunsOnItsStrand) {
  make_mapped_device();
  auto strand = net::make_strand(context);
  std::optional<bool> inside;
  device->async_read(0, data,
                     net::bind_executor(strand, [&](Error) { inside = strand.running_in_this_thread(); }));
  serve_until([&inside] { return inside.has_value(); });
  EXPECT_TRUE(*inside);
}

// The pool ends when it has no work, so the pending operation must count as work of the pool.
TEST_F(Contract, HandlerRunsOnItsThreadPoolAndCountsAsItsWork) {
  make_mapped_device();
  net::thread_pool pool(1);
  std::atomic<bool> done = false;
  std::thread::id ran_on;
  device->async_read(0, data, net::bind_executor(pool, [&](Error error) {
                       EXPECT_FALSE(error);
                       ran_on = std::this_thread::get_id();
                       done = true;
                     }));
  std::thread waits([&pool] { pool.join(); });
  turn();
  serve_until([&done] { return done.load(); });
  if (!done) pool.stop();
  waits.join();
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(Contract, RunReturnsWhenNoOperationIsOutstanding) {
  make_mapped_device();
  turn();
  context.restart();
  EXPECT_EQ(context.poll(), 0U);  // nothing is outstanding
  EXPECT_TRUE(context.stopped());
  device->async_read(0, data, [](Error) {});
  context.restart();
  EXPECT_NE(context.poll_one(), 0U);
  EXPECT_FALSE(context.stopped());
}

// --- cancellation ---

TEST_F(Contract, CancelledMapCanBeAwaitedAgain) {
  using namespace net::experimental::awaitable_operators;
  make_device();
  net::steady_timer timer(context, std::chrono::steady_clock::time_point::min());
  std::size_t first = 99;
  net::co_spawn(
      context,
      [](asio::RemoteDevice& remote, net::steady_timer& now, std::size_t& winner) -> net::awaitable<void> {
        const auto outcome =
            co_await (remote.async_map(net::use_awaitable) || now.async_wait(net::use_awaitable));
        winner = outcome.index();
      }(*device, timer, first),
      net::detached);
  for (unsigned i = 0; i < kTurns && first == 99; ++i) turn(1);
  EXPECT_EQ(first, 1U);
  spawn(device->async_map(net::use_awaitable));
  EXPECT_EQ(device->state(), rnbd::DeviceState::open);
}

TEST_F(Contract, SignalOfACompletedOperationCancelsNoOther) {
  make_device();
  net::cancellation_signal signal;
  std::optional<Error> first, second;
  device->async_map(net::bind_cancellation_slot(signal.slot(), [&first](Error error) { first = error; }));
  signal.emit(cancellation_type::terminal);
  turn();
  EXPECT_EQ(first, kAborted);
  device->async_map([&second](Error error) { second = error; });
  signal.emit(cancellation_type::terminal);
  turn();
  EXPECT_FALSE(second);
  serve_until([&second] { return second.has_value(); });
  EXPECT_FALSE(*second);
}

TEST_F(Contract, CancelledCloseContinues) {
  make_mapped_device();
  net::cancellation_signal signal;
  std::optional<Error> closed;
  device->async_close(net::bind_cancellation_slot(signal.slot(), [&closed](Error error) { closed = error; }));
  signal.emit(cancellation_type::total);
  turn();
  EXPECT_FALSE(closed);
  signal.emit(cancellation_type::terminal);
  EXPECT_FALSE(closed);  // a handler never runs inside the call
  turn();
  EXPECT_EQ(closed, kAborted);
  closed.reset();
  device->async_close([&closed](Error error) { closed = error; });
  serve_until([&closed] { return closed.has_value(); });
  EXPECT_FALSE(*closed);
}

TEST_F(Contract, SentRequestIsNotCancelled) {
  make_mapped_device();
  disks["disk"].bytes[0] = std::byte{42};
  net::cancellation_signal signal;
  std::optional<Error> result;
  device->async_read(0, data,
                     net::bind_cancellation_slot(signal.slot(), [&result](Error error) { result = error; }));
  turn();
  signal.emit(cancellation_type::all);
  turn();
  EXPECT_FALSE(result);
  serve_until([&result] { return result.has_value(); });
  EXPECT_FALSE(*result);
  EXPECT_EQ(data[0], std::byte{42});
  signal.emit(cancellation_type::all);  // the operation has completed and ignores the signal
}

// --- destruction ---

TEST_F(Contract, DestroyingTheDeviceAbortsOutstandingOperations) {
  make_mapped_device();
  std::optional<Error> read;
  std::optional<Error> closed;
  std::array<char, 1024> ballast{};
  device->async_read(0, data, [&read, ballast](Error error) {
    (void)ballast;
    read = error;
  });
  device->async_close([&closed](Error error) { closed = error; });
  turn();
  device.reset();
  EXPECT_FALSE(read);  // a handler never runs inside the call
  EXPECT_FALSE(closed);
  turn();
  EXPECT_EQ(read, kAborted);
  EXPECT_EQ(closed, kAborted);
}

TEST_F(Contract, DestroyingTheDeviceAbortsAMap) {
  make_device();
  auto mapped = device->async_map(net::use_future);
  turn();
  device.reset();
  turn();
  ASSERT_EQ(mapped.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  try {
    mapped.get();
    ADD_FAILURE();
  } catch (const boost::system::system_error& error) {
    EXPECT_EQ(error.code(), kAborted);
  }
}

// Ownership cycle: the coroutine owns the device, and the device owns the handler that owns the coroutine.
TEST_F(Contract, DestroyingTheContextDestroysACoroutineThatOwnsTheDevice) {
  const auto alive = std::make_shared<int>(1);
  std::optional<Error> mapped;
  {
    net::io_context other;
    LoopServer silent{disks};
    net::co_spawn(
        other,
        [](net::io_context& loop, std::unique_ptr<Fabric> fabric, std::shared_ptr<int>,
           std::optional<Error>& result) -> net::awaitable<void> {
          asio::RemoteDevice owned(loop, std::move(fabric), device_options());
          const auto [error] = co_await owned.async_map(net::as_tuple(net::use_awaitable));
          result = error;
        }(other, silent.take_client_fabric(), alive, mapped),
        net::detached);
    for (unsigned i = 0; i < 100; ++i) other.poll_one();
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_FALSE(mapped);
}

}  // namespace
}  // namespace rtrs::conformance::contract_test
