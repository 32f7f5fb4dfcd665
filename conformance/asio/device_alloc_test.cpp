// Checks that a request allocates no memory once the number of requests in flight has reached its maximum:
// neither in RemoteDevice, nor in its event loop, nor in the block server in the same thread.
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "conformance/asio/loop_server.hpp"
#include "conformance/bench/count_allocations.hpp"

namespace rtrs::conformance {
namespace {

using wire::rnbd::Opcode;

constexpr std::uint64_t kSmall = 4096;
constexpr std::uint64_t kLarge = 1 << 19;
constexpr unsigned kDepth = 16;

constexpr std::array kKinds{
    BlockRequest{Opcode::read, 0, kSmall, nullptr, false},
    BlockRequest{Opcode::write, 0, kSmall, nullptr, false},
    BlockRequest{Opcode::read, 0, kLarge, nullptr, false},
    BlockRequest{Opcode::write, 0, kLarge, nullptr, false},
    BlockRequest{Opcode::write, 0, kLarge, nullptr, true},
    BlockRequest{Opcode::flush, 0, 0, nullptr, false},
    BlockRequest{Opcode::discard, 0, kSmall, nullptr, false},
    BlockRequest{Opcode::write_zeroes, 0, kLarge, nullptr, false},
};

class DeviceAllocations : public testing::TestWithParam<asio::WaitMode> {
 protected:
  void SetUp() override {
    disks_["disk"].bytes.resize(kLarge);
    asio::RemoteDeviceOptions options;
    options.session_name = "alloc";
    options.paths = {PathAddress{"", "loop", 1}};
    options.device = "disk";
    options.wait = GetParam();
    device_ = std::make_unique<asio::RemoteDevice>(context_, server_.take_client_fabric(), options);
    bool mapped = false;
    device_->async_map([&](const boost::system::error_code& error) { mapped = !error; });
    for (unsigned i = 0; i < 100'000 && !mapped; ++i) turn();
    ASSERT_TRUE(mapped);
    ASSERT_LT(device_->session().max_io_size(), kLarge);
  }
  // Runs `requests` requests, kDepth at a time; the handler of each submits the next.
  bool run(unsigned requests) {
    left_ = requests;
    for (unsigned i = 0; i < kDepth; ++i) next();
    while (in_flight_ != 0) turn();
    return !failed_;
  }

 private:
  void turn() {
    server_.step();
    context_.restart();
    context_.run_one();
  }
  void next() {
    if (left_ == 0) return;
    BlockRequest io = kKinds[--left_ % kKinds.size()];
    io.data = data_.data();
    ++in_flight_;
    device_->async_io(io, [this](const boost::system::error_code& error) {
      --in_flight_;
      failed_ = failed_ || error;
      next();
    });
  }

  boost::asio::io_context context_{1};
  sim::MemoryDisks disks_;
  LoopServer server_{disks_};
  std::unique_ptr<asio::RemoteDevice> device_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kLarge);
  unsigned left_ = 0;
  unsigned in_flight_ = 0;
  bool failed_ = false;
};

TEST_P(DeviceAllocations, NoneInTenThousandRequests) {
  ASSERT_TRUE(run(1000));
  const std::uint64_t before = bench::allocations();
  EXPECT_GT(before, 0U);
  const bool served = run(10'000);
  const std::uint64_t during = bench::allocations() - before;
  ASSERT_TRUE(served);
  EXPECT_EQ(during, 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, DeviceAllocations,
                         testing::Values(asio::WaitMode::busy_poll, asio::WaitMode::events));

}  // namespace
}  // namespace rtrs::conformance
