#include "core/wire/key_proof.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/wire/linux_errno.hpp"

namespace rtrs::wire::key_proof_test {
namespace {

using Message = std::array<std::byte, kConnReqBytes>;

Message request() {
  ConnReq message;
  message.cid_num = 3;
  message.recon_cnt = 1;
  message.first_conn = true;
  message.extensions = Extensions::fence;
  for (std::uint8_t i = 0; i < 16; ++i) {
    message.sess_uuid.bytes[i] = static_cast<std::uint8_t>(0x10 + i);
    message.paths_uuid.bytes[i] = static_cast<std::uint8_t>(0x20 + i);
  }
  Message bytes{};
  EXPECT_EQ(encode(message, bytes), bytes.size());
  return bytes;
}

Message answer(int error = 0) {
  ConnRsp message = error == 0 ? ConnRsp{} : make_reject(error);
  if (error == 0) {
    message.queue_depth = 512;
    message.max_io_size = 126976;
    message.max_hdr_size = 4096;
    message.flags = kConnRspFence;
  }
  Message bytes{};
  EXPECT_EQ(encode(message, bytes), bytes.size());
  return bytes;
}

template <std::size_t Size>
std::array<std::byte, Size> counted(unsigned from) {
  std::array<std::byte, Size> bytes;
  for (std::size_t i = 0; i < Size; ++i) bytes[i] = static_cast<std::byte>(from + i);
  return bytes;
}

// Offsets of protocol section 12.
TEST(KeyProof, OfferIsInBytes45To55) {
  Message bytes = request();
  EXPECT_EQ(key_offer(bytes), std::nullopt);
  const KeyOffer offer{.hint = 0xb1a0, .proof = counted<8>(0xc0)};
  put_key_offer(bytes, offer);
  Message expected = request();
  expected[45] = std::byte{0x21};
  expected[46] = std::byte{0xa0};
  expected[47] = std::byte{0xb1};
  for (unsigned i = 0; i < 8; ++i) expected[48 + i] = static_cast<std::byte>(0xc0 + i);
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(key_offer(bytes), offer);
  EXPECT_TRUE(offer.has_proof());
  const auto parsed = parse_conn_req(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed.value.extensions, Extensions::fence | Extensions::key_proof);
  clear_key_offer(bytes);
  EXPECT_EQ(bytes, request());
}

TEST(KeyProof, ChallengeIsARejectWithEaccesFlagAndNonce) {
  Message bytes = answer(linux_errno::kEacces);
  EXPECT_EQ(key_challenge(bytes), std::nullopt);
  put_key_challenge(bytes, counted<16>(0x50));
  EXPECT_EQ(bytes[17], std::byte{0x20});
  EXPECT_EQ(bytes[20], std::byte{0x50});
  EXPECT_EQ(bytes[35], std::byte{0x5f});
  EXPECT_EQ(key_challenge(bytes), (counted<16>(0x50)));
  EXPECT_EQ(server_key_proof(bytes), std::nullopt);
  EXPECT_EQ(reject_errno(bytes), linux_errno::kEacces);
  clear_key_answer(bytes);
  EXPECT_EQ(bytes, answer(linux_errno::kEacces));
}

TEST(KeyProof, OtherRejectsAreNoChallenge) {
  for (const int error : {linux_errno::kEperm, linux_errno::kEbusy, linux_errno::kEconnreset}) {
    Message bytes = answer(error);
    put_key_challenge(bytes, counted<16>(1));
    EXPECT_EQ(key_challenge(bytes), std::nullopt) << error;
  }
}

TEST(KeyProof, AcceptHasTheServersProofAfterItsFlags) {
  Message bytes = answer();
  EXPECT_EQ(server_key_proof(bytes), std::nullopt);
  grant_key_proof(bytes);
  put_server_key_proof(bytes, counted<32>(0x60));
  EXPECT_EQ(bytes[17], std::byte{0x21});
  EXPECT_EQ(bytes[20], std::byte{0x60});
  EXPECT_EQ(bytes[51], std::byte{0x7f});
  EXPECT_EQ(server_key_proof(bytes), (counted<32>(0x60)));
  EXPECT_EQ(key_challenge(bytes), std::nullopt);
  clear_key_answer(bytes);
  EXPECT_EQ(bytes, answer());
}

TEST(KeyProof, TruncatedMessageHasNoProof) {
  Message offered = request();
  put_key_offer(offered, {.hint = 1, .proof = counted<8>(1)});
  Message challenge = answer(linux_errno::kEacces);
  put_key_challenge(challenge, counted<16>(1));
  Message accepted = answer();
  grant_key_proof(accepted);
  for (std::size_t size = 0; size < kConnReqBytes; ++size) {
    EXPECT_EQ(key_offer(std::span(offered).first(size)), std::nullopt) << size;
    EXPECT_EQ(key_challenge(std::span(challenge).first(size)), std::nullopt) << size;
    EXPECT_EQ(server_key_proof(std::span(accepted).first(size)), std::nullopt) << size;
  }
}

TEST(KeyProof, PaddingAfterAMessageIsIgnored) {
  Message challenge = answer(linux_errno::kEacces);
  put_key_challenge(challenge, counted<16>(1));
  std::vector<std::byte> padded(challenge.begin(), challenge.end());
  padded.resize(196, std::byte{0xee});
  EXPECT_EQ(key_challenge(padded), (counted<16>(1)));
}

}  // namespace
}  // namespace rtrs::wire::key_proof_test
