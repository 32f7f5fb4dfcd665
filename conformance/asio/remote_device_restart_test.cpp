// Events and errors of a RemoteDevice when its server restarts, possibly with other settings.
#include <algorithm>
#include <cerrno>

#include "conformance/asio/remote_device_scene.hpp"

namespace rtrs::conformance::remote_device_restart_test {
namespace {

TEST_F(RemoteDeviceTest, ReportsANewSizeAfterARestart) {
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  ASSERT_FALSE(map());
  server.reset();
  run_until(context, [&] { return remote.state() == rnbd::DeviceState::closed; });
  disks["disk"].bytes.resize(2 * kDiskBytes);
  start_server();
  run_until(context, [&] { return remote.state() == rnbd::DeviceState::open; });
  run_until(context, [&] { return !news.empty() && news.back().state == rnbd::DeviceState::open; });
  EXPECT_EQ(remote.size_bytes(), 2 * kDiskBytes);
  EXPECT_EQ(news.back().geometry.nsectors, 2 * kDiskBytes / 512);
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, RefusalIsReportedOnceUntilTheDeviceReopens) {
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  ASSERT_FALSE(map());
  const auto refusals = [this] {
    return std::count_if(news.begin(), news.end(), [](const auto& one) { return one.error == EPERM; });
  };
  for (int times = 1; times <= 2; ++times) {
    server.reset();
    run_until(context, [&] { return remote.state() == rnbd::DeviceState::closed; });
    disks["disk"].writers = 1;  // another client has the device open for writing
    start_server();
    run_until(context, [&] { return refusals() == times; });
    disks["disk"].writers = 0;
    run_until(context, [&] { return remote.state() == rnbd::DeviceState::open; });
  }
  EXPECT_EQ(refusals(), 2);
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, LostCacheFailsTheNextFlushWithEio) {
  disks["disk"].instance = 1;
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  ASSERT_FALSE(map());
  const std::vector<std::byte> data(4096);
  EXPECT_FALSE(wait([&](auto done) { remote.async_write(0, data, false, done); }));
  server.reset();
  run_until(context, [&] { return remote.state() == rnbd::DeviceState::closed; });
  disks["disk"].instance = 2;
  start_server();
  const auto flush = [&](auto done) { remote.async_flush(done); };
  EXPECT_EQ(wait(flush), boost::system::errc::io_error);
  EXPECT_FALSE(wait(flush));
  const auto replaced =
      std::find_if(news.begin(), news.end(), [](const auto& one) { return one.cache_replaced; });
  ASSERT_NE(replaced, news.end());
  EXPECT_EQ(replaced->unflushed, 1U);
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, ResizeTakesEffectAtOnceUntilTheNextOpen) {
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  EXPECT_FALSE(remote.resize(16));
  ASSERT_FALSE(map());
  EXPECT_FALSE(remote.resize(std::uint64_t{1} << 60));
  EXPECT_EQ(remote.size_bytes(), kDiskBytes);
  news.clear();
  EXPECT_TRUE(remote.resize(16));
  EXPECT_EQ(remote.size_bytes(), 8192U);
  EXPECT_TRUE(news.empty());  // an event is never reported inside the call
  run_until(context, [&] { return !news.empty(); });
  EXPECT_EQ(news.back().state, rnbd::DeviceState::open);
  EXPECT_EQ(news.back().geometry.nsectors, 16U);
  std::vector<std::byte> data(4096);
  EXPECT_FALSE(wait([&](auto done) { remote.async_read(4096, data, done); }));
  EXPECT_EQ(wait([&](auto done) { remote.async_read(8192, data, done); }), asio::of_errno(EIO));
  server.reset();
  run_until(context, [&] { return remote.state() == rnbd::DeviceState::closed; });
  start_server();
  run_until(context, [&] { return remote.size_bytes() == kDiskBytes; });
  EXPECT_FALSE(close());
  EXPECT_FALSE(remote.resize(16));
}

}  // namespace
}  // namespace rtrs::conformance::remote_device_restart_test
