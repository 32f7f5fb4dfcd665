// Tests two probes over simulated adapters, and peers that are not probes.
#include "tools/lib/control/rdma_probe/peer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "sim/net/adapters/test_no_problems.hpp"
#include "tools/lib/control/rdma_probe/hello.hpp"
#include "tools/lib/control/rdma_probe/link.hpp"
#include "tools/lib/control/rdma_probe/probe_error.hpp"
#include "tools/lib/control/rdma_probe/test_peer.hpp"

namespace rtrs::probe::peer_test {
namespace {

const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

TEST_F(PeerTest, ProbesAreServedOneAfterAnother) {
  ListeningProbe server;
  for (unsigned i = 0; i < 2; ++i) {
    const PeerLines got = asked(server.port());
    EXPECT_EQ(got.lines.size(), 6U) << text_of(got.lines);
    EXPECT_TRUE(all_ok(got.lines)) << text_of(got.lines);
    EXPECT_FALSE(got.silent);
    EXPECT_TRUE(says(got.lines, Grade::ok, "20 rounds")) << text_of(got.lines);
  }
  const Lines& told = server.finish();
  EXPECT_EQ(told.size(), 2U) << text_of(told);
  EXPECT_TRUE(all_ok(told)) << text_of(told);
  EXPECT_TRUE(says(told, Grade::ok, "20 rounds"));
}

TEST_F(PeerTest, LocalAddressChoosesTheDevice) {
  ListeningProbe server;
  const PeerLines got =
      probe_peer({.address = "192.0.2.2@192.0.2.1", .port = server.port(), .rounds = 5}, test_pace());
  EXPECT_TRUE(all_ok(got.lines)) << text_of(got.lines);
  EXPECT_TRUE(says(got.lines, Grade::ok, "by port 1 of rxe0, from 192.0.2.2")) << text_of(got.lines);
}

TEST_F(PeerTest, MissingListenerIsReported) {
  const PeerLines got = asked(4711);
  EXPECT_TRUE(says(got.lines, Grade::failed, "no server listens on that address")) << text_of(got.lines);
  EXPECT_FALSE(got.silent);
  EXPECT_NE(got.lines.back().remedy.find("--listen --port=4711"), std::string::npos);
}

TEST_F(PeerTest, InvalidOrUnreachableAddressFails) {
  const auto ask = [](const char* address) {
    return probe_peer({.address = address, .port = 1, .rounds = 1}, test_pace()).lines;
  };
  EXPECT_TRUE(says(ask("192.0.2.256"), Grade::failed, "no host has the name or address"));
  EXPECT_TRUE(says(ask("192.0.2.77"), Grade::failed, "that address cannot be resolved"));
  EXPECT_TRUE(says(ask("192.0.2.256@192.0.2.1"), Grade::failed, "no host has the name or address"));
  EXPECT_TRUE(says(ask("192.0.2.77@192.0.2.1"), Grade::failed, "that address cannot be resolved"));
}

TEST_F(PeerTest, ListeningOnAPortInUseFails) {
  ListeningProbe server(std::chrono::seconds(10), kServer);
  const Lines lines = listen_for_peers({.address = kServer, .port = server.port()}, test_pace());
  EXPECT_TRUE(says(lines, Grade::failed, "cannot listen on 192.0.2.1")) << text_of(lines);
  EXPECT_TRUE(says(listen_for_peers({.address = "192.0.2.77"}, test_pace()), Grade::failed, "cannot listen"));
  EXPECT_TRUE(
      says(listen_for_peers({.address = "192.0.2.256"}, test_pace()), Grade::failed, "is not an address"));
}

TEST_F(PeerTest, ListeningEndsWhenNoPeerConnects) {
  const Lines lines = listen_for_peers({.port = 0, .lasts = std::chrono::milliseconds(1)}, test_pace());
  EXPECT_TRUE(says(lines, Grade::absent, "none came")) << text_of(lines);
}

// --- peers that are not probes ---

// A client that sends arbitrary private data.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port, std::span<const std::byte> words) {
    verbs::IdHandle id = manager_.make_id(RDMA_PS_TCP);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(0xc0000201U);
    EXPECT_EQ(rdma_resolve_addr(id.get(), nullptr, reinterpret_cast<sockaddr*>(&to), 1000), 0);
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id.get(), 1000), 0);
    EXPECT_EQ(next(), RDMA_CM_EVENT_ROUTE_RESOLVED);
    link.emplace(std::move(id));
    rdma_conn_param params{};
    params.private_data = words.data();
    params.private_data_len = static_cast<std::uint8_t>(words.size());
    params.qp_num = link->pair()->qp_num;
    EXPECT_EQ(rdma_connect(link->id(), &params), 0);
    answered = next();
    if (answered != RDMA_CM_EVENT_CONNECT_RESPONSE) return;
    there = decode(data_).value_or(Hello{});
    link->to_receive();
    link->to_send();
    EXPECT_EQ(rdma_establish(link->id()), 0);
  }
  void leave() {
    rdma_disconnect(link->id());
    next();
    link.reset();
  }
  rdma_cm_event_type next() {
    const auto event = manager_.next(test_pace());
    if (!event) return RDMA_CM_EVENT_CONNECT_ERROR;
    data_ = event->data;
    return event->type;
  }

 private:
  Manager manager_;
  std::vector<std::byte> data_;

 public:
  std::optional<Link> link;
  rdma_cm_event_type answered{};
  Hello there;
};

