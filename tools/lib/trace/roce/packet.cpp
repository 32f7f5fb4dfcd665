#include "tools/lib/trace/roce/packet.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace rtrs::roce {

HeaderSet headers_of(Opcode opcode) noexcept {
  HeaderSet set;
  set.known = true;
  switch (opcode) {
    case Opcode::send_first:
    case Opcode::send_middle:
    case Opcode::send_last:
    case Opcode::send_only:
    case Opcode::write_middle:
    case Opcode::write_last:
    case Opcode::read_response_middle:
      return set;
    case Opcode::send_last_imm:
    case Opcode::send_only_imm:
    case Opcode::write_last_imm:
      set.imm = true;
      return set;
    case Opcode::write_first:
    case Opcode::write_only:
    case Opcode::read_request:
      set.reth = true;
      return set;
    case Opcode::write_only_imm:
      set.reth = true;
      set.imm = true;
      return set;
    case Opcode::read_response_first:
    case Opcode::read_response_last:
    case Opcode::read_response_only:
    case Opcode::acknowledge:
    case Opcode::atomic_acknowledge:
      set.aeth = true;
      return set;
    case Opcode::compare_swap:
    case Opcode::fetch_add:
      return set;
    case Opcode::send_last_inv:
    case Opcode::send_only_inv:
      set.ieth = true;
      return set;
    case Opcode::datagram_send_only:
      set.deth = true;
      return set;
  }
  set.known = false;
  return set;
}

namespace {
constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
}  // namespace

bool Address::is_ipv4() const noexcept {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

Address ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) noexcept {
  Address address;
  std::copy(kMapped.begin(), kMapped.end(), address.bytes.begin());
  address.bytes[12] = a;
  address.bytes[13] = b;
  address.bytes[14] = c;
  address.bytes[15] = d;
  return address;
}

std::string to_string(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool four = address.is_ipv4();
  ::inet_ntop(four ? AF_INET : AF_INET6, address.bytes.data() + (four ? kMapped.size() : 0), text,
              sizeof text);
  return text;
}

bool readable_link(std::uint16_t link) noexcept {
  switch (link) {
    case link_null:
    case link_ethernet:
    case link_raw:
    case link_cooked:
    case link_ipv4:
    case link_ipv6:
    case link_cooked2:
      return true;
    default:
      return false;
  }
}

}  // namespace rtrs::roce
