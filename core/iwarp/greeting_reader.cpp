#include <algorithm>
#include <cstring>

#include "core/iwarp/greeting.hpp"
#include "core/iwarp/greeting_layout.hpp"

namespace rtrs::iwarp {

using namespace greeting;

Fault GreetingReader::feed(Bytes bytes) noexcept {
  for (const std::byte octet : bytes) {
    if (fault_ != Fault::none) break;
    if (complete()) {
      fault_ = Fault::bytes_behind_greeting;
      break;
    }
    bytes_[held_] = octet;
    fault_ = judge(held_++);
  }
  return fault_;
}

std::size_t GreetingReader::missing() const noexcept {
  if (fault_ != Fault::none) return 0;
  return (held_ < kGreetingHeaderBytes ? kGreetingHeaderBytes : kGreetingHeaderBytes + private_bytes()) -
         held_;
}

bool GreetingReader::flag(unsigned bit) const noexcept {
  return (std::to_integer<unsigned>(bytes_[kFlagsAt]) & bit) != 0;
}

// True if the peer uses the enhanced set-up of revision 2, which the S flag announces; in revision 1 the S
// flag has no meaning.
bool GreetingReader::enhanced() const noexcept {
  return flag(kEnhancedFlag) && std::to_integer<unsigned>(bytes_[kRevisionAt]) == 2;
}

std::size_t GreetingReader::private_bytes() const noexcept {
  return load_be<std::uint16_t>(bytes_.data() + kSizeAt);
}

// Checks the bytes that have arrived. `at` is the index of the byte that arrived last.
Fault GreetingReader::judge(std::size_t at) const noexcept {
  const unsigned octet = std::to_integer<unsigned>(bytes_[at]);
  if (at < kFlagsAt) {
    const auto key = kind_ == GreetingKind::request ? kRequestKey : kReplyKey;
    return octet == static_cast<unsigned char>(key[at]) ? Fault::none : Fault::bad_key;
  }
  if (at == kFlagsAt)
    return kind_ == GreetingKind::request && flag(kRejectFlag) ? Fault::bad_flags : Fault::none;
  if (at == kRevisionAt) return judge_revision();
  if (at == kSizeAt) return octet > kMaxPrivateBytes >> 8U ? Fault::private_data_too_long : Fault::none;
  if (at == kSizeAt + 1) {
    if (private_bytes() > kMaxPrivateBytes) return Fault::private_data_too_long;
    return enhanced() && private_bytes() < kDepthFieldBytes ? Fault::private_data_too_short : Fault::none;
  }
  const std::size_t own_at = kGreetingHeaderBytes + (enhanced() ? kDepthFieldBytes : 0);
  return at == own_at + kOwnVersionAt && has_own_field() && octet != kOwnVersion ? Fault::bad_own_version
                                                                                 : Fault::none;
}

Fault GreetingReader::judge_revision() const noexcept {
  const unsigned revision = std::to_integer<unsigned>(bytes_[kRevisionAt]);
  if (revision != 1 && revision != 2) return Fault::bad_revision;
  if (kind_ == GreetingKind::reply) {
    if (flag(kRejectFlag)) return Fault::none;
    if (revision != 2) return Fault::bad_revision;
    if (!enhanced()) return Fault::not_enhanced;
  }
  return flag(kMarkersFlag) ? Fault::markers : Fault::none;
}

// Precondition: the bytes up to the version of the urtrs field have arrived.
bool GreetingReader::has_own_field() const noexcept {
  const std::size_t before = enhanced() ? kDepthFieldBytes : 0;
  return private_bytes() >= before + kOwnFieldBytes &&
         std::memcmp(bytes_.data() + kGreetingHeaderBytes + before, kOwnMagic.data(), kOwnMagic.size()) == 0;
}

Greeting GreetingReader::greeting() const noexcept {
  Greeting read;
  if (held_ <= kRevisionAt) return read;
  read.revision = std::to_integer<std::uint8_t>(bytes_[kRevisionAt]);
  read.rejected = flag(kRejectFlag);
  read.enhanced = enhanced();
  read.wishes.crc = flag(kCrcFlag);
  if (!complete()) return read;
  Bytes data = Bytes(bytes_).subspan(kGreetingHeaderBytes, private_bytes());
  if (read.enhanced) {
    const auto ird = load_be<std::uint16_t>(data.data());
    const auto ord = load_be<std::uint16_t>(data.data() + 2);
    read.ird = ird & kDepthMask;
    read.ord = ord & kDepthMask;
    read.peer_to_peer = (ird & kPeerToPeer) != 0 && (ord & kWriteFirst) != 0;
    data = data.subspan(kDepthFieldBytes);
  }
  if (has_own_field()) {
    read.own = true;
    read.wishes.send_with_immediate =
        (std::to_integer<unsigned>(data[kOwnFlagsAt]) & kOwnSendWithImmediate) != 0;
    data = data.subspan(kOwnFieldBytes);
  }
  read.private_data = data;
  return read;
}

}  // namespace rtrs::iwarp
