// Several connections: they are independent of each other, and any number of them can be opened one after the
// other.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

TEST_P(FabricContract, private_data_may_hold_any_byte) {
  const auto pattern = [](std::size_t size, unsigned seed) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 37 + seed);
    bytes.back() = 'e';
    return bytes;
  };
  const std::string question = pattern(capabilities().connect_data, 0);
  const std::string answer = pattern(capabilities().accept_data, 128);
  const Link link{.client = fresh_key(), .server = fresh_key()};
  client().fabric().connect(link.client, pair().server_address(), params(), bytes_of(question));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  EXPECT_EQ(request.text.substr(0, question.size()), question);
  server().fabric().accept(request.request, link.server, params(), bytes_of(answer));
  EXPECT_EQ(expect(client(), Kind::connected, link.client).text.substr(0, answer.size()), answer);
  close_link(link);
}

TEST_P(FabricContract, concurrent_connects_each_get_their_own_answer) {
  constexpr std::size_t kCount = 12;
  std::vector<Link> links(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    links[i] = {.client = fresh_key(), .server = fresh_key()};
    client().fabric().connect(links[i].client, pair().server_address(), params(),
                              bytes_of(std::string(1, static_cast<char>('a' + i))));
  }
  for (std::size_t answered = 0; answered < kCount; ++answered) {
    const SeenEvent request = expect(server(), Kind::connect_requested);
    const std::size_t asker = static_cast<std::size_t>(request.text.at(0) - 'a');
    ASSERT_LT(asker, kCount);
    const std::string answer = "to " + std::string(1, request.text.at(0));
    if (asker % 2 == 0) {
      server().fabric().accept(request.request, links[asker].server, params(), bytes_of(answer));
    } else {
      server().fabric().reject(request.request, bytes_of(answer));
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    const Kind kind = i % 2 == 0 ? Kind::connected : Kind::connect_failed;
    EXPECT_EQ(unpadded(expect(client(), kind, links[i].client).text),
              "to " + std::string(1, static_cast<char>('a' + i)));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 2 == 0) {
      close_link(links[i]);
    } else {
      client().fabric().disconnect(links[i].client);
      expect(client(), Kind::connection_closed, links[i].client);
    }
  }
}

TEST_P(FabricContract, a_reject_without_private_data_ends_the_attempt) {
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  server().fabric().reject(request.request, {});
  expect(client(), Kind::connect_failed, key);
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
}

TEST_P(FabricContract, a_rejected_client_can_connect_again) {
  for (int round = 0; round < 3; ++round) {
    const ConKey key = fresh_key();
    client().fabric().connect(key, pair().server_address(), params(), bytes_of("let me in"));
    server().fabric().reject(expect(server(), Kind::connect_requested).request, bytes_of("not yet"));
    expect(client(), Kind::connect_failed, key);
    client().fabric().disconnect(key);
    expect(client(), Kind::connection_closed, key);
  }
  const Link link = open_link();
  post_one(client(), empty_imm(link.client, 1));
  EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, 1u);
  close_link(link);
}

TEST_P(FabricContract, a_disconnect_is_reported_and_the_peer_keeps_its_end) {
  const Link link = open_link();
  client().fabric().disconnect(link.client);
  expect(server(), Kind::connection_lost, link.server);
  run_until_quiet();
  EXPECT_EQ(server().count(Kind::connection_closed, link.server), 0u);
  EXPECT_EQ(server().count(Kind::connection_lost, link.server), 0u) << "lost twice";
  server().fabric().disconnect(link.server);
  expect(server(), Kind::connection_closed, link.server);
  expect(client(), Kind::connection_closed, link.client);
}

TEST_P(FabricContract, a_new_connection_gets_nothing_of_its_predecessor) {
  const Link old = open_link(params(64, 64), 64, 0);
  const Target target = make_target(server(), 256 * 1024);
  const Region source = make_source(client(), std::string(256 * 1024, 'o'));
  const std::vector<WorkRequest> late(32, write_imm(old.client, source, 256 * 1024, target, 0, 1));
  client().fabric().post(late);
  client().fabric().disconnect(old.client);
  // Reconnects the same path and connection while the old one is still closing.
  Link next{.client = fresh_key(), .server = fresh_key()};
  next.client.path = old.client.path, next.client.con = old.client.con;
  next.server.path = old.server.path, next.server.con = old.server.con;
  client().fabric().connect(next.client, pair().server_address(), params(), bytes_of("again"));
  client().fabric().post_receive(next.client, 8, 0);
  const SeenEvent request = expect(server(), Kind::connect_requested);
  server().fabric().accept(request.request, next.server, params(), bytes_of("welcome"));
  server().fabric().post_receive(next.server, 8, 0);
  expect(client(), Kind::connected, next.client);
  post_one(client(), empty_imm(next.client, 2));
  EXPECT_EQ(expect(server(), Kind::imm_received, next.server).imm, 2u);
  server().fabric().disconnect(old.server);
  expect(server(), Kind::connection_closed, old.server);
  expect(client(), Kind::connection_closed, old.client);
  post_one(server(), empty_imm(next.server, 3));
  EXPECT_EQ(expect(client(), Kind::imm_received, next.client).imm, 3u);
  run_until_quiet();
  EXPECT_EQ(server().count(Kind::imm_received, next.server), 0u);
  EXPECT_EQ(server().count(Kind::connection_lost, next.server), 0u);
  close_link(next);
}

