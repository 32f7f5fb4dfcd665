// Tests events and deadlines that are due in the same poll() of a client.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/driver/client.hpp"
#include "core/driver/test_held_fabric.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::client_poll_test {
namespace {

using test::HeldFabric;

class ClientPollTest : public testing::Test {
 protected:
  static constexpr std::uint16_t kDepth = 8;

  ClientPollTest() {
    options.session_name = "poll";
    options.paths = {PathAddress{"", "held", 1}};
    options.session_uuid.bytes[0] = 1;
    for (std::uint8_t path = 0; path < kMaxPaths; ++path) {
      options.path_uuids.emplace_back();
      options.path_uuids.back().bytes[0] = static_cast<std::uint8_t>(path + 2);
    }
    wire::ConnRsp accept;
    accept.queue_depth = kDepth;
    accept.max_io_size = 61440;
    accept.max_hdr_size = 4096;
    accepted.resize(wire::encode(accept, accepted));
    const wire::Descriptor all{0x10000, 77, kDepth * static_cast<std::uint32_t>(accept.chunk_size())};
    chunks.resize(wire::encode_info_rsp(std::span(&all, 1), chunks));
  }
  // Queues `others` irrelevant events, then the response to the first connect request.
  void answer_behind(std::size_t others) {
    fabric.events.assign(others, event::SendDone{{0, 0, 77}, 0});
    fabric.events.emplace_back(event::Connected{fabric.connects.front(), accepted});
  }
  // Polls after the deadline of the connect request has passed, as after a process pause.
  void poll_late(Client& client) {
    std::array<IoCompletion, 8> done;
    client.poll(fabric, seconds(1) + options.protocol.connect_timeout + seconds(7), done);
  }
  std::vector<IoCompletion> poll(Client& client, Nanos now) {
    std::array<IoCompletion, 64> done;
    const std::size_t count = client.poll(fabric, now, done);
    return {done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  // Answers every connect request and the INFO request of the only path.
  void bring_up(Client& client, Nanos now) {
    for (std::size_t con = 0; con < fabric.connects.size(); ++con) {
      fabric.events.emplace_back(event::Connected{fabric.connects[con], accepted});
      poll(client, now);
    }
    fabric.events.emplace_back(event::MessageReceived{fabric.connects.front(), {}, chunks});
    poll(client, now);
    ASSERT_TRUE(client.link_up());
  }
  // Reports all connections as lost and then as closed.
  void lose_path(Client& client, Nanos now) {
    for (const ConKey key : fabric.connects)
      fabric.events.emplace_back(event::ConnectionLost{key, Reason::peer_closed});
    poll(client, now);
    for (const ConKey key : fabric.connects) fabric.events.emplace_back(event::ConnectionClosed{key});
    poll(client, now);
    ASSERT_FALSE(client.link_up());
  }
  void write(Client& client, Nanos now) {
    IoRequest request;
    request.direction = Direction::write;
    request.data = data;
    ASSERT_EQ(client.submit(fabric, now, request), Errc::ok);
  }
  // Delivers the server's response to the request of this permit, which was posted on `con`.
  std::vector<IoCompletion> answer(Client& client, ConKey con, std::uint16_t permit, Nanos now,
                                   int error = 0) {
    fabric.events.emplace_back(
        event::ImmReceived{con, wire::encode_io_rsp(wire::ImmType::io_rsp, permit, error)});
    return poll(client, now);
  }
  void expect_second_connect(const Client& client) {
    EXPECT_EQ(client.paths()[0].state, PathState::connecting);
    ASSERT_EQ(fabric.connects.size(), 2U);
    EXPECT_EQ(fabric.connects[1].con, 1);
  }

  HeldFabric fabric;
  ClientOptions options;
  std::vector<std::byte> accepted = std::vector<std::byte>(wire::kConnRspBytes);
  std::vector<std::byte> chunks = std::vector<std::byte>(wire::info_rsp_bytes(1));
  std::array<std::byte, 512> data{};
};

TEST_F(ClientPollTest, CloseBeforeAndAfterTheAnswerHaveDifferentReasons) {
  constexpr std::pair<Reason, Reason> kTold[] = {{Reason::peer_closed, Reason::unanswered},
                                                 {Reason::protocol_violation, Reason::bad_conn_rsp}};
  for (const auto& [by_fabric, told] : kTold) {
    Client client(options, nullptr);
    fabric.connects.clear();
    ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
    fabric.events.emplace_back(event::ConnectFailed{fabric.connects.front(), by_fabric, {}});
    poll(client, seconds(1));
    EXPECT_EQ(client.paths()[0].reason, told);
  }
  Client client(options, nullptr);
  fabric.connects.clear();
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  fabric.events.emplace_back(event::Connected{fabric.connects.front(), accepted});
  fabric.events.emplace_back(event::ConnectionLost{fabric.connects.front(), Reason::peer_closed});
  poll(client, seconds(1));
  EXPECT_EQ(client.paths()[0].reason, Reason::peer_closed);
}

TEST_F(ClientPollTest, DisconnectInsteadOfInfoRspMeansNameRefused) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  for (unsigned con = 0; con < options.protocol.con_num; ++con) {
    ASSERT_EQ(fabric.connects.size(), con + 1U);
    fabric.events.emplace_back(event::Connected{fabric.connects.back(), accepted});
    poll(client, seconds(1));
  }
  fabric.events.emplace_back(event::ConnectionLost{fabric.connects.back(), Reason::peer_closed});
  poll(client, seconds(1));
  EXPECT_EQ(client.paths()[0].reason, Reason::name_refused);
}

TEST_F(ClientPollTest, PathConnectsWithoutMemoryForItsAddress) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  fabric.no_memory = true;
  bring_up(client, seconds(1));
  EXPECT_EQ(client.peer(0), "");
}

TEST_F(ClientPollTest, PathConnectsWithoutMemoryForItsDevice) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  fabric.no_device_memory = true;
  bring_up(client, seconds(1));
}

