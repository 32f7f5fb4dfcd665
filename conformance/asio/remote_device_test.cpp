// RemoteDevice with the real server, on TCP over loopback in one process.
#include "backends/bindings/asio/remote_device.hpp"

#include <array>
#include <cstdio>
#include <optional>

#include "conformance/asio/remote_device_scene.hpp"

namespace rtrs::conformance::remote_device_test {
namespace {

using boost::asio::awaitable;
using boost::asio::use_awaitable;

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return data;
}

TEST_F(RemoteDeviceTest, ReadsBackWritesLargerThanOneMessage) {
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  const auto written = pattern(3 << 20, 1);
  std::vector<std::byte> read(written.size());
  run(context, [&]() -> awaitable<void> {
    co_await remote.async_map(use_awaitable);
    EXPECT_EQ(remote.size_bytes(), kDiskBytes);
    EXPECT_LT(remote.session().max_io_size(), written.size());
    co_await remote.async_write(4096, written, false, use_awaitable);
    co_await remote.async_flush(use_awaitable);
    co_await remote.async_read(4096, read, use_awaitable);
    co_await remote.async_close(use_awaitable);
  }());
  EXPECT_EQ(read, written);
  EXPECT_EQ(disks["disk"].flushes, 1U);
  EXPECT_TRUE(std::equal(written.begin(), written.end(), disks["disk"].bytes.begin() + 4096));
  EXPECT_EQ(news.back().state, rnbd::DeviceState::unmapped);
}

TEST_F(RemoteDeviceTest, DiscardsAndWritesZeroesBeyondOneMessage) {
  disks["disk"].bytes = pattern(kDiskBytes, 2);
  disks["disk"].max_discard_sectors = 64;
  disks["disk"].max_write_zeroes_sectors = 128;
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  run(context, [&]() -> awaitable<void> {
    co_await remote.async_map(use_awaitable);
    co_await remote.async_write_zeroes(0, 1 << 20, false, use_awaitable);
    co_await remote.async_discard(2 << 20, 1 << 20, false, use_awaitable);
    co_await remote.async_close(use_awaitable);
  }());
  const auto& bytes = disks["disk"].bytes;
  const auto zeroes = [&bytes](std::size_t from) {
    return std::all_of(bytes.begin() + static_cast<long>(from),
                       bytes.begin() + static_cast<long>(from + (1 << 20)),
                       [](std::byte byte) { return byte == std::byte{0}; });
  };
  EXPECT_TRUE(zeroes(0));
  EXPECT_TRUE(zeroes(2 << 20));
  EXPECT_FALSE(zeroes(1 << 20));
  EXPECT_FALSE(zeroes(3 << 20));
}

TEST_F(RemoteDeviceTest, ForceUnitAccessUsesAFlagAFlushOrNothing) {
  start_server();
  const auto data = pattern(4096, 3);
  const auto write_once = [&] {
    asio::RemoteDevice& remote = make(options_for("disk"));
    run(context, [&]() -> awaitable<void> {
      co_await remote.async_map(use_awaitable);
      co_await remote.async_write(0, data, true, use_awaitable);
      co_await remote.async_write_zeroes(8192, 4096, true, use_awaitable);
      co_await remote.async_close(use_awaitable);
    }());
  };
  sim::MemoryDisk& disk = disks["disk"];
  write_once();
  EXPECT_EQ(disk.fua_writes, 1U);
  EXPECT_EQ(disk.flushes, 1U);  // write zeroes has no FUA flag and needs a flush
  disk.fua = false;
  write_once();
  EXPECT_EQ(disk.fua_writes, 1U);
  EXPECT_EQ(disk.flushes, 3U);
  disk.write_cache = false;
  write_once();
  EXPECT_EQ(disk.flushes, 3U);
}

TEST_F(RemoteDeviceTest, RefusesInvalidRequests) {
  disks["disk"].logical_block_size = 4096;
  disks["disk"].max_discard_sectors = 0;
  start_server();
  auto options = options_for("disk");
  options.access_mode = wire::rnbd::AccessMode::read_only;
  asio::RemoteDevice& remote = make(std::move(options));
  std::vector<std::byte> data(8192);
  const auto code = [&](auto start) { return asio::to_errno(wait(start)); };
  EXPECT_EQ(code([&](auto done) { remote.async_read(0, data, done); }), ENOTCONN);
  ASSERT_FALSE(map());
  EXPECT_EQ(code([&](auto done) { remote.async_read(512, data, done); }), EINVAL);
  EXPECT_EQ(code([&](auto done) { remote.async_read(kDiskBytes - 4096, data, done); }), EIO);
  EXPECT_EQ(code([&](auto done) { remote.async_write(0, data, false, done); }), EPERM);
  EXPECT_EQ(code([&](auto done) { remote.async_discard(0, 4096, false, done); }), EPERM);
  EXPECT_EQ(code([&](auto done) { remote.async_read(0, {}, done); }), 0);
  disks["disk"].next_error = ENOSPC;
  const Error of_server = wait([&](auto done) { remote.async_read(0, data, done); });
  EXPECT_EQ(of_server, boost::system::errc::no_space_on_device);
  EXPECT_EQ(code([&](auto done) { remote.async_read(0, data, done); }), 0);
  close();
  EXPECT_EQ(code([&](auto done) { remote.async_read(0, data, done); }), ESHUTDOWN);
  asio::RemoteDevice& writer = make(options_for("disk"));
  ASSERT_FALSE(map());
  EXPECT_EQ(code([&](auto done) { writer.async_discard(0, 4096, false, done); }), EOPNOTSUPP);
  close();
}

TEST_F(RemoteDeviceTest, MapOfAnUnknownDeviceReturnsTheServersErrno) {
  start_server();
  make(options_for("no_such_disk"));
  EXPECT_EQ(map(), boost::system::errc::no_such_file_or_directory);
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, CloseEndsAnUnansweredMap) {
  start_server();
  server.reset();
  make(options_for("disk"));
  std::optional<Error> mapped;
  device->async_map([&](Error error) { mapped = error; });
  EXPECT_FALSE(close());
  ASSERT_TRUE(mapped.has_value());
  EXPECT_EQ(*mapped, asio::to_error_code(Errc::session_closed));
}

TEST_F(RemoteDeviceTest, RequestsSurviveARestartOfTheServer) {
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  ASSERT_FALSE(map());
  constexpr std::size_t kRequests = 40;
  std::vector<std::vector<std::byte>> data;
  std::size_t done = 0;
  for (std::size_t i = 0; i < kRequests; ++i) data.push_back(pattern(64 << 10, static_cast<unsigned>(i)));
  const auto write_all = [&] {
    for (std::size_t i = 0; i < kRequests; ++i)
      remote.async_write(i * (64 << 10), data[i], false, [&done](Error error) {
        EXPECT_FALSE(error) << error.message();
        ++done;
      });
  };
  write_all();
  run_until(context, [&] { return done >= 3; });
  server.reset();
  write_all();
  run_until(context, [&] { return remote.state() == rnbd::DeviceState::closed; });
  EXPECT_LT(done, 2 * kRequests);
  start_server({.first_generation = 9});
  run_until(context, [&] { return done == 2 * kRequests; });
  EXPECT_EQ(disks["disk"].opens, 2U);
  for (std::size_t i = 0; i < kRequests; ++i)
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(),
                           disks["disk"].bytes.begin() + static_cast<long>(i * (64 << 10))));
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, CallbacksMayUseAndDestroyTheDevice) {
  start_server();
  auto options = options_for("disk");
  std::vector<std::byte> data(4096);
  std::optional<Error> read;
  options.on_device = [&](const asio::DeviceNews& one) {
    if (one.state == rnbd::DeviceState::open) device->async_read(0, data, [&](Error error) { read = error; });
  };
  options.on_path = [this](const PathEvent& one) {
    if (one.kind == PathEvent::Kind::link_down) device.reset();
  };
  make(std::move(options));
  ASSERT_FALSE(map());
  run_until(context, [&] { return read.has_value(); });
  EXPECT_FALSE(*read) << read->message();
  device->disconnect_path(0);
  run_until(context, [this] { return device == nullptr; });
}

