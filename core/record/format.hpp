// Layout of a trace file (docs/trace_format.md): header, frames, trailer. Numbers of fixed width are
// little-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/record/origin.hpp"
#include "core/record/schema.hpp"

namespace rtrs::trace {

inline constexpr std::uint16_t kMajor = 1;  // readers reject other major versions
inline constexpr std::uint16_t kMinor = 3;  // a higher minor version has additions that can be skipped

// The first byte and the line ends reveal a file that was transferred as text.
inline constexpr std::string_view kMagic{"\x89RTRC\r\n\x1a", 8};
inline constexpr std::string_view kEndMagic{"RTRCEND\n", 8};
inline constexpr std::size_t kPreambleSize = 16;  // magic, major, minor, size of the TLVs
inline constexpr std::size_t kFrameHeadSize = 28;
inline constexpr std::size_t kCrcSize = 4;
inline constexpr std::size_t kIndexEntrySize = 24;
inline constexpr std::size_t kFooterSize = 16;
inline constexpr std::uint32_t kBlockTag = 0x314b4c42;    // "BLK1"
inline constexpr std::uint32_t kTrailerTag = 0x31444e45;  // "END1"

// Bounds that readers enforce.
inline constexpr std::size_t kMaxBlock = std::size_t{64} << 10;  // bytes of records in a block
inline constexpr std::size_t kMaxHeader = std::size_t{256} << 10;
inline constexpr std::size_t kMaxText = 1023;
inline constexpr std::size_t kMaxOptions = 256;
inline constexpr std::size_t kMaxEvents = 1024;
inline constexpr std::size_t kMaxFields = 128;
inline constexpr std::size_t kMaxEnums = 256;
inline constexpr std::size_t kMaxWords = 1024;

enum HeaderFlags : std::uint32_t {
  partial = 1,        // records before the first one are missing
  action_counts = 2,  // actions are only counted
};

struct Header {
  std::uint16_t major = kMajor;
  std::uint16_t minor = kMinor;
  std::uint32_t flags = 0;  // bits of HeaderFlags
  Nanos start = 0;          // time of the first record of the run, which may precede the file; 0: unknown
  Origin origin;
  Schema schema;
  bool operator==(const Header&) const = default;
};

// Every frame starts with these; the meaning of `first` and `second` depends on the tag.
//   block:   number of the first record, time of the record before it (0: none)
//   trailer: number of records, chain hash
struct FrameHead {
  std::uint32_t tag = 0;
  std::uint32_t size = 0;   // bytes of the payload between head and CRC
  std::uint32_t count = 0;  // block: records; trailer: blocks
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

struct IndexEntry {
  std::uint64_t offset = 0;  // offset of the block's frame in the file, in bytes
  std::uint64_t first_seq = 0;
  std::uint64_t base_time = 0;
  bool operator==(const IndexEntry&) const = default;
};

// Encodes the whole header with its CRC; empty if it exceeds the bounds.
std::string encode_header(const Header&);
// `tlvs` are the bytes between preamble and CRC. Returns null, or the reason why they are malformed.
const char* parse_header(std::span<const std::uint8_t> tlvs, Header&);

void encode_frame_head(const FrameHead&, std::uint8_t* out) noexcept;
FrameHead decode_frame_head(const std::uint8_t* from) noexcept;
void encode_index_entry(const IndexEntry&, std::uint8_t* out) noexcept;
IndexEntry decode_index_entry(const std::uint8_t* from) noexcept;

void put_u32(std::uint8_t* out, std::uint32_t value) noexcept;
void put_u64(std::uint8_t* out, std::uint64_t value) noexcept;
std::uint32_t get_u16(const std::uint8_t* from) noexcept;
std::uint32_t get_u32(const std::uint8_t* from) noexcept;
std::uint64_t get_u64(const std::uint8_t* from) noexcept;

bool is_utf8(std::string_view text) noexcept;
// Returns the text with '?' for bytes that are not UTF-8, truncated to kMaxText bytes.
std::string clean_text(std::string_view text);

}  // namespace rtrs::trace
