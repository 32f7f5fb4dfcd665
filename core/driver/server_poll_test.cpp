// Tests messages and deadlines that are due in the same poll() of a server.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/driver/server.hpp"
#include "core/driver/test_held_fabric.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::server_poll_test {
namespace {

class ServerPollTest : public testing::Test {
 protected:
  ServerPollTest() : server(clamp_to(config(), fabric.capabilities()), nullptr) {
    EXPECT_EQ(server.listen(fabric, seconds(1), {}), Errc::ok);
    wire::ConnReq request;
    request.cid_num = 1;
    request.first_conn = true;
    request.sess_uuid.bytes[0] = request.paths_uuid.bytes[0] = 1;
    asked.resize(wire::encode(request, asked));
    named.resize(wire::encode(wire::InfoReq{wire::make_name("late").value}, named));
    fabric.events.emplace_back(event::ConnectRequested{1, 1, 1, asked, {}, Reason::none});
    poll(seconds(1));
  }
  static ServerConfig config() {
    ServerConfig one;
    one.queue_depth = 8;
    one.max_sessions = 2;
    return one;
  }
  std::vector<ServerEvent> poll(Nanos now) {
    std::array<ServerEvent, 8> out;
    const std::size_t count = server.poll(fabric, now, out);
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  // Queues `others` irrelevant events, then the INFO_REQ of the only path.
  void queue_info_req_after(std::size_t others) {
    ASSERT_EQ(fabric.accepts.size(), 1U);
    fabric.events.assign(others, event::SendDone{{9, 0, 77}, 0});
    fabric.events.emplace_back(event::MessageReceived{fabric.accepts.front(), {}, named});
  }
  // Asks for a second path of the session.
  void ask_for_path(std::uint16_t recon_cnt) {
    wire::ConnReq request;
    request.cid_num = 1;
    request.recon_cnt = recon_cnt;
    request.sess_uuid.bytes[0] = 2;
    request.paths_uuid.bytes[0] = 1;
    ASSERT_EQ(wire::encode(request, asked), asked.size());
    fabric.events.emplace_back(event::ConnectRequested{2, 2, 2, asked, {}, Reason::none});
    poll(seconds(1));
  }
  // Queues a write without data to chunk 0.
  void write_over(std::size_t connection) {
    constexpr std::uint32_t kOffset = 512;
    const auto chunk = std::span(fabric.memory.front());
    ASSERT_NE(wire::encode(wire::IoRequest{}, chunk.subspan(kOffset)), 0U);
    fabric.events.emplace_back(event::ImmReceived{fabric.accepts.at(connection),
                                                  wire::encode_io_req(config().queue_depth, 0, kOffset)});
  }
  void lose(std::size_t connection) {
    fabric.events.emplace_back(event::ConnectionLost{fabric.accepts.at(connection), Reason::peer_closed});
    fabric.events.emplace_back(event::ConnectionClosed{fabric.accepts.at(connection)});
  }
  // Polls after the handshake deadline has passed, as after a process pause; true if the path is
  // connected.
  bool connects_late() {
    const std::vector<ServerEvent> events = poll(seconds(8) + config().handshake_timeout);
    return events.size() == 1 && events[0].kind == ServerEvent::Kind::session_opened;
  }

  std::vector<std::byte> asked = std::vector<std::byte>(wire::kConnReqBytes);
  std::vector<std::byte> named = std::vector<std::byte>(wire::kInfoReqBytes);
  test::HeldFabric fabric;
  Server server;
};

TEST(RequestIds, NumberContainsTheWholeId) {
  for (const RequestId id : {RequestId{1, 2, 3}, RequestId{kMaxSessions - 1, kMaxPermits - 1, 0xffff},
                             RequestId{0xff00, 0xff00, 0xff00}})
    EXPECT_EQ(RequestId::of(id.number()), id);
}

TEST_F(ServerPollTest, ArrivedMessageIsHandledBeforeItsDeadline) {
  queue_info_req_after(2000);
  EXPECT_TRUE(connects_late());
}

TEST_F(ServerPollTest, RefusedNameReportsTheOwningSession) {
  queue_info_req_after(0);
  poll(seconds(1));
  wire::ConnReq request;
  request.cid_num = 1;
  request.first_conn = true;
  request.sess_uuid.bytes[0] = request.paths_uuid.bytes[0] = 2;
  ASSERT_EQ(wire::encode(request, asked), asked.size());
  fabric.events.emplace_back(event::ConnectRequested{2, 2, 2, asked, {}, Reason::none});
  poll(seconds(1));
  ASSERT_EQ(fabric.accepts.size(), 2U);
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts.back(), {}, named});
  poll(seconds(1));
  PathEvent news;
  while (server.take_news(news) && news.path.reason != Reason::name_refused) {
  }
  ASSERT_EQ(news.path.reason, Reason::name_refused);
  EXPECT_EQ(news.refused_name, "late");
  EXPECT_EQ(news.refusal_words.find("session 0 owns this name"), 0U) << news.refusal_words;
}

