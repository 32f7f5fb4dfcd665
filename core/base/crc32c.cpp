#include "core/base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define RTRS_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define RTRS_CRC_TARGET
#endif

namespace rtrs {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bit 31 is x^0

using Table = std::array<std::uint32_t, 256>;

// tables[k][b]: the CRC of byte b followed by k zero bytes, for processing eight bytes per step.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = make_tables();

// Updates the CRC register; the caller inverts it before and after.
std::uint32_t portable(const unsigned char* at, std::size_t size, std::uint32_t crc) noexcept {
  for (; size >= 8; size -= 8, at += 8) {
    crc ^= static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8 |
           static_cast<std::uint32_t>(at[2]) << 16 | static_cast<std::uint32_t>(at[3]) << 24;
    crc = kTables[7][crc & 0xff] ^ kTables[6][(crc >> 8) & 0xff] ^ kTables[5][(crc >> 16) & 0xff] ^
          kTables[4][crc >> 24] ^ kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^
          kTables[0][at[7]];
  }
  for (; size != 0; --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *at++) & 0xff];
  return crc;
}

#ifdef RTRS_CRC_TARGET

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0U);
  }
  return product;
}

// Effect of `Bytes` zero bytes on the CRC register: one table for each byte of the register.
template <std::size_t Bytes>
struct Zeroes {
  static constexpr std::array<Table, 4> make() {
    std::uint32_t power = 0x80000000U;   // x^0
    std::uint32_t square = 0x00800000U;  // x^8
    for (std::size_t n = Bytes; n != 0; n >>= 1) {
      if ((n & 1) != 0) power = multiply(power, square);
      square = multiply(square, square);
    }
    std::array<Table, 4> tables{};
    for (unsigned k = 0; k < 4; ++k)
      for (std::uint32_t byte = 0; byte < 256; ++byte) tables[k][byte] = multiply(power, byte << (8 * k));
    return tables;
  }
  static constexpr std::array<Table, 4> kTables = make();
  static std::uint32_t behind(std::uint32_t crc) noexcept {
    return kTables[0][crc & 0xff] ^ kTables[1][(crc >> 8) & 0xff] ^ kTables[2][(crc >> 16) & 0xff] ^
           kTables[3][crc >> 24];
  }
};

#if defined(__x86_64__)
RTRS_CRC_TARGET inline std::uint64_t step8(std::uint64_t crc, std::uint64_t eight) noexcept {
  return _mm_crc32_u64(crc, eight);
}
RTRS_CRC_TARGET inline std::uint32_t step1(std::uint32_t crc, unsigned char one) noexcept {
  return _mm_crc32_u8(crc, one);
}
bool detect() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") != 0;
}
#else
RTRS_CRC_TARGET inline std::uint64_t step8(std::uint64_t crc, std::uint64_t eight) noexcept {
  std::uint32_t next = static_cast<std::uint32_t>(crc);
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(next) : "r"(eight));
  return next;
}
RTRS_CRC_TARGET inline std::uint32_t step1(std::uint32_t crc, unsigned char one) noexcept {
  const std::uint32_t wide = one;
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(wide));
  return crc;
}
bool detect() noexcept {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#endif

inline std::uint64_t load(const unsigned char* at) noexcept {
  std::uint64_t eight = 0;
  std::memcpy(&eight, at, sizeof eight);
  return eight;
}

// The CRC instruction has a latency of three cycles and a throughput of one per cycle, so three lanes of
// `Lane` bytes are processed in parallel.
template <std::size_t Lane>
RTRS_CRC_TARGET std::uint64_t three_lanes(const unsigned char*& at, std::size_t& size,
                                          std::uint64_t crc) noexcept {
  static_assert(Lane % 8 == 0);
  for (; size >= 3 * Lane; size -= 3 * Lane, at += 3 * Lane) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < Lane; i += 8) {
      crc = step8(crc, load(at + i));
      second = step8(second, load(at + Lane + i));
      third = step8(third, load(at + 2 * Lane + i));
    }
    crc = Zeroes<Lane>::behind(static_cast<std::uint32_t>(crc)) ^ second;
    crc = Zeroes<Lane>::behind(static_cast<std::uint32_t>(crc)) ^ third;
  }
  return crc;
}

RTRS_CRC_TARGET std::uint32_t by_instruction(const unsigned char* at, std::size_t size,
                                             std::uint32_t from) noexcept {
  // A payload of 4,096 bytes takes one round of three lanes of 1,360 bytes; 60 KiB take fifteen rounds.
  std::uint64_t crc = three_lanes<1360>(at, size, from);
  crc = three_lanes<64>(at, size, crc);
  for (; size >= 8; size -= 8, at += 8) crc = step8(crc, load(at));
  auto last = static_cast<std::uint32_t>(crc);
  for (; size != 0; --size) last = step1(last, *at++);
  return last;
}

// True if the processor has the CRC instruction. Until its dynamic initialisation the constant is false, and
// the slower portable code is used.
const bool kInstruction = detect();

#endif

}  // namespace

std::uint32_t crc32c_portable(const void* bytes, std::size_t size, std::uint32_t crc) noexcept {
  return ~portable(static_cast<const unsigned char*>(bytes), size, ~crc);
}

std::uint32_t crc32c(const void* bytes, std::size_t size, std::uint32_t crc) noexcept {
#ifdef RTRS_CRC_TARGET
  if (kInstruction) return ~by_instruction(static_cast<const unsigned char*>(bytes), size, ~crc);
#endif
  return crc32c_portable(bytes, size, crc);
}

}  // namespace rtrs