TEST_F(RemoteDeviceTest, RequestThatWaitsLongerThanQueueTimeoutFails) {
  start_server();
  auto options = options_for("disk");
  options.protocol.queue_timeout = milliseconds(20);
  asio::RemoteDevice& remote = make(std::move(options));
  ASSERT_FALSE(map());
  server.reset();
  run_until(context, [&] { return remote.state() == rnbd::DeviceState::closed; });
  std::vector<std::byte> data(4096);
  const Error error = wait([&](auto done) { remote.async_read(0, data, done); });
  EXPECT_EQ(error, asio::to_error_code(Errc::no_path)) << error.message();
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, LossOfOneOfTwoPathsIsNoError) {
  start_server({.listen = {"127.0.0.1", "127.0.0.2"}});
  auto options = options_for("disk");
  options.paths.push_back(PathAddress{"127.0.0.3", "127.0.0.2", port});
  asio::RemoteDevice& remote = make(std::move(options));
  ASSERT_FALSE(map());
  const auto connected = [&](unsigned path) {
    return remote.paths().size() == 2 && remote.paths()[path].state == PathState::connected;
  };
  run_until(context, [&] { return connected(0) && connected(1); });
  const auto data = pattern(1 << 20, 5);
  std::vector<std::byte> read(data.size());
  std::optional<Error> written;
  remote.async_write(0, data, false, [&](Error error) { written = error; });
  remote.disconnect_path(0);
  run_until(context, [&] { return written.has_value(); });
  EXPECT_FALSE(*written) << written->message();
  EXPECT_FALSE(wait([&](auto done) { remote.async_read(0, read, done); }));
  EXPECT_EQ(read, data);
  remote.reconnect_path(0);
  run_until(context, [&] { return connected(0); });
  EXPECT_EQ(disks["disk"].opens, 1U);
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, ExistingPathIsRefused) {
  start_server();
  auto options = options_for("disk");
  options.paths.push_back(PathAddress{"", "127.0.0.1:" + std::to_string(port), 1});
  make(options);
  EXPECT_EQ(map(), asio::to_error_code(Errc::invalid));
  EXPECT_FALSE(close());
  asio::RemoteDevice& remote = make(options_for("disk"));
  ASSERT_FALSE(map());
  EXPECT_EQ(remote.add_path(PathAddress{"", "ip:127.0.0.1", port}), Errc::path_exists);
  EXPECT_EQ(remote.paths().size(), 1U);
  EXPECT_FALSE(close());
}

