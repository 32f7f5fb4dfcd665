// TCP fabric tests beyond the common contract: a key invalidated in the middle of a write, wakeups of a
// sleeping poller, and limits.
#include <poll.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"
#include "conformance/contract/tcp_pair.hpp"
#include "core/tcp/tcp_connection.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

std::unique_ptr<FabricPair> make_plain() {
  return TcpPair::open("127.0.0.1");
}
std::unique_ptr<FabricPair> make_crc() {
  tcp::TcpOptions options;
  options.crc = true;
  return TcpPair::open("127.0.0.1", options);
}
std::unique_ptr<FabricPair> make_of_one_connection() {
  tcp::TcpOptions options;
  options.max_connections = 1;
  return TcpPair::open("127.0.0.1", options);
}
// Warnings of both ends of make_with_short_timeout().
std::vector<std::string>& warnings() {
  static std::vector<std::string> lines;
  return lines;
}
std::unique_ptr<FabricPair> make_with_short_timeout() {
  tcp::TcpOptions options;
  options.undelivered_timeout_ms = 1000;
  warnings().clear();
  options.log = [](tcp::LogLevel level, const std::string& text) {
    if (level == tcp::LogLevel::warning) warnings().push_back(text);
  };
  return TcpPair::open("127.0.0.1", options);
}
std::unique_ptr<FabricPair> make_boundless() {
  tcp::TcpOptions options;
  options.undelivered_timeout_ms = 0;
  return TcpPair::open("127.0.0.1", options);
}
std::unique_ptr<FabricPair> make_without_memory() {
  tcp::TcpOptions options;
  options.max_memory = 1;
  return TcpPair::open("127.0.0.1", options);
}
constexpr std::uint32_t kDeep = 4096;
// Memory suffices for two connections of depth kDeep, but for only a part of the work that such a connection
// may have outstanding. One address may use seven eighths of `max_memory`.
std::unique_ptr<FabricPair> make_tight() {
  tcp::TcpOptions options;
  const std::uint64_t cost = tcp::Connection::cost({.send_depth = kDeep, .receive_depth = 64}, false, {});
  options.max_memory = (2 * cost + (std::uint64_t{20} << 10)) * 8 / 7;
  return TcpPair::open("127.0.0.1", options);
}

class TcpFence : public FabricContract {
 protected:
  // Starts a large write and polls until part of it has arrived.
  void begin_write(const Link& link, const Region& source, const Target& target) {
    post_one(client(), write_imm(link.client, source, kSize, target, 0, 1));
    while (target.region.bytes[0] == std::byte{0}) {
      client().poll(pair().now());
      server().poll(pair().now());
    }
    ASSERT_EQ(target.region.bytes[kSize - 1], std::byte{0}) << "the write was not large enough";
  }
  static constexpr std::uint32_t kSize = 15U << 20U;
};

TEST_P(TcpFence, no_data_lands_after_a_key_is_invalidated_during_a_write) {
  for (const bool released : {false, true}) {
    const Link link = open_link(keyed(), 32, 256);
    const Target target = make_revocable(link, kSize);
    const Region source = make_source(client(), std::string(kSize, 'w'));
    begin_write(link, source, target);
    if (released) {
      server().fabric().release_key(target.remote_key.id);
    } else {
      server().fabric().invalidate(link.server, target.remote_key.id, 1);
    }
    const std::vector<std::byte> landed(target.region.bytes.begin(), target.region.bytes.end());
    EXPECT_EQ(expect(server(), Kind::connection_lost, link.server).reason, Reason::protocol_violation);
    EXPECT_TRUE(std::equal(landed.begin(), landed.end(), target.region.bytes.begin()));
    expect(client(), Kind::connection_lost, link.client);
    close_link(link);
  }
}

// A thread may post while the polling thread sleeps.
TEST_P(TcpFence, a_post_or_a_disconnect_wakes_a_sleeping_fabric) {
  const Link link = open_link();
  const auto sleep_now = [&] {
    run_until_quiet();
    while (!client().fabric().try_wait()) client().poll(pair().now());
  };
  const auto is_awake = [&] {
    pollfd fd{.fd = client().fabric().wait_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&fd, 1, 0) == 1;
  };
  sleep_now();
  EXPECT_FALSE(is_awake());
  EXPECT_EQ(client().fabric().post(std::array{empty_imm(link.client, 7)}), 1U);
  EXPECT_TRUE(is_awake());
  EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, 7U);
  sleep_now();
  EXPECT_FALSE(is_awake());
  client().fabric().disconnect(link.client);
  EXPECT_TRUE(is_awake());
  expect(client(), Kind::connection_closed, link.client);
  server().fabric().disconnect(link.server);
  expect(server(), Kind::connection_closed, link.server);
}