TEST_F(ServerPollTest, NameRefusedByAccessRulesIsReported) {
  server.set_access(*parse_access("", "", "other"));
  queue_info_req_after(0);
  poll(seconds(1));
  PathEvent news;
  while (server.take_news(news) && news.path.reason != Reason::not_allowed) {
  }
  ASSERT_EQ(news.path.reason, Reason::not_allowed);
  EXPECT_EQ(news.refused_name, "late");
}

// The second session ends before its session_opened event is polled.
TEST_F(ServerPollTest, NameOfAnEndedSessionIsKeptUntilItIsPolled) {
  wire::ConnReq request;
  request.cid_num = 1;
  request.first_conn = true;
  request.sess_uuid.bytes[0] = request.paths_uuid.bytes[0] = 2;
  ASSERT_EQ(wire::encode(request, asked), asked.size());
  fabric.events.emplace_back(event::ConnectRequested{2, 2, 2, asked, {}, Reason::none});
  poll(seconds(1));
  ASSERT_EQ(fabric.accepts.size(), 2U);
  std::vector<std::byte> other(wire::kInfoReqBytes);
  ASSERT_EQ(wire::encode(wire::InfoReq{wire::make_name("other").value}, other), other.size());
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts[0], {}, named});
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts[1], {}, other});
  lose(1);
  std::vector<std::string> names;
  for (unsigned polls = 0; polls < 3; ++polls) {
    std::array<ServerEvent, 1> out;
    ASSERT_EQ(server.poll(fabric, seconds(1), out), 1U);
    if (out[0].kind == ServerEvent::Kind::session_opened) names.emplace_back(out[0].name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"late", "other"}));
}

TEST_F(ServerPollTest, CountsOfEndedSessionsAreKept) {
  queue_info_req_after(0);
  ASSERT_EQ(poll(seconds(1)).size(), 1U);
  ask_for_path(0);
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts.at(1), {}, named});
  poll(seconds(1));
  write_over(0);
  const std::vector<ServerEvent> first = poll(seconds(1));
  ASSERT_EQ(first.size(), 1U);
  lose(0);
  write_over(1);
  EXPECT_TRUE(poll(seconds(1)).empty());
  EXPECT_EQ(server.stats().gated, 1U);
  lose(1);
  poll(seconds(1));
  server.respond(fabric, seconds(1), first[0].id, 0);
  poll(seconds(1));
  EXPECT_EQ(server.session_count(), 0U);
  EXPECT_EQ(server.stats().gated, 1U);
  EXPECT_EQ(server.stats().dropped_responses, 1U);
}

TEST_F(ServerPollTest, LostPathIsCountedAndItsTrafficForgotten) {
  queue_info_req_after(0);
  poll(seconds(1));
  ask_for_path(0);
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts.at(1), {}, named});
  poll(seconds(1));
  write_over(1);
  const std::vector<ServerEvent> events = poll(seconds(1));
  ASSERT_EQ(events.size(), 1U);
  server.respond(fabric, seconds(1), events[0].id, 0);
  EXPECT_FALSE(server.sessions()[0].paths[1].traffic == Traffic{});
  EXPECT_EQ(server.stats().paths_lost, 0U);
  lose(1);
  poll(seconds(1));
  EXPECT_EQ(server.stats().paths_lost, 1U);
  EXPECT_EQ(server.stats().lost_by[static_cast<std::size_t>(Reason::peer_closed)], 1U);
  // A later path reuses the index.
  ask_for_path(1);
  ASSERT_EQ(server.sessions()[0].paths.size(), 2U);
  EXPECT_TRUE(server.sessions()[0].paths[1].traffic == Traffic{});
}

