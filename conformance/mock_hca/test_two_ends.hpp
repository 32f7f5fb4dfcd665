// Two fabrics of backends/verbs over adapters in memory, which a test drives step by step by a time of its
// own. Nothing sleeps.
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
#include "conformance/mock_hca/mock_hca.hpp"

namespace rtrs::conformance {

inline constexpr const char* kAddress = "192.0.2.1";  // of the first adapter

// The second of two adapters.
inline mock_hca::Profile second() {
  mock_hca::Profile one = mock_hca::mlx5();
  one.name = "mlx5_1";
  return one;
}
// With timewait.
inline mock_hca::Profile frugal() {
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
  // Warnings of what was asked for and cannot be had.
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
      if (own.posting == verbs::Posting::send) own.posting = usual_posting;
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
  // Polls both until it is so. No time passes.
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
  // Asks, and lets the server accept what comes.
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
  void connect_whole(const std::string& address, ConKey near = kNear, ConKey far = kFar,
                     const ConnectionParams& wanted = params()) {
    ASSERT_NO_FATAL_FAILURE(connect(address, near, far, wanted));
    take(client, SeenEvent::Kind::connected, near);
  }
  // An immediate of the client gets through.
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

  // All that is left are the two event channels and the listener, if any.
  void expect_nothing_of_devices(unsigned identifiers) { EXPECT_EQ(mock_hca::objects(), 2U + identifiers); }

  bool expects_removal = true;
  verbs::Posting usual_posting = verbs::Posting::send;  // where a test asks for nothing else
  std::uint64_t seed = 1;
  Nanos now = seconds(1);
  std::uint32_t last_imm = 0;
  End client, server;
};

// Each case twice: work is posted by ibv_post_send(), and by ibv_wr_*() where the adapter's library has it.
class TwoEndsBothWays : public TwoEnds, public ::testing::WithParamInterface<verbs::Posting> {
 protected:
  TwoEndsBothWays() { usual_posting = GetParam(); }
};
inline const auto kBothWays = ::testing::Values(verbs::Posting::send, verbs::Posting::automatic);
inline std::string way_name(const ::testing::TestParamInfo<verbs::Posting>& way) {
  return way.param == verbs::Posting::send ? "Send" : "Calls";
}

}  // namespace rtrs::conformance
