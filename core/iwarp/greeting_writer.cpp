#include <cstring>

#include "core/iwarp/greeting.hpp"
#include "core/iwarp/greeting_layout.hpp"

namespace rtrs::iwarp {

using namespace greeting;

namespace {

struct Frame {
  std::string_view key;
  unsigned flags = 0;
  std::uint8_t revision = 2;
  bool own = true;
  bool send_with_immediate = false;
  unsigned ird = 0;  // including its flag bits
  unsigned ord = 0;
};

std::byte* put(std::byte* to, const void* from, std::size_t size) noexcept {
  if (size != 0) std::memcpy(to, from, size);
  return to + size;
}

std::size_t write(const Frame& frame, Bytes private_data, MutableBytes out) noexcept {
  const bool enhanced = (frame.flags & kEnhancedFlag) != 0;
  const std::size_t fields = (enhanced ? kDepthFieldBytes : 0) + (frame.own ? kOwnFieldBytes : 0);
  if (private_data.size() > kMaxPrivateBytes - fields) return 0;
  const std::size_t size = fields + private_data.size();
  if (out.size() < kGreetingHeaderBytes + size) return 0;
  std::byte* at = put(out.data(), frame.key.data(), frame.key.size());
  *at++ = static_cast<std::byte>(frame.flags);
  *at++ = static_cast<std::byte>(frame.revision);
  store_be(at, static_cast<std::uint16_t>(size));
  at += sizeof(std::uint16_t);
  if (enhanced) {
    store_be(at, static_cast<std::uint16_t>(frame.ird));
    store_be(at + 2, static_cast<std::uint16_t>(frame.ord));
    at += kDepthFieldBytes;
  }
  if (frame.own) {
    at = put(at, kOwnMagic.data(), kOwnMagic.size());
    *at++ = static_cast<std::byte>(kOwnVersion);
    *at++ = static_cast<std::byte>(frame.send_with_immediate ? kOwnSendWithImmediate : 0U);
    *at++ = std::byte{0};
    *at++ = std::byte{0};
  }
  put(at, private_data.data(), private_data.size());
  return kGreetingHeaderBytes + size;
}

// Writes only the fields that the request had, because a peer of revision 1 does not know the others.
Frame reply_to(const Greeting& request) noexcept {
  Frame frame;
  frame.key = kReplyKey;
  frame.revision = request.revision;
  frame.own = request.own;
  if (request.enhanced) {
    frame.flags = kEnhancedFlag;
    // Each peer may issue as many RDMA reads as the other can serve. urtrs issues none.
    frame.ird = (request.ord & kDepthMask) | (request.peer_to_peer ? kPeerToPeer : 0U);
    frame.ord = (request.ird & kDepthMask) | (request.peer_to_peer ? kWriteFirst : 0U);
  }
  return frame;
}

}  // namespace

std::size_t write_request(const RequestOptions& options, Bytes private_data, MutableBytes out) noexcept {
  Frame frame;
  frame.key = kRequestKey;
  frame.flags = kEnhancedFlag | (options.wishes.crc ? kCrcFlag : 0U);
  frame.own = options.own_field;
  frame.send_with_immediate = options.wishes.send_with_immediate;
  // One read in each direction is the minimum that every peer accepts.
  frame.ird = 1U | kPeerToPeer;
  frame.ord = 1U | kWriteFirst;
  return write(frame, private_data, out);
}

std::size_t write_accept(const Greeting& request, const Wishes& mine, Bytes private_data,
                         MutableBytes out) noexcept {
  Frame frame = reply_to(request);
  if (mine.crc || request.wishes.crc) frame.flags |= kCrcFlag;
  frame.send_with_immediate = mine.send_with_immediate;
  return write(frame, private_data, out);
}

std::size_t write_reject(const Greeting& request, Bytes private_data, MutableBytes out) noexcept {
  Frame frame = reply_to(request);
  frame.flags |= kRejectFlag;
  return write(frame, private_data, out);
}

}  // namespace rtrs::iwarp
