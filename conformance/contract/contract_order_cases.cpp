// Ordering guarantees between work requests, directions and connections.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

// Takes the oldest arrival (message or immediate) on this connection.
bool take_arrival(Side& side, ConKey key, SeenEvent& out) {
  const auto is_arrival = [key](const SeenEvent& e) {
    return e.key == key && (e.kind == Kind::imm_received || e.kind == Kind::message_received);
  };
  const auto found = std::find_if(side.events().begin(), side.events().end(), is_arrival);
  if (found == side.events().end()) return false;
  out = std::move(*found);
  side.events().erase(found);
  return true;
}

TEST_P(FabricContract, messages_and_immediates_of_one_connection_keep_one_order) {
  constexpr std::uint32_t kCount = 80;
  const Link link = open_link(params(16, 128), 128, 64);
  const Target target = make_target(server(), 8192);
  const Region source = make_source(client(), std::string(8192, 'w'));
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::string text = std::to_string(i);
    WorkRequest work = message(link.client, text);
    if (i % 4 == 1) work = write_imm(link.client, source, 1 + i * 100, target, 0, i);
    if (i % 4 == 2) work = empty_imm(link.client, i);
    if (i % 4 == 3) {
      work.op = WorkRequest::Op::send_imm;
      work.imm = i;
    }
    post_one(client(), work);
  }
  std::uint32_t next = 0;
  SeenEvent event;
  ASSERT_TRUE(run_until([&] {
    for (; take_arrival(server(), link.server, event); ++next) {
      const bool is_message = event.kind == Kind::message_received;
      EXPECT_EQ(is_message, next % 4 == 0 || next % 4 == 3) << next;
      if (is_message) {
        EXPECT_EQ(event.text, std::to_string(next));
      }
      if (next % 4 != 0) {
        EXPECT_EQ(event.imm, next);
      }
    }
    return next == kCount;
  })) << next;
  close_link(link);
}

TEST_P(FabricContract, concurrent_traffic_in_both_directions_keeps_its_order) {
  constexpr std::uint32_t kCount = 150;
  const Link link = open_link(params(16, 256), 256, 0);
  const Target at_server = make_target(server(), 4096);
  const Target at_client = make_target(client(), 4096);
  const Region of_client = make_source(client(), std::string(4096, 'c'));
  const Region of_server = make_source(server(), std::string(4096, 's'));
  for (std::uint32_t i = 0; i < kCount; ++i) {
    post_one(client(), write_imm(link.client, of_client, 1 + i * 20, at_server, 0, i));
    post_one(server(), write_imm(link.server, of_server, 1 + i * 20, at_client, 0, ~i));
  }
  std::uint32_t up = 0, down = 0;
  SeenEvent event;
  ASSERT_TRUE(run_until([&] {
    while (server().take(Kind::imm_received, link.server, event)) EXPECT_EQ(event.imm, up++);
    while (client().take(Kind::imm_received, link.client, event)) EXPECT_EQ(event.imm, ~down++);
    return up == kCount && down == kCount;
  })) << up
      << " to the server, " << down << " to the client";
  close_link(link);
}

TEST_P(FabricContract, signalled_work_of_all_kinds_completes_in_the_order_of_posting) {
  const Link link = open_link(params(8, 64), 64, 64);
  const Target target = make_target(server(), 64 * 1024);
  const Region source = make_source(client(), std::string(64 * 1024, 'w'));
  constexpr std::uint64_t kCount = 48;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    WorkRequest work = message(link.client, "m");
    if (i % 3 == 1) work = write_imm(link.client, source, 64 * 1024, target, 0, 1);
    if (i % 3 == 2) {
      work = write_imm(link.client, source, 1, target, 0, 0);
      work.op = WorkRequest::Op::write;
    }
    work.signalled = true;
    work.cookie = 1000 + i;
    post_one(client(), work);
  }
  std::uint64_t next = 0;
  SeenEvent done;
  ASSERT_TRUE(run_until([&] {
    while (client().take(Kind::send_done, link.client, done)) EXPECT_EQ(done.cookie, 1000 + next++);
    return next == kCount;
  })) << next;
  close_link(link);
}

TEST_P(FabricContract, an_empty_write_needs_no_key_and_no_receive) {
  if (!capabilities().done_means_delivered) GTEST_SKIP() << "no capability done_means_delivered";
  const Link link = open_link();
  for (std::uint64_t round = 1; round <= 16; ++round) {
    WorkRequest work;
    work.key = link.client;
    work.op = WorkRequest::Op::write;
    work.signalled = true;
    work.cookie = round;
    post_one(client(), work);
    EXPECT_EQ(expect(client(), Kind::send_done, link.client).cookie, round);
    work.key = link.server;
    post_one(server(), work);
    EXPECT_EQ(expect(server(), Kind::send_done, link.server).cookie, round);
  }
  close_link(link);
}

