// Checks upper bounds for doorbells, work requests and completions per 4 KiB request at both ends. If a bound
// is exceeded, real hardware would do more work.
#include <gtest/gtest.h>

#include <utility>

#include "conformance/adapters/counted_io.hpp"
#include "sim/net/adapters/test_no_problems.hpp"

namespace rtrs::conformance::counts_test {
namespace {

using mock_hca::Counts;
using mock_hca::counts;

const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

constexpr unsigned kWarm = 500, kRequests = 1000;

struct PerRequest {
  double doorbells = 0, batches = 0, work_requests = 0, receive_calls = 0, receives = 0, completions = 0;
};
struct BothEnds {
  PerRequest server, client;
};

PerRequest each(const Counts& before, const Counts& after) {
  const auto per = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / kRequests;
  };
  return {per(before.doorbells, after.doorbells),         per(before.batches, after.batches),
          per(before.work_requests, after.work_requests), per(before.receive_calls, after.receive_calls),
          per(before.receives, after.receives),           per(before.completions, after.completions)};
}

BothEnds measure(const Load& load) {
  std::array<mock_hca::Profile, 2> both{mock_hca::mlx5(), mock_hca::mlx5()};
  both[1].name = "mlx5_1";
  CountedIo io(load, both);
  EXPECT_TRUE(io.ready() && io.run(kWarm));
  const Counts server = counts(CountedIo::kServer), client = counts(CountedIo::kClient);
  EXPECT_TRUE(io.run(kRequests));
  return {each(server, counts(CountedIo::kServer)), each(client, counts(CountedIo::kClient))};
}

// Tolerance, because some requests are still in flight when the measurement ends.
constexpr double kEdge = 0.07;

TEST(Counts, ReadTakesOneDoorbellAndTwoWorkRequestsOfTheServer) {
  const BothEnds one = measure({Direction::read, Keys::stay, 1, 1});
  EXPECT_LE(one.server.doorbells, 1 + kEdge);
  EXPECT_LE(one.server.work_requests, 2 + kEdge);
  EXPECT_LE(one.server.completions, 1.1);
  EXPECT_LE(one.client.doorbells, 1 + kEdge);
  EXPECT_LE(one.client.work_requests, 1 + kEdge);
  EXPECT_LE(one.client.completions, 1.1);
}

TEST(Counts, WriteTakesOneWorkRequestOfEachEnd) {
  const BothEnds one = measure({Direction::write, Keys::stay, 1, 1});
  EXPECT_LE(one.server.doorbells, 1 + kEdge);
  EXPECT_LE(one.server.work_requests, 1 + kEdge);
  EXPECT_LE(one.server.completions, 1.1);
  EXPECT_LE(one.client.doorbells, 1 + kEdge);
  EXPECT_LE(one.client.work_requests, 1 + kEdge);
}

// All work of one round is posted together, regardless of events in between and of the number of connections.
// Reposted receives are posted together too.
TEST(Counts, ManyRequestsOfOneRoundTakeFewDoorbells) {
  for (const auto& [load, most] : {std::pair{Load{Direction::read, Keys::stay, 32, 1}, 0.08},
                                   {{Direction::read, Keys::stay, 32, 4}, 0.15},
                                   {{Direction::write, Keys::stay, 32, 1}, 0.05},
                                   {{Direction::read, Keys::of_requests, 32, 1}, 0.14}}) {
    const BothEnds one = measure(load);
    for (const PerRequest& end : {one.server, one.client}) {
      EXPECT_LE(end.doorbells, most);
      EXPECT_LE(end.receive_calls, most);
    }
  }
}

TEST(Counts, WithoutInvalidationFewCompletionsAreRead) {
  for (const unsigned in_flight : {1U, 32U}) {
    for (const Direction direction : {Direction::read, Direction::write}) {
      const BothEnds one = measure({direction, Keys::stay, in_flight, 1});
      EXPECT_LE(one.server.completions, 1.1);
      EXPECT_LE(one.client.completions, 1.1);
    }
  }
}

// The key is invalidated in the chain of the response and bound in the chain of the request.
TEST(Counts, RequestKeyTakesNoExtraDoorbell) {
  const BothEnds one = measure({Direction::read, Keys::of_requests, 1, 1});
  EXPECT_LE(one.server.doorbells, 1 + kEdge);
  EXPECT_LE(one.server.work_requests, 3 + kEdge);
  EXPECT_LE(one.server.completions, 1.1);
  EXPECT_LE(one.client.doorbells, 1 + kEdge);
  EXPECT_LE(one.client.work_requests, 2 + kEdge);
}

// One doorbell invalidates the chunk's key before the request is served; the other renews the key together
// with the data and the response.
TEST(Counts, RequestThatRenewsTheChunkKeyTakesTwoDoorbells) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    const BothEnds one = measure({direction, Keys::of_chunks, 1, 1});
    EXPECT_LE(one.server.doorbells, 2 + kEdge);
    // Data (reads only), response, and two binds, one of them signalled.
    EXPECT_LE(one.server.work_requests, (direction == Direction::read ? 4 : 3) + kEdge);
    EXPECT_LE(one.server.completions, 2.1);
    EXPECT_LE(one.client.doorbells, 1 + kEdge);
    EXPECT_LE(measure({direction, Keys::of_chunks, 32, 1}).server.doorbells, 0.25);
  }
}

// Posting with ibv_wr_*() instead of ibv_post_send() changes no other count. Binds of type 1 windows are
// still posted with ibv_post_send().
TEST(Counts, PostingWithCallsTakesTheSameNumberOfDoorbells) {
  for (Load load : {Load{Direction::read, Keys::stay, 1, 1},
                    {Direction::write, Keys::stay, 32, 1},
                    {Direction::read, Keys::of_requests, 32, 1},
                    {Direction::read, Keys::of_chunks, 1, 1}}) {
    const BothEnds plain = measure(load);
    load.posting = verbs::Posting::calls;
    const BothEnds called = measure(load);
    const bool type_1 = load.keys == Keys::of_chunks;
    EXPECT_EQ(called.server.batches, type_1 ? 0 : called.server.doorbells);
    EXPECT_EQ(called.client.batches, called.client.doorbells);
    for (const auto& [one, other] : {std::pair{plain.server, called.server}, {plain.client, called.client}}) {
      EXPECT_EQ(one.batches, 0);
      EXPECT_EQ(one.doorbells, other.doorbells);
      EXPECT_EQ(one.work_requests, other.work_requests);
      EXPECT_EQ(one.completions, other.completions);
    }
  }
}

TEST(Counts, CountsHaveLowerBounds) {
  const BothEnds one = measure({Direction::read, Keys::of_requests, 1, 1});
  // Server: data, response, and the invalidation of the key. Client: the bind of the key, and the request.
  EXPECT_GE(one.server.work_requests, 3 - kEdge);
  EXPECT_GE(one.client.work_requests, 2 - kEdge);
  EXPECT_GE(one.server.receives, 1 - kEdge);
  EXPECT_GE(one.client.receives, 2 - kEdge);
}

}  // namespace
}  // namespace rtrs::conformance::counts_test