TEST_F(ClientPollTest, PathLossInConnectedSessionIsNoNameRefusal) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  bring_up(client, seconds(1));
  fabric.connects.clear();
  ASSERT_EQ(client.add_path(fabric, seconds(2), PathAddress{"", "held", 2}), Errc::ok);
  for (unsigned con = 0; con < options.protocol.con_num; ++con) {
    ASSERT_EQ(fabric.connects.size(), con + 1U);
    fabric.events.emplace_back(event::Connected{fabric.connects.back(), accepted});
    poll(client, seconds(2));
  }
  fabric.events.emplace_back(event::ConnectionLost{fabric.connects.back(), Reason::peer_closed});
  poll(client, seconds(2));
  ASSERT_EQ(client.paths().size(), 2U);
  EXPECT_EQ(client.paths()[1].reason, Reason::peer_closed);
}

TEST_F(ClientPollTest, PassingAnotherFabricAborts) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  HeldFabric other;
  std::array<IoCompletion, 1> done;
  EXPECT_DEATH(client.poll(other, seconds(1), done), "");
  EXPECT_DEATH(client.close(other, seconds(1)), "");
}

TEST_F(ClientPollTest, ArrivedAnswerIsHandledBeforeItsDeadline) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(200);
  poll_late(client);
  expect_second_connect(client);
}

TEST_F(ClientPollTest, ReasonOfFailedAttemptIsKeptDuringTheNextOne) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  const ConKey first = fabric.connects.front();
  fabric.events.emplace_back(event::ConnectFailed{first, Reason::connect_refused, {}});
  fabric.events.emplace_back(event::ConnectionClosed{first});
  std::array<IoCompletion, 8> done;
  client.poll(fabric, seconds(2), done);
  EXPECT_EQ(client.paths()[0].state, PathState::waiting);
  EXPECT_EQ(client.paths()[0].reason, Reason::connect_refused);
  client.poll(fabric, seconds(120), done);
  ASSERT_EQ(fabric.connects.size(), 2U);
  EXPECT_EQ(client.paths()[0].state, PathState::connecting);
  EXPECT_EQ(client.paths()[0].reason, Reason::connect_refused);
  // A challenge is part of an attempt, not a failure.
  fabric.events.emplace_back(event::ConnectFailed{fabric.connects.back(), Reason::challenged, {}});
  client.poll(fabric, seconds(121), done);
  EXPECT_EQ(client.paths()[0].failed_attempts, 1U);
}

TEST_F(ClientPollTest, InvalidConfigurationIsRejected) {
  options.protocol.send_depth = 7;
  EXPECT_EQ(Client(options, nullptr).open(fabric, seconds(1)), Errc::invalid);
  options.protocol.send_depth = 8;
  EXPECT_EQ(Client(options, nullptr).open(fabric, seconds(1)), Errc::ok);
  options.protocol.heartbeat.interval = 0;
  EXPECT_EQ(Client(options, nullptr).open(fabric, seconds(1)), Errc::invalid);
}