TEST_P(TcpFence, no_extra_epoll_call_after_the_wakeup_event_was_reported) {
  const Link link = open_link();
  const auto looks = [&] { return dynamic_cast<tcp::TcpFabric&>(client().fabric()).stats().wait_calls; };
  run_until_quiet();
  EXPECT_EQ(server().fabric().post(std::array{empty_imm(link.server, 7)}), 1U);
  EXPECT_EQ(expect(client(), Kind::imm_received, link.client).imm, 7U);
  // The client has just called epoll_wait(), so the next polls read this recently active connection directly.
  for (const std::uint64_t before = looks(); looks() == before;) client().poll(pair().now());
  while (!client().fabric().try_wait()) client().poll(pair().now());
  EXPECT_EQ(server().fabric().post(std::array{empty_imm(link.server, 8)}), 1U);
  server().poll(pair().now());
  pollfd fd{.fd = client().fabric().wait_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&fd, 1, -1), 1);
  const std::uint64_t before = looks();
  EXPECT_EQ(expect(client(), Kind::imm_received, link.client).imm, 8U);
  client().poll(pair().now());
  EXPECT_EQ(looks(), before);
  EXPECT_TRUE(client().fabric().try_wait());
  client().poll(pair().now());
  EXPECT_EQ(looks(), before + 1) << "woken without a known reason";
  close_link(link);
}

TEST_P(TcpFence, unreported_arrivals_prevent_sleep) {
  const Link link = open_link();
  run_until_quiet();
  const std::array three{empty_imm(link.client, 1), empty_imm(link.client, 2), empty_imm(link.client, 3)};
  EXPECT_EQ(client().fabric().post(three), 3U);
  client().poll(pair().now());
  std::array<FabricEvent, 1> room;
  for (std::uint32_t next = 1;;) {
    if (server().fabric().poll(pair().now(), room) == 0) continue;
    EXPECT_EQ(test::seen(room[0]).imm, next);
    if (++next > 3) break;
    EXPECT_FALSE(server().fabric().try_wait()) << "the other immediates have arrived too";
  }
  run_until_quiet();
  client().fabric().disconnect(link.client);
  EXPECT_FALSE(client().fabric().try_wait()) << "ConnectionClosed is not reported yet";
  expect(client(), Kind::connection_closed, link.client);
  server().fabric().disconnect(link.server);
  expect(server(), Kind::connection_closed, link.server);
}

// The message has already been read from the socket, so the socket causes no further wakeup.
TEST_P(TcpFence, a_late_receive_wakes_a_sleeping_fabric) {
  const Link link = open_link(0, 256);
  post_one(client(), message(link.client, "early"));
  run_until_quiet();
  while (!server().fabric().try_wait()) server().poll(pair().now());
  pollfd fd{.fd = server().fabric().wait_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&fd, 1, 0), 0);
  server().fabric().post_receive(link.server, 1, 256);
  EXPECT_EQ(::poll(&fd, 1, 0), 1);
  EXPECT_EQ(expect(server(), Kind::message_received, link.server).text, "early");
  close_link(link);
}

// A recently active connection is read directly. Other connections must not have to wait until this
// connection is idle.
TEST_P(TcpFence, a_busy_connection_does_not_starve_others) {
  const Link busy = open_link();
  const ConKey other = fresh_key();
  client().fabric().connect(other, pair().server_address(), params(), bytes_of("hello"));
  SeenEvent seen;
  bool asked = false;
  for (std::uint32_t round = 0; round < 4096 && !asked; ++round) {
    post_one(client(), empty_imm(busy.client, round));
    client().poll(pair().now());
    while (!server().take(Kind::imm_received, busy.server, seen)) server().poll(pair().now());
    if (capabilities().imm_consumes_receive) server().fabric().post_receive(busy.server, 1, 256);
    asked = server().take(Kind::connect_requested, seen);
  }
  ASSERT_TRUE(asked);
  server().fabric().reject(seen.request, bytes_of("no"));
  expect(client(), Kind::connect_failed, other);
  close_link(busy);
}