TEST_P(FabricContract, a_completed_write_has_reached_the_peer) {
  if (!capabilities().done_means_delivered) GTEST_SKIP() << "no capability done_means_delivered";
  constexpr std::size_t kSize = 64 * 1024;
  const Link link = open_link();
  const Target target = make_target(server(), kSize);
  const auto source = client().fabric().allocate(kSize);
  ASSERT_TRUE(source.has_value());
  for (unsigned round = 1; round <= 16; ++round) {
    std::fill(source->bytes.begin(), source->bytes.end(), static_cast<std::byte>(round));
    WorkRequest work = write_imm(link.client, *source, kSize, target, 0, 0);
    work.op = WorkRequest::Op::write;
    work.signalled = true;
    work.cookie = round;
    post_one(client(), work);
    ASSERT_EQ(expect(client(), Kind::send_done, link.client).cookie, round);
    const auto landed = target.region.bytes;
    ASSERT_TRUE(std::all_of(landed.begin(), landed.end(),
                            [&](std::byte b) { return b == static_cast<std::byte>(round); }));
  }
  close_link(link);
}

TEST_P(FabricContract, work_outstanding_when_the_peer_leaves_is_reported_in_order_and_at_most_once) {
  const Link link = open_link(params(64, 64), 64, 0);
  const Target target = make_target(server(), 256 * 1024);
  const auto source = client().fabric().allocate(256 * 1024);
  ASSERT_TRUE(source.has_value());
  std::vector<WorkRequest> work(40, write_imm(link.client, *source, 256 * 1024, target, 0, 9));
  for (std::size_t i = 0; i < work.size(); ++i) {
    work[i].signalled = true;
    work[i].cookie = i + 1;
  }
  const std::size_t taken = client().fabric().post(work);
  EXPECT_GE(taken, 1u);
  expect(server(), Kind::imm_received, link.server);
  server().fabric().disconnect(link.server);
  expect(client(), Kind::connection_lost, link.client);
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
  run_until_quiet();
  std::uint64_t last = 0;
  SeenEvent done;
  while (client().take(Kind::send_done, link.client, done)) {
    EXPECT_GT(done.cookie, last);
    last = done.cookie;
  }
  EXPECT_LE(last, taken);
  EXPECT_TRUE(client().events().empty());
  expect(server(), Kind::connection_closed, link.server);
}

TEST_P(FabricContract, receives_are_consumed_in_the_order_of_posting) {
  const Link link = open_link(0, 0);
  for (const std::uint32_t size : {16u, 1024u, 64u, 512u})
    server().fabric().post_receive(link.server, 1, size);
  const std::array<std::string, 4> texts{std::string(16, 'a'), std::string(1024, 'b'), std::string(64, 'c'),
                                         std::string(512, 'd')};
  for (const std::string& text : texts) post_one(client(), message(link.client, text));
  for (const std::string& text : texts)
    EXPECT_TRUE(expect(server(), Kind::message_received, link.server).text == text) << text.size();
  close_link(link);
}

TEST_P(FabricContract, a_message_longer_than_its_receive_is_never_delivered_in_part) {
  const Link link = open_link(4, 16);
  const std::string text(200, 'l');
  post_one(client(), message(link.client, text));
  SeenEvent event;
  EXPECT_TRUE(run_until([&] {
    return server().take(Kind::message_received, link.server, event) ||
           server().take(Kind::connection_lost, link.server, event);
  }));
  if (event.kind == Kind::message_received) {
    EXPECT_EQ(event.text, text);
  }
  close_link(link);
}

TEST_P(FabricContract, an_immediate_without_a_receive_is_never_dropped_silently) {
  const Link link = open_link(0, 0);
  post_one(client(), empty_imm(link.client, 4711));
  unsigned polls = 0;
  run_until([&] { return ++polls > 200; });
  server().fabric().post_receive(link.server, 1, 0);
  SeenEvent event;
  EXPECT_TRUE(run_until([&] {
    return server().take(Kind::imm_received, link.server, event) ||
           server().take(Kind::connection_lost, link.server, event);
  }));
  if (event.kind == Kind::imm_received) {
    EXPECT_EQ(event.imm, 4711u);
  }
  close_link(link);
}

TEST_P(FabricContract, writes_of_many_sizes_arrive_whole_and_touch_nothing_beside_them) {
  constexpr std::size_t kGuard = 4096, kRoom = 1024 * 1024;
  const Link link = open_link(params(), 64, 0);
  const auto region = server().fabric().allocate(kRoom + 2 * kGuard);
  const auto source = client().fabric().allocate(kRoom);
  ASSERT_TRUE(region && source);
  const auto remote_key = server().fabric().make_key(region->id, kGuard, kRoom);
  ASSERT_TRUE(remote_key.has_value());
  const Target target{*region, *remote_key};
  for (std::size_t i = 0; i < kRoom; ++i) source->bytes[i] = static_cast<std::byte>(1 + i % 251);
  std::uint32_t imm = 0;
  for (const std::uint32_t size : {1u, 7u, 64u, 511u, 4096u, 65535u, 65537u, 300001u, 1048576u}) {
    const std::size_t at = kRoom - size;
    std::fill(region->bytes.begin(), region->bytes.end(), std::byte{0});
    post_one(client(), write_imm(link.client, *source, size, target, at, ++imm));
    ASSERT_EQ(expect(server(), Kind::imm_received, link.server).imm, imm);
    const auto landed = region->bytes.subspan(kGuard + at, size);
    EXPECT_TRUE(std::equal(landed.begin(), landed.end(), source->bytes.begin())) << size;
    const auto zeros = [](std::span<const std::byte> bytes) {
      return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    };
    EXPECT_TRUE(zeros(region->bytes.first(kGuard + at)) && zeros(region->bytes.last(kGuard))) << size;
  }
  close_link(link);
}

}  // namespace
}  // namespace rtrs::conformance
