// Runs the coroutines of a test on an event loop.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

namespace rtrs::conformance {

using Error = boost::system::error_code;

// `co_await thing.async_x(..., into(error))`
inline auto into(Error& error) {
  return boost::asio::redirect_error(boost::asio::use_awaitable, error);
}

// Runs the loop until `done` returns true, even if no operation is outstanding. Throws after one minute.
template <class Done>
void run_until(boost::asio::io_context& context, Done done) {
  const auto work = boost::asio::make_work_guard(context);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    context.restart();
    if (context.run_one_until(end) == 0 && std::chrono::steady_clock::now() >= end)
      throw std::runtime_error("what the test waits for did not come within a minute");
  }
}

// Runs the loop until the coroutine has returned. Throws what the coroutine threw.
inline void run(boost::asio::io_context& context, boost::asio::awaitable<void> task) {
  bool done = false;
  std::exception_ptr thrown;
  boost::asio::co_spawn(context, std::move(task), [&](const std::exception_ptr& exception) {
    done = true;
    thrown = exception;
  });
  run_until(context, [&done] { return done; });
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace rtrs::conformance
