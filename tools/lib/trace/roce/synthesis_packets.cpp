// Generates the packets of messages, acknowledgements and CM messages.
#include <algorithm>
#include <array>
#include <utility>

#include "tools/lib/trace/roce/synthesis.hpp"

namespace rtrs::roce {
namespace {

constexpr std::uint8_t kAckWithoutCredits = 0x1f;
// Maximum length of an RTRS message in bytes, because chunk and offset have 28 bits.
constexpr std::uint32_t kMaxMessage = std::uint32_t{1} << 28;

Message::Op op_of(trace::WireOp op) noexcept {
  switch (op) {
    case trace::WireOp::write:
      return Message::Op::write;
    case trace::WireOp::write_imm:
      return Message::Op::write_imm;
    case trace::WireOp::send:
      return Message::Op::send;
    case trace::WireOp::send_imm:
      return Message::Op::send_imm;
    case trace::WireOp::send_inv:
      return Message::Op::send_inv;
  }
  return Message::Op::write;
}

Opcode last_opcode(const Message& message, bool only) noexcept {
  switch (message.op) {
    case Message::Op::write:
      return only ? Opcode::write_only : Opcode::write_last;
    case Message::Op::write_imm:
      return only ? Opcode::write_only_imm : Opcode::write_last_imm;
    case Message::Op::send:
      return only ? Opcode::send_only : Opcode::send_last;
    case Message::Op::send_imm:
      return only ? Opcode::send_only_imm : Opcode::send_last_imm;
    case Message::Op::send_inv:
      return only ? Opcode::send_only_inv : Opcode::send_last_inv;
  }
  return Opcode::send_only;
}

bool writes(const Message& message) noexcept {
  return message.op == Message::Op::write || message.op == Message::Op::write_imm;
}

Opcode opcode_of(const Message& message, bool first, bool last) noexcept {
  if (last) return last_opcode(message, first);
  if (writes(message)) return first ? Opcode::write_first : Opcode::write_middle;
  return first ? Opcode::send_first : Opcode::send_middle;
}

}  // namespace

// Returns the message of a note. A trace contains only the head of a message. The missing part is before the
// head in a write, and after the head in a SEND.
Message Synthesis::message_of(const StoredNote& note) {
  Message message;
  message.op = op_of(note.op);
  message.imm = note.imm;
  message.rkey = note.rkey;
  message.remote_addr = note.remote_addr;
  const std::uint32_t length = std::min(note.length, kMaxMessage);
  const std::size_t missing = length - std::min<std::size_t>(length, note.bytes.size());
  std::vector<std::byte> filler(missing);
  for (std::size_t i = 0; i < missing; ++i)
    filler[i] = static_cast<std::byte>((note.digest >> (8 * (i % 8))) & 0xffU);
  const bool write = writes(message);
  message.payload = write ? std::move(filler) : note.bytes;
  const std::vector<std::byte>& rest = write ? note.bytes : filler;
  message.payload.insert(message.payload.end(), rest.begin(), rest.end());
  return message;
}

Packet Synthesis::packet_of(const Link& link, bool to_server) const {
  Packet packet;
  packet.source = to_server ? link.client : link.server;
  packet.destination = to_server ? link.server : link.client;
  packet.source_port = link.port;
  packet.dest_qp = to_server ? link.server_qpn : link.client_qpn;
  return packet;
}

void Synthesis::post(Link& link, bool to_server, const Message& message, bool noticed) {
  ++counters_.messages;
  Lane& lane = to_server ? link.to_server : link.to_client;
  const bool bare = message.op == Message::Op::send_inv && message.payload.empty();
  const std::vector<std::byte> filler =
      bare && !options_.exact ? invalidation_filler() : std::vector<std::byte>();
  const std::vector<std::byte>& payload = bare ? filler : message.payload;
  const std::size_t size = payload.size();
  std::size_t at = 0;
  bool first = true;
  for (bool last = false; !last; first = false) {
    const std::size_t part = std::min<std::size_t>(options_.path_mtu, size - at);
    last = at + part == size;
    Packet packet = packet_of(link, to_server);
    packet.opcode = opcode_of(message, first, last);
    packet.psn = lane.next_psn;
    packet.ack_request = last;
    packet.remote_addr = message.remote_addr;
    packet.rkey = message.rkey;
    packet.dma_length = static_cast<std::uint32_t>(size);
    packet.imm = message.imm;
    packet.payload.assign(payload.begin() + static_cast<std::ptrdiff_t>(at),
                          payload.begin() + static_cast<std::ptrdiff_t>(at + part));
    emit(packet);
    lane.next_psn = (lane.next_psn + 1) & kPsnMask;
    at += part;
  }
  lane.ends.push_back(Lane::End{++lane.posted, (lane.next_psn - 1) & kPsnMask, noticed});
}

// Acknowledges all messages up to serial `until`.
void Synthesis::acknowledge(Link& link, bool to_server, std::uint64_t until) {
  Lane& lane = to_server ? link.to_server : link.to_client;
  if (lane.ends.empty() || lane.ends.front().serial > until) return;
  Packet packet = packet_of(link, !to_server);
  packet.opcode = Opcode::acknowledge;
  packet.syndrome = kAckWithoutCredits;
  while (!lane.ends.empty() && lane.ends.front().serial <= until) {
    packet.psn = lane.ends.front().psn;
    ++lane.acknowledged;
    lane.ends.pop_front();
  }
  packet.msn = static_cast<std::uint32_t>(lane.acknowledged) & kPsnMask;
  emit(packet);
}

// Acknowledges the messages up to the next one that the receiver notices (Lane::End::noticed).
void Synthesis::acknowledge_next(Link& link, bool to_server) {
  const Lane& lane = to_server ? link.to_server : link.to_client;
  for (const Lane::End& end : lane.ends)
    if (end.noticed) return acknowledge(link, to_server, end.serial);
}

void Synthesis::send_cm(const Link& link, bool from_client, CmMessage message) {
  const std::uint32_t client_id = link.client_qpn | 0x10000000U;
  const std::uint32_t server_id = link.server_qpn | 0x10000000U;
  message.transaction = link.transaction;
  message.local_id = from_client ? client_id : server_id;
  message.remote_id = from_client ? server_id : client_id;
  emit(cm_packet(from_client ? link.client : link.server, from_client ? link.server : link.client,
                 cm_psn_++ & kPsnMask, message));
}

// Writes a frame. Times of frames differ by at least 1 ns, so that they define the order.
void Synthesis::emit(const Packet& packet) {
  last_frame_ = std::max(now_, last_frame_ + 1);
  ++counters_.frames;
  out_(last_frame_, encode(packet));
}

}  // namespace rtrs::roce
