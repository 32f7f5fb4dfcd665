#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/wire/bytes.hpp"
#include "core/wire/refusal.hpp"

/// Helpers for the tests of this folder: damaged messages in buffers of exact size, so that AddressSanitizer
/// detects reads beyond the end.
namespace rtrs::wire::test {

using Buffer = std::vector<std::byte>;

inline constexpr std::size_t kMaxMessageBytes = 512;

/// Encodes the message into garbage and cuts the buffer to its length.
template <class Message>
Buffer encoded(const Message& message) {
  Buffer out(kMaxMessageBytes, std::byte{0xee});
  out.resize(encode(message, out));
  return out;
}

inline Buffer with_byte(Buffer bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

/// Copies bytes to a heap block of exactly their size, so that AddressSanitizer detects a read beyond the
/// end.
class Exact {
 public:
  explicit Exact(Bytes from) : size_(from.size()), bytes_(new std::byte[from.size()]) {
    for (std::size_t i = 0; i < size_; ++i) bytes_[i] = from[i];
  }
  [[nodiscard]] Bytes view() const { return {bytes_.get(), size_}; }
  [[nodiscard]] MutableBytes writable() { return {bytes_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

/// Returns the message with up to 8 bytes overwritten, mostly among the first 64, and perhaps truncated or
/// extended.
inline Buffer damaged(Buffer bytes) {
  const auto hits = *rc::gen::inRange(0, 9);
  for (int i = 0; i < hits && !bytes.empty(); ++i) {
    const std::size_t span = *rc::gen::element(std::size_t{8}, std::size_t{64}, bytes.size());
    const auto at = *rc::gen::inRange<std::size_t>(0, span < bytes.size() ? span : bytes.size());
    bytes[at] = static_cast<std::byte>(*rc::gen::oneOf(rc::gen::arbitrary<std::uint8_t>(),
                                                       rc::gen::element<std::uint8_t>(0, 1, 2, 0x7f, 0xff)));
  }
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
      break;
    case 1:
      bytes.resize(bytes.size() + *rc::gen::inRange<std::size_t>(1, 16), std::byte{0xa5});
      break;
    default:
      break;
  }
  return bytes;
}

/// Rule of every parser: it refuses the bytes with a reason, or returns a value whose encoding parses to the
/// same value.
template <class Parse>
void check_stable(const Buffer& bytes, Parse parse) {
  const Exact input{bytes};
  const auto first = parse(input.view());
  RC_CLASSIFY(first.why == Refusal::none, "accepted");
  if (first.why != Refusal::none) {
    RC_ASSERT(static_cast<unsigned>(first.why) < kRefusalCount);
    return;
  }
  const Exact again{encoded(first.value)};
  const auto second = parse(again.view());
  RC_ASSERT(second.why == Refusal::none);
  RC_ASSERT(second.value == first.value);
}

template <class Message>
void check_small_buffers(const Message& message) {
  const std::size_t whole = encoded(message).size();
  ASSERT_GT(whole, 0U);
  for (std::size_t size = 0; size < whole; ++size) {
    Exact out{Buffer(size, std::byte{0xee})};
    EXPECT_EQ(encode(message, out.writable()), 0U) << size;
    for (const std::byte byte : out.view()) EXPECT_EQ(byte, std::byte{0xee}) << size;
  }
  Exact out{Buffer(whole)};
  EXPECT_EQ(encode(message, out.writable()), whole);
}

}  // namespace rtrs::wire::test
