// Memory regions, and the keys that give peers access.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

bool untouched(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

TEST_P(FabricContract, allocated_memory_is_zero_and_found_by_its_id) {
  const auto region = client().fabric().allocate(12345);
  ASSERT_TRUE(region.has_value());
  EXPECT_EQ(region->bytes.size(), 12345u);
  EXPECT_TRUE(untouched(region->bytes));
  EXPECT_EQ(client().fabric().bytes(region->id).data(), region->bytes.data());
  client().fabric().release(region->id);
}

TEST_P(FabricContract, registered_memory_works_as_source_and_target) {
  std::array<std::byte, 64> from{};
  std::array<std::byte, 64> to{};
  std::memcpy(from.data() + 8, "caller", 6);
  const Link link = open_link();
  const auto source = client().fabric().register_memory(from);
  const auto region = server().fabric().register_memory(to);
  ASSERT_TRUE(source && region);
  const auto remote_key = server().fabric().make_key(region->id, 16, 32);
  ASSERT_TRUE(remote_key.has_value());
  WorkRequest work = write_imm(link.client, *source, 6, Target{*region, *remote_key}, 2, 4);
  work.parts[0].offset = 8;
  post_one(client(), work);
  expect(server(), Kind::imm_received, link.server);
  EXPECT_EQ(std::memcmp(to.data() + 18, "caller", 6), 0);
  close_link(link);
  server().fabric().release_key(remote_key->id);
  server().fabric().release(region->id);
  client().fabric().release(source->id);
}

TEST_P(FabricContract, a_key_outside_its_region_is_refused) {
  const auto region = server().fabric().allocate(4096);
  ASSERT_TRUE(region.has_value());
  EXPECT_FALSE(server().fabric().make_key(region->id, 0, 4097).has_value());
  EXPECT_FALSE(server().fabric().make_key(region->id, 4096, 1).has_value());
  EXPECT_FALSE(server().fabric().make_key(region->id, 5000, 1).has_value());
}

TEST_P(FabricContract, reallocated_memory_is_zero) {
  for (int round = 0; round < 8; ++round) {
    const auto region = client().fabric().allocate(20000);
    ASSERT_TRUE(region.has_value());
    EXPECT_TRUE(untouched(region->bytes));
    std::fill(region->bytes.begin(), region->bytes.end(), std::byte{0x5a});
    client().fabric().release(region->id);
  }
}

TEST_P(FabricContract, a_key_is_valid_on_every_connection) {
  const Link first = open_link();
  const Target target = make_target(server(), 4096);
  const Link second = open_link();
  const Region source = make_source(client(), "shared");
  post_one(client(), write_imm(first.client, source, 6, target, 0, 1));
  post_one(client(), write_imm(second.client, source, 6, target, 100, 2));
  expect(server(), Kind::imm_received, first.server);
  expect(server(), Kind::imm_received, second.server);
  EXPECT_EQ(std::memcmp(target.region.bytes.data(), "shared", 6), 0);
  EXPECT_EQ(std::memcmp(target.region.bytes.data() + 100, "shared", 6), 0);
  close_link(first);
  close_link(second);
}

TEST_P(FabricContract, a_key_gives_no_access_to_the_next_part_of_its_region) {
  const Link link = open_link();
  const auto region = server().fabric().allocate(8192);
  ASSERT_TRUE(region.has_value());
  const auto front = server().fabric().make_key(region->id, 0, 4096);
  const auto back = server().fabric().make_key(region->id, 4096, 4096);
  ASSERT_TRUE(front && back);
  EXPECT_NE(front->rkey, back->rkey);
  const Region source = make_source(client(), "intruder");
  const Target target{*region, *front};
  expect_refused(link, write_imm(link.client, source, 8, target, 4092, 1), target);
}

TEST_P(FabricContract, releasing_a_key_keeps_other_keys_of_its_region_valid) {
  const Link link = open_link();
  const auto region = server().fabric().allocate(8192);
  ASSERT_TRUE(region.has_value());
  const auto front = server().fabric().make_key(region->id, 0, 4096);
  const auto back = server().fabric().make_key(region->id, 4096, 4096);
  ASSERT_TRUE(front && back);
  server().fabric().release_key(front->id);
  const Region source = make_source(client(), "welcome");
  post_one(client(), write_imm(link.client, source, 7, Target{*region, *back}, 0, 1));
  expect(server(), Kind::imm_received, link.server);
  EXPECT_EQ(std::memcmp(region->bytes.data() + 4096, "welcome", 7), 0);
  close_link(link);
}

TEST_P(FabricContract, a_write_with_a_wrong_key_breaks_the_connection_and_writes_nothing) {
  const Link link = open_link();
  Target target = make_target(server(), 4096);
  const Region source = make_source(client(), "intruder");
  target.remote_key.rkey ^= 0x10;
  expect_refused(link, write_imm(link.client, source, 8, target, 0, 1), target);
}

TEST_P(FabricContract, a_write_beyond_the_key_breaks_the_connection_and_writes_nothing) {
  const Link link = open_link();
  const Target target = make_target(server(), 4096);
  const Region source = make_source(client(), "intruder");
  expect_refused(link, write_imm(link.client, source, 8, target, 4089, 1), target);
}

TEST_P(FabricContract, a_write_with_key_zero_is_refused) {
  const Link link = open_link();
  const Target target = make_target(server(), 4096);
  const Region source = make_source(client(), "intruder");
  WorkRequest work = write_imm(link.client, source, 1, target, 0, 1);
  work.rkey = 0;
  work.remote_addr = 0;
  expect_refused(link, work, target);
}

TEST_P(FabricContract, a_write_with_a_released_key_is_refused) {
  const Link link = open_link();
  const Target target = make_target(server(), 4096);
  const Region source = make_source(client(), "intruder");
  server().fabric().release_key(target.remote_key.id);
  expect_refused(link, write_imm(link.client, source, 8, target, 0, 1), target);
}

TEST_P(FabricContract, a_key_grants_no_access_after_its_invalidation_is_reported) {
  if (!capabilities().invalidation) GTEST_SKIP() << "no capability invalidation";
  const Link link = open_link(keyed(), 32, 256);
  const Target target = make_revocable(link, 4096);
  const Region source = make_source(client(), "intruder");
  server().fabric().invalidate(link.server, target.remote_key.id, 4711);
  const SeenEvent done = expect(server(), Kind::chunk_invalidated, link.server);
  EXPECT_EQ(done.cookie, 4711u);
  EXPECT_TRUE(done.ok);
  expect_refused(link, write_imm(link.client, source, 8, target, 0, 1), target);
}

TEST_P(FabricContract, a_renewed_key_differs_from_the_last_fifty) {
  if (!capabilities().invalidation) GTEST_SKIP() << "no capability invalidation";
  const Link link = open_link(keyed(), 64, 0);
  Target target = make_revocable(link, 4096);
  const Region source = make_source(client(), "welcome");
  std::vector<std::uint32_t> keys{target.remote_key.rkey};
  for (std::uint32_t round = 0; round < 50; ++round) {
    server().fabric().invalidate(link.server, target.remote_key.id, round);
    expect(server(), Kind::chunk_invalidated, link.server);
    const auto key = server().fabric().rebind(link.server, target.remote_key.id);
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(std::count(keys.begin(), keys.end(), *key), 0);
    keys.push_back(*key);
    target.remote_key.rkey = *key;
    announce_key(link);
    post_one(client(), write_imm(link.client, source, 7, target, round, round));
    ASSERT_EQ(expect(server(), Kind::imm_received, link.server).imm, round);
  }
  EXPECT_EQ(std::memcmp(target.region.bytes.data() + 49, "welcome", 7), 0);
  close_link(link);
}

TEST_P(FabricContract, no_invalidation_is_reported_after_closed) {
  if (!capabilities().invalidation) GTEST_SKIP() << "no capability invalidation";
  const Link link = open_link(keyed(), 32, 256);
  const Target target = make_revocable(link, 4096);
  server().fabric().invalidate(link.server, target.remote_key.id, 1);
  server().fabric().disconnect(link.server);
  run_until_quiet();
  ASSERT_FALSE(server().events().empty());
  EXPECT_EQ(server().events().back().kind, Kind::connection_closed);
  EXPECT_EQ(server().count(Kind::connection_closed), 1u);
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
}

// On soft-RoCE, destroying a queue pair with bound windows takes almost a minute and logs a kernel warning.
TEST_P(FabricContract, a_connection_may_close_before_its_request_keys_are_released) {
  if (!capabilities().per_io_keys) GTEST_SKIP() << "no capability per_io_keys";
  const Link other = open_link();
  const Link link = open_link(keyed(), 32, 256);
  const Region region = make_source(client(), "offered");
  std::vector<RemoteKeyId> offers;
  for (std::size_t at = 0; at < 4; ++at) {
    const auto offered = client().fabric().make_request_key(link.client, region.id, at, 1);
    ASSERT_TRUE(offered.has_value());
    offers.push_back(offered->id);
  }
  post_one(client(), empty_imm(link.client, 1));
  expect(server(), Kind::imm_received, link.server);
  close_link(link);
  post_one(client(), empty_imm(other.client, 2));
  EXPECT_EQ(expect(server(), Kind::imm_received, other.server).imm, 2U);
  for (const RemoteKeyId id : offers) client().fabric().release_key(id);
  client().fabric().release(region.id);
  close_link(other);
}

TEST_P(FabricContract, a_request_key_admits_data_until_the_peer_invalidates_it) {
  if (!capabilities().per_io_keys) GTEST_SKIP() << "no capability per_io_keys";
  const Link link = open_link(keyed(), 32, 256);
  const auto region = client().fabric().allocate(4096);
  ASSERT_TRUE(region.has_value());
  const auto offered = client().fabric().make_request_key(link.client, region->id, 0, 4096);
  ASSERT_TRUE(offered.has_value());
  post_one(client(), empty_imm(link.client, 1));
  expect(server(), Kind::imm_received, link.server);
  const Region source = make_source(server(), "answer");
  const Target target{*region, *offered};
  WorkRequest data = write_imm(link.server, source, 6, target, 10, 0);
  data.op = WorkRequest::Op::write;
  post_one(server(), data);
  WorkRequest end;
  end.key = link.server;
  end.op = WorkRequest::Op::send_inv;
  end.rkey = offered->rkey;
  post_one(server(), end);
  EXPECT_EQ(expect(client(), Kind::key_invalidated, link.client).rkey, offered->rkey);
  EXPECT_EQ(std::memcmp(region->bytes.data() + 10, "answer", 6), 0);
  post_one(server(), write_imm(link.server, source, 6, target, 100, 2));
  expect(client(), Kind::connection_lost, link.client);
  expect(server(), Kind::connection_lost, link.server);
  EXPECT_TRUE(untouched(region->bytes.subspan(100)));
  close_link(link);
  client().fabric().release_key(offered->id);
  client().fabric().release(region->id);
}

}  // namespace
}  // namespace rtrs::conformance