TEST_F(ServerPollTest, LossOfAnEarlierConnectionIsNotReportedAsRefusal) {
  ASSERT_EQ(fabric.accepts.size(), 1U);
  ConKey earlier = fabric.accepts.front();
  ++earlier.epoch;
  fabric.events.emplace_back(event::ConnectionLost{earlier, Reason::no_resources});
  poll(seconds(1));
  PathEvent news;
  while (server.take_news(news)) EXPECT_NE(news.kind, PathEvent::Kind::refused);
  queue_info_req_after(0);
  EXPECT_EQ(poll(seconds(1)).size(), 1U);
}

TEST_F(ServerPollTest, ArrivedMessageIsHandledFirstIfFabricReturnsOneEventPerPoll) {
  queue_info_req_after(20);
  fabric.max_per_poll = 1;
  EXPECT_TRUE(connects_late());
}

TEST_F(ServerPollTest, ArrivedMessageIsHandledFirstIfFabricChecksRarely) {
  queue_info_req_after(3);
  fabric.blind_polls = 30;
  EXPECT_TRUE(connects_late());
}

TEST_F(ServerPollTest, PathIsClosedIfNoInfoReqArrives) {
  EXPECT_FALSE(connects_late());
  EXPECT_EQ(server.sessions()[0].paths[0].reason, Reason::handshake_timeout);
}

TEST_F(ServerPollTest, EventFloodDelaysDeadlinesForALimitedTime) {
  queue_info_req_after(1'000'000);
  EXPECT_FALSE(connects_late());
}

// A fabric of two devices; sending invalidations is slow on the device of all requests except request 1.
class TwoDevices final : public test::HeldFabric {
 public:
  TwoDevices() {
    slow_ = fast_ = HeldFabric::capabilities();
    slow_.send_invalidate = fast_.send_invalidate = true;
    slow_.send_invalidate_is_slow = true;
  }
  const Capabilities& capabilities() const noexcept override { return slow_; }
  const Capabilities& capabilities_of_request(std::uint32_t request) const noexcept override {
    return request == 1 ? fast_ : slow_;
  }

 private:
  Capabilities slow_, fast_;
};

TEST(ServerDeviceTest, KeysStayOnlyWhereSendingInvalidationsIsSlow) {
  TwoDevices fabric;
  ServerConfig config;
  config.queue_depth = 8;
  config.max_sessions = 2;
  config.extensions |= wire::Extensions::keys_stay;
  Server server(clamp_to(config, fabric.capabilities()), nullptr);
  ASSERT_EQ(server.listen(fabric, seconds(1), {}), Errc::ok);
  std::array<std::array<std::byte, wire::kConnReqBytes>, 2> requests;
  for (std::uint8_t i = 0; i < 2; ++i) {
    wire::ConnReq request;
    request.cid_num = 1;
    request.first_conn = true;
    request.sess_uuid.bytes[0] = request.paths_uuid.bytes[0] = static_cast<std::uint8_t>(i + 1);
    request.extensions = wire::Extensions::keys_stay;
    ASSERT_EQ(wire::encode(request, requests[i]), requests[i].size());
    fabric.events.emplace_back(event::ConnectRequested{i + 1U, 1, i, requests[i], {}, Reason::none});
  }
  std::array<ServerEvent, 8> out;
  server.poll(fabric, seconds(1), out);
  ASSERT_EQ(server.session_count(), 2U);
  EXPECT_FALSE(has(server.sessions()[0].paths[0].extensions, wire::Extensions::keys_stay));
  EXPECT_TRUE(has(server.sessions()[1].paths[0].extensions, wire::Extensions::keys_stay));
}

class SetupStormTest : public ServerPollTest {
 protected:
  static constexpr std::size_t kShare = 8;
  // Queues `count` connect requests of unknown clients, which the server refuses.
  void storm(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      fabric.events.emplace_back(event::ConnectRequested{++request, 1, 1, asked, {}, Reason::none});
  }
  std::uint32_t request = 100;
};

