// FPDUs built from the tables of the RFCs, field by field, without the writer.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/crc32c.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp::test {

using ByteVector = std::vector<std::byte>;

// Parses hexadecimal bytes such as "00 1A 41"; blanks are ignored.
inline ByteVector hex(std::string_view text) {
  ByteVector octets;
  std::string digits;
  for (const char c : text)
    if (c != ' ' && c != '\n') digits += c;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    octets.push_back(static_cast<std::byte>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return octets;
}

inline ByteVector text(std::string_view from) {
  ByteVector octets;
  for (const char c : from) octets.push_back(static_cast<std::byte>(c));
  return octets;
}

inline ByteVector filled(std::size_t size, unsigned seed) {
  ByteVector octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(i * 31 + i / 256 + seed);
  return octets;
}

inline void operator+=(ByteVector& all, const ByteVector& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Appends `width` bytes, most significant first.
inline void put(ByteVector& to, std::uint64_t value, unsigned width) {
  for (unsigned i = width; i != 0; --i) to.push_back(static_cast<std::byte>(value >> (8 * (i - 1))));
}

// Adds the length, the padding and the CRC. `length`, if set, replaces the correct length.
inline ByteVector fpdu(const ByteVector& ulpdu, bool crc = false, int length = -1) {
  ByteVector octets;
  put(octets, length < 0 ? ulpdu.size() : static_cast<std::uint64_t>(length), 2);
  octets += ulpdu;
  while (octets.size() % 4 != 0) octets.push_back(std::byte{0});
  const std::uint32_t sum = crc ? crc32c_portable(octets.data(), octets.size()) : 0;
  for (unsigned i = 0; i < 4; ++i) octets.push_back(static_cast<std::byte>(sum >> (8 * i)));
  return octets;
}

struct Tagged {
  unsigned ddp = 0xc1;
  unsigned rdmap = 0x40;
  std::uint32_t key = 0;
  std::uint64_t to = 0;
  ByteVector payload{};
  bool crc = false;
};
inline ByteVector make(const Tagged& of) {
  ByteVector ulpdu;
  put(ulpdu, of.ddp, 1);
  put(ulpdu, of.rdmap, 1);
  put(ulpdu, of.key, 4);
  put(ulpdu, of.to, 8);
  ulpdu += of.payload;
  return fpdu(ulpdu, of.crc);
}

struct Untagged {
  unsigned ddp = 0x41;
  unsigned rdmap = 0x43;
  std::uint32_t field = 0;
  std::uint32_t queue = 0;
  std::uint32_t number = 1;
  std::uint32_t offset = 0;
  ByteVector payload{};
  bool crc = false;
};
inline ByteVector make(const Untagged& of) {
  ByteVector ulpdu;
  put(ulpdu, of.ddp, 1);
  put(ulpdu, of.rdmap, 1);
  for (const std::uint32_t value : {of.field, of.queue, of.number, of.offset}) put(ulpdu, value, 4);
  ulpdu += of.payload;
  return fpdu(ulpdu, of.crc);
}

inline ByteVector immediate(std::uint32_t number, std::uint32_t imm, bool crc = false) {
  ByteVector payload;
  put(payload, imm, 4);
  put(payload, 0, 4);
  return make(Untagged{.rdmap = 0x48, .number = number, .payload = payload, .crc = crc});
}

}  // namespace rtrs::iwarp::test
