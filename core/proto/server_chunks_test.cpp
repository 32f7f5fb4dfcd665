// Tests the requests of a server session: chunks, responses and the send queue.
#include <algorithm>
#include <array>
#include <set>

#include "core/proto/test_server_session.hpp"
#include "core/wire/imm.hpp"

namespace rtrs::server_chunks_test {
namespace {

using namespace wire::linux_errno;
using ServerChunksTest = ServerSessionTest;

TEST_F(ServerChunksTest, ReceiveIsPostedAgainBeforeTheRequestIsServed) {
  const Keys keys = bring_up(1);
  feed(write(keys.io, 5));
  ASSERT_EQ(actions.size(), 2U);
  const auto* receive = action_if<PostReceive>(actions[0]);
  ASSERT_NE(receive, nullptr);
  EXPECT_EQ(receive->kind, ReceiveKind::empty);
  const auto* deliver = action_if<Deliver>(actions[1]);
  ASSERT_NE(deliver, nullptr);
  EXPECT_EQ(deliver->chunk, 5);
  EXPECT_FALSE(deliver->parked);
}

TEST_F(ServerChunksTest, R38AnswersOfAllKinds) {
  const Keys keys = bring_up(1);
  struct Case {
    Direction direction;
    bool descriptor, need_invalidate, data;
    std::uint16_t peer_errno;
    bool writes, invalidates;
  };
  const Case cases[] = {
      {Direction::write, false, false, true, 0, false, false},
      {Direction::write, false, false, true, 5, false, false},
      {Direction::read, true, true, true, 0, true, true},
      {Direction::read, true, true, true, 5, false, true},
      {Direction::read, true, false, true, 0, true, false},
      {Direction::read, false, false, false, 0, false, false},
      {Direction::read, false, true, true, 0, false, false},
      {Direction::read, true, true, false, 0, false, true},
  };
  for (const Case& one : cases) {
    RequestArrived in = read(keys.io, 2);
    in.direction = one.direction;
    in.has_descriptor = one.descriptor;
    in.need_invalidate = one.need_invalidate;
    in.data_len = one.data ? 512 : 0;
    respond(serve(in), one.peer_errno);
    const auto response = only<PostResponse>();
    EXPECT_EQ(response.key, keys.io);
    EXPECT_EQ(response.write_data, one.writes);
    EXPECT_EQ(response.send_invalidate, one.invalidates);
    EXPECT_FALSE(response.fresh_key);
    EXPECT_EQ(wire::imm_type(response.imm),
              one.invalidates ? wire::ImmType::io_rsp_w_inv : wire::ImmType::io_rsp);
    EXPECT_EQ(wire::decode_io_rsp(response.imm).error, one.peer_errno);
    if (response.cookie != 0) feed(SendDone{0, keys.io, response.cookie});
  }
}

TEST_F(ServerChunksTest, R67InvalidationCanBeDisabled) {
  config.send_invalidate = false;
  remake();
  const Keys keys = bring_up(1);
  respond(serve(read(keys.io, 2)));
  EXPECT_FALSE(only<PostResponse>().send_invalidate);
  EXPECT_EQ(wire::imm_type(only<PostResponse>().imm), wire::ImmType::io_rsp);
}

TEST_F(ServerChunksTest, KeysStayOnlyOnPathsThatAgreedOnIt) {
  config.extensions |= wire::Extensions::keys_stay;
  remake();
  extensions = wire::Extensions::fence |
               wire::Extensions::generation;  // supports extensions, but did not agree to keys_stay
  const Keys strict = bring_up(1);
  extensions |= wire::Extensions::keys_stay;
  const Keys agreed = bring_up(2);
  respond(serve(read(strict.io, 2)));
  EXPECT_TRUE(only<PostResponse>().send_invalidate);
  EXPECT_EQ(wire::imm_type(only<PostResponse>().imm), wire::ImmType::io_rsp_w_inv);
  respond(serve(read(strict.io, 3)), kEio);
  EXPECT_TRUE(only<PostResponse>().send_invalidate) << "the key of a failed READ is invalidated too";
  respond(serve(read(agreed.io, 4)));
  EXPECT_FALSE(only<PostResponse>().send_invalidate);
  EXPECT_EQ(wire::imm_type(only<PostResponse>().imm), wire::ImmType::io_rsp);
}

TEST_F(ServerChunksTest, DataIsTheResponseIfAgreed) {
  config.extensions |= wire::Extensions::keys_stay;
  remake();
  extensions |= wire::Extensions::data_with_answer;
  const Keys keys = bring_up(1);
  extensions |= wire::Extensions::keys_stay;
  const Keys leaves = bring_up(2);
  extensions = wire::Extensions::none;
  const Keys kernel = bring_up(3);
  struct Case {
    ConKey key;
    bool need_invalidate, data;
    std::uint16_t peer_errno;
    bool joined;
  };
  const Case cases[] = {
      {keys.io, false, true, 0, true},
      {keys.io, false, true, kEio, false},
      {keys.io, false, false, 0, false},
      {keys.io, true, true, 0, false},  // the invalidation is sent between data and response
      {leaves.io, true, true, 0, true},
      {leaves.io, true, true, kEio, false},
      {kernel.io, false, true, 0, false},
      {kernel.io, true, true, 0, false},
  };
  for (const Case& one : cases) {
    RequestArrived in = read(one.key, 2);
    in.need_invalidate = one.need_invalidate;
    in.data_len = one.data ? 512 : 0;
    respond(serve(in), one.peer_errno);
    const auto response = only<PostResponse>();
    EXPECT_EQ(response.data_with_answer, one.joined);
    EXPECT_EQ(response.write_data, one.data && one.peer_errno == 0);
    if (response.cookie != 0) feed(SendDone{0, one.key, response.cookie});
  }
  respond(serve(write(leaves.io, 2)));
  EXPECT_FALSE(only<PostResponse>().data_with_answer);
}

TEST_F(ServerChunksTest, L18LargeErrnoNeverLooksLikeSuccess) {
  const Keys keys = bring_up(1);
  for (const std::uint16_t error : std::array<std::uint16_t, 6>{511, 512, 524, 529, 4095, 65535}) {
    respond(serve(write(keys.io, 0)), error);
    EXPECT_EQ(wire::decode_io_rsp(only<PostResponse>().imm).error, error <= 511 ? error : kEio);
    if (const auto cookie = only<PostResponse>().cookie) feed(SendDone{0, keys.io, cookie});
  }
}

TEST_F(ServerChunksTest, ResponseIdCarriesTheGenerationOnlyWhenGranted) {
  Keys keys = bring_up(1);
  RequestArrived in = write(keys.io, 6);
  in.generation = 0xa5;
  respond(serve(in));
  const std::uint32_t id = wire::decode_io_rsp(only<PostResponse>().imm).msg_id;
  EXPECT_EQ(id, wire::tagged_msg_id(8, 6, 0xa5));
  EXPECT_EQ(wire::split_msg_id(8, id).buf_id, 6U);
  EXPECT_TRUE(wire::split_msg_id(8, id).answers(8, 0xa5));
  EXPECT_FALSE(wire::split_msg_id(8, id).answers(8, 0xa4));
  extensions = wire::Extensions::none;
  remake();
  keys = bring_up(1);
  respond(serve(write(keys.io, 6)));
  EXPECT_EQ(wire::decode_io_rsp(only<PostResponse>().imm).msg_id, 6U);
}

TEST_F(ServerChunksTest, L22SecondRequestOnABusyChunkClosesItsPathOnly) {
  const Keys keys = bring_up(1);
  const Keys other = bring_up(2);
  const Deliver first = serve(write(keys.io, 3));
  const Deliver elsewhere = serve(write(other.io, 4));
  feed(write(keys.service, 3));
  expect_closing(keys.io, Reason::protocol_violation);
  EXPECT_TRUE(none<Deliver>());
  respond(first);
  EXPECT_TRUE(none<PostResponse>());
  respond(elsewhere);
  EXPECT_EQ(only<PostResponse>().key, other.io);
}

TEST_F(ServerChunksTest, R39ChunkIsFreeOnlyAfterItsAnswer) {
  const Keys keys = bring_up(1);
  const Deliver first = serve(write(keys.io, 3));
  EXPECT_FALSE(session->chunk_idle(3));
  respond(first);
  EXPECT_TRUE(session->chunk_idle(3));
  EXPECT_NE(serve(write(keys.io, 3)).serial, first.serial);
  EXPECT_DEATH(respond(first), "") << "a request is answered only once";
}

TEST_F(ServerChunksTest, R57PathWaitsForItsRequestsInService) {
  const Keys keys = bring_up(1);
  const Deliver one = serve(write(keys.io, 1));
  const Deliver two = serve(write(keys.io, 2));
  feed(ConnectionLost{0, keys.io, Reason::peer_closed});
  close_connections(keys);
  EXPECT_TRUE(none<ReleasePath>());
  expect_rejected(request(1, 0, 2), Reason::rejected_busy, kEbusy);
  respond(one);
  EXPECT_TRUE(none<ReleasePath>());
  respond(two);
  EXPECT_EQ(all<ReleasePath>().size(), 1U);
  EXPECT_EQ(only<EndSession>().reason, Reason::peer_closed);
}

TEST_F(ServerChunksTest, RequestsOfAClosingPathAreDropped) {
  const Keys keys = bring_up(1);
  feed(ConnectionLost{0, keys.io, Reason::peer_closed});
  feed(write(keys.io, 1));
  EXPECT_TRUE(actions.empty());
}

// --- a full send queue ---

class FullSendQueueTest : public ServerSessionTest {
 protected:
  FullSendQueueTest() {
    config.send_depth = 8;
    remake();
    keys = bring_up(1);
  }
  // Responds to reads until a response has to wait. Returns the cookies of the posted responses.
  std::vector<std::uint64_t> fill() {
    std::vector<std::uint64_t> cookies;
    for (std::uint16_t chunk = 0; chunk < config.queue_depth; ++chunk) {
      respond(serve(read(keys.io, chunk)));
      for (const auto& response : all<PostResponse>()) cookies.push_back(response.cookie);
    }
    return cookies;
  }
  Keys keys;
};

TEST_F(FullSendQueueTest, L03WaitingResponsesArePostedOnceInOrder) {
  auto cookies = fill();
  std::vector<std::uint16_t> order;
  ASSERT_LT(cookies.size(), config.queue_depth);
  for (std::size_t i = 0; i < cookies.size(); ++i) {
    if (cookies[i] == 0) continue;
    feed(SendDone{0, keys.io, cookies[i]});
    for (const auto& response : all<PostResponse>()) {
      order.push_back(response.chunk);
      cookies.push_back(response.cookie);
    }
  }
  EXPECT_EQ(cookies.size(), config.queue_depth);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(std::set<std::uint16_t>(order.begin(), order.end()).size(), order.size());
  for (std::uint16_t chunk = 0; chunk < config.queue_depth; ++chunk) EXPECT_TRUE(session->chunk_idle(chunk));
}

TEST_F(FullSendQueueTest, L04WaitingResponsesAreDroppedWithTheirPath) {
  const std::size_t posted = fill().size();
  feed(ConnectionLost{0, keys.io, Reason::transport_error});
  settle();
  EXPECT_TRUE(none<PostResponse>());
  EXPECT_EQ(session->counters().dropped_responses, config.queue_depth - posted);
  close_connections(keys);
  EXPECT_EQ(all<EndSession>().size(), 1U);
}

TEST_F(FullSendQueueTest, L04ReplayStartsWhenTheWaitingAnswerIsDropped) {
  const Keys other = bring_up(2);
  fill();
  feed(read(other.io, config.queue_depth - 1));
  EXPECT_TRUE(none<Deliver>());
  feed(ConnectionLost{0, keys.io, Reason::transport_error});
  settle();
  EXPECT_EQ(only<Deliver>().key, other.io);
}

TEST_F(FullSendQueueTest, L22ChunkWhoseAnswerWaitsIsStillBusy) {
  fill();
  feed(read(keys.io, config.queue_depth - 1));
  expect_closing(keys.io, Reason::protocol_violation);
}

TEST_F(FullSendQueueTest, ResponseWithItsDataTakesOneEntry) {
  config.send_invalidate = false;
  const auto answered = [this] {
    remake();
    keys = bring_up(1);
    return fill().size();
  };
  constexpr std::size_t kRoom = 8 - kHeartbeatReserve;
  EXPECT_EQ(answered(), kRoom / 2);
  extensions |= wire::Extensions::data_with_answer;
  EXPECT_EQ(answered(), kRoom);
}

TEST_F(FullSendQueueTest, L05ErrorAnswersCountLikeOthers) {
  std::size_t posted = 0;
  for (int i = 0; i < 10'000; ++i) {
    respond(serve(read(keys.io, 0)), kEnodev);
    if (all<PostResponse>().empty()) break;
    ++posted;
    if (const auto cookie = only<PostResponse>().cookie) feed(SendDone{0, keys.io, cookie});
    ASSERT_EQ(state(keys.io), PathState::connected);
  }
  EXPECT_EQ(posted, 10'000U);
}

TEST_F(FullSendQueueTest, HeartbeatsUseTheReserveOfAFullQueue) {
  for (std::uint16_t chunk = 0; chunk < config.queue_depth; ++chunk) {
    respond(serve(write(keys.service, chunk)));
  }
  EXPECT_TRUE(none<PostResponse>()) << "the queue is full";
  now = session->next_deadline();
  feed(DeadlineReached{});
  EXPECT_EQ(all<PostImm>().size(), 1U);
  feed(ImmReceived{0, keys.service, wire::encode_hb(wire::ImmType::hb_msg)});
  EXPECT_EQ(all<PostImm>().size(), 1U);
  feed(ImmReceived{0, keys.service, wire::encode_hb(wire::ImmType::hb_msg)});
  EXPECT_TRUE(none<PostImm>()) << "owed";
}

}  // namespace
}  // namespace rtrs::server_chunks_test
