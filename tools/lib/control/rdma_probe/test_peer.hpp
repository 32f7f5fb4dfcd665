// Helpers for tests of two probes: a listening probe over simulated adapters, and functions that check lines.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "sim/net/adapters/mock_hca.hpp"
#include "tools/lib/control/rdma_probe/peer.hpp"
#include "tools/lib/control/rdma_probe/test_lines.hpp"

namespace rtrs::probe {

using Grade = Line::Grade;

constexpr const char* kServer = "192.0.2.1";

// A listening probe in a separate thread. finish() ends the probe and returns its lines.
class ListeningProbe {
 public:
  explicit ListeningProbe(std::chrono::milliseconds patience = std::chrono::seconds(10),
                          const std::string& address = {}) {
    listening_.address = address;
    pace_.patience = patience;
    pace_.stop = [this] { return ends_.load(); };
    listening_.port = 0;
    listening_.ready = [this](std::uint16_t port) { ready_.set_value(port); };
    thread_ = std::thread([this] { lines_ = listen_for_peers(listening_, pace_); });
    port_ = ready_.get_future().get();
  }
  ~ListeningProbe() { finish(); }
  std::uint16_t port() const { return port_; }
  const Lines& finish() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
    return lines_;
  }

 private:
  Pace pace_;
  Listening listening_;
  std::atomic<bool> ends_{false};
  std::promise<std::uint16_t> ready_;
  Lines lines_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

inline Pace test_pace(std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  Pace pace;
  pace.patience = patience;
  pace.measures = std::chrono::milliseconds(1);
  return pace;
}

inline PeerLines asked(std::uint16_t port, const Pace& pace = test_pace()) {
  return probe_peer({.address = kServer, .port = port, .rounds = 20}, pace);
}

inline bool all_ok(const Lines& lines) {
  return std::all_of(lines.begin(), lines.end(), [](const Line& one) { return one.grade == Grade::ok; });
}
inline bool says(const Lines& lines, Grade grade, const std::string& what) {
  return std::any_of(lines.begin(), lines.end(), [&](const Line& one) {
    return one.grade == grade && one.what.find(what) != std::string::npos;
  });
}

class PeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    mock_hca::Profile profile = mock_hca::mlx5();
    profile.gives_up_after = 20'000'000;
    mock_hca::reset({profile, mock_hca::rxe()});
    mock_hca::tick_by_itself(true);
  }
  void TearDown() override {
    EXPECT_EQ(mock_hca::objects(), 0U);
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>());
  }
};

}  // namespace rtrs::probe
