// Tests the proof checks of a server and of a client.
#include "core/keyed/key_proof.hpp"

#include <gtest/gtest.h>

#include <map>

#include "core/keyed/toy_mac.hpp"

namespace rtrs::keyed::key_proof_test {
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
  // Returns the request as a client with this prover sends it.
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

TEST_F(GateTest, ClientWithoutProofIsAcceptedIfAllowed) {
  EXPECT_EQ(judge(request(), Mode::off).refusal, Reason::none);
  EXPECT_EQ(judge(request(), Mode::allow).refusal, Reason::none);
  EXPECT_EQ(judge(request(), Mode::allow).key, nullptr);
  const auto required = judge(request());
  EXPECT_EQ(required.refusal, Reason::key_refused);
  EXPECT_EQ(required.lack, Gate::MissingPart::offer);
  EXPECT_FALSE(required.challenges);
}

TEST_F(GateTest, OfferIsChallengedAndItsProofAccepted) {
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

TEST_F(GateTest, NonceIsValidForAllConnectionsAndAttemptsOfItsPath) {
  challenge(web1, request());
  for (std::uint16_t attempt = 1; attempt < 4; ++attempt)
    for (std::uint16_t cid = 0; cid < 3; ++cid)
      EXPECT_EQ(judge(proved(request(cid, attempt), web1)).refusal, Reason::none) << attempt << ' ' << cid;
}

TEST_F(GateTest, IdentityIsThatOfTheKey) {
  challenge(web2, request());
  const auto verdict = judge(proved(request(), web2));
  ASSERT_NE(verdict.key, nullptr);
  EXPECT_EQ(verdict.key->identity, "web2");
  EXPECT_NE(digest_of(toy_mac, "web1"), digest_of(toy_mac, "web2"));
  EXPECT_NE(digest_of(toy_mac, "web1"), PeerIdentity{});
}

TEST_F(GateTest, ProofIsAcceptedOnce) {
  challenge(web1, request());
  const ConReq sent = proved(request(), web1);
  EXPECT_EQ(judge(sent).refusal, Reason::none);
  const auto again = judge(sent);
  EXPECT_EQ(again.refusal, Reason::key_refused);
  EXPECT_TRUE(again.challenges);
  EXPECT_EQ(again.key, nullptr);
  EXPECT_EQ(again.lack, Gate::MissingPart::freshness);
  EXPECT_EQ(gate.seen(), 1U);
}

TEST_F(GateTest, AnotherKeyIsRefused) {
  Prover liar(toy_mac, key_of("web1", 9));
  challenge(liar, request());
  Prover unknown(toy_mac, key_of("nobody", 1));
  challenge(unknown, request());
  // A wrong proof is rejected even if clients without a proof are accepted.
  for (const Mode mode : {Mode::require, Mode::allow}) {
    const auto of_liar = judge(proved(request(), liar), mode);
    EXPECT_EQ(of_liar.refusal, Reason::key_refused);
    EXPECT_EQ(of_liar.lack, Gate::MissingPart::key);
    ASSERT_NE(of_liar.named, nullptr);
    EXPECT_EQ(*of_liar.named, "web1");
    const auto of_unknown = judge(proved(request(), unknown), mode);
    EXPECT_EQ(of_unknown.refusal, Reason::key_refused);
    EXPECT_EQ(of_unknown.lack, Gate::MissingPart::identity);
    EXPECT_EQ(of_unknown.named, nullptr);
  }
}

TEST_F(GateTest, NonceOfAnotherAddressPathOrServerIsRefused) {
  challenge(web1, request());
  const ConReq sent = proved(request(), web1);
  EXPECT_EQ(judge(sent, Mode::require, kHost + 1).refusal, Reason::key_refused);
  ConReq other = request(0, 1, 2);
  web1.prove(other, web1.nonce_for(now, request()));
  EXPECT_EQ(judge(other).refusal, Reason::key_refused);
  // Changes paths_uuid, which identifies the session.
  ConReq of_another_session = request();
  of_another_session[28] ^= std::byte{1};
  web1.prove(of_another_session, web1.nonce_for(now, request()));
  EXPECT_EQ(judge(of_another_session).refusal, Reason::key_refused);
  Secret another{};
  another.fill(std::byte{0x5b});
  Gate restarted(toy_mac, another);
  EXPECT_EQ(restarted.judge(now, sent, kHost, keys, Mode::require).refusal, Reason::key_refused);
  EXPECT_EQ(judge(sent).refusal, Reason::none);
}

TEST_F(GateTest, NonceExpires) {
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
  // A proof that was valid at its time must not be accepted later.
  EXPECT_EQ(judge(sent(1)).refusal, Reason::key_refused);
  EXPECT_EQ(gate.seen(), 0U);
}

TEST_F(GateTest, ClientStopsUsingANonceBeforeItExpires) {
  now = seconds(1009) + seconds(1) - 1;  // the last nanosecond of an epoch
  challenge(web1, request());
  now += Prover::kNonceUse - 1;
  EXPECT_EQ(judge(proved(request(0, 2), web1)).refusal, Reason::none);
  now += 1;
  EXPECT_EQ(web1.nonce_for(now, request()), nullptr);
  EXPECT_EQ(judge(proved(request(0, 3), web1)).refusal, Reason::challenged);
}

TEST_F(GateTest, EachChangedBitInvalidatesTheProof) {
  challenge(web1, request());
  const ConReq good = proved(request(), web1);
  for (std::size_t at = wire::kProvenReqAt; at < good.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      ConReq spoiled = good;
      spoiled[at] ^= static_cast<std::byte>(1U << bit);
      if (!wire::parse_conn_req(spoiled)) continue;  // rejected before the proof check
      EXPECT_NE(judge(spoiled).refusal, Reason::none) << at << ' ' << bit;
      EXPECT_EQ(judge(spoiled).key, nullptr);
    }
  }
  EXPECT_EQ(judge(good).refusal, Reason::none);
}

TEST_F(GateTest, FullProofListInvalidatesAllNonces) {
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
  // None of the earlier proofs may be accepted again, and neither may a new proof with the old nonce.
  EXPECT_EQ(judge(under(old, 0)).refusal, Reason::key_refused);
  EXPECT_EQ(judge(under(old, 9000)).refusal, Reason::key_refused);
  const auto next = judge(under(full.nonce, 1));
  EXPECT_EQ(next.refusal, Reason::none);
  EXPECT_EQ(judge(under(full.nonce, 1)).refusal, Reason::key_refused);
}

// A proof is remembered until its nonce expires, whatever the epoch.
TEST_F(GateTest, ProofIsNotAcceptedAgainAtTheEndOfItsNonce) {
  challenge(web1, request());
  const ConReq at_once = proved(request(), web1);
  EXPECT_EQ(judge(at_once).refusal, Reason::none);
  ConReq later_one = request(0, 2);
  web1.prove(later_one, web1.nonce_for(now, request()));
  now += seconds(20);
  EXPECT_EQ(judge(at_once).refusal, Reason::key_refused);
  EXPECT_EQ(judge(later_one).refusal, Reason::none);
  now += seconds(10) - 1;
  EXPECT_EQ(judge(at_once).refusal, Reason::key_refused);
  EXPECT_EQ(judge(later_one).refusal, Reason::key_refused);
}

// Two identities have the same hint, but different keys.
TEST_F(GateTest, KeysWithTheSameHintAreDistinguished) {
  const auto hint = [](unsigned number) { return hint_of(toy_mac, "client" + std::to_string(number)); };
  std::map<std::uint16_t, unsigned> first;
  unsigned other = 0;
  while (first.emplace(hint(other), other).second) ++other;
  const std::array names{"client" + std::to_string(first[hint(other)]), "client" + std::to_string(other)};
  keys = KeyTable(toy_mac, {key_of(names[0], 1), key_of(names[1], 2), key_of("web1", 3)});
  std::uint8_t path = 1;
  for (const std::size_t at : {0U, 1U}) {
    Prover prover(toy_mac, key_of(names[at], static_cast<std::uint8_t>(at + 1)));
    const ConReq bytes = request(0, 1, path++);
    challenge(prover, bytes);
    const auto verdict = judge(proved(bytes, prover));
    ASSERT_NE(verdict.key, nullptr);
    EXPECT_EQ(verdict.key->identity, names[at]);
  }
  // A key must also be rejected if the hint of its identity is different.
  Prover liar(toy_mac, key_of(names[0], 3));
  challenge(liar, request(0, 1, path));
  EXPECT_EQ(judge(proved(request(0, 1, path), liar)).refusal, Reason::key_refused);
}

// The server answers with the nonce of the proof, which may be older than the nonce that it issues now.
TEST_F(GateTest, ServerUsesTheNonceOfTheClientsProof) {
  challenge(web1, request());
  now += seconds(14);
  const wire::KeyNonce* const nonce = web1.nonce_for(now, request());
  ASSERT_NE(nonce, nullptr);
  const auto verdict = judge(proved(request(0, 2), web1));
  ASSERT_NE(verdict.key, nullptr);
  EXPECT_EQ(verdict.nonce, *nonce);
}

TEST_F(GateTest, NewNonceReplacesOnlyTheOldOneOfItsPath) {
  web1.remember(now, request(), {std::byte{1}});
  web1.remember(now, request(0, 1, 2), {std::byte{2}});
  web1.remember(now, request(), {std::byte{3}});
  ASSERT_NE(web1.nonce_for(now, request()), nullptr);
  EXPECT_EQ(*web1.nonce_for(now, request()), wire::KeyNonce{std::byte{3}});
  EXPECT_EQ(*web1.nonce_for(now, request(0, 1, 2)), wire::KeyNonce{std::byte{2}});
  for (std::size_t path = 3; path <= Prover::kMaxNonces + 1; ++path)
    web1.remember(now, request(0, 1, static_cast<std::uint8_t>(path)), {std::byte{4}});
  // The oldest nonce was dropped to make room.
  EXPECT_EQ(web1.nonce_for(now, request(0, 1, 2)), nullptr);
  EXPECT_NE(web1.nonce_for(now, request()), nullptr);
  EXPECT_NE(web1.nonce_for(now, request(0, 1, Prover::kMaxNonces + 1)), nullptr);
}

unsigned macs = 0;
Mac counting_mac(std::span<const std::byte> key, std::span<const std::byte> message) noexcept {
  ++macs;
  return toy_mac(key, message);
}

// docs/security.md lists the work that an unauthenticated client can cause.
TEST_F(GateTest, UnknownClientCostsFewMacs) {
  Gate counted(counting_mac, secret);
  const auto cost = [&](std::uint16_t hint, std::byte proof) {
    ConReq bytes = request();
    wire::put_key_offer(bytes, {.hint = hint, .proof = {proof}});
    macs = 0;
    EXPECT_NE(counted.judge(now, bytes, kHost, keys, Mode::require).refusal, Reason::none);
    return macs;
  };
  const std::uint16_t known = hint_of(toy_mac, "web1");
  EXPECT_EQ(cost(known, std::byte{0}), 1U);
  EXPECT_EQ(cost(known, std::byte{1}), 3U + 3U);
  EXPECT_EQ(cost(static_cast<std::uint16_t>(known + 1), std::byte{1}), 1U);
}

Mac zero_mac(std::span<const std::byte>, std::span<const std::byte>) noexcept {
  return {};
}

// A proof of zeros means "no proof", so a MAC that starts with zeros is changed.
TEST(ClientProof, IsNeverZero) {
  const ConReq bytes = request();
  EXPECT_EQ(client_proof(zero_mac, {}, {}, bytes), wire::KeyProof{std::byte{1}});
}

TEST_F(GateTest, UnknownClientLeavesNoState) {
  for (std::uint16_t attempt = 0; attempt < 1000; ++attempt) {
    ConReq bytes = request(0, attempt);
    wire::put_key_offer(bytes, {.hint = hint_of(toy_mac, "web1"), .proof = {std::byte{1}}});
    EXPECT_EQ(judge(bytes).refusal, Reason::key_refused);
  }
  EXPECT_EQ(gate.seen(), 0U);
}

TEST_F(GateTest, ClientAcceptsOnlyAServerWithItsKey) {
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
  // The client rejects a proof for another connection, with another nonce, or with another key.
  EXPECT_FALSE(web1.accepts(verdict.nonce, proved(request(1), web1), answer));
  ConReq with_other_proof = sent;
  with_other_proof[wire::kProvenReqEnd] ^= std::byte{1};
  EXPECT_FALSE(web1.accepts(verdict.nonce, with_other_proof, answer));
  EXPECT_FALSE(web1.accepts({}, sent, answer));
  EXPECT_FALSE(web2.accepts(verdict.nonce, sent, answer));
  for (std::size_t at = 0; at < wire::kProvenRspBytes + sizeof(wire::ServerKeyProof); ++at) {
    ConRsp spoiled = answer;
    spoiled[at] ^= std::byte{0x10};
    EXPECT_FALSE(web1.accepts(verdict.nonce, sent, spoiled)) << at;
  }
}

TEST(SameBytes, IsTrueOnlyIfAllBytesAreEqual) {
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
}  // namespace rtrs::keyed::key_proof_test
