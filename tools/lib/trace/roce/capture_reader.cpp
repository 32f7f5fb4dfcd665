#include "tools/lib/trace/roce/capture_reader.hpp"

#include <algorithm>
#include <array>

#include "tools/lib/trace/roce/pcapng.hpp"

namespace rtrs::roce {
namespace {

constexpr std::uint32_t kSectionBlock = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kOldPacketBlock = 2;
constexpr std::uint32_t kSimplePacketBlock = 3;
constexpr std::uint32_t kPacketBlock = 6;
constexpr std::uint32_t kByteOrder = 0x1a2b3c4d;
constexpr std::uint32_t kMaxBlock = std::uint32_t{16} << 20;
constexpr std::size_t kPcapHeader = 24;
constexpr std::uint16_t kOptionOffset = 14;
constexpr std::uint64_t kSecond = 1'000'000'000;

std::uint64_t power(std::uint64_t base, unsigned exponent) {
  std::uint64_t value = 1;
  while (exponent-- > 0) value *= base;
  return value;
}

}  // namespace

CaptureReader::Status CaptureReader::damaged(std::string reason) {
  reason_ = std::move(reason);
  return Status::damaged;
}

std::size_t CaptureReader::fill(MutableBytes to) {
  const std::size_t got = source_.read(to);
  offset_ += got;
  return got;
}

std::uint32_t CaptureReader::number(Bytes from, std::size_t at, std::size_t width) const noexcept {
  if (big_endian_) return static_cast<std::uint32_t>(load_be(from, at, width));
  std::uint32_t value = 0;
  for (std::size_t i = width; i-- > 0;) value = (value << 8) | load_be8(from, at + i);
  return value;
}

CaptureReader::Status CaptureReader::open() {
  std::array<std::byte, kPcapHeader> head{};
  reason_ = "the file is not a capture (neither pcap nor pcapng)";
  const std::size_t first = fill(MutableBytes(head).first(8));
  if (first < 8) return Status::not_a_capture;
  const std::uint32_t magic = load_be32(head, 0);
  if (magic == kSectionBlock) {
    pcapng_ = true;
    return open_section(load_be32(head, 4));
  }
  big_endian_ = magic == 0xa1b2c3d4U || magic == 0xa1b23c4dU;
  const bool micro = magic == 0xa1b2c3d4U || magic == 0xd4c3b2a1U;
  const bool nano = magic == 0xa1b23c4dU || magic == 0x4d3cb2a1U;
  if ((!micro && !nano) || fill(MutableBytes(head).subspan(8)) != kPcapHeader - 8)
    return Status::not_a_capture;
  classic_.link = static_cast<std::uint16_t>(number(head, 20, 4) & 0xffffU);
  classic_.numerator = nano ? 1 : 1000;
  return Status::ok;
}

// `block_length`: the bytes of the length field, read as big-endian.
CaptureReader::Status CaptureReader::open_section(std::uint32_t block_length) {
  std::array<std::byte, 8> bytes{};
  if (fill(MutableBytes(bytes).first(4)) != 4) return damaged("the file ends inside a section header");
  big_endian_ = load_be32(bytes, 0) == kByteOrder;
  if (!big_endian_ && number(bytes, 0, 4) != kByteOrder) return damaged("a section of unknown byte order");
  store_be(bytes, 4, 4, block_length);
  const std::uint32_t length = number(bytes, 4, 4);
  if (length < 28 || length > kMaxBlock || length % 4 != 0) return damaged("a section header of bad length");
  body_.resize(length - 12);
  if (fill(body_) != body_.size()) return damaged("the file ends inside a section header");
  interfaces_.clear();
  return Status::ok;
}

CaptureReader::Status CaptureReader::next(CapturedFrame& frame) {
  return pcapng_ ? next_pcapng(frame) : next_pcap(frame);
}

CaptureReader::Status CaptureReader::next_pcap(CapturedFrame& frame) {
  std::array<std::byte, 16> head{};
  const std::size_t got = fill(head);
  if (got == 0) return Status::end;
  if (got != head.size()) return damaged("the file ends inside a packet header");
  const std::uint32_t captured = number(head, 8, 4);
  if (captured > kMaxBlock) return damaged("a packet of impossible length");
  frame.time = number(head, 0, 4) * kSecond + number(head, 4, 4) * classic_.numerator;
  frame.link = classic_.link;
  frame.original = number(head, 12, 4);
  frame.bytes.resize(captured);
  if (fill(frame.bytes) != captured) return damaged("the file ends inside a packet");
  return Status::ok;
}

CaptureReader::Status CaptureReader::next_pcapng(CapturedFrame& frame) {
  for (;;) {
    std::array<std::byte, 8> head{};
    const std::size_t got = fill(head);
    if (got == 0) return Status::end;
    if (got != head.size()) return damaged("the file ends inside a block");
    const std::uint32_t type = number(head, 0, 4);
    Status status =
        type == kSectionBlock ? open_section(load_be32(head, 4)) : read_body(type, number(head, 4, 4));
    if (status != Status::ok) return status;
    if (type == kInterfaceBlock && !add_interface()) return damaged("an interface description is too short");
    if (type != kPacketBlock && type != kSimplePacketBlock && type != kOldPacketBlock) continue;
    return take_packet(type, frame);
  }
}

CaptureReader::Status CaptureReader::read_body(std::uint32_t, std::uint32_t length) {
  if (length < 12 || length > kMaxBlock || length % 4 != 0) return damaged("a block of impossible length");
  body_.resize(length - 8);
  if (fill(body_) != body_.size()) return damaged("the file ends inside a block");
  if (number(body_, body_.size() - 4, 4) != length) return damaged("the two lengths of a block differ");
  body_.resize(length - 12);
  return Status::ok;
}

bool CaptureReader::add_interface() {
  if (body_.size() < 8) return false;
  Interface one;
  one.link = static_cast<std::uint16_t>(number(body_, 0, 2));
  for (std::size_t at = 8; at + 4 <= body_.size();) {
    const std::uint32_t code = number(body_, at, 2);
    const std::size_t length = number(body_, at + 2, 2);
    at += 4;
    if (code == 0 || at + length > body_.size()) break;
    if (code == kOptionResolution && length == 1) {
      const std::uint8_t units = load_be8(body_, at);
      const unsigned exponent = units & 0x7fU;
      const bool binary = (units & 0x80U) != 0;
      if (exponent > (binary ? 62U : 18U)) return false;
      const std::uint64_t per_second = power(binary ? 2 : 10, exponent);
      one.numerator = kSecond;
      one.denominator = per_second;
    }
    if (code == kOptionOffset && length == 8) {
      const std::uint64_t low = number(body_, at + (big_endian_ ? 4 : 0), 4);
      const std::uint64_t high = number(body_, at + (big_endian_ ? 0 : 4), 4);
      one.offset_seconds = static_cast<std::int64_t>((high << 32) | low);
    }
    at += (length + 3) / 4 * 4;
  }
  interfaces_.push_back(one);
  return true;
}

CaptureReader::Status CaptureReader::take_packet(std::uint32_t type, CapturedFrame& frame) {
  const bool simple = type == kSimplePacketBlock;
  const std::size_t head = simple ? 4 : 20;
  if (body_.size() < head) return damaged("a packet block is too short");
  const std::size_t interface = simple ? 0 : number(body_, 0, type == kOldPacketBlock ? 2 : 4);
  if (interface >= interfaces_.size()) return damaged("a packet of an interface that was not described");
  const Interface& from = interfaces_[interface];
  frame.original = number(body_, simple ? 0 : 16, 4);
  const std::size_t captured =
      simple ? std::min<std::size_t>(frame.original, body_.size() - head) : number(body_, 12, 4);
  if (captured > body_.size() - head) return damaged("a packet is longer than its block");
  frame.link = from.link;
  if (!simple) {
    const auto units = (std::uint64_t{number(body_, 4, 4)} << 32) | number(body_, 8, 4);
    const std::uint64_t whole = from.denominator == 1 ? 0 : units / from.denominator;
    const std::uint64_t rest = from.denominator == 1 ? units : units % from.denominator;
    // `rest` is less than one second, in units of at least 2^-62 s. The product in long double is therefore
    // exact to 1 ns.
    const auto part = from.denominator == 1
                          ? rest * from.numerator
                          : static_cast<std::uint64_t>(static_cast<long double>(rest) *
                                                       static_cast<long double>(from.numerator) /
                                                       static_cast<long double>(from.denominator));
    frame.time = whole * kSecond + part + static_cast<std::uint64_t>(from.offset_seconds) * kSecond;
  }
  frame.bytes.assign(body_.begin() + static_cast<std::ptrdiff_t>(head),
                     body_.begin() + static_cast<std::ptrdiff_t>(head + captured));
  return Status::ok;
}

}  // namespace rtrs::roce
