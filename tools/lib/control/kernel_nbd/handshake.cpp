#include "tools/lib/control/kernel_nbd/handshake.hpp"

#include <fmt/format.h>

#include <bit>

namespace rtrs::kernel_nbd {

namespace {

constexpr std::uint64_t kGreeting = 0x4e42444d41474943;  // "NBDMAGIC"
constexpr std::uint64_t kOption = 0x49484156454f5054;    // "IHAVEOPT"
constexpr std::uint64_t kReply = 0x3e889045565a9;
constexpr std::uint16_t kFixedNewstyle = 1;
constexpr std::uint16_t kNoZeroes = 2;
constexpr std::uint32_t kGo = 7;
constexpr std::uint32_t kAck = 1;
constexpr std::uint32_t kInfo = 3;
constexpr std::uint32_t kIsError = 0x80000000;
constexpr std::uint16_t kInfoExport = 0;
constexpr std::uint16_t kInfoBlockSize = 3;
constexpr std::size_t kGreetingBytes = 18;
constexpr std::size_t kReplyBytes = 20;
constexpr std::uint32_t kMaxContent = 4096;
constexpr std::uint32_t kMostBlock = 4096;  // the largest block size that every kernel accepts

void put(std::string& to, std::uint64_t value, std::size_t octets) {
  for (std::size_t i = octets; i-- > 0;) to += static_cast<char>(value >> (8 * i));
}

}  // namespace

std::uint64_t Handshake::number(std::size_t at, std::size_t octets) const {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < octets; ++i) value = value << 8 | static_cast<unsigned char>(have_[at + i]);
  return value;
}

void Handshake::fail(std::string why) {
  if (error_.empty()) error_ = std::move(why);
}

std::string Handshake::take(std::string_view octets) {
  std::string send;
  if (!error_.empty()) return send;
  have_ += octets;
  while (error_.empty()) {
    if (state_ == State::done) {
      if (!have_.empty()) fail("the NBD server sent unexpected data");
      break;
    }
    const std::size_t needed = state_ == State::greeting ? kGreetingBytes
                               : state_ == State::reply  ? kReplyBytes
                                                         : length_;
    if (have_.size() < needed) break;
    if (state_ == State::greeting)
      send = greeted();
    else if (state_ == State::reply)
      replied();
    else
      answered();
    have_.erase(0, needed);
  }
  return send;
}

std::string Handshake::greeted() {
  const std::uint64_t flags = number(16, 2);
  std::string send;
  if (number(0, 8) != kGreeting || number(8, 8) != kOption || (flags & kFixedNewstyle) == 0) {
    fail("the server does not support the NBD fixed newstyle handshake");
    return send;
  }
  put(send, flags & (kFixedNewstyle | kNoZeroes), 4);
  put(send, kOption, 8);
  put(send, kGo, 4);
  put(send, 4 + name_.size() + 2 + 2, 4);
  put(send, name_.size(), 4);
  send += name_;
  put(send, 1, 2);  // number of information requests that follow
  put(send, kInfoBlockSize, 2);
  state_ = State::reply;
  return send;
}

void Handshake::replied() {
  type_ = static_cast<std::uint32_t>(number(12, 4));
  length_ = static_cast<std::uint32_t>(number(16, 4));
  if (number(0, 8) != kReply || number(8, 4) != kGo) return fail("unexpected reply of the NBD server");
  if (length_ > kMaxContent) return fail("a reply of the NBD server is too long");
  state_ = State::content;
}

void Handshake::answered() {
  state_ = State::reply;
  if ((type_ & kIsError) != 0) {
    const std::string said = have_.substr(0, length_);
    return fail(said.empty() ? fmt::format("the NBD server refuses the export (error {})", type_ & ~kIsError)
                             : fmt::format("the NBD server refuses the export: {}", said));
  }
  if (type_ == kAck) {
    if (!has_export_) return fail("the NBD server did not send the size of the export");
    state_ = State::done;
    return;
  }
  if (type_ != kInfo || length_ < 2) return;
  const std::uint64_t what = number(0, 2);
  if (what == kInfoExport && length_ == 12) {
    has_export_ = true;
    export_.bytes = number(2, 8);
    export_.flags = static_cast<std::uint16_t>(number(10, 2));
  } else if (what == kInfoBlockSize && length_ == 14) {
    const auto least = static_cast<std::uint32_t>(number(2, 4));
    if (least > kMostBlock) return fail(fmt::format("the export has blocks of {} bytes", least));
    if (least > export_.least_block) export_.least_block = std::bit_ceil(least);
  }
}

}  // namespace rtrs::kernel_nbd
