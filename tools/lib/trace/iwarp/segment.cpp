#include "tools/lib/trace/iwarp/segment.hpp"

#include <algorithm>
#include <optional>

namespace rtrs::iwarp_capture {
namespace {

using roce::load_be16;
using roce::load_be32;
using roce::load_be8;

constexpr std::uint8_t kTcp = 6;
constexpr std::size_t kTcpHeader = 20;

}  // namespace

bool decode(std::uint16_t link, Bytes frame, std::size_t original, Segment& segment) {
  const std::optional<roce::IpPacket> ip = roce::find_ip(link, frame, original);
  if (!ip || ip->protocol != kTcp || !ip->complete || ip->bytes.size() < ip->header + kTcpHeader)
    return false;
  const Bytes tcp = ip->bytes.subspan(ip->header);
  const std::size_t header = (load_be8(tcp, 12) >> 4) * std::size_t{4};
  if (header < kTcpHeader || ip->total < ip->header + header) return false;
  const unsigned flags = load_be8(tcp, 13);
  segment = Segment{};
  segment.source = {ip->source, load_be16(tcp, 0)};
  segment.destination = {ip->destination, load_be16(tcp, 2)};
  segment.sequence = load_be32(tcp, 4);
  segment.acknowledgement = load_be32(tcp, 8);
  segment.fin = (flags & 0x01U) != 0;
  segment.syn = (flags & 0x02U) != 0;
  segment.rst = (flags & 0x04U) != 0;
  segment.ack = (flags & 0x10U) != 0;
  const Bytes payload = tcp.subspan(std::min(tcp.size(), header));
  segment.payload.assign(payload.begin(), payload.end());
  segment.cut = static_cast<std::uint32_t>(ip->total - ip->header - header - payload.size());
  return true;
}

}  // namespace rtrs::iwarp_capture
