// Tests proofs over a fabric that records requests and replays given events.
#include "core/keyed/keyed_fabric.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/keyed/test_wire.hpp"
#include "core/keyed/toy_mac.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::keyed::keyed_fabric_test {
namespace {

using Message = std::vector<std::byte>;

SharedKey key_of(std::uint8_t fill) {
  SharedKey key{"web1", {}};
  key.secret.fill(std::byte{fill});
  return key;
}

Message con_req(std::uint16_t cid = 0, std::uint16_t recon_cnt = 1) {
  wire::ConnReq message;
  message.cid = cid;
  message.cid_num = 2;
  message.recon_cnt = recon_cnt;
  message.sess_uuid.bytes.fill(1);
  message.paths_uuid.bytes.fill(2);
  message.extensions = wire::Extensions::fence;
  Message bytes(wire::kConnReqBytes);
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

Message con_rsp(int error) {
  wire::ConnRsp message = error == 0 ? wire::ConnRsp{} : wire::make_reject(error);
  if (error == 0) message.queue_depth = 512, message.max_io_size = 126976, message.max_hdr_size = 4096;
  Message bytes(wire::kConnRspBytes);
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

struct KeyedFabricTest : ::testing::Test {
  KeyedFabricTest() {
    secret.fill(std::byte{0x77});
    client.prove(toy_mac, key_of(1));
    server.ask(toy_mac, secret, {key_of(1)}, Mode::require);
  }

  static std::vector<FabricEvent> poll(KeyedFabric& fabric, Wire& wire, std::vector<FabricEvent> events,
                                       Nanos now) {
    wire.events = std::move(events);
    std::array<FabricEvent, 16> out;
    const std::size_t count = fabric.poll(now, out);
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  Message connect(ConKey key, const Message& request) {
    client.connect(key, {}, {}, request);
    return client_wire.sent;
  }
  // Passes the request to the server and returns the event that the server's user sees.
  event::ConnectRequested asked(const Message& request, std::uint32_t number = 1) {
    seen_by_server = request;
    event::ConnectRequested event{};
    event.request = number;
    event.host = 9;
    event.private_data = seen_by_server;
    const auto events = poll(server, server_wire, {event}, now);
    EXPECT_EQ(events.size(), 1U);
    return std::get<event::ConnectRequested>(events.at(0));
  }
  Message rejected(int error, std::uint32_t number = 1) {
    server.reject(number, con_rsp(error));
    return server_wire.sent;
  }
  Message accepted(std::uint32_t number = 1) {
    server.accept(number, ConKey{0, 0, 1}, {}, con_rsp(0));
    return server_wire.sent;
  }
  std::vector<FabricEvent> answered(const FabricEvent& event) {
    return poll(client, client_wire, {event}, now);
  }
  // Performs a first exchange that gives the client a nonce.
  void challenge(ConKey key, std::uint16_t recon_cnt = 1) {
    const auto request = asked(connect(key, con_req(0, recon_cnt)), recon_cnt);
    ASSERT_EQ(request.refusal, Reason::challenged);
    const Message reject = rejected(wire::linux_errno::kEacces, recon_cnt);
    const auto events = answered(event::ConnectFailed{key, Reason::rejected, reject});
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(std::get<event::ConnectFailed>(events[0]).reason, Reason::challenged);
  }

  Secret secret{};
  Nanos now = seconds(5);
  Wire client_wire;
  Wire server_wire;
  KeyedFabric client{client_wire};
  KeyedFabric server{server_wire};
  Message seen_by_server;
};

TEST_F(KeyedFabricTest, ChallengedClientIsAcceptedWithItsProof) {
  challenge({0, 0, 1});
  const auto request = asked(connect({0, 0, 2}, con_req(0, 2)), 5);
  EXPECT_EQ(request.refusal, Reason::none);
  EXPECT_EQ(request.identity, digest_of(toy_mac, "web1"));
  EXPECT_EQ(server.identity_of_request(5), "web1");
  const Message answer = accepted(5);
  EXPECT_EQ(server.identity_of_request(5), "of the fabric");
  const auto events = answered(event::Connected{{0, 0, 2}, answer});
  ASSERT_EQ(events.size(), 1U);
  const auto* connected = std::get_if<event::Connected>(&events[0]);
  ASSERT_NE(connected, nullptr);
  // The user sees the same messages as without keys.
  EXPECT_EQ(Message(connected->private_data.begin(), connected->private_data.end()), con_rsp(0));
  EXPECT_EQ(Message(request.private_data.begin(), request.private_data.end()).size(), con_req(0, 2).size());
}

TEST_F(KeyedFabricTest, UsersSeeTheMessagesWithoutProofs) {
  const auto request = asked(connect({0, 0, 1}, con_req()));
  EXPECT_EQ(Message(request.private_data.begin(), request.private_data.end()), con_req());
  const Message reject = rejected(wire::linux_errno::kEacces);
  EXPECT_NE(reject, con_rsp(wire::linux_errno::kEacces));
  const auto events = answered(event::ConnectFailed{{0, 0, 1}, Reason::rejected, reject});
  const auto data = std::get<event::ConnectFailed>(events.at(0)).private_data;
  EXPECT_EQ(Message(data.begin(), data.end()), con_rsp(wire::linux_errno::kEacces));
}

TEST_F(KeyedFabricTest, ReplacedKeyIsRefusedWithAReason) {
  server.replace_keys({key_of(2)}, Mode::require);
  challenge({0, 0, 1});
  const auto request = asked(connect({0, 0, 2}, con_req(0, 2)), 2);
  EXPECT_EQ(request.refusal, Reason::key_refused);
  EXPECT_EQ(server.refusal_of_request(2), "its key of web1 differs from the one here");
  const Message reject = rejected(wire::linux_errno::kEacces, 2);
  EXPECT_EQ(server.refusal_of_request(2), "");
  const auto events = answered(event::ConnectFailed{{0, 0, 2}, Reason::rejected, reject});
  EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::key_refused);
}

// The keys of both sides are replaced while the client runs.
TEST_F(KeyedFabricTest, RenewedKeyIsUsedFromTheNextRequest) {
  std::shared_ptr<const SharedKey> renewed;
  client.prove(toy_mac, key_of(1), [&] { return std::exchange(renewed, nullptr); });
  challenge({0, 0, 1});
  server.replace_keys({key_of(2)}, Mode::require);
  EXPECT_EQ(asked(connect({0, 0, 2}, con_req(0, 2)), 2).refusal, Reason::key_refused);
  rejected(wire::linux_errno::kEacces, 2);
  renewed = std::make_shared<const SharedKey>(key_of(2));
  challenge({0, 0, 3}, 3);
  EXPECT_EQ(asked(connect({0, 0, 4}, con_req(0, 4)), 4).refusal, Reason::none);
  const Message answer = accepted(4);
  EXPECT_TRUE(std::holds_alternative<event::Connected>(answered(event::Connected{{0, 0, 4}, answer}).at(0)));
}

// A response is checked with the key that its request was made with.
TEST_F(KeyedFabricTest, ResponseIsCheckedWithTheKeyOfItsRequest) {
  std::shared_ptr<const SharedKey> renewed;
  client.prove(toy_mac, key_of(1), [&] { return std::exchange(renewed, nullptr); });
  challenge({0, 0, 1});
  EXPECT_EQ(asked(connect({0, 0, 2}, con_req(0, 2)), 2).refusal, Reason::none);
  const Message answer = accepted(2);
  renewed = std::make_shared<const SharedKey>(key_of(2));
  connect({0, 1, 3}, con_req(1, 2));
  EXPECT_TRUE(std::holds_alternative<event::Connected>(answered(event::Connected{{0, 0, 2}, answer}).at(0)));
}

TEST_F(KeyedFabricTest, ClientWithoutAKeyIsRefusedWithoutAChallenge) {
  const auto request = asked(con_req());
  EXPECT_EQ(request.refusal, Reason::key_refused);
  EXPECT_EQ(server.refusal_of_request(1), "it offers no key");
  EXPECT_EQ(rejected(wire::linux_errno::kEacces), con_rsp(wire::linux_errno::kEacces));
}

TEST_F(KeyedFabricTest, ClientWithoutAKeyIsAcceptedIfAllowed) {
  server.replace_keys({key_of(1)}, Mode::allow);
  const auto request = asked(con_req());
  EXPECT_EQ(request.refusal, Reason::none);
  EXPECT_EQ(request.identity, PeerIdentity{});
  EXPECT_EQ(accepted(), con_rsp(0));
}

TEST_F(KeyedFabricTest, ServerWithoutProofIsRejectedAndItsDataIgnored) {
  const ConKey key{0, 0, 2};
  challenge({0, 0, 1});
  connect(key, con_req(0, 2));
  const Message plain = con_rsp(0);
  const auto events = answered(event::Connected{key, plain});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<event::ConnectFailed>(events[0]).reason, Reason::key_refused);
  EXPECT_TRUE(answered(event::ImmReceived{key, 0}).empty());
  EXPECT_TRUE(answered(event::ConnectionLost{key, Reason::peer_closed}).empty());
  EXPECT_EQ(answered(event::ImmReceived{{0, 1, 2}, 0}).size(), 1U);
  EXPECT_EQ(answered(event::ConnectionClosed{key}).size(), 1U);
}

TEST_F(KeyedFabricTest, ServerThatAcceptsWithoutAProofIsRejected) {
  // The server accepts the first request, which has no proof, and invents its own proof.
  const ConKey key{0, 0, 1};
  connect(key, con_req());
  Message answer = con_rsp(0);
  wire::grant_key_proof(answer);
  const auto events = answered(event::Connected{key, answer});
  EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::key_refused);
}

TEST_F(KeyedFabricTest, TruncatedResponseIsNeitherProofNorChallenge) {
  challenge({0, 0, 1});
  const auto request = asked(connect({0, 0, 2}, con_req(0, 2)), 5);
  ASSERT_EQ(request.refusal, Reason::none);
  const Message whole = accepted(5);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const ConKey key{0, 0, static_cast<std::uint32_t>(10 + size)};
    connect(key, con_req(0, 2));
    const auto events = answered(event::Connected{key, std::span(whole).first(size)});
    EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::key_refused) << size;
  }
  for (std::size_t size = 0; size < wire::kConnRspBytes; ++size) {
    const ConKey key{0, 0, static_cast<std::uint32_t>(100 + size)};
    connect(key, con_req(0, 3));
    Message challenge_again = con_rsp(wire::linux_errno::kEacces);
    wire::put_key_challenge(challenge_again, {std::byte{1}});
    const auto events =
        answered(event::ConnectFailed{key, Reason::rejected, std::span(challenge_again).first(size)});
    EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::rejected) << size;
  }
}