TEST_F(RemoteDeviceTest, HandlerMayDestroyTheDevice) {
  start_server();
  make(options_for("disk"));
  ASSERT_FALSE(map());
  std::vector<std::byte> data(1 << 20);
  std::vector<std::byte> other(1 << 20);
  bool gone = false;
  device->async_read(0, other, [](Error) {});
  device->async_read(0, data, [&](Error) {
    device.reset();
    gone = true;
  });
  run_until(context, [&] { return gone; });
}

TEST_F(RemoteDeviceTest, RunReturnsWhenNoOperationIsOutstanding) {
  start_server();
  for (const asio::WaitMode mode : {asio::WaitMode::events, asio::WaitMode::busy_poll}) {
    auto options = options_for("disk");
    options.wait = mode;
    make(std::move(options));
    std::vector<std::byte> data(4096);
    std::vector<Error> results;
    const auto keep = [&results](Error error) { results.push_back(error); };
    const auto run_to_the_end = [this] {
      context.restart();
      context.run();
    };
    device->async_map(keep);
    run_to_the_end();
    device->async_write(0, data, true, keep);
    device->async_read(0, data, keep);
    run_to_the_end();
    EXPECT_EQ(results, std::vector<Error>(3));
    device->async_close(keep);
    run_to_the_end();
    EXPECT_EQ(results, std::vector<Error>(4));
  }
}

TEST_F(RemoteDeviceTest, TraceIsCompleteWhenTheDeviceIsClosed) {
  start_server();
  asio::RemoteDevice& remote = make(options_for("disk"));
  const std::string file = ::testing::TempDir() + "remote_device_test.rtrc";
  EXPECT_EQ(remote.open_trace("/no/such/directory/trace", {}), ENOENT);
  ASSERT_EQ(remote.open_trace(file, trace::Origin{"remote_device_test", "client", "libfabric/tcp", 7, {}}),
            0);
  ASSERT_FALSE(map());
  EXPECT_FALSE(close());
  std::FILE* opened = std::fopen(file.c_str(), "rb");
  ASSERT_NE(opened, nullptr);
  std::fseek(opened, 0, SEEK_END);
  EXPECT_GT(std::ftell(opened), 1000);
  std::fclose(opened);
}

}  // namespace
}  // namespace rtrs::conformance::remote_device_test
