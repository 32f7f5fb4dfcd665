// Fixture for tests of Boost.Asio's rules for asynchronous operations. There is no network: the test decides
// when the client and the server take a step.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "backends/bindings/asio/remote_device.hpp"
#include "conformance/asio/loop_server.hpp"

namespace rtrs::conformance {

namespace net = boost::asio;
using Error = boost::system::error_code;

inline const Error kAborted = net::error::operation_aborted;

inline asio::RemoteDeviceOptions device_options() {
  asio::RemoteDeviceOptions options;
  options.session_name = "contract_test";
  options.paths = {PathAddress{"", "loop", 1}};
  options.device = "disk";
  return options;
}

class Contract : public ::testing::Test {
 protected:
  Contract() { disks["disk"].bytes.resize(1 << 20); }

  void make_device() {
    device = std::make_unique<asio::RemoteDevice>(context, server.take_client_fabric(), device_options());
  }
  void make_mapped_device() {
    make_device();
    std::optional<Error> mapped;
    device->async_map([&mapped](Error error) { mapped = error; });
    serve_until([&mapped] { return mapped.has_value(); });
    ASSERT_FALSE(*mapped) << mapped->message();
  }
  // Runs only the client, until the client can do nothing more without the server.
  void turn(unsigned times = 100) {
    for (unsigned i = 0; i < times; ++i) {
      context.restart();
      context.poll_one();
    }
  }
  template <class Done>
  void serve_until(Done done) {
    for (unsigned i = 0; i < kTurns && !done(); ++i) {
      server.step();
      turn(1);
    }
    EXPECT_TRUE(done());
  }
  template <class T>
  void serve_until_ready(std::future<T>& future) {
    serve_until([&future] { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  }
  void spawn(net::awaitable<void> task) {
    bool done = false;
    net::co_spawn(context, std::move(task), [&done](const std::exception_ptr& thrown) {
      done = true;
      EXPECT_FALSE(thrown);
    });
    serve_until([&done] { return done; });
  }

  static constexpr unsigned kTurns = 1'000'000;
  net::io_context context;
  sim::MemoryDisks disks;
  LoopServer server{disks};
  std::unique_ptr<asio::RemoteDevice> device;
  std::array<std::byte, 4096> data{};
};

}  // namespace rtrs::conformance