TEST_F(KeyedFabricTest, ServerProofOfAnotherConnectionIsRefused) {
  challenge({0, 0, 1});
  ASSERT_EQ(asked(connect({0, 0, 2}, con_req(0, 2)), 5).refusal, Reason::none);
  const Message of_first = accepted(5);
  ASSERT_EQ(asked(connect({0, 1, 2}, con_req(1, 2)), 6).refusal, Reason::none);
  const auto events = answered(event::Connected{{0, 1, 2}, of_first});
  EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::key_refused);
}

TEST_F(KeyedFabricTest, ReplayedRequestIsRejected) {
  challenge({0, 0, 1});
  const Message sent = connect({0, 0, 2}, con_req(0, 2));
  ASSERT_EQ(asked(sent, 5).refusal, Reason::none);
  accepted(5);
  EXPECT_EQ(asked(sent, 6).refusal, Reason::key_refused);
  EXPECT_EQ(server.identity_of_request(6), "of the fabric");
}

TEST_F(KeyedFabricTest, RejectForAnotherReasonIsNoChallenge) {
  challenge({0, 0, 1});
  ASSERT_EQ(asked(connect({0, 0, 2}, con_req(0, 2)), 5).refusal, Reason::none);
  const Message reject = rejected(wire::linux_errno::kEbusy, 5);
  EXPECT_EQ(reject, con_rsp(wire::linux_errno::kEbusy));
  const auto events = answered(event::ConnectFailed{{0, 0, 2}, Reason::rejected, reject});
  EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::rejected);
}

