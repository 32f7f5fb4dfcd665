// Work requests: what arrives, in which order, and when posting is allowed.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

std::string_view text_at(const Target& target, std::size_t offset, std::size_t length) {
  return {reinterpret_cast<const char*>(target.region.bytes.data()) + offset, length};
}

TEST_P(FabricContract, data_is_visible_when_its_immediate_is_reported) {
  constexpr std::size_t kSize = 48 * 1024;
  const Link link = open_link(64, 0);
  const Target target = make_target(server(), kSize);
  const auto source = client().fabric().allocate(kSize);
  ASSERT_TRUE(source.has_value());
  for (std::uint32_t round = 1; round <= 48; ++round) {
    const std::uint32_t length = 8 + round * 977;
    std::fill_n(source->bytes.begin(), length, static_cast<std::byte>(round));
    post_one(client(), write_imm(link.client, *source, length, target, 0, round));
    ASSERT_EQ(expect(server(), Kind::imm_received, link.server).imm, round);
    const auto landed = target.region.bytes.first(length);
    ASSERT_TRUE(std::all_of(landed.begin(), landed.end(),
                            [&](std::byte b) { return b == static_cast<std::byte>(round); }));
  }
  close_link(link);
}

TEST_P(FabricContract, immediates_of_one_connection_arrive_in_the_order_of_posting) {
  const Link link = open_link(params(32, 256), 256, 0);
  const Target target = make_target(server(), 64 * 1024);
  const Region source = make_source(client(), std::string(4096, 's'));
  std::uint32_t next = 0;
  for (std::uint32_t imm = 0; imm < 200; ++imm) {
    const bool empty = imm % 3 == 0;
    post_one(client(), empty ? empty_imm(link.client, imm)
                             : write_imm(link.client, source, 1 + imm * 20, target, imm * 16, imm));
  }
  SeenEvent event;
  ASSERT_TRUE(run_until([&] {
    while (server().take(Kind::imm_received, link.server, event)) EXPECT_EQ(event.imm, next++);
    return next == 200;
  })) << next;
  close_link(link);
}

TEST_P(FabricContract, an_empty_write_with_immediate_needs_no_memory) {
  const Link link = open_link();
  for (const std::uint32_t imm : {0u, 1u, 0x80000000u, 0xffffffffu}) {
    post_one(client(), empty_imm(link.client, imm));
    post_one(server(), empty_imm(link.server, ~imm));
    EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, imm);
    EXPECT_EQ(expect(client(), Kind::imm_received, link.client).imm, ~imm);
  }
  close_link(link);
}

TEST_P(FabricContract, two_parts_land_one_after_the_other) {
  const Link link = open_link();
  const Target target = make_target(server(), 4096);
  const Region front = make_source(client(), "the data,");
  const Region back = make_source(client(), "xx and the header");
  WorkRequest work = write_imm(link.client, front, 9, target, 100, 5);
  work.part_count = 2;
  work.parts[1] = LocalPart{.region = back.id, .offset = 2, .length = 15};
  post_one(client(), work);
  expect(server(), Kind::imm_received, link.server);
  EXPECT_EQ(text_at(target, 100, 24), "the data, and the header");
  close_link(link);
}

TEST_P(FabricContract, a_write_without_immediate_is_silent_and_lands_before_later_ones) {
  const Link link = open_link();
  const Target target = make_target(server(), 4096);
  const Region source = make_source(client(), "silent");
  WorkRequest work = write_imm(link.client, source, 6, target, 0, 0);
  work.op = WorkRequest::Op::write;
  post_one(client(), work);
  post_one(client(), empty_imm(link.client, 77));
  EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, 77u);
  EXPECT_EQ(text_at(target, 0, 6), "silent");
  run_until_quiet();
  EXPECT_EQ(server().count(Kind::imm_received), 0u);
  close_link(link);
}

TEST_P(FabricContract, messages_arrive_with_and_without_an_immediate) {
  const Link link = open_link(8, 16 * 1024);
  post_one(client(), message(link.client, "plain"));
  const SeenEvent plain = expect(server(), Kind::message_received, link.server);
  EXPECT_EQ(plain.text, "plain");
  EXPECT_FALSE(plain.has_imm);
  const std::string big(9000, 'b');
  WorkRequest work = message(link.client, big);
  work.op = WorkRequest::Op::send_imm;
  work.imm = 0xfedcba98;
  post_one(client(), work);
  const SeenEvent with_imm = expect(server(), Kind::message_received, link.server);
  EXPECT_TRUE(with_imm.text == big) << with_imm.text.size() << " bytes";
  EXPECT_TRUE(with_imm.has_imm);
  EXPECT_EQ(with_imm.imm, 0xfedcba98u);
  post_one(client(), message(link.client, ""));
  EXPECT_EQ(expect(server(), Kind::message_received, link.server).text, "");
  close_link(link);
}

TEST_P(FabricContract, inline_bytes_may_change_once_post_has_returned) {
  const Link link = open_link(32, 1024);
  for (const std::size_t size : {20u, 128u, 129u, 1000u}) {
    std::string text(size, 'o');
    post_one(client(), message(link.client, text));
    text.assign(size, 'n');
    EXPECT_TRUE(expect(server(), Kind::message_received, link.server).text == std::string(size, 'o')) << size;
  }
  close_link(link);
}