const HelloBytes kHello = encode({});

TEST_F(PeerTest, UnknownPeerIsRejectedAndTheNextOneIsServed) {
  ListeningProbe server;
  {
    const std::array<std::byte, 5> words{};
    Stranger stranger(server.port(), words);
    EXPECT_EQ(stranger.answered, RDMA_CM_EVENT_REJECTED);
  }
  {
    HelloBytes words = kHello;
    words[11] = std::byte{2};  // version of the protocol: another one
    Stranger stranger(server.port(), words);
    EXPECT_EQ(stranger.answered, RDMA_CM_EVENT_REJECTED);
  }
  EXPECT_TRUE(all_ok(asked(server.port()).lines));
  const Lines& told = server.finish();
  EXPECT_EQ(told.size(), 3U);
  EXPECT_TRUE(says(told, Grade::failed, "the peer is not a probe of this version")) << text_of(told);
}

TEST_F(PeerTest, RoundWithWrongDataIsReported) {
  ListeningProbe server;
  Stranger stranger(server.port(), kHello);
  ASSERT_EQ(stranger.answered, RDMA_CM_EVENT_CONNECT_RESPONSE);
  stranger.link->post_receive();
  EXPECT_EQ(stranger.link->post_immediate(5), 0);
  const Pace pace = test_pace();
  std::uint32_t said = 0;
  for (unsigned i = 0; i < 2; ++i) {
    const ibv_wc one = good(stranger.link->wait(pace), "an answer");
    if ((one.opcode & IBV_WC_RECV) != 0) said = ntohl(one.imm_data);
  }
  EXPECT_EQ(said, kWrong);
  stranger.leave();
  EXPECT_TRUE(says(server.finish(), Grade::failed, "1 of 1 rounds had wrong data"))
      << text_of(server.finish());
}

TEST_F(PeerTest, SendInsteadOfARoundEndsTheConnection) {
  ListeningProbe server;
  Stranger stranger(server.port(), kHello);
  ibv_send_wr request{}, *refused = nullptr;
  ibv_sge none{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &none;
  EXPECT_EQ(ibv_post_send(stranger.link->pair(), &request, &refused), 0);
  EXPECT_EQ(stranger.next(), RDMA_CM_EVENT_DISCONNECTED);
  stranger.leave();
  EXPECT_TRUE(all_ok(asked(server.port()).lines));
  EXPECT_TRUE(says(server.finish(), Grade::failed, "it sent an invalid message")) << text_of(server.finish());
}

TEST_F(PeerTest, WriteOutsideTheGrantedMemoryEndsTheConnection) {
  ListeningProbe server;
  Stranger stranger(server.port(), kHello);
  Hello beyond = stranger.there;
  beyond.address += kPeerMemory - 8;
  EXPECT_EQ(stranger.link->post_write(16, beyond, true), 0);
  const Waited answer = stranger.link->wait(test_pace());
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, IBV_WC_REM_ACCESS_ERR);
  stranger.leave();
  EXPECT_TRUE(all_ok(asked(server.port()).lines));
}

TEST_F(PeerTest, PeerThatReceivesNoAnswersIsDisconnected) {
  ListeningProbe server;
  Stranger stranger(server.port(), kHello);
  const Pace pace = test_pace();
  for (std::uint32_t i = 0; i < kLinkDepth; ++i) {
    EXPECT_EQ(stranger.link->post_immediate(i), 0);
    const Waited sent = stranger.link->wait(pace);
    if (!sent || sent->status != IBV_WC_SUCCESS) break;
  }
  EXPECT_EQ(stranger.link->post_immediate(7), 0);
  EXPECT_EQ(stranger.next(), RDMA_CM_EVENT_DISCONNECTED);
  stranger.leave();
  EXPECT_TRUE(says(server.finish(), Grade::failed, "it does not receive the answers"))
      << text_of(server.finish());
}