TEST_F(KeyedFabricTest, ReplacedKeysApplyToLaterConnections) {
  challenge({0, 0, 1});
  const Message before = connect({0, 0, 2}, con_req(0, 2));
  ASSERT_EQ(asked(before, 5).refusal, Reason::none);
  server.replace_keys({key_of(2)}, Mode::allow);
  // The keys change after a client has proved a key. The proof for this client must use the old key.
  const Message answer = accepted(5);
  const auto events = answered(event::Connected{{0, 0, 2}, answer});
  EXPECT_TRUE(std::holds_alternative<event::Connected>(events.at(0)));
  EXPECT_EQ(asked(connect({0, 0, 3}, con_req(0, 3)), 6).refusal, Reason::key_refused);
  rejected(wire::linux_errno::kEacces, 6);
  EXPECT_EQ(asked(con_req(0, 4), 7).refusal, Reason::none);
  server.replace_keys({key_of(1)}, Mode::require);
  EXPECT_EQ(asked(connect({0, 0, 5}, con_req(0, 5)), 8).refusal, Reason::none);
  EXPECT_EQ(asked(con_req(0, 6), 9).refusal, Reason::key_refused);
}

// The fabric reuses request numbers.
TEST_F(KeyedFabricTest, AnswerBelongsToTheLastRequestWithItsNumber) {
  challenge({0, 0, 1});
  ASSERT_EQ(asked(connect({0, 0, 2}, con_req(0, 2)), 5).refusal, Reason::none);
  accepted(5);
  ASSERT_EQ(asked(connect({0, 0, 3}, con_req(0, 3)), 5).refusal, Reason::none);
  const Message answer = accepted(5);
  const auto events = answered(event::Connected{{0, 0, 3}, answer});
  EXPECT_TRUE(std::holds_alternative<event::Connected>(events.at(0)));
}