TEST_P(TcpFence, a_revocable_key_is_valid_only_on_its_path) {
  const Link link = open_link(keyed(), 32, 256);
  const Link other = open_link(keyed(), 32, 256);
  ASSERT_NE(link.server.path, other.server.path);
  const Target target = make_revocable(link, 4096);
  const Region source = make_source(client(), "intruder");
  expect_refused(other, write_imm(other.client, source, 8, target, 0, 1), target);
  const auto* const stats = dynamic_cast<tcp::TcpFabric*>(&server().fabric());
  ASSERT_NE(stats, nullptr);
  EXPECT_EQ(stats->stats().faults[static_cast<std::size_t>(iwarp::Fault::foreign_key)], 1U);
  post_one(client(), write_imm(link.client, source, 8, target, 0, 2));
  EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, 2U);
  close_link(link);
}

// A server must answer a request on the connection that carried it: the key of the request is refused on all
// others, even of the same path.
TEST_P(TcpFence, a_request_key_is_valid_only_on_its_connection) {
  for (const bool ends_it : {false, true}) {
    const Link link = open_link(keyed(), 32, 256);
    std::vector<Link> others;
    do {
      others.push_back(open_link(keyed(), 32, 256));
    } while (others.back().client.path != link.client.path);
    const Link other = others.back();
    const auto region = client().fabric().allocate(4096);
    ASSERT_TRUE(region.has_value());
    const auto offered = client().fabric().make_request_key(link.client, region->id, 0, 4096);
    ASSERT_TRUE(offered.has_value());
    const Region source = make_source(server(), "intruder");
    WorkRequest work = write_imm(other.server, source, 8, {*region, *offered}, 0, 1);
    if (ends_it) {
      work = {};
      work.key = other.server;
      work.op = WorkRequest::Op::send_inv;
      work.rkey = offered->rkey;
    }
    post_one(server(), work);
    expect(client(), Kind::connection_lost, other.client);
    expect(server(), Kind::connection_lost, other.server);
    const auto fault = ends_it ? iwarp::Fault::bad_invalidation : iwarp::Fault::foreign_key;
    EXPECT_EQ(
        dynamic_cast<tcp::TcpFabric&>(client().fabric()).stats().faults[static_cast<std::size_t>(fault)], 1U);
    EXPECT_EQ(region->bytes[0], std::byte{0});
    post_one(server(), write_imm(link.server, source, 8, {*region, *offered}, 0, 2));
    EXPECT_EQ(expect(client(), Kind::imm_received, link.client).imm, 2U);
    EXPECT_EQ(region->bytes[0], std::byte{'i'});
    close_link(link);
    for (const Link& one : others) close_link(one);
    client().fabric().release_key(offered->id);
    client().fabric().release(region->id);
  }
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpFence,
                         ::testing::Values(FabricCase{"plain", make_plain}, FabricCase{"crc", make_crc}),
                         case_name);

class TcpLimit : public FabricContract {
 protected:
  // A request beyond a limit is rejected with the caller's own private data.
  void expect_refusal() {
    const Link link{.client = fresh_key(), .server = fresh_key()};
    client().fabric().connect(link.client, pair().server_address(), params(), bytes_of("hello"));
    const SeenEvent request = expect(server(), Kind::connect_requested);
    ConnectionParams how = params();
    how.refusal = bytes_of("no room");
    server().fabric().accept(request.request, link.server, how, bytes_of("welcome"));
    EXPECT_EQ(expect(server(), Kind::connection_lost, link.server).reason, Reason::no_resources);
    const SeenEvent failed = expect(client(), Kind::connect_failed, link.client);
    EXPECT_EQ(failed.reason, Reason::rejected);
    EXPECT_EQ(failed.text, "no room");
    close_link(link);
  }
};
class TcpLimitOfConnections : public TcpLimit {};
class TcpLimitOfMemory : public TcpLimit {};

TEST_P(TcpLimitOfConnections, excess_connection_is_refused_and_a_closed_one_frees_its_place) {
  for (int round = 0; round < 3; ++round) {
    const Link link = open_link();
    expect_refusal();
    post_one(client(), empty_imm(link.client, 1));
    expect(server(), Kind::imm_received, link.server);
    close_link(link);
  }
}

TEST_P(TcpLimitOfMemory, a_connection_beyond_the_memory_limit_is_refused) {
  expect_refusal();
}

