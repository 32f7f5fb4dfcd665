#include "tools/lib/trace/roce/icrc.hpp"

#include <array>

namespace rtrs::roce {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

class Crc {
 public:
  void add(std::uint8_t byte) noexcept { value_ = (value_ >> 8) ^ kTable[(value_ ^ byte) & 0xffU]; }
  [[nodiscard]] std::uint32_t value() const noexcept { return ~value_; }

 private:
  std::uint32_t value_ = 0xffffffffU;
};

// Returns true for bytes that routers may change. The ICRC counts them as 0xff.
bool may_change_in_transit(std::size_t at, std::size_t ip_header, bool ipv4) noexcept {
  if (at < ip_header) {
    if (ipv4) return at == 1 || at == 8 || at == 10 || at == 11;  // type of service, time to live, checksum
    return at <= 3 || at == 7;                                    // traffic class and flow label, hop limit
  }
  const std::size_t behind = at - ip_header;
  return behind == 6 || behind == 7 || behind == 12;  // UDP checksum, BTH byte with FECN and BECN
}

}  // namespace

std::uint32_t icrc(Bytes ip, std::size_t ip_header) noexcept {
  const bool ipv4 = load_be8(ip, 0) >> 4 == 4;
  Crc crc;
  for (int i = 0; i < 8; ++i) crc.add(0xff);  // stands for the local routing header of InfiniBand
  for (std::size_t at = 0; at < ip.size(); ++at) {
    if (!ipv4 && at == 0) {
      crc.add(0x6f);  // first byte of the IPv6 header: version 6, and the masked bits as ones
      continue;
    }
    crc.add(may_change_in_transit(at, ip_header, ipv4) ? std::uint8_t{0xff} : load_be8(ip, at));
  }
  return crc.value();
}

}  // namespace rtrs::roce
