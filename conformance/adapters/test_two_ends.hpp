// Two verbs fabrics over in-memory adapters, driven step by step in virtual time, without sleeping.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "conformance/contract/contract.hpp"
#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::conformance {

inline constexpr const char* kAddress = "192.0.2.1";  // address of the first adapter

// Profile of the second adapter.
inline mock_hca::Profile second() {
  mock_hca::Profile one = mock_hca::mlx5();
  one.name = "mlx5_1";
  return one;
}
// mlx5 that reuses queue pair numbers, so that queue pairs have a timewait state.
inline mock_hca::Profile mlx5_reusing_numbers() {
  mock_hca::Profile one = mock_hca::mlx5();
  one.reuses_numbers = true;
  return one;
}

struct End {
  std::vector<std::pair<verbs::LogLevel, std::string>> log;
  std::unique_ptr<verbs::VerbsFabric> fabric;
  std::unique_ptr<Side> side;

  bool logged(const std::string& part) const {
    for (const auto& [level, text] : log)
      if (text.find(part) != std::string::npos) return true;
    return false;
  }
  // Number of warnings that the adapter lacks a requested feature.
  std::size_t unmet() const {
    std::size_t count = 0;
    for (const auto& line : log) count += line.first == verbs::LogLevel::unmet ? 1U : 0U;
    return count;
  }
  std::size_t count(SeenEvent::Kind kind, ConKey key) const { return side->count(kind, key); }
};

class TwoEnds : public ::testing::Test {
 protected:
  static constexpr ConKey kNear{0, 0, 1}, kFar{0, 0, 2}, kNearAgain{0, 0, 3}, kFarAgain{0, 0, 4};

  void TearDown() override {
    close();
    for (const std::string& problem : mock_hca::problems()) ADD_FAILURE() << problem;
    EXPECT_EQ(mock_hca::objects(), 0U);
  }
  void close() {
    for (End* end : {&client, &server}) end->side.reset(), end->fabric.reset();
  }

  void open(const std::vector<mock_hca::Profile>& adapters, const verbs::VerbsOptions& options = {}) {
    if (expects_removal)
      verbs::expect_removal();
    else
      ::unsetenv("RDMAV_ALLOW_DISASSOC_DESTROY");
    mock_hca::reset(adapters, seed);
    for (End* end : {&client, &server}) {
      verbs::VerbsOptions own = options;
      if (own.posting == verbs::Posting::send) own.posting = default_posting;
      own.log = [end](verbs::LogLevel level, const std::string& text) { end->log.emplace_back(level, text); };
      auto fabric = verbs::open_verbs_fabric(own);
      ASSERT_TRUE(fabric);
      end->fabric = std::move(*fabric);
      end->side = std::make_unique<Side>(*end->fabric);
    }
  }

  static ConnectionParams params() {
    ConnectionParams one;
    one.send_depth = one.receive_depth = one.key_depth = 16;
    return one;
  }
  static ConnectionParams depths(std::uint32_t send, std::uint32_t receive, std::uint32_t keys) {
    ConnectionParams one;
    one.send_depth = send;
    one.receive_depth = receive;
    one.key_depth = keys;
    return one;
  }
  void poll(End& end) { end.side->poll(now); }
  void poll_both(unsigned times = 80) {
    for (unsigned i = 0; i < times; ++i) poll(client), poll(server);
  }
  // Polls both ends until so() is true, without advancing virtual time. Returns false if that never happens.
  bool until(const std::function<bool()>& so) {
    for (unsigned i = 0; i < 400; ++i) {
      if (so()) return true;
      poll(client), poll(server);
    }
    return so();
  }
  bool heard(End& end, SeenEvent::Kind kind, ConKey key) {
    return until([&] { return end.count(kind, key) != 0; });
  }
  SeenEvent take(End& end, SeenEvent::Kind kind, ConKey key) {
    SeenEvent event;
    EXPECT_TRUE(heard(end, kind, key) && end.side->take(kind, key, event));
    return event;
  }

  void listen(const std::string& address) {
    ASSERT_EQ(server.fabric->listen({.source = {}, .destination = address, .port = 0}), Errc::ok);
  }
  void leave(ConKey near = kNear, ConKey far = kFar) {
    client.fabric->disconnect(near);
    server.fabric->disconnect(far);
    take(client, SeenEvent::Kind::connection_closed, near);
    take(server, SeenEvent::Kind::connection_closed, far);
    poll_both();
  }
  // Connects the client to `address` and accepts at the server.
  void connect(const std::string& address, ConKey near = kNear, ConKey far = kFar,
               const ConnectionParams& wanted = params()) {
    client.fabric->connect(
        near, {.source = {}, .destination = address, .port = server.fabric->listening_port()}, wanted, {});
    ASSERT_TRUE(until([&] { return server.side->count(SeenEvent::Kind::connect_requested) != 0; }));
    SeenEvent request;
    ASSERT_TRUE(server.side->take(SeenEvent::Kind::connect_requested, request));
    server.fabric->accept(request.request, far, wanted, {});
    server.fabric->post_receive(far, 8, 64);
    client.fabric->post_receive(near, 8, 64);
  }
  void connect_both_ends(const std::string& address, ConKey near = kNear, ConKey far = kFar,
                         const ConnectionParams& wanted = params()) {
    ASSERT_NO_FATAL_FAILURE(connect(address, near, far, wanted));
    take(client, SeenEvent::Kind::connected, near);
  }
  // True if an immediate from the client arrives at the server.
  bool carries(ConKey near = kNear, ConKey far = kFar) {
    WorkRequest work;
    work.key = near;
    work.op = WorkRequest::Op::write_imm;
    work.imm = ++last_imm;
    if (client.fabric->post(std::span(&work, 1)) != 1) return false;
    SeenEvent event;
    return heard(server, SeenEvent::Kind::imm_received, far) &&
           server.side->take(SeenEvent::Kind::imm_received, far, event) && event.imm == last_imm;
  }

  // Expects that nothing is left except the two event channels and `identifiers` identifiers, such as the
  // listener.
  void expect_nothing_of_devices(unsigned identifiers) { EXPECT_EQ(mock_hca::objects(), 2U + identifiers); }

  bool expects_removal = true;
  verbs::Posting default_posting =
      verbs::Posting::send;  // posting of both ends, unless the test selects another
  std::uint64_t seed = 1;
  Nanos now = seconds(1);
  std::uint32_t last_imm = 0;
  End client, server;
};

// Runs each case with ibv_post_send(), and with ibv_wr_*() if the adapter's library supports it.
class TwoEndsBothWays : public TwoEnds, public ::testing::WithParamInterface<verbs::Posting> {
 protected:
  TwoEndsBothWays() { default_posting = GetParam(); }
};
inline const auto kBothWays = ::testing::Values(verbs::Posting::send, verbs::Posting::automatic);
inline std::string param_name(const ::testing::TestParamInfo<verbs::Posting>& way) {
  return way.param == verbs::Posting::send ? "Send" : "Calls";
}

}  // namespace rtrs::conformance