TEST_F(KeyedFabricTest, ClosedConnectionIsForgotten) {
  challenge({0, 0, 1});
  const ConKey key{0, 0, 2};
  ASSERT_EQ(asked(connect(key, con_req(0, 2)), 5).refusal, Reason::none);
  const Message answer = accepted(5);
  EXPECT_EQ(answered(event::ConnectionClosed{key}).size(), 1U);
  const auto late = answered(event::Connected{key, answer});
  EXPECT_EQ(std::get<event::ConnectFailed>(late.at(0)).reason, Reason::key_refused);
  // The end of the connection removes the last state kept for the connection.
  answered(event::ConnectionClosed{key});
  EXPECT_EQ(answered(event::ImmReceived{key, 0}).size(), 1U);
}

// The request already had the requested proof, so another challenge with the same nonce means that the key is
// rejected.
TEST_F(KeyedFabricTest, SecondChallengeWithTheSameNonceRefusesTheKey) {
  challenge({0, 0, 1});
  server.replace_keys({key_of(2)}, Mode::require);
  ASSERT_EQ(asked(connect({0, 0, 2}, con_req(0, 2)), 5).refusal, Reason::key_refused);
  Message reject = rejected(wire::linux_errno::kEacces, 5);
  auto events = answered(event::ConnectFailed{{0, 0, 2}, Reason::rejected, reject});
  EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::key_refused);
  // A server with another secret sends another nonce and may know the key.
  secret.fill(std::byte{0x11});
  server.ask(toy_mac, secret, {key_of(1)}, Mode::require);
  ASSERT_EQ(asked(connect({0, 0, 3}, con_req(0, 3)), 6).refusal, Reason::key_refused);
  reject = rejected(wire::linux_errno::kEacces, 6);
  events = answered(event::ConnectFailed{{0, 0, 3}, Reason::rejected, reject});
  EXPECT_EQ(std::get<event::ConnectFailed>(events.at(0)).reason, Reason::challenged);
  EXPECT_EQ(asked(connect({0, 0, 4}, con_req(0, 4)), 7).refusal, Reason::none);
}

TEST_F(KeyedFabricTest, WithoutKeysNothingChanges) {
  KeyedFabric plain(client_wire);
  plain.connect({0, 0, 1}, {}, {}, con_req());
  EXPECT_EQ(client_wire.sent, con_req());
  const Message answer = con_rsp(0);
  const auto events = poll(plain, client_wire, {event::Connected{{0, 0, 1}, answer}}, now);
  EXPECT_TRUE(std::holds_alternative<event::Connected>(events.at(0)));
}

}  // namespace
}  // namespace rtrs::keyed::keyed_fabric_test
