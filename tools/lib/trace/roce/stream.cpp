#include "tools/lib/trace/roce/stream.hpp"

#include <utility>

namespace rtrs::roce {
namespace {

// Offset of the first sequence number, so that the number of a late packet cannot become negative.
constexpr std::uint64_t kBase = std::uint64_t{1} << 32;

}  // namespace

Stream::Stream(std::uint32_t first_psn, Sink sink)
    : sink_(std::move(sink)), next_(kBase + (first_psn & kPsnMask)), acknowledged_(next_) {}

// Extends a 24-bit number to the Psn nearest to `next_`, within 2^23 on both sides.
Stream::Psn Stream::unwrap(std::uint32_t psn) const noexcept {
  const auto ahead = (psn - static_cast<std::uint32_t>(next_)) & kPsnMask;
  return ahead < (kPsnMask + 1) / 2 ? next_ + ahead : next_ + ahead - (kPsnMask + 1);
}

bool Stream::packet(std::uint64_t time, Packet&& packet) {
  const Psn psn = unwrap(packet.psn);
  if (psn < next_) return false;
  if (psn > next_) {
    if (!waiting_.emplace(psn, std::move(packet)).second) return false;
    if (waiting_.size() > kMaxWaiting) skip_to(time, waiting_.begin()->first);
    return true;
  }
  take(time, psn, std::move(packet));
  drain(time);
  return true;
}

void Stream::acknowledged_before(std::uint64_t time, std::uint32_t psn) {
  const Psn until = unwrap(psn);
  while (next_ < until) {
    const bool there = !waiting_.empty() && waiting_.begin()->first < until;
    skip_to(time, there ? waiting_.begin()->first : until);
  }
  if (until > acknowledged_) acknowledged_ = until;
}

void Stream::skip_to(std::uint64_t time, Psn psn) {
  if (psn > next_) {
    sink_.gap(time, psn - next_);
    next_ = psn;
    open_ = false;
  }
  drain(time);
}

void Stream::drain(std::uint64_t time) {
  while (!waiting_.empty() && waiting_.begin()->first <= next_) {
    auto node = waiting_.extract(waiting_.begin());
    if (node.key() == next_) take(time, node.key(), std::move(node.mapped()));
  }
}

void Stream::take(std::uint64_t time, Psn psn, Packet&& packet) {
  next_ = psn + 1;
  const Place place = place_of(packet.opcode);
  if (!place.carries) return;  // the packet belongs to an RDMA READ, which RTRS does not use
  if (place.first) {
    open_ = true;
    whole_ = true;
    write_ = place.write;
    message_ = Message{};
    message_.remote_addr = packet.remote_addr;
    message_.rkey = packet.rkey;
  }
  if (!open_) return;  // the packet continues a message whose beginning is missing
  if (write_ != place.write || packet.payload_cut != 0) whole_ = false;
  message_.payload.insert(message_.payload.end(), packet.payload.begin(), packet.payload.end());
  if (place.last) close(time, psn, packet);
}

void Stream::close(std::uint64_t time, Psn psn, const Packet& packet) {
  open_ = false;
  if (!whole_) return sink_.gap(time, 1);
  const HeaderSet set = headers_of(packet.opcode);
  if (set.ieth) {
    message_.op = Message::Op::send_inv;
    message_.rkey = packet.rkey;
  } else if (write_) {
    message_.op = set.imm ? Message::Op::write_imm : Message::Op::write;
  } else {
    message_.op = set.imm ? Message::Op::send_imm : Message::Op::send;
  }
  message_.imm = set.imm ? packet.imm : 0;
  sink_.message(time, psn, std::move(message_));
  message_ = Message{};
}

}  // namespace rtrs::roce
