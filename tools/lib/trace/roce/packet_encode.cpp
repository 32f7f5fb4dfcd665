// Encodes a packet to an Ethernet frame.
#include <algorithm>

#include "tools/lib/trace/roce/icrc.hpp"
#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {
namespace {

class Frame {
 public:
  void put(std::size_t width, std::uint64_t value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + width);
    store_be(bytes_, at, width, value);
  }
  void put(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put_address(const Address& address) {
    const std::size_t skip = address.is_ipv4() ? 12 : 0;
    for (std::size_t i = skip; i < address.bytes.size(); ++i) put(1, address.bytes[i]);
  }
  // Writes a locally administered MAC address with the low bytes of the IP address.
  void put_mac(const Address& address) {
    put(1, 0x02);
    put(1, 0);
    for (std::size_t i = 12; i < 16; ++i) put(1, address.bytes[i]);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::size_t extended_bytes(const HeaderSet& set) {
  return (set.deth ? 8U : 0U) + (set.reth ? 16U : 0U) + (set.aeth ? 4U : 0U) + (set.imm ? 4U : 0U) +
         (set.ieth ? 4U : 0U);
}

std::uint16_t checksum(Bytes header) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at + 1 < header.size(); at += 2) sum += load_be16(header, at);
  while (sum > 0xffff) sum = (sum & 0xffffU) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum & 0xffffU);
}

constexpr std::uint64_t kTimeToLive = 64;
constexpr std::uint64_t kDontFragment = 0x4000;

void put_ip(Frame& frame, const Packet& packet, std::size_t udp_bytes) {
  if (!packet.source.is_ipv4()) {
    frame.put(4, std::uint64_t{6} << 28);
    frame.put(2, udp_bytes);
    frame.put(1, 17);
    frame.put(1, kTimeToLive);
    frame.put_address(packet.source);
    frame.put_address(packet.destination);
    return;
  }
  const std::size_t start = frame.size();
  frame.put(2, 0x4500);
  frame.put(2, 20 + udp_bytes);
  frame.put(4, kDontFragment);
  frame.put(2, (kTimeToLive << 8) | 17);
  frame.put(2, 0);
  frame.put_address(packet.source);
  frame.put_address(packet.destination);
  store_be(frame.bytes(), start + 10, 2, checksum(Bytes(frame.bytes()).subspan(start)));
}

void put_transport(Frame& frame, const Packet& packet, const HeaderSet& set, std::size_t padding) {
  frame.put(1, static_cast<std::uint8_t>(packet.opcode));
  frame.put(1, (packet.solicited ? 0x80U : 0U) | (padding << 4));
  frame.put(2, packet.pkey);
  frame.put(4, packet.dest_qp & kPsnMask);
  frame.put(4, (packet.ack_request ? 0x80000000U : 0U) | (packet.psn & kPsnMask));
  if (set.deth) {
    frame.put(4, packet.qkey);
    frame.put(4, packet.source_qp & kPsnMask);
  }
  if (set.reth) {
    frame.put(8, packet.remote_addr);
    frame.put(4, packet.rkey);
    frame.put(4, packet.dma_length);
  }
  if (set.aeth) frame.put(4, (std::uint64_t{packet.syndrome} << 24) | (packet.msn & kPsnMask));
  if (set.imm) frame.put(4, packet.imm);
  if (set.ieth) frame.put(4, packet.rkey);
  frame.put(packet.payload);
  for (std::size_t i = 0; i < padding; ++i) frame.put(1, 0);
}

}  // namespace

std::vector<std::byte> encode(const Packet& packet) {
  const HeaderSet set = headers_of(packet.opcode);
  const std::size_t padding = (4 - packet.payload.size() % 4) % 4;
  const std::size_t udp_bytes = 8 + 12 + extended_bytes(set) + packet.payload.size() + padding + kIcrcBytes;
  Frame frame;
  frame.put_mac(packet.destination);
  frame.put_mac(packet.source);
  const bool four = packet.source.is_ipv4();
  frame.put(2, four ? 0x0800 : 0x86dd);
  const std::size_t ip = frame.size();
  put_ip(frame, packet, udp_bytes);
  const std::size_t ip_header = frame.size() - ip;
  frame.put(2, packet.source_port);
  frame.put(2, kUdpPort);
  frame.put(2, udp_bytes);
  frame.put(2, 0);  // UDP checksum, which RoCEv2 does not use
  put_transport(frame, packet, set, padding);
  std::uint32_t crc = icrc(Bytes(frame.bytes()).subspan(ip), ip_header);
  for (int i = 0; i < 4; ++i, crc >>= 8) frame.put(1, crc & 0xffU);
  return std::move(frame.bytes());
}

}  // namespace rtrs::roce