TEST_F(ClientPollTest, ArrivedAnswerIsHandledFirstIfFabricReturnsOneEventPerPoll) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(20);
  fabric.max_per_poll = 1;
  poll_late(client);
  expect_second_connect(client);
}

TEST_F(ClientPollTest, ArrivedAnswerIsHandledFirstIfFabricChecksRarely) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(3);
  fabric.blind_polls = 30;
  poll_late(client);
  expect_second_connect(client);
}

TEST_F(ClientPollTest, EventFloodDelaysDeadlinesForALimitedTime) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(100'000);
  poll_late(client);
  EXPECT_EQ(client.paths()[0].reason, Reason::connect_timeout);
}

// Failed, unanswered writes keep their permits, so the last request gets none. The path does not reconnect
// before that request times out.
TEST_F(ClientPollTest, RequestWaitingForAPermitSetsATimer) {
  options.protocol.queue_timeout = seconds(20);
  options.protocol.kernel_peer = UnfencedReplay::wait;
  options.protocol.reconnect_min = options.protocol.reconnect_max = seconds(1000);
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  bring_up(client, seconds(1));
  for (unsigned i = 0; i < kDepth; ++i) write(client, seconds(2));
  lose_path(client, seconds(3));
  EXPECT_EQ(poll(client, seconds(23)).size(), kDepth);
  write(client, seconds(30));
  EXPECT_TRUE(poll(client, seconds(30)).empty());
  EXPECT_EQ(client.next_timer(), seconds(50));
  EXPECT_EQ(client.next_deadline(), seconds(50));
  const auto done = poll(client, seconds(50));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].result, Errc::no_path);
  EXPECT_GT(client.next_timer(), seconds(50));
}

TEST_F(ClientPollTest, LostPathReportsTheTimeOfLoss) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  bring_up(client, seconds(1));
  EXPECT_EQ(client.paths()[0].lost_at, kNever);
  lose_path(client, seconds(3));
  poll(client, seconds(23));
  EXPECT_EQ(client.paths()[0].lost_at, seconds(3));
}

TEST_F(ClientPollTest, AnswerTimesAreMeasuredBetweenPolls) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  bring_up(client, seconds(1));
  const AnswerTimes& writes = client.answer_times(0, Direction::write);
  EXPECT_EQ(writes.count() + writes.max() + writes.mean() + writes.at_most(99), 0U);
  write(client, seconds(2));
  write(client, seconds(2) + microseconds(100));
  ASSERT_EQ(fabric.requested.size(), 2U);
  EXPECT_EQ(answer(client, fabric.requested[1], 1, seconds(2) + microseconds(400)).size(), 1U);
  EXPECT_EQ(answer(client, fabric.requested[0], 0, seconds(2) + microseconds(1000)).size(), 1U);
  EXPECT_EQ(writes.count(), 2U);
  EXPECT_EQ(writes.max(), microseconds(1000));
  EXPECT_EQ(writes.mean(), microseconds(650));
  EXPECT_EQ(writes.at_most(50), (1U << 19) - 1) << "upper bound of 19-bit times";
  EXPECT_EQ(writes.at_most(99), microseconds(1000));
  EXPECT_EQ(client.answer_times(0, Direction::read).count(), 0U);
  ASSERT_EQ(client.reset_statistics(0, PathStatistics::reconnects), Errc::ok);
  EXPECT_EQ(writes.count(), 2U);
  ASSERT_EQ(client.reset_statistics(0, PathStatistics::traffic), Errc::ok);
  EXPECT_EQ(writes.count() + writes.max(), 0U);
  EXPECT_EQ(client.paths()[0].ios, 2U) << "never reset";
}

TEST_F(ClientPollTest, ErrorResponsesAreNotInAnswerTimes) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  bring_up(client, seconds(1));
  write(client, seconds(2));
  const auto done = answer(client, fabric.requested[0], 0, seconds(3), 5);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].result, Errc::peer_error);
  EXPECT_EQ(client.answer_times(0, Direction::write).count(), 0U);
}

