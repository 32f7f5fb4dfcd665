// A RemoteDevice and the real server, on TCP over loopback in one process.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "conformance/asio/loop.hpp"
#include "conformance/asio/memory_server.hpp"

namespace rtrs::conformance {

inline constexpr std::size_t kDiskBytes = 4 << 20;

class RemoteDeviceTest : public ::testing::Test {
 protected:
  RemoteDeviceTest() { disks["disk"].bytes.resize(kDiskBytes); }

  void start_server(MemoryServer::Options options = {}) {
    options.port = port;
    server.emplace(context, disks, options);
    port = server->port();
  }
  asio::RemoteDeviceOptions options_for(const std::string& name) {
    asio::RemoteDeviceOptions options;
    options.session_name = "remote_device_test";
    options.paths = {PathAddress{"", "127.0.0.1", port}};
    options.device = name;
    options.protocol.reconnect_min = milliseconds(5);
    options.protocol.reconnect_jitter = 0;
    options.protocol.seed = 7;
    options.on_device = [this](const asio::DeviceNews& one) { news.push_back(one); };
    return options;
  }
  asio::RemoteDevice& make(asio::RemoteDeviceOptions options) {
    auto fabric = ofi::open_ofi_fabric({});
    if (!fabric) throw std::runtime_error(to_string(fabric.error()));
    device = std::make_unique<asio::RemoteDevice>(context, std::move(*fabric), std::move(options));
    return *device;
  }
  // Runs one operation until it completes.
  template <class Start>
  Error wait(Start start) {
    std::optional<Error> result;
    start([&result](Error error) { result = error; });
    run_until(context, [&result] { return result.has_value(); });
    return *result;
  }
  Error map() {
    return wait([this](auto done) { device->async_map(done); });
  }
  Error close() {
    return wait([this](auto done) { device->async_close(done); });
  }

  boost::asio::io_context context;
  sim::MemoryDisks disks;
  std::optional<MemoryServer> server;
  std::uint16_t port = 0;
  std::vector<asio::DeviceNews> news;
  std::unique_ptr<asio::RemoteDevice> device;
};

}  // namespace rtrs::conformance