TEST_F(PeerTest, SilentPeerIsDisconnected) {
  ListeningProbe server(std::chrono::milliseconds(20));
  Stranger stranger(server.port(), kHello);
  EXPECT_EQ(stranger.next(), RDMA_CM_EVENT_DISCONNECTED);
  stranger.leave();
  EXPECT_TRUE(says(server.finish(), Grade::failed, "no more messages after 0 rounds"))
      << text_of(server.finish());
}

TEST_F(PeerTest, SecondPeerIsAskedToWait) {
  ListeningProbe server;
  Stranger stranger(server.port(), kHello);
  const PeerLines got = asked(server.port());
  EXPECT_TRUE(says(got.lines, Grade::failed, "another probe is served there")) << text_of(got.lines);
  stranger.leave();
  EXPECT_TRUE(all_ok(asked(server.port()).lines));
}

// Runs a probe against a server that handles the connect request by calling `answers`.
PeerLines asked_of(const std::function<void(rdma_cm_id*, std::uint32_t queue_pair)>& answers,
                   const Pace& pace = test_pace()) {
  Manager manager;
  const verbs::IdHandle listener = manager.make_id(RDMA_PS_TCP);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  EXPECT_EQ(rdma_bind_addr(listener.get(), reinterpret_cast<sockaddr*>(&any)), 0);
  EXPECT_EQ(rdma_listen(listener.get(), 1), 0);
  const std::uint16_t port = ntohs(rdma_get_src_port(listener.get()));
  auto got = std::async(std::launch::async, [&] { return asked(port, pace); });
  const auto request = manager.next(test_pace());
  EXPECT_TRUE(request && request->type == RDMA_CM_EVENT_CONNECT_REQUEST);
  std::optional<Link> link(std::in_place, verbs::IdHandle(request->id));
  for (unsigned i = 0; i < 4; ++i) link->post_receive();
  link->to_receive();
  link->to_send();
  answers(link->id(), link->pair()->qp_num);
  PeerLines lines = got.get();
  link.reset();
  return lines;
}

void accept_with(rdma_cm_id* id, std::uint32_t queue_pair, std::span<const std::byte> words) {
  rdma_conn_param params{};
  params.private_data = words.data();
  params.private_data_len = static_cast<std::uint8_t>(words.size());
  params.qp_num = queue_pair;
  EXPECT_EQ(rdma_accept(id, &params), 0);
}

TEST_F(PeerTest, ServerThatIsNotAProbeIsReported) {
  const PeerLines got = asked_of([](rdma_cm_id* id, std::uint32_t pair) { accept_with(id, pair, {}); });
  EXPECT_TRUE(says(got.lines, Grade::failed, "the peer is not a probe of this version"))
      << text_of(got.lines);
}

TEST_F(PeerTest, ServerWithTooLittleMemoryIsReported) {
  const PeerLines got = asked_of([](rdma_cm_id* id, std::uint32_t pair) {
    accept_with(id, pair, encode({.key = 1, .address = 1, .length = 4096}));
  });
  EXPECT_TRUE(says(got.lines, Grade::failed, "too little memory")) << text_of(got.lines);
}

TEST_F(PeerTest, ServerWithAnInvalidKeyIsReported) {
  const PeerLines got = asked_of([](rdma_cm_id* id, std::uint32_t pair) {
    accept_with(id, pair, encode({.key = 77, .address = 1, .length = 1U << 30U}));
  });
  EXPECT_TRUE(says(got.lines, Grade::failed, "a round: remote access error")) << text_of(got.lines);
}

TEST_F(PeerTest, SilentServerIsReported) {
  const PeerLines got =
      asked_of([](rdma_cm_id*, std::uint32_t) {}, test_pace(std::chrono::milliseconds(200)));
  EXPECT_TRUE(says(got.lines, Grade::failed, "no answer within 200 ms")) << text_of(got.lines);
  EXPECT_TRUE(got.silent);
}

TEST_F(PeerTest, EveryFailedCreationIsReportedWithoutALeak) {
  bool creation_failed = true;
  for (unsigned skip = 0; creation_failed; ++skip) {
    ASSERT_LT(skip, 100U);
    ListeningProbe server;
    mock_hca::fail_creations(skip, 1);
    const PeerLines got = asked(server.port());
    const Lines& told = server.finish();
    creation_failed = mock_hca::creation_failed();
    mock_hca::fail_creations(0, 0);
    EXPECT_EQ(creation_failed, !all_ok(got.lines) || !all_ok(told)) << text_of(got.lines) << text_of(told);
    EXPECT_EQ(mock_hca::objects(), 0U) << "without object " << skip;
  }
}

}  // namespace
}  // namespace rtrs::probe::peer_test
