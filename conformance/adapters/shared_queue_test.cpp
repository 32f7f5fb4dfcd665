// Connections that share a completion queue: no connection gets completions of another one, and the queue
// never overruns. Both must hold for devices that keep completions and for those that discard them when a
// queue pair is destroyed.
#include <sys/socket.h>

#include <array>
#include <utility>

#include "conformance/contract/contract.hpp"
#include "conformance/contract/verbs_pair.hpp"
#include "sim/net/adapters/test_no_problems.hpp"

namespace rtrs::conformance::shared_queue_test {
namespace {

using Kind = SeenEvent::Kind;

constexpr int kIdleMs = 1;
constexpr std::uint32_t kMany = 60;
const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

template <mock_hca::Profile (*Of)(), int MaxCqe>
std::unique_ptr<FabricPair> make_pair() {
  mock_hca::Profile profile = Of();
  profile.gives_up_after = milliseconds(20);
  if (MaxCqe != 0) profile.max_cqe = MaxCqe;
  mock_hca::reset({profile});
  mock_hca::tick_by_itself(true);
  return VerbsPair::open(verbs_address(AF_INET), {}, kIdleMs);
}

class SharedQueueTest : public FabricContract {
 protected:
  void post_many(Side& from, ConKey key) {
    for (std::uint32_t i = 0; i < kMany; ++i) {
      WorkRequest work = empty_imm(key, i);
      work.signalled = true;
      work.cookie = i + 1;
      ASSERT_EQ(from.fabric().post(std::span(&work, 1)), 1U);
    }
    // The post may be deferred to the end of the step; try_wait() passes it to the device.
    from.fabric().try_wait();
  }
  const verbs::VerbsStats client_stats() {
    return dynamic_cast<verbs::VerbsFabric&>(client().fabric()).stats();
  }
};
INSTANTIATE_TEST_SUITE_P(MockHca, SharedQueueTest,
                         ::testing::Values(FabricCase{"mlx5", make_pair<mock_hca::mlx5, 0>},
                                           FabricCase{"irdma", make_pair<mock_hca::irdma, 0>},
                                           FabricCase{"rxe", make_pair<mock_hca::rxe, 0>},
                                           FabricCase{"rxe_small_queues", make_pair<mock_hca::rxe, 400>}),
                         case_name);

// Some devices discard unread completions when the queue pair is destroyed.
TEST_P(SharedQueueTest, finished_work_is_not_counted_as_discarded) {
  const Link link = open_link(kMany, 0);
  post_many(client(), link.client);
  client().fabric().disconnect(link.client);
  EXPECT_EQ(client_stats().discarded_work, 0U);
  EXPECT_EQ(client_stats().dropped_completions, kMany);
  server().fabric().disconnect(link.server);
  run_until_quiet();
}

TEST_P(SharedQueueTest, completions_of_a_closed_connection_are_dropped) {
  for (unsigned round = 0; round < 20; ++round) {
    const Link first = open_link(kMany, 0);
    const Link beside = open_link(kMany, 0);
    post_many(client(), first.client);
    post_many(server(), first.server);
    client().fabric().disconnect(first.client);
    server().fabric().disconnect(first.server);
    // The new connection takes the slot of the first.
    const Link second = open_link(kMany, 0);
    post_one(client(), empty_imm(second.client, 1000));
    post_one(server(), empty_imm(second.server, 1001));
    EXPECT_EQ(expect(server(), Kind::imm_received, second.server).imm, 1000U);
    EXPECT_EQ(expect(client(), Kind::imm_received, second.client).imm, 1001U);
    run_until_quiet();
    for (const ConKey other : {second.client, beside.client}) {
      EXPECT_EQ(client().count(Kind::imm_received, other), 0U);
      EXPECT_EQ(client().count(Kind::send_done, other), 0U);
      EXPECT_EQ(client().count(Kind::connection_lost, other), 0U);
    }
    close_link(beside);
    close_link(second);
  }
}

TEST_P(SharedQueueTest, a_closed_connection_keeps_the_completions_of_others) {
  const Link first = open_link(kMany, 0);
  const Link second = open_link(kMany, 0);
  post_many(server(), first.server);
  post_many(server(), second.server);
  // The shared queue may already hold completions of both connections.
  client().fabric().try_wait();
  client().fabric().disconnect(first.client);
  for (std::uint32_t i = 0; i < kMany; ++i)
    ASSERT_EQ(expect(client(), Kind::imm_received, second.client).imm, i);
  server().fabric().disconnect(first.server);
  close_link(second);
  EXPECT_EQ(client().count(Kind::imm_received, first.client), 0U);
}

// Closing one connection also read completions of another; try_wait() must then not report that the fabric is
// idle.
TEST_P(SharedQueueTest, completions_read_during_a_close_prevent_sleep) {
  const Link first = open_link(kMany, 0);
  const Link second = open_link(kMany, 0);
  const Link third = open_link(kMany, 0);
  post_many(server(), second.server);
  client().fabric().disconnect(third.client);
  client().fabric().disconnect(first.client);
  std::array<FabricEvent, 2> both;
  ASSERT_EQ(client().fabric().poll(pair().now(), both), 2U);
  EXPECT_FALSE(client().fabric().try_wait());
  for (const FabricEvent& one : both) ASSERT_TRUE(std::holds_alternative<event::ConnectionClosed>(one));
  server().fabric().disconnect(third.server);
  server().fabric().disconnect(first.server);
  for (std::uint32_t i = 0; i < kMany; ++i)
    ASSERT_EQ(expect(client(), Kind::imm_received, second.client).imm, i);
  close_link(second);
}

}  // namespace
}  // namespace rtrs::conformance::shared_queue_test
