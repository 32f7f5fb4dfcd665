// Tests the requests of a client session: permits, responses, failover, the fence.
#include "core/proto/test_client_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::client_requests_test {
namespace {

class ClientRequestsTest : public ClientSessionFixture {};

TEST_F(ClientRequestsTest, RequestCarriesPermitAndOffset) {
  open(1);
  const std::uint16_t permit = submit();
  const PostRequest request = only<PostRequest>();
  EXPECT_EQ(request.permit, permit);
  EXPECT_EQ(request.imm, wire::encode_io_req(4, permit, 4096 + 32));
  EXPECT_EQ(request.key.con, 1);
  respond(request);
  EXPECT_EQ(only<Complete>().result, Errc::ok);
  EXPECT_EQ(session.permits_used(), 0U);
}

TEST_F(ClientRequestsTest, ErrnoOfTheServerReachesTheApplication) {
  open(1);
  submit();
  respond(only<PostRequest>(), wire::linux_errno::kEnospc);
  EXPECT_EQ(only<Complete>().result, Errc::peer_error);
  EXPECT_EQ(only<Complete>().peer_errno, wire::linux_errno::kEnospc);
}

TEST_F(ClientRequestsTest, PermitsRunOutAndAreReused) {
  open(1);
  std::vector<PostRequest> sent;
  for (int i = 0; i < 4; ++i) {
    submit();
    sent.push_back(only<PostRequest>());
  }
  EXPECT_EQ(session.next_permit(), kNoPermit);
  respond(sent[2]);
  EXPECT_EQ(session.next_permit(), sent[2].permit);
}

TEST_F(ClientRequestsTest, DuplicateResponseChangesNothing) {  // tests protocol section 11, invariant 24
  open(1);
  submit();
  const PostRequest request = only<PostRequest>();
  respond(request);
  respond(request);
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_EQ(session.counters().stale_responses, 1U);
}

TEST_F(ClientRequestsTest, ResponseOfAnEarlierUseOfThePermitIsIgnored) {  // tests requirement L24
  open(1);
  submit();
  const PostRequest first = only<PostRequest>();
  respond(first);
  submit();
  ASSERT_EQ(only<PostRequest>().permit, first.permit);
  respond(first);
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_EQ(session.permits_used(), 1U);
}

TEST_F(ClientRequestsTest, ResponseBeyondTheDepthClosesThePath) {
  flags = 0;
  open(1);
  feed(ImmReceived{now, key(0, 1), wire::encode_io_rsp(wire::ImmType::io_rsp, 4, 0)});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
}

TEST_F(ClientRequestsTest, ResponseOverAnotherConnectionClosesThePath) {
  open(1);
  submit();
  const PostRequest request = only<PostRequest>();
  feed(ImmReceived{now, key(0, 0), response_to(request)});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
  EXPECT_EQ(session.permits_used(), 1U);
}

TEST_F(ClientRequestsTest, UnknownImmediateClosesThePath) {
  open(1);
  feed(ImmReceived{now, key(0, 1), 0x70000000U});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
}

// Tests protocol section 11, invariant 22.
TEST_F(ClientRequestsTest, NothingIsReplayedBeforeThePathIsDrained) {
  flags = 0;  // the server is a kernel server
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  lose(request.key.path);
  EXPECT_TRUE(asked<PostRequest>().empty());
  feed(ConnectionClosed{now, {request.key.path, 1, 1}});
  EXPECT_TRUE(asked<PostRequest>().empty());
  feed(ConnectionClosed{now, {request.key.path, 0, 1}});
  const PostRequest replay = only<PostRequest>();
  EXPECT_NE(replay.key.path, request.key.path);
  EXPECT_EQ(replay.permit, request.permit);
  EXPECT_FALSE(only<FailedOver>().fenced);
}

TEST_F(ClientRequestsTest, NothingIsReplayedBeforeTheFenceIsAnswered) {  // tests requirement L01
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  lose(request.key.path);
  drain(request.key.path);
  EXPECT_TRUE(asked<PostRequest>().empty());
  const SendFenceReq fence = only<SendFenceReq>();
  EXPECT_EQ(fence.path, request.key.path);
  EXPECT_EQ(fence.recon_cnt, 1);
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(only<PostRequest>().permit, request.permit);
  EXPECT_TRUE(only<FailedOver>().fenced);
  EXPECT_NE(only<PostRequest>().generation, request.generation);
}

TEST_F(ClientRequestsTest, AnswerToAnotherFenceReleasesNothing) {
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  lose(request.key.path);
  drain(request.key.path);
  const SendFenceReq fence = only<SendFenceReq>();
  feed(FenceAnswered{now, fence.key, fence.serial + 1, 0});
  EXPECT_TRUE(asked<PostRequest>().empty());
}

TEST_F(ClientRequestsTest, FenceIsRepeatedWhenItsPathIsLost) {
  open(3);
  submit();
  const PostRequest request = only<PostRequest>();
  lose(request.key.path);
  drain(request.key.path);
  const SendFenceReq first = only<SendFenceReq>();
  lose(first.key.path);
  const SendFenceReq second = only<SendFenceReq>();
  EXPECT_NE(second.key.path, first.key.path);
  EXPECT_EQ(second.path, request.key.path);
}

TEST_F(ClientRequestsTest, RequestsOfARemovedPathAreReleasedIfProofIsImpossible) {
  ClientConfig config = small_config();
  config.kernel_peer = UnfencedReplay::wait;
  session = ClientSession(config);
  flags = 0;
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  feed(PathRemoveRequested{now, request.key.path});
  drain(request.key.path);
  EXPECT_TRUE(asked<PostRequest>().empty());
  now += config.fence_timeout;
  feed(DeadlineReached{now});
  EXPECT_EQ(only<PostRequest>().permit, request.permit);
  EXPECT_FALSE(only<FailedOver>().fenced);
}

// Regression test: seed 77211 of the simulator failed.
TEST_F(ClientRequestsTest, FenceIsKeptIfItsPathIsAddedAgain) {
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  const auto lost = static_cast<std::uint16_t>(request.key.path),
             other = static_cast<std::uint16_t>(1 - lost);
  feed(PathRemoveRequested{now, lost});
  drain(lost);
  EXPECT_EQ(only<SendFenceReq>().key.path, other);
  add_path(lost);
  feed(PathRemoveRequested{now, lost});
  drain(lost);
  ASSERT_EQ(session.path(lost).state(), PathState::absent);
  now += session.config().fence_timeout;
  feed(DeadlineReached{now});
  EXPECT_TRUE(asked<FailedOver>().empty());
  EXPECT_TRUE(asked<PostRequest>().empty());
}

TEST_F(ClientRequestsTest, AcceptedReconnectIsProofToo) {
  open(1);
  submit();
  lose(0);
  drain(0);
  EXPECT_TRUE(asked<SendFenceReq>().empty());
  pass(seconds(3));
  for (std::uint16_t con = 0; con < 2; ++con) feed(accepted(key(0, con)));
  feed(InfoAccepted{now, key(0, 0)});
  EXPECT_EQ(only<PostRequest>().key.epoch, 2U);
  EXPECT_TRUE(only<FailedOver>().fenced);
}

TEST_F(ClientRequestsTest, ResponseAndErrorInOneBatchCompleteOnce) {
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  respond(request);
  lose(request.key.path);
  drain(request.key.path);
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_TRUE(asked<SendFenceReq>().empty());
}

TEST_F(ClientRequestsTest, ResponseWhileDrainingDoesNotComplete) {
  open(2);
  submit();
  const PostRequest request = only<PostRequest>();
  lose(request.key.path);
  respond(request);
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_EQ(session.permits_used(), 1U);
}

TEST_F(ClientRequestsTest, ShortOutageOfAllPathsFailsNoRequest) {  // tests requirement L28
  open(1);
  submit();
  lose(0);
  drain(0);
  submit();
  EXPECT_TRUE(asked<Complete>().empty());
  pass(seconds(3));
  bring_up(0);
  EXPECT_EQ(session.path(0).inflight(), 2U);
}

TEST_F(ClientRequestsTest, RequestsFailAfterQueueTimeoutWithoutAPath) {
  open(1);
  submit();
  lose(0);
  drain(0);
  const Nanos since = now;
  unsigned failed = 0;
  while (failed == 0 && now - since < seconds(1000)) {
    feed(DeadlineReached{session.next_deadline()});
    for (const Complete& done : asked<Complete>()) {
      EXPECT_EQ(done.result, Errc::no_path);
      ++failed;
    }
    if (session.path(0).state() == PathState::connecting) {
      feed(ConnectFailed{now, key(0, 0), Reason::connect_refused, 0});
      drain(0);
    }
  }
  EXPECT_EQ(failed, 1U);
  EXPECT_LE(now - since, session.config().queue_timeout + seconds(1));
}

TEST_F(ClientRequestsTest, TooLargeRequestFailsUnsent) {
  open(1);
  submit(Direction::write, 126977);
  EXPECT_EQ(only<Complete>().result, Errc::too_large);
  EXPECT_TRUE(asked<PostRequest>().empty());
}

TEST_F(ClientRequestsTest, FullSendQueueHoldsRequestsUntilCompletions) {
  ClientConfig config = small_config();
  config.max_depth = 4;
  config.send_depth = 8;
  session = ClientSession(config);
  open(1);
  std::vector<PostRequest> sent;
  for (int i = 0; i < 20; ++i) {
    while (session.next_permit() != kNoPermit) {
      submit();
      for (const PostRequest& request : asked<PostRequest>()) sent.push_back(request);
    }
    if (sent.empty()) break;
    const PostRequest request = sent.front();
    sent.erase(sent.begin());
    if (request.cookie != 0) {
      feed(SendDone{now, request.key, request.cookie});
      for (const PostRequest& more : asked<PostRequest>()) sent.push_back(more);
    }
    respond(request);
  }
  EXPECT_FALSE(sent.empty());
}

TEST_F(ClientRequestsTest, InvalidSendCookieClosesOnlyItsPath) {
  open(1);
  feed(SendDone{now, key(0, 1), 1000});
  EXPECT_EQ(session.path(0).reason(), Reason::transport_error);
}

TEST_F(ClientRequestsTest, MinInflightAvoidsTheLoadedPath) {
  open(2);
  submit();
  const auto first = only<PostRequest>().key.path;
  submit();
  EXPECT_NE(only<PostRequest>().key.path, first);
}

TEST_F(ClientRequestsTest, RoundRobinAlternates) {
  open(2);
  feed(PolicyChanged{now, MultipathPolicy::round_robin});
  std::vector<std::uint16_t> used;
  for (int i = 0; i < 4; ++i) {
    submit();
    used.push_back(only<PostRequest>().key.path);
  }
  EXPECT_NE(used[0], used[1]);
  EXPECT_EQ(used[0], used[2]);
}

TEST_F(ClientRequestsTest, MinLatencyUsesPathsThatWereNeverMeasured) {  // tests requirement R33
  open(1);
  feed(PolicyChanged{now, MultipathPolicy::min_latency});
  submit();
  EXPECT_EQ(asked<PostRequest>().size(), 1U);
}

TEST_F(ClientRequestsTest, CountersAreZeroAfterFailover) {  // tests requirement L07
  open(2);
  for (int i = 0; i < 4; ++i) submit();
  lose(0);
  drain(0);
  const SendFenceReq fence = only<SendFenceReq>();
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(session.path(0).inflight(), 0U);
  EXPECT_EQ(session.path(1).inflight(), 4U);
}

TEST_F(ClientRequestsTest, CopyOfASessionIsIndependent) {
  open(1);
  ClientSession copy = session;
  submit();
  EXPECT_FALSE(copy == session);
  EXPECT_NE(copy.fingerprint(), session.fingerprint());
  ClientActions out;
  copy.on(Submitted{now, copy.next_permit(), Direction::write, false, false, 0, 4096, 32}, out);
  EXPECT_TRUE(copy == session);
  EXPECT_EQ(copy.fingerprint(), session.fingerprint());
}

}  // namespace
}  // namespace rtrs::client_requests_test
