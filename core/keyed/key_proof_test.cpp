// What a server makes of proofs, and a client of servers.
#include "core/keyed/key_proof.hpp"

#include <gtest/gtest.h>

#include "core/keyed/toy_mac.hpp"

namespace rtrs::keyed {
namespace {

using ConReq = std::array<std::byte, wire::kConnReqBytes>;
using ConRsp = std::array<std::byte, wire::kConnRspBytes>;

constexpr std::uint32_t kHost = 7;

SharedKey key_of(const std::string& identity, std::uint8_t fill) {
  SharedKey key{identity, {}};
  key.secret.fill(std::byte{fill});
  return key;
}

ConReq request(std::uint16_t cid = 0, std::uint16_t recon_cnt = 1, std::uint8_t path = 1) {
  wire::ConnReq message;
  message.cid = cid;
  message.cid_num = 3;
  message.recon_cnt = recon_cnt;
  message.sess_uuid.bytes.fill(path);
  message.paths_uuid.bytes.fill(0x20);
  ConReq bytes{};
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

ConRsp accept() {
  wire::ConnRsp message;
  message.queue_depth = 512;
  message.max_io_size = 126976;
  message.max_hdr_size = 4096;
  ConRsp bytes{};
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

struct GateTest : ::testing::Test {
  GateTest() { secret.fill(std::byte{0x5a}); }
  Gate::Verdict judge(const ConReq& bytes, Mode mode = Mode::require, std::uint32_t host = kHost) {
    return gate.judge(now, bytes, host, keys, mode);
  }
  // As the client sends it with what it knows.
  ConReq proved(ConReq bytes, const Prover& by) {
    by.prove(bytes, by.nonce_for(now, bytes));
    return bytes;
  }
  void challenge(Prover& whom, const ConReq& bytes) {
    const auto verdict = judge(proved(bytes, whom));
    ASSERT_TRUE(verdict.challenges);
    whom.remember(now, bytes, verdict.nonce);
  }

  Secret secret{};
  Nanos now = seconds(1000);
  std::vector<SharedKey> all{key_of("web1", 1), key_of("web2", 2)};
  KeyTable keys{toy_mac, all};
  Gate gate{toy_mac, secret};
  Prover web1{toy_mac, key_of("web1", 1)};
  Prover web2{toy_mac, key_of("web2", 2)};
};

TEST_F(GateTest, WhoOffersNoProofComesInWhereItIsAllowed) {
  EXPECT_EQ(judge(request(), Mode::off).refusal, Reason::none);
  EXPECT_EQ(judge(request(), Mode::allow).refusal, Reason::none);
  EXPECT_EQ(judge(request(), Mode::allow).key, nullptr);
  const auto required = judge(request());
  EXPECT_EQ(required.refusal, Reason::key_refused);
  EXPECT_FALSE(required.challenges);
}

TEST_F(GateTest, AnOfferIsChallengedAndItsProofIsGood) {
  std::uint16_t attempt = 0;
  for (const Mode mode : {Mode::require, Mode::allow}) {
    const ConReq bytes = request(0, ++attempt);
    ConReq offer = bytes;
    web1.prove(offer, nullptr);
    const auto first = judge(offer, mode);
    EXPECT_EQ(first.refusal, Reason::challenged);
    ASSERT_TRUE(first.challenges);
    web1.remember(now, bytes, first.nonce);
    const auto verdict = judge(proved(bytes, web1), mode);
    EXPECT_EQ(verdict.refusal, Reason::none);
    ASSERT_NE(verdict.key, nullptr);
    EXPECT_EQ(verdict.key->identity, "web1");
  }
}

TEST_F(GateTest, OneNonceIsGoodForAllConnectionsAndAttemptsOfItsPath) {
  challenge(web1, request());
  for (std::uint16_t attempt = 1; attempt < 4; ++attempt)
    for (std::uint16_t cid = 0; cid < 3; ++cid)
      EXPECT_EQ(judge(proved(request(cid, attempt), web1)).refusal, Reason::none) << attempt << ' ' << cid;
}

TEST_F(GateTest, EachIdentityIsThatOfItsKey) {
  challenge(web2, request());
  const auto verdict = judge(proved(request(), web2));
  ASSERT_NE(verdict.key, nullptr);
  EXPECT_EQ(verdict.key->identity, "web2");
  EXPECT_NE(digest_of(toy_mac, "web1"), digest_of(toy_mac, "web2"));
  EXPECT_NE(digest_of(toy_mac, "web1"), PeerIdentity{});
}

TEST_F(GateTest, AProofIsGoodOnce) {
  challenge(web1, request());
  const ConReq sent = proved(request(), web1);
  EXPECT_EQ(judge(sent).refusal, Reason::none);
  const auto again = judge(sent);
  EXPECT_EQ(again.refusal, Reason::key_refused);
  EXPECT_TRUE(again.challenges);
  EXPECT_EQ(again.key, nullptr);
  EXPECT_EQ(gate.seen(), 1U);
}

TEST_F(GateTest, AnotherKeyIsRefused) {
  Prover liar(toy_mac, key_of("web1", 9));
  challenge(liar, request());
  EXPECT_EQ(judge(proved(request(), liar)).refusal, Reason::key_refused);
  Prover unknown(toy_mac, key_of("nobody", 1));
  challenge(unknown, request());
  EXPECT_EQ(judge(proved(request(), unknown)).refusal, Reason::key_refused);
}

TEST_F(GateTest, TheNonceOfAnotherAddressPathOrServerIsOfNoUse) {
  challenge(web1, request());
  const ConReq sent = proved(request(), web1);
  EXPECT_EQ(judge(sent, Mode::require, kHost + 1).refusal, Reason::key_refused);
  ConReq other = request(0, 1, 2);
  web1.prove(other, web1.nonce_for(now, request()));
  EXPECT_EQ(judge(other).refusal, Reason::key_refused);
  Secret another{};
  another.fill(std::byte{0x5b});
  Gate restarted(toy_mac, another);
  EXPECT_EQ(restarted.judge(now, sent, kHost, keys, Mode::require).refusal, Reason::key_refused);
  EXPECT_EQ(judge(sent).refusal, Reason::none);
}

TEST_F(GateTest, ANonceAges) {
  now = seconds(1000);
  const ConReq first = request();
  challenge(web1, first);
  const wire::KeyNonce nonce = *web1.nonce_for(now, first);
  const auto sent = [&](std::uint16_t attempt) {
    ConReq bytes = request(0, attempt);
    web1.prove(bytes, &nonce);
    return bytes;
  };
  now = seconds(1029);
  EXPECT_EQ(judge(sent(1)).refusal, Reason::none);
  now = seconds(1030);
  EXPECT_EQ(judge(sent(2)).refusal, Reason::key_refused);
  // What was good at the time is not good again later.
  EXPECT_EQ(judge(sent(1)).refusal, Reason::key_refused);
  EXPECT_EQ(gate.seen(), 0U);
}

TEST_F(GateTest, AClientUsesANonceForLessThanTheServerTakesIt) {
  now = seconds(1009) + seconds(1) - 1;  // the end of an epoch
  challenge(web1, request());
  now += Prover::kNonceUse - 1;
  EXPECT_EQ(judge(proved(request(0, 2), web1)).refusal, Reason::none);
  now += 1;
  EXPECT_EQ(web1.nonce_for(now, request()), nullptr);
  EXPECT_EQ(judge(proved(request(0, 3), web1)).refusal, Reason::challenged);
}

TEST_F(GateTest, EachBitThatIsChangedSpoilsTheProof) {
  challenge(web1, request());
  const ConReq good = proved(request(), web1);
  for (std::size_t at = wire::kProvenReqAt; at < good.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      ConReq spoiled = good;
      spoiled[at] ^= static_cast<std::byte>(1U << bit);
      if (!wire::parse_conn_req(spoiled)) continue;  // refused before
      EXPECT_NE(judge(spoiled).refusal, Reason::none) << at << ' ' << bit;
      EXPECT_EQ(judge(spoiled).key, nullptr);
    }
  }
  EXPECT_EQ(judge(good).refusal, Reason::none);
}

TEST_F(GateTest, ServerThatHasNoRoomForMoreProofsEndsAllNoncesAndForgetsNone) {
  challenge(web1, request());
  const wire::KeyNonce old = *web1.nonce_for(now, request());
  const auto under = [&](const wire::KeyNonce& nonce, std::uint16_t attempt) {
    ConReq bytes = request(0, attempt);
    web1.prove(bytes, &nonce);
    return bytes;
  };
  for (std::uint16_t attempt = 0; attempt < Gate::kMaxSeen; ++attempt)
    ASSERT_EQ(judge(under(old, attempt)).refusal, Reason::none);
  EXPECT_EQ(gate.seen(), Gate::kMaxSeen);
  const auto full = judge(under(old, Gate::kMaxSeen));
  EXPECT_EQ(full.refusal, Reason::challenged);
  ASSERT_TRUE(full.challenges);
  EXPECT_NE(full.nonce, old);
  // None of those that it took is good again, and none under the old nonce is new.
  EXPECT_EQ(judge(under(old, 0)).refusal, Reason::key_refused);
  EXPECT_EQ(judge(under(old, 9000)).refusal, Reason::key_refused);
  const auto next = judge(under(full.nonce, 1));
  EXPECT_EQ(next.refusal, Reason::none);
  EXPECT_EQ(judge(under(full.nonce, 1)).refusal, Reason::key_refused);
}

TEST_F(GateTest, AStrangerLeavesNothingBehind) {
  for (std::uint16_t attempt = 0; attempt < 1000; ++attempt) {
    ConReq bytes = request(0, attempt);
    wire::put_key_offer(bytes, {.hint = hint_of(toy_mac, "web1"), .proof = {std::byte{1}}});
    EXPECT_EQ(judge(bytes).refusal, Reason::key_refused);
  }
  EXPECT_EQ(gate.seen(), 0U);
}

TEST_F(GateTest, AClientTakesAServerThatHasTheKeyAlone) {
  challenge(web1, request());
  const ConReq sent = proved(request(), web1);
  const auto verdict = judge(sent);
  ASSERT_NE(verdict.key, nullptr);
  ConRsp answer = accept();
  EXPECT_FALSE(web1.accepts(verdict.nonce, sent, answer));
  wire::grant_key_proof(answer);
  EXPECT_FALSE(web1.accepts(verdict.nonce, sent, answer));
  wire::put_server_key_proof(answer, server_proof(toy_mac, verdict.key->secret, verdict.nonce, sent, answer));
  EXPECT_TRUE(web1.accepts(verdict.nonce, sent, answer));
  // Of another connection, under another nonce, of another key.
  EXPECT_FALSE(web1.accepts(verdict.nonce, proved(request(1), web1), answer));
  EXPECT_FALSE(web1.accepts({}, sent, answer));
  EXPECT_FALSE(web2.accepts(verdict.nonce, sent, answer));
  for (std::size_t at = 0; at < wire::kProvenRspBytes + sizeof(wire::ServerKeyProof); ++at) {
    ConRsp spoiled = answer;
    spoiled[at] ^= std::byte{0x10};
    EXPECT_FALSE(web1.accepts(verdict.nonce, sent, spoiled)) << at;
  }
}

TEST(SameBytes, SaysWhetherAllAre) {
  std::array<std::byte, 32> one{};
  std::array<std::byte, 32> other{};
  EXPECT_TRUE(same_bytes(one, other));
  for (std::size_t at = 0; at < one.size(); ++at) {
    other = one;
    other[at] ^= std::byte{0x80};
    EXPECT_FALSE(same_bytes(one, other)) << at;
  }
}

}  // namespace
}  // namespace rtrs::keyed