TEST_P(FabricContract, receives_can_be_reposted_many_times) {
  const Link link = open_link(params(16, 4), 4, 64);
  for (int round = 0; round < 40; ++round) {
    const std::string text = "message " + std::to_string(round);
    post_one(client(), message(link.client, text));
    EXPECT_EQ(expect(server(), Kind::message_received, link.server).text, text);
    server().fabric().post_receive(link.server, 1, 64);
  }
  close_link(link);
}

TEST_P(FabricContract, a_message_without_a_receive_is_never_dropped_silently) {
  const Link link = open_link(0, 0);
  post_one(client(), message(link.client, "early"));
  // run_until_quiet() might not return, because a waiting message may keep wait_fd() readable.
  unsigned polls = 0;
  run_until([&] { return ++polls > 200; });
  EXPECT_EQ(server().count(Kind::message_received), 0u);
  server().fabric().post_receive(link.server, 1, 64);
  SeenEvent event;
  EXPECT_TRUE(run_until([&] {
    return server().take(Kind::message_received, link.server, event) ||
           server().take(Kind::connection_lost, link.server, event);
  }));
  if (event.kind == Kind::message_received) {
    EXPECT_EQ(event.text, "early");
  }
  close_link(link);
}

TEST_P(FabricContract, only_signalled_work_reports_its_cookie) {
  const Link link = open_link();
  for (std::uint64_t i = 0; i < 9; ++i) {
    WorkRequest work = empty_imm(link.client, 1);
    work.signalled = i % 3 == 2;
    work.cookie = 0xabcdef0000000000u + i;
    post_one(client(), work);
  }
  for (const std::uint64_t i : {2u, 5u, 8u}) {
    EXPECT_EQ(expect(client(), Kind::send_done, link.client).cookie, 0xabcdef0000000000u + i);
  }
  run_until_quiet();
  EXPECT_EQ(client().count(Kind::send_done), 0u);
  EXPECT_EQ(server().count(Kind::imm_received), 9u);
  close_link(link);
}

TEST_P(FabricContract, post_accepts_a_prefix_within_the_send_depth_and_later_the_rest) {
  constexpr std::uint32_t kDepth = 8;
  const Link link = open_link(params(kDepth, 128), 128, 0);
  const Target target = make_target(server(), 256 * 1024);
  const auto source = client().fabric().allocate(256 * 1024);
  ASSERT_TRUE(source.has_value());
  std::vector<WorkRequest> work;
  for (std::uint32_t i = 0; i < 40; ++i) {
    work.push_back(write_imm(link.client, *source, 256 * 1024, target, 0, i));
  }
  const std::size_t first = client().fabric().post(work);
  EXPECT_GE(first, 1u);
  EXPECT_LE(first, kDepth);
  // No work is signalled, yet the rest must be accepted in time.
  post_all(client(), std::span(work).subspan(first));
  std::uint32_t next = 0;
  SeenEvent event;
  EXPECT_TRUE(run_until([&] {
    while (server().take(Kind::imm_received, link.server, event)) EXPECT_EQ(event.imm, next++);
    return next == 40;
  }));
  close_link(link);
}

TEST_P(FabricContract, work_for_a_lost_connection_is_accepted_and_dropped) {
  const Link link = open_link();
  server().fabric().disconnect(link.server);
  expect(client(), Kind::connection_lost, link.client);
  const std::vector<WorkRequest> work(500, empty_imm(link.client, 3));
  EXPECT_EQ(client().fabric().post(work), work.size());
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
  EXPECT_EQ(client().fabric().post(work), work.size());
  run_until_quiet();
  EXPECT_TRUE(client().events().empty());
}

TEST_P(FabricContract, outstanding_work_ends_with_the_connection) {
  const Link link = open_link(params(64, 64), 64, 0);
  const Target target = make_target(server(), 1024 * 1024);
  const auto source = client().fabric().allocate(1024 * 1024);
  ASSERT_TRUE(source.has_value());
  std::vector<WorkRequest> work(48, write_imm(link.client, *source, 1024 * 1024, target, 0, 9));
  for (WorkRequest& request : work) request.signalled = true;
  client().fabric().post(work);
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
  // The caller owns the memory again and may free it.
  client().fabric().release(source->id);
  run_until_quiet();
  EXPECT_TRUE(client().events().empty());
  server().fabric().disconnect(link.server);
  expect(server(), Kind::connection_closed, link.server);
}

TEST_P(FabricContract, events_beyond_the_span_wait_for_the_next_poll) {
  const Link link = open_link(params(64, 64), 64, 0);
  for (std::uint32_t i = 0; i < 50; ++i) post_one(client(), empty_imm(link.client, i));
  std::uint32_t next = 0;
  EXPECT_TRUE(run_until([&] {
    SeenEvent seen;
    while (server().take(Kind::imm_received, link.server, seen)) EXPECT_EQ(seen.imm, next++);
    FabricEvent one;
    const bool any = server().fabric().poll(pair().now(), std::span(&one, 1)) == 1;
    if (const auto* received = any ? std::get_if<event::ImmReceived>(&one) : nullptr) {
      EXPECT_EQ(received->imm, next++);
    }
    return next == 50;
  }));
  close_link(link);
}

}  // namespace
}  // namespace rtrs::conformance