TEST_P(FabricContract, a_blocked_connection_does_not_delay_another) {
  const Link stuck = open_link(0, 0);
  const Link link = open_link(params(16, 64), 64, 0);
  post_one(client(), message(stuck.client, "nobody wants me"));
  for (std::uint32_t imm = 0; imm < 40; ++imm) {
    post_one(client(), empty_imm(link.client, imm));
    EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, imm);
  }
  EXPECT_EQ(server().count(Kind::message_received), 0u);
  close_link(link);
  close_link(stuck);
}

TEST_P(FabricContract, one_post_may_contain_work_for_several_connections) {
  const std::array<Link, 3> links{open_link(params(8, 64), 64, 0), open_link(params(8, 64), 64, 0),
                                  open_link(params(8, 64), 64, 0)};
  std::vector<WorkRequest> work;
  for (std::uint32_t i = 0; i < 60; ++i) work.push_back(empty_imm(links[i % 3].client, i));
  post_all(client(), work);
  std::array<std::uint32_t, 3> next{0, 1, 2};
  SeenEvent event;
  EXPECT_TRUE(run_until([&] {
    for (std::size_t at = 0; at < links.size(); ++at) {
      for (; server().take(Kind::imm_received, links[at].server, event); next[at] += 3)
        EXPECT_EQ(event.imm, next[at]);
    }
    return next == std::array<std::uint32_t, 3>{60, 61, 62};
  }));
  for (const Link& link : links) close_link(link);
}

TEST_P(FabricContract, work_for_a_lost_connection_does_not_delay_that_of_others) {
  const Link lost = open_link();
  const Link link = open_link(params(8, 64), 64, 0);
  server().fabric().disconnect(lost.server);
  expect(client(), Kind::connection_lost, lost.client);
  std::vector<WorkRequest> work;
  for (std::uint32_t i = 0; i < 40; ++i) {
    work.push_back(empty_imm(lost.client, i));
    work.push_back(empty_imm(link.client, i));
  }
  post_all(client(), work);
  for (std::uint32_t i = 0; i < 40; ++i) ASSERT_EQ(expect(server(), Kind::imm_received, link.server).imm, i);
  close_link(link);
  client().fabric().disconnect(lost.client);
  expect(client(), Kind::connection_closed, lost.client);
  expect(server(), Kind::connection_closed, lost.server);
}

TEST_P(FabricContract, data_of_many_connections_lands_in_the_right_place) {
  constexpr std::size_t kLinks = 8, kArea = 16 * 1024;
  const Target target = make_target(server(), kLinks * kArea);
  std::vector<Link> links;
  std::vector<Region> sources;
  for (std::size_t i = 0; i < kLinks; ++i) {
    links.push_back(open_link(params(16, 64), 64, 0));
    sources.push_back(make_source(client(), std::string(kArea, static_cast<char>('A' + i))));
  }
  for (std::uint32_t round = 0; round < 16; ++round) {
    for (std::size_t i = 0; i < kLinks; ++i)
      post_one(client(), write_imm(links[i].client, sources[i], kArea / 16, target,
                                   i * kArea + round * kArea / 16, round));
  }
  for (const Link& link : links) {
    for (std::uint32_t round = 0; round < 16; ++round)
      ASSERT_EQ(expect(server(), Kind::imm_received, link.server).imm, round);
  }
  for (std::size_t i = 0; i < kLinks; ++i) {
    const auto area = target.region.bytes.subspan(i * kArea, kArea);
    EXPECT_TRUE(std::all_of(area.begin(), area.end(), [&](std::byte b) {
      return b == static_cast<std::byte>('A' + i);
    })) << i;
  }
  for (const Link& link : links) close_link(link);
}

TEST_P(FabricContract, many_connections_in_sequence_work_like_the_first) {
  for (std::uint32_t round = 0; round < 40; ++round) {
    const Link link = open_link(8, 64);
    post_one(client(), empty_imm(link.client, round));
    post_one(server(), empty_imm(link.server, ~round));
    ASSERT_EQ(expect(server(), Kind::imm_received, link.server).imm, round);
    ASSERT_EQ(expect(client(), Kind::imm_received, link.client).imm, ~round);
    close_link(link);
    ASSERT_FALSE(HasFailure()) << round;
  }
}

TEST_P(FabricContract, an_idle_connection_reports_nothing) {
  const Link link = open_link();
  run_until_quiet();
  EXPECT_TRUE(client().events().empty());
  EXPECT_TRUE(server().events().empty());
  close_link(link);
}

TEST_P(FabricContract, death_of_the_peer_frees_the_memory_of_outstanding_work) {
  const Link link = open_link(params(64, 64), 64, 0);
  const Target target = make_target(server(), 1024 * 1024);
  const auto source = client().fabric().allocate(1024 * 1024);
  ASSERT_TRUE(source.has_value());
  const std::vector<WorkRequest> work(32, write_imm(link.client, *source, 1024 * 1024, target, 0, 9));
  client().fabric().post(work);
  kill_server_now();
  expect(client(), Kind::connection_lost, link.client);
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
  client().fabric().release(source->id);
  run_until_quiet();
  EXPECT_TRUE(client().events().empty());
}

}  // namespace
}  // namespace rtrs::conformance
