// Sessions of urtrs.h and the real server, on TCP over loopback. The server runs in its own thread, because
// many functions block.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>

#include "backends/bindings/c/urtrs.h"
#include "backends/platform/system/clock.hpp"
#include "backends/tcp/tcp.hpp"
#include "sim/memory/memory_store.hpp"

namespace rtrs::conformance {

inline constexpr std::size_t kDiskBytes = 4 << 20;
inline constexpr int kLong = 60'000;

class CInterfaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"disk", "other"}) disks_[name].bytes.resize(kDiskBytes);
    auto fabric = tcp::open_tcp_fabric({});
    ASSERT_TRUE(fabric);
    fabric_ = std::move(*fabric);
    ServerConfig config;
    config.queue_depth = 64;
    server_ = std::make_unique<BlockServer>(clamp_to(config, fabric_->capabilities()), 1, nullptr);
    ASSERT_EQ(server_->listen(*fabric_, platform::steady_now(), PathAddress{"", "127.0.0.1", 0}), Errc::ok);
    port_ = fabric_->listening_port();
    thread_ = std::thread([this] { serve(); });
    ASSERT_EQ(urtrs_session_new("c", &session_), 0);
  }
  void TearDown() override {
    answers_ = true;
    EXPECT_EQ(urtrs_session_free(session_), 0);
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void serve() {
    sim::MemoryStore store(disks_);
    while (!ending_) {
      if (answers_ && store.serve(*server_, *fabric_, platform::steady_now())) continue;
      pollfd news{fabric_->wait_fd(), POLLIN, 0};
      if (!answers_ || fabric_->try_wait()) ::poll(&news, answers_ ? 1 : 0, 1);
    }
  }

  // Opens a session with one path, and the device.
  urtrs_device* open(const char* name = "disk", unsigned flags = 0) {
    EXPECT_EQ(urtrs_session_add_path(session_, nullptr, "127.0.0.1", port_), 0);
    EXPECT_EQ(urtrs_session_open(session_), 0) << urtrs_session_message(session_);
    urtrs_device* device = nullptr;
    EXPECT_EQ(urtrs_device_open(session_, name, flags, kLong, &device), 0) << urtrs_session_message(session_);
    return device;
  }
  urtrs_stats stats() const {
    urtrs_stats stats{};
    EXPECT_EQ(urtrs_session_get_stats(session_, &stats, sizeof stats), 0);
    return stats;
  }

  sim::MemoryDisks disks_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<BlockServer> server_;
  std::uint16_t port_ = 0;
  std::atomic<bool> answers_ = true;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
  urtrs_session* session_ = nullptr;
};

struct Ended {
  int count = 0;
  int error = 1;
  static void on_done(void* ended, int error) {
    ++static_cast<Ended*>(ended)->count;
    static_cast<Ended*>(ended)->error = error;
  }
};

}  // namespace rtrs::conformance
