#include "core/wire/key_proof.hpp"

#include <algorithm>

#include "core/wire/linux_errno.hpp"

namespace rtrs::wire {
namespace {

namespace key_bytes {
constexpr std::size_t kExtensionsAt = 45;
constexpr std::size_t kHintAt = 46;
constexpr std::size_t kProofAt = 48;
static_assert(kHintAt + 2 == kProofAt && kProofAt == kProvenReqEnd &&
              kProofAt + sizeof(KeyProof) == kConnReqBytes);

constexpr std::size_t kErrnoAt = 4;
constexpr std::size_t kFlagsAt = 16;
constexpr std::size_t kAnswerAt = 20;
static_assert(kFlagsAt + 4 == kAnswerAt && kAnswerAt == kProvenRspBytes &&
              kAnswerAt + sizeof(ServerKeyProof) <= kConnRspBytes);

constexpr auto kOffer = static_cast<std::uint8_t>(Extensions::key_proof);
}  // namespace key_bytes

template <std::size_t Size>
std::array<std::byte, Size> load_part(Bytes from, std::size_t at) noexcept {
  std::array<std::byte, Size> value;
  const Bytes part = from.subspan(at, Size);
  std::copy(part.begin(), part.end(), value.begin());
  return value;
}

template <std::size_t Size>
void store_part(MutableBytes to, std::size_t at, const std::array<std::byte, Size>& value) noexcept {
  std::copy(value.begin(), value.end(), to.subspan(at, Size).begin());
}

bool has_key_flag(Bytes conn_rsp) noexcept {
  return (load_le32(conn_rsp, key_bytes::kFlagsAt) & kConnRspKeyProof) != 0;
}

}  // namespace

std::optional<KeyOffer> key_offer(Bytes conn_req) noexcept {
  if (conn_req.size() < kConnReqBytes ||
      (load_u8(conn_req, key_bytes::kExtensionsAt) & key_bytes::kOffer) == 0)
    return std::nullopt;
  return KeyOffer{load_le16(conn_req, key_bytes::kHintAt),
                  load_part<sizeof(KeyProof)>(conn_req, key_bytes::kProofAt)};
}

void put_key_offer(MutableBytes conn_req, const KeyOffer& offer) noexcept {
  store_u8(conn_req, key_bytes::kExtensionsAt,
           load_u8(conn_req, key_bytes::kExtensionsAt) | key_bytes::kOffer);
  store_le16(conn_req, key_bytes::kHintAt, offer.hint);
  store_part(conn_req, key_bytes::kProofAt, offer.proof);
}

void clear_key_offer(MutableBytes conn_req) noexcept {
  const auto others =
      static_cast<std::uint8_t>(load_u8(conn_req, key_bytes::kExtensionsAt) & ~key_bytes::kOffer);
  store_u8(conn_req, key_bytes::kExtensionsAt, others);
  store_zeros(conn_req.subspan(key_bytes::kHintAt, kConnReqBytes - key_bytes::kHintAt));
}

std::optional<KeyNonce> key_challenge(Bytes conn_rsp) noexcept {
  if (conn_rsp.size() < kConnRspBytes || reject_errno(conn_rsp) != linux_errno::kEacces) return std::nullopt;
  if (!has_key_flag(conn_rsp)) return std::nullopt;
  return load_part<sizeof(KeyNonce)>(conn_rsp, key_bytes::kAnswerAt);
}

void put_key_challenge(MutableBytes conn_rsp, const KeyNonce& nonce) noexcept {
  grant_key_proof(conn_rsp);
  store_part(conn_rsp, key_bytes::kAnswerAt, nonce);
}

std::optional<ServerKeyProof> server_key_proof(Bytes conn_rsp) noexcept {
  if (conn_rsp.size() < kConnRspBytes || load_le16(conn_rsp, key_bytes::kErrnoAt) != 0 ||
      !has_key_flag(conn_rsp))
    return std::nullopt;
  return load_part<sizeof(ServerKeyProof)>(conn_rsp, key_bytes::kAnswerAt);
}

void grant_key_proof(MutableBytes conn_rsp) noexcept {
  store_le32(conn_rsp, key_bytes::kFlagsAt, load_le32(conn_rsp, key_bytes::kFlagsAt) | kConnRspKeyProof);
}

void put_server_key_proof(MutableBytes conn_rsp, const ServerKeyProof& proof) noexcept {
  store_part(conn_rsp, key_bytes::kAnswerAt, proof);
}

void clear_key_answer(MutableBytes conn_rsp) noexcept {
  store_le32(conn_rsp, key_bytes::kFlagsAt, load_le32(conn_rsp, key_bytes::kFlagsAt) & ~kConnRspKeyProof);
  store_zeros(conn_rsp.subspan(key_bytes::kAnswerAt, kConnRspBytes - key_bytes::kAnswerAt));
}

}  // namespace rtrs::wire
