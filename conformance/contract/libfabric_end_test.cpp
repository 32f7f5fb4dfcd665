// Connections that end with outstanding work, killed peers, and progress that happens only during polling.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "conformance/contract/child_process.hpp"
#include "conformance/contract/libfabric_pair.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

constexpr std::uint32_t kBig = 64 * 1024;
// More writes than the socket buffers can hold.
constexpr unsigned kBigWrites = 400;

std::unique_ptr<FabricPair> make_tcp_pair() {
  return LibfabricPair::open("tcp", "127.0.0.1");
}

class LibfabricEnds : public FabricContract {
 protected:
  ofi::OfiStats client_stats() { return static_cast<LibfabricPair&>(pair()).client().stats(); }

  // Connects to a child process that stops receiving after the immediate that is sent here.
  ConKey connect_to_stalled_child(const ChildProcess& child, Target& target) {
    const ConKey key = fresh_key();
    const auto port = static_cast<std::uint16_t>(std::strtoul(child.greeting().c_str(), nullptr, 10));
    client().fabric().connect(key, {.source = {}, .destination = "127.0.0.1", .port = port},
                              params(kDepth, 16), {});
    const SeenEvent connected = expect(client(), Kind::connected, key);
    EXPECT_EQ(connected.text.size(), sizeof target.remote_key);
    std::memcpy(&target.remote_key, connected.text.data(),
                std::min(connected.text.size(), sizeof target.remote_key));
    post_one(client(), empty_imm(key, 1));
    return key;
  }

  // Posts `count` signalled copies of `work` with consecutive cookies from `first_cookie`.
  void post_copies(WorkRequest work, unsigned count, std::uint64_t first_cookie) {
    work.signalled = true;
    for (unsigned i = 0; i < count; ++i) {
      work.cookie = first_cookie + i;
      ASSERT_EQ(client().fabric().post(std::span(&work, 1)), 1u);
    }
  }

  // After the peer of `key` was killed: expects that each work request completes once, then one
  // ConnectionLost and one ConnectionClosed.
  void expect_clean_end(ConKey key) {
    expect(client(), Kind::connection_lost, key);
    client().fabric().disconnect(key);
    expect(client(), Kind::connection_closed, key);
    run_until_quiet();
    EXPECT_EQ(client().count(Kind::connection_lost, key), 0u);
    EXPECT_EQ(client().count(Kind::connection_closed, key), 0u);
    std::set<std::uint64_t> cookies;
    SeenEvent done;
    while (client().take(Kind::send_done, key, done)) EXPECT_TRUE(cookies.insert(done.cookie).second);
    EXPECT_TRUE(client().events().empty());
  }

  static constexpr std::uint32_t kDepth = 1024;
};

TEST_P(LibfabricEnds, killed_peer_with_large_writes_outstanding_causes_one_loss_and_one_close) {
  kill_server_now();
  ChildProcess child("go-deaf");
  ASSERT_FALSE(child.greeting().empty());
  Target target;
  const ConKey key = connect_to_stalled_child(child, target);
  const Region source = make_source(client(), std::string(kBig, 'b'));
  post_copies(write_imm(key, source, kBig, target, 0, 2), kBigWrites, 0);
  run_until_quiet();
  ASSERT_EQ(client().count(Kind::connection_lost, key), 0u);
  ASSERT_LT(client().count(Kind::send_done, key), kBigWrites);
  EXPECT_EQ(child.end_by(SIGKILL), SIGKILL);
  expect_clean_end(key);
  EXPECT_GT(client_stats().discarded_work, 0u);
}

TEST_P(LibfabricEnds, killed_peer_with_small_requests_outstanding_causes_one_loss_and_one_close) {
  kill_server_now();
  ChildProcess child("go-deaf");
  ASSERT_FALSE(child.greeting().empty());
  Target target;
  const ConKey key = connect_to_stalled_child(child, target);
  const Region source = make_source(client(), std::string(kBig, 's'));
  // The large writes fill the socket, so that the small ones stay queued in the provider.
  post_copies(write_imm(key, source, kBig, target, 0, 2), kBigWrites, 0);
  post_copies(message(key, "copied into the provider"), 200, 1000);
  post_copies(write_imm(key, source, 16, target, 0, 3), 200, 2000);
  post_copies(empty_imm(key, 4), 200, 3000);
  run_until_quiet();
  ASSERT_LT(client().count(Kind::send_done, key), kBigWrites);
  EXPECT_EQ(child.end_by(SIGKILL), SIGKILL);
  expect_clean_end(key);
  EXPECT_GE(client_stats().discarded_work, 600u);
}

TEST_P(LibfabricEnds, connections_work_after_others_closed_with_work_outstanding) {
  const Region source = make_source(client(), std::string(kBig, 'o'));
  const Target target = make_target(server(), kBig);
  for (unsigned round = 0; round < 20; ++round) {
    const Link cut = open_link(params(256, 64), 8, 256);
    post_copies(write_imm(cut.client, source, kBig, target, 0, 1), 200, 0);
    close_link(cut);
    const Link next = open_link();
    std::fill(source.bytes.begin(), source.bytes.end(), static_cast<std::byte>(round));
    post_one(client(), write_imm(next.client, source, kBig, target, 0, round));
    EXPECT_EQ(expect(server(), Kind::imm_received, next.server).imm, round);
    EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.end(), target.region.bytes.begin()));
    close_link(next);
  }
  EXPECT_GT(client_stats().discarded_work, 0u);
}

TEST_P(LibfabricEnds, a_write_larger_than_the_socket_buffer_advances_with_poll_only) {
  constexpr std::uint32_t kHuge = 32 << 20;
  const Link link = open_link();
  const Target target = make_target(server(), kHuge);
  const Region source = make_source(client(), std::string(kHuge, 'h'));
  WorkRequest work = write_imm(link.client, source, kHuge, target, 0, 9);
  work.signalled = true;
  ASSERT_EQ(client().fabric().post(std::span(&work, 1)), 1u);
  for (unsigned i = 0; i < 1000; ++i) client().poll(pair().now());
  ASSERT_EQ(client().count(Kind::send_done), 0u) << "the socket accepted the whole write";
  for (unsigned rounds = 0; rounds < 10'000'000 && client().count(Kind::send_done) == 0; ++rounds) {
    client().poll(pair().now());
    server().poll(pair().now());
  }
  ASSERT_EQ(client().count(Kind::send_done), 1u);
  expect(server(), Kind::imm_received, link.server);
  EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.end(), target.region.bytes.begin()));
  close_link(link);
}

INSTANTIATE_TEST_SUITE_P(Libfabric, LibfabricEnds, ::testing::Values(FabricCase{"tcp", make_tcp_pair}),
                         case_name);

TEST(LibfabricSignals, signals_end_a_process_with_an_open_fabric) {
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGABRT}) {
    ChildProcess child("hold");
    ASSERT_FALSE(child.greeting().empty());
    EXPECT_EQ(child.end_by(number), number);
  }
}

// Programs may open a libfabric fabric late, after they have installed signal handlers. These handlers must
// stay installed.
TEST(LibfabricSignals, a_process_keeps_its_handlers_when_it_opens_a_fabric) {
  ChildProcess child("hold-with-handler");
  ASSERT_FALSE(child.greeting().empty());
  EXPECT_EQ(child.end_by(SIGTERM), SIGKILL);
}

}  // namespace
}  // namespace rtrs::conformance