TEST_F(ClientPollTest, RecoverReconnectsAWaitingPathAtOnce) {
  options.protocol.reconnect_min = options.protocol.reconnect_max = seconds(1000);
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  EXPECT_EQ(client.paths()[0].retry_at, 0);
  const ConKey first = fabric.connects.front();
  fabric.events.emplace_back(event::ConnectFailed{first, Reason::connect_refused, {}});
  poll(client, seconds(2));
  ASSERT_EQ(client.paths()[0].state, PathState::draining);
  fabric.events.emplace_back(event::ConnectionClosed{first});
  poll(client, seconds(3));
  ASSERT_EQ(client.paths()[0].state, PathState::waiting);
  EXPECT_FALSE(client.paths()[0].held_back);
  EXPECT_GE(client.paths()[0].retry_at, seconds(1003));
  EXPECT_EQ(client.recover(fabric, seconds(4)), 1U);
  EXPECT_EQ(client.paths()[0].state, PathState::connecting);
  EXPECT_EQ(client.paths()[0].retry_at, 0);
  EXPECT_EQ(fabric.connects.size(), 2U);
}

TEST_F(ClientPollTest, RecoverReconnectsADrainingPathAfterItsDrain) {
  options.protocol.reconnect_min = options.protocol.reconnect_max = seconds(1000);
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  const ConKey first = fabric.connects.front();
  fabric.events.emplace_back(event::ConnectFailed{first, Reason::connect_refused, {}});
  poll(client, seconds(2));
  ASSERT_EQ(client.paths()[0].state, PathState::draining);
  EXPECT_EQ(client.recover(fabric, seconds(2)), 1U);
  fabric.events.emplace_back(event::ConnectionClosed{first});
  poll(client, seconds(3));
  EXPECT_EQ(client.paths()[0].state, PathState::connecting);
}

TEST_F(ClientPollTest, RecoverDoesNotRestoreARemovedPath) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  ASSERT_EQ(client.remove_path(fabric, seconds(2), 0), Errc::ok);
  ASSERT_NE(client.paths()[0].state, PathState::absent);
  EXPECT_EQ(client.recover(fabric, seconds(2)), 0U);
  fabric.events.emplace_back(event::ConnectionClosed{fabric.connects.front()});
  poll(client, seconds(3));
  EXPECT_EQ(client.paths()[0].state, PathState::absent);
  EXPECT_EQ(client.recover(fabric, seconds(3)), 0U);
}

// The reported time is the start of the path's first attempt, not the start of its wait.
TEST_F(ClientPollTest, HeldBackPathReportsItsStartTime) {
  options.paths.push_back({"", "held", 2});
  options.protocol.lead_head_start = seconds(7);
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  ASSERT_EQ(client.paths()[1].state, PathState::waiting);
  EXPECT_TRUE(client.paths()[1].held_back);
  EXPECT_EQ(client.paths()[1].retry_at, seconds(8));
  poll(client, seconds(8));
  EXPECT_EQ(client.paths()[1].state, PathState::connecting);
  EXPECT_FALSE(client.paths()[1].held_back);
}

TEST_F(ClientPollTest, RecoverIgnoresConnectedPaths) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  EXPECT_EQ(client.recover(fabric, seconds(1)), 0U) << "the path is already connecting";
  bring_up(client, seconds(1));
  const std::size_t before = fabric.connects.size();
  EXPECT_EQ(client.recover(fabric, seconds(2)), 0U);
  EXPECT_EQ(fabric.connects.size(), before);
  EXPECT_TRUE(client.link_up());
  ASSERT_EQ(client.disconnect_path(fabric, seconds(3), 0), Errc::ok);
  for (const ConKey key : fabric.connects) fabric.events.emplace_back(event::ConnectionClosed{key});
  poll(client, seconds(3));
  ASSERT_EQ(client.paths()[0].state, PathState::closed);
  EXPECT_EQ(client.recover(fabric, seconds(4)), 1U) << "also a path that an operator disconnected";
  EXPECT_EQ(client.paths()[0].state, PathState::connecting);
  EXPECT_EQ(fabric.connects.size(), before + 1);
}

TEST_F(ClientPollTest, AllZeroIdentityIsRejected) {
  options.path_uuids[0] = wire::Uuid{};
  Client without_path(options, nullptr);
  EXPECT_EQ(without_path.open(fabric, seconds(1)), Errc::invalid);
  options.path_uuids[0].bytes[0] = 2;
  options.session_uuid = wire::Uuid{};
  Client without_session(options, nullptr);
  EXPECT_EQ(without_session.open(fabric, seconds(1)), Errc::invalid);
}

}  // namespace
}  // namespace rtrs::client_poll_test
