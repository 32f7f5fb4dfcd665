// Tests which rights peers have to memory, with which adapters memory is registered, and that every
// registration is freed.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::access_rights_test {
namespace {

using Kind = SeenEvent::Kind;

class Rights : public TwoEnds {
 protected:
  static constexpr ConKey kNear2{0, 0, 3}, kFar2{0, 0, 4};

  void connected(const std::vector<mock_hca::Profile>& adapters, const verbs::VerbsOptions& options = {}) {
    open(adapters, options);
    ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
    connect_both_ends("192.0.2.1");
    if (adapters.size() > 1) connect_both_ends("192.0.2.2", kNear2, kFar2);
    poll_both();
  }
  static std::size_t regions() { return mock_hca::held(0).regions + mock_hca::held(1).regions; }
  bool sends(ConKey near, const Region& from, std::uint32_t rkey, std::uint64_t address, ConKey far) {
    WorkRequest work;
    work.key = near;
    work.op = WorkRequest::Op::write_imm;
    work.rkey = rkey;
    work.remote_addr = address;
    work.parts[0] = {from.id, 0, 4096};
    work.part_count = 1;
    SeenEvent event;
    return client.fabric->post(std::span(&work, 1)) == 1 && heard(server, Kind::imm_received, far) &&
           server.side->take(Kind::imm_received, far, event);
  }
};

TEST_F(Rights, PeersCanOnlyWriteAndOnlyWithKeys) {
  for (const verbs::Invalidation how : {verbs::Invalidation::automatic, verbs::Invalidation::registration}) {
    verbs::VerbsOptions options;
    options.invalidation = how;
    ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}, options));
    const auto memory = server.fabric->allocate(8192);
    ASSERT_TRUE(memory);
    std::array<std::byte, 4096> of_caller{};
    ASSERT_TRUE(server.fabric->register_memory(of_caller));
    server.fabric->post_receive(kFar, 1, 4096);
    EXPECT_EQ(mock_hca::held(0).writable, 0U) << "memory without a key";
    ASSERT_TRUE(server.fabric->make_key(memory->id, 0, 4096));
    ASSERT_TRUE(server.fabric->make_revocable_key(kFar, memory->id, 0, 4096));
    ASSERT_TRUE(server.fabric->make_request_key(kFar, memory->id, 0, 4096));
    poll_both();
    const mock_hca::Held held = mock_hca::held(0);
    EXPECT_EQ(held.writable, how == verbs::Invalidation::registration ? 2U : 1U);
    EXPECT_EQ(held.access & ~unsigned{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND},
              0U);
    server.fabric->release(memory->id);
    close();
  }
}

TEST_F(Rights, AdapterRegistersOnlyMemoryThatItUses) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  const std::size_t before = regions();
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(key);
  EXPECT_EQ(regions(), before);
  server.fabric->rkey_of(kFar2, *key);
  EXPECT_EQ(mock_hca::held(0).regions + 2, mock_hca::held(1).regions)
      << "the key, and the source of responses";
  EXPECT_EQ(mock_hca::held(1).writable, 1U);
}

TEST_F(Rights, EachAdapterUsesItsOwnKeyOfTheMemory) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  // Registers more memory at one end than at the other, so that their keys differ.
  client.fabric->post_receive(kNear, 1, 4096);
  server.fabric->post_receive(kFar, 1, 4096);
  poll_both();
  const auto memory = server.fabric->allocate(8192);
  const auto source = client.fabric->allocate(4096);
  ASSERT_TRUE(memory && source);
  const auto key = server.fabric->make_key(memory->id, 0, 8192);
  ASSERT_TRUE(key);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_TRUE(sends(kNear, *source, server.fabric->rkey_of(kFar, *key), key->remote_addr, kFar));
    EXPECT_TRUE(sends(kNear2, *source, server.fabric->rkey_of(kFar2, *key), key->remote_addr, kFar2));
  }
}

TEST_F(Rights, WindowIsReusedOnlyOnItsAdapter) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(key && carries());
  WorkRequest invalidation;
  invalidation.key = kFar;
  invalidation.op = WorkRequest::Op::send_inv;
  invalidation.rkey = key->rkey;
  client.fabric->post_receive(kNear, 1, 0);
  ASSERT_EQ(server.fabric->post(std::span(&invalidation, 1)), 1U);
  take(client, Kind::key_invalidated, kNear);
  client.fabric->release_key(key->id);
  ASSERT_EQ(mock_hca::held(0).windows, 1U) << "kept";
  ASSERT_TRUE(client.fabric->make_request_key(kNear2, memory->id, 0, 4096));
  EXPECT_EQ(mock_hca::held(0).windows, 1U);
  EXPECT_EQ(mock_hca::held(1).windows, 1U);
}

TEST_F(Rights, WindowOfAKeyThatWasNotInvalidatedIsNotReused) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto first = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(first);
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::write_imm;
  work.signalled = true;
  ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  take(client, Kind::send_done, kNear);  // proves that the earlier bind is done
  client.fabric->release_key(first->id);
  const auto next = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(next);
  EXPECT_NE(next->rkey >> 8, first->rkey >> 8);
  poll_both();
  take(server, Kind::imm_received, kFar);
  EXPECT_TRUE(carries());
  EXPECT_EQ(client.count(Kind::connection_lost, kNear), 0U);
}