class TcpLimitOfOutstanding : public TcpLimit {};
TEST_P(TcpLimitOfOutstanding, outstanding_requests_count_towards_the_memory_limit) {
  EXPECT_EQ(tcp::Connection::cost(params(16), false, {}), tcp::Connection::cost(params(kDeep), false, {}));
  const auto& fabric = dynamic_cast<const tcp::TcpFabric&>(server().fabric());
  for (int round = 0; round < 3; ++round) {
    const Link link = open_link(params(kDeep), 64, 256), other = open_link(params(kDeep), 64, 256);
    const std::uint64_t before = fabric.stats().memory;
    std::vector<WorkRequest> work(64, empty_imm(link.server, 1));
    EXPECT_EQ(server().fabric().post(work), work.size());
    EXPECT_GT(fabric.stats().memory, before);
    for (unsigned i = 0; i < 64; ++i) expect(client(), Kind::imm_received, link.client);
    // The connection that exceeds the limit is lost. Work of another connection in the same batch is still
    // posted.
    work.assign(kDeep, empty_imm(link.server, 1));
    work.push_back(empty_imm(other.server, 2));
    EXPECT_EQ(server().fabric().post(work), work.size());
    EXPECT_EQ(expect(server(), Kind::connection_lost, link.server).reason, Reason::no_resources);
    EXPECT_EQ(expect(client(), Kind::imm_received, other.client).imm, 2U);
    expect(client(), Kind::connection_lost, link.client);
    close_link(link);
    // Only work that post() accepted counts towards the limit.
    work.assign(kDeep, empty_imm(other.client, 3));
    EXPECT_EQ(client().fabric().post(work), kDeep);
    expect(server(), Kind::imm_received, other.server);
    close_link(other);
    EXPECT_EQ(fabric.stats().memory, 0U) << "a closed connection frees its memory";
    EXPECT_EQ(fabric.stats().connections, 0U);
  }
}

TEST_P(TcpLimitOfOutstanding, requests_keep_their_order_and_bytes_when_their_ring_grows) {
  const Link link = open_link(params(128), 200, 64);
  const auto post = [&](unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) post_one(client(), message(link.client, std::to_string(i)));
  };
  // The ring of 16 entries fills up after it has wrapped around.
  post(0, 10);
  for (unsigned i = 0; i < 10; ++i)
    EXPECT_EQ(expect(server(), Kind::message_received, link.server).text, std::to_string(i));
  post(10, 110);
  for (unsigned i = 10; i < 110; ++i)
    EXPECT_EQ(expect(server(), Kind::message_received, link.server).text, std::to_string(i));
  close_link(link);
}

// The server's application has the request but does not answer. Neither TCP nor the server's limits end the
// attempt, so the client must end it.
class TcpReply : public FabricContract {};
TEST_P(TcpReply, an_unanswered_connect_request_fails) {
  const Link answered = open_link();
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  EXPECT_EQ(expect(client(), Kind::connect_failed, key).reason, Reason::connect_timeout);
  server().fabric().reject(request.request, {});
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_TRUE(warnings()[0].ends_with("no complete reply in time")) << warnings()[0];
  post_one(client(), empty_imm(answered.client, 1));
  expect(server(), Kind::imm_received, answered.server);
  close_link(answered);
}

// A timeout of 0 means no limit.
class TcpBoundless : public FabricContract {};
TEST_P(TcpBoundless, an_unlimited_connect_request_waits_for_its_answer) {
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  for (int i = 0; i < 100; ++i) client().poll(pair().now());
  const ConKey accepted = fresh_key();
  server().fabric().accept(request.request, accepted, params(), {});
  expect(client(), Kind::connected, key);
  close_link({.client = key, .server = accepted});
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpBoundless, ::testing::Values(FabricCase{"boundless", make_boundless}),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Tcp, TcpReply, ::testing::Values(FabricCase{"impatient", make_with_short_timeout}),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Tcp, TcpLimitOfConnections,
                         ::testing::Values(FabricCase{"one", make_of_one_connection}), case_name);
INSTANTIATE_TEST_SUITE_P(Tcp, TcpLimitOfOutstanding, ::testing::Values(FabricCase{"tight", make_tight}),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Tcp, TcpLimitOfMemory, ::testing::Values(FabricCase{"poor", make_without_memory}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