TEST_F(SetupStormTest, EachPollAnswersAFewConnectRequestsInOrder) {
  storm(200);
  for (std::size_t answered = 0; answered < 200; answered += kShare) {
    poll(seconds(1));
    ASSERT_EQ(fabric.rejects.size(), answered + kShare);
    EXPECT_EQ(server.next_deadline() == 0, answered + kShare < 200);
  }
  for (std::uint32_t i = 0; i < 200; ++i) EXPECT_EQ(fabric.rejects[i], 101 + i);
}

TEST_F(SetupStormTest, ConnectRequestsDoNotOvertakeDelayedOnes) {
  storm(2 * kShare);
  poll(seconds(1));
  storm(kShare);
  for (unsigned polls = 0; polls < 3; ++polls) poll(seconds(1));
  ASSERT_EQ(fabric.rejects.size(), 3 * kShare);
  EXPECT_TRUE(std::is_sorted(fabric.rejects.begin(), fabric.rejects.end()));
}

TEST_F(SetupStormTest, IoOvertakesDelayedConnectRequests) {
  queue_info_req_after(0);
  ASSERT_EQ(poll(seconds(1)).size(), 1U);
  storm(1000);
  write_over(0);
  const std::vector<ServerEvent> events = poll(seconds(1));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, ServerEvent::Kind::request);
  EXPECT_EQ(fabric.rejects.size(), kShare);
}

TEST_F(SetupStormTest, EachPollAllocatesMemoryForAtMostTwoPaths) {
  ServerConfig many = config();
  many.max_sessions = 8;
  Server other(clamp_to(many, fabric.capabilities()), nullptr);
  ASSERT_EQ(other.listen(fabric, seconds(1), {}), Errc::ok);
  std::array<std::vector<std::byte>, 6> requests;
  std::array<ServerEvent, 8> out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    wire::ConnReq asks;
    asks.cid_num = 1;
    asks.first_conn = true;
    asks.sess_uuid.bytes[0] = asks.paths_uuid.bytes[0] = static_cast<std::uint8_t>(i + 1);
    requests[i].resize(wire::kConnReqBytes);
    ASSERT_NE(wire::encode(asks, requests[i]), 0U);
    fabric.events.emplace_back(
        event::ConnectRequested{++request, 1, static_cast<std::uint32_t>(i), requests[i], {}, Reason::none});
  }
  fabric.accepts.clear();
  other.poll(fabric, seconds(1), out);
  ASSERT_EQ(fabric.accepts.size(), requests.size());
  std::array<std::vector<std::byte>, 6> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i].resize(wire::kInfoReqBytes);
    ASSERT_NE(wire::encode(wire::InfoReq{wire::make_name(std::to_string(i)).value}, names[i]), 0U);
    fabric.events.emplace_back(event::MessageReceived{fabric.accepts[i], {}, names[i]});
  }
  for (std::size_t polls = 1; polls <= 3; ++polls) {
    other.poll(fabric, seconds(1), out);
    EXPECT_EQ(fabric.memory.size(), 2 * polls);
  }
}

TEST_F(SetupStormTest, MessageAfterAStormIsHandledBeforeItsDeadline) {
  storm(200);
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts.front(), {}, named});
  bool up = false;
  for (unsigned polls = 0; polls < 200 && !up; ++polls) up = connects_late();
  EXPECT_TRUE(up);
}

TEST_F(SetupStormTest, ConnectStormDelaysDeadlinesForALimitedTime) {
  storm(20'000);
  for (unsigned polls = 0; polls < 100; ++polls) poll(seconds(8) + config().handshake_timeout);
  EXPECT_EQ(server.sessions()[0].paths[0].reason, Reason::handshake_timeout);
}

TEST_F(SetupStormTest, DelayedMessageOfALostConnectionIsDropped) {
  storm(kShare);
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts.front(), {}, named});
  fabric.events.emplace_back(event::ConnectionLost{fabric.accepts.front(), Reason::peer_closed});
  fabric.events.emplace_back(event::ConnectionClosed{fabric.accepts.front()});
  for (unsigned polls = 0; polls < 4; ++polls) EXPECT_TRUE(poll(seconds(1)).empty());
  EXPECT_EQ(server.session_count(), 0U);
}

}  // namespace
}  // namespace rtrs::server_poll_test