// The adapter reuses the number of a freed window; the invalidation event of its old key arrives late.
TEST_F(Rights, LateInvalidationOfAnOldKeyKeepsTheNewKey) {
  mock_hca::Profile mlx5_reusing_numbers = mock_hca::mlx5();
  mlx5_reusing_numbers.reuses_numbers = true;
  ASSERT_NO_FATAL_FAILURE(connected({mlx5_reusing_numbers}));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto first = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(first);
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::write_imm;
  work.signalled = true;
  client.fabric->post_receive(kNear, 1, 0);
  ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  take(client, Kind::send_done, kNear);  // proves that the earlier bind is done
  take(server, Kind::imm_received, kFar);
  work.key = kFar;
  work.op = WorkRequest::Op::send_inv;
  work.rkey = first->rkey;
  ASSERT_EQ(server.fabric->post(std::span(&work, 1)), 1U);
  server.fabric->try_wait();  // the event reaches the client's adapter; the client polls it later
  client.fabric->release_key(first->id);
  const auto next = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(next);
  ASSERT_EQ(next->rkey >> 8, first->rkey >> 8);
  EXPECT_EQ(take(client, Kind::key_invalidated, kNear).rkey, first->rkey);
  client.fabric->release_key(next->id);
  // The second key is still valid, so its window must not be bound to another key.
  ASSERT_TRUE(client.fabric->make_request_key(kNear, memory->id, 0, 4096));
  EXPECT_TRUE(carries());
  EXPECT_EQ(client.count(Kind::connection_lost, kNear), 0U);
}

// After an invalidation, neither the old rkey nor the next one gives access.
TEST_F(Rights, InvalidatedKeyGrantsNoAccess) {
  for (const std::uint32_t step : {0U, 1U}) {
    ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}));
    const auto memory = server.fabric->allocate(4096);
    const auto source = client.fabric->allocate(4096);
    ASSERT_TRUE(memory && source);
    const auto key = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
    ASSERT_TRUE(key && sends(kNear, *source, key->rkey, key->remote_addr, kFar));
    server.fabric->invalidate(kFar, key->id, 5);
    EXPECT_TRUE(take(server, Kind::chunk_invalidated, kFar).ok);
    EXPECT_FALSE(sends(kNear, *source, key->rkey + step, key->remote_addr, kFar));
    EXPECT_EQ(client.count(Kind::connection_lost, kNear), 1U);
    close();
  }
}

TEST_F(Rights, InvalidatingAnUnknownKeyFails) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}));
  server.fabric->invalidate(kFar, 77, 5);
  const SeenEvent done = take(server, Kind::chunk_invalidated, kFar);
  EXPECT_EQ(done.cookie, 5U);
  EXPECT_FALSE(done.ok);
}

TEST_F(Rights, FailedKeyTakesNoId) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}));
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(key);
  server.fabric->release_key(key->id);
  mock_hca::fail_creations(0, 2);
  EXPECT_FALSE(server.fabric->make_key(memory->id, 0, 4096));
  EXPECT_FALSE(server.fabric->make_revocable_key(kFar, memory->id, 0, 4096));
  const auto next = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->id, key->id);
}

TEST_F(Rights, KeyWithoutRegisteredMemoryTakesNoId) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(key);
  server.fabric->release_key(key->id);
  mock_hca::fail_creations(0, 1);
  EXPECT_FALSE(server.fabric->make_revocable_key(kFar2, memory->id, 0, 4096));
  const auto next = server.fabric->make_revocable_key(kFar2, memory->id, 0, 4096);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->id, key->id);
}

TEST_F(Rights, AdaptersArePolledInTurn) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  for (const ConKey far : {kFar, kFar2}) {
    std::vector<WorkRequest> work(4);
    for (WorkRequest& one : work) {
      one.key = far;
      one.op = WorkRequest::Op::write_imm;
    }
    ASSERT_EQ(server.fabric->post(work), 4U);
  }
  server.fabric->try_wait();
  std::vector<ConKey> heard;
  std::array<FabricEvent, 1> one;
  for (unsigned i = 0; i < 400 && heard.size() < 8; ++i)
    if (client.fabric->poll(now, one) == 1) heard.push_back(std::get<event::ImmReceived>(one[0]).key);
  ASSERT_EQ(heard.size(), 8U);
  EXPECT_EQ(std::count(heard.begin(), heard.begin() + 4, kNear), 2);
}

TEST_F(Rights, ReleasedMemoryIsReturnedToTheSystem) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}));
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  server.fabric->release(memory->id);
  unsigned char there = 0;
  EXPECT_EQ(::mincore(memory->bytes.data(), 4096, &there), -1);
  EXPECT_EQ(errno, ENOMEM);
}

std::size_t pages_of_this_process() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST_F(Rights, UnregistrableMemoryIsReturnedToTheSystem) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5()}));
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const std::size_t before = pages_of_this_process();
  for (unsigned i = 0; i < 20; ++i) {
    mock_hca::fail_creations(0, 1);
    ASSERT_FALSE(server.fabric->allocate(kBytes));
  }
  EXPECT_LT(pages_of_this_process(),
            before + 10 * kBytes / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace rtrs::conformance::access_rights_test
