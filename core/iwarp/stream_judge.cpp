// Checks segments and performs the effects of complete segments.
#include <cstring>

#include "core/base/assert.hpp"
#include "core/iwarp/stream.hpp"

namespace rtrs::iwarp {
namespace {

Opcode opcode_of(const std::byte* header) noexcept {
  return static_cast<Opcode>(std::to_integer<unsigned>(header[3]) & kOpcodeMask);
}
bool is_tagged(const std::byte* header) noexcept {
  return (std::to_integer<unsigned>(header[2]) & kTagged) != 0;
}

// Offsets of the header fields, counted from the length field.
constexpr std::size_t kKeyAt = 4;
constexpr std::size_t kTaggedOffsetAt = 8;
constexpr std::size_t kFieldAt = 4;
constexpr std::size_t kQueueAt = 8;
constexpr std::size_t kNumberAt = 12;
constexpr std::size_t kOffsetAt = 16;

}  // namespace

Fault Stream::judge_control(const std::byte* header) noexcept {
  const auto length = load_be<std::uint16_t>(header);
  const unsigned ddp = std::to_integer<unsigned>(header[2]);
  const bool tagged = is_tagged(header);
  if (length < (tagged ? kTaggedBytes : kUntaggedBytes)) return Fault::bad_length;
  if ((ddp & kDdpVersionMask) != kDdpVersion)
    return tagged ? Fault::bad_tagged_version : Fault::bad_untagged_version;
  if ((std::to_integer<unsigned>(header[3]) & kRdmapVersionMask) != kRdmapVersion)
    return Fault::bad_rdmap_version;
  switch (opcode_of(header)) {
    case Opcode::write:
      return tagged ? Fault::none : Fault::bad_opcode;
    case Opcode::send:
    case Opcode::send_invalidate:
    case Opcode::send_solicited:
    case Opcode::send_solicited_invalidate:
    case Opcode::terminate:
    case Opcode::immediate:
      return tagged ? Fault::bad_opcode : Fault::none;
  }
  return Fault::bad_opcode;
}

Fault Stream::judge(const std::byte* header, Memory& memory) noexcept {
  const bool tagged = is_tagged(header);
  // Not negative, because judge_control() has checked the length.
  const auto n =
      static_cast<std::uint32_t>(load_be<std::uint16_t>(header) - (tagged ? kTaggedBytes : kUntaggedBytes));
  last_ = (std::to_integer<unsigned>(header[2]) & kLast) != 0;
  opcode_ = opcode_of(header);
  key_died_ = false;
  if (tagged) return judge_tagged(header, n, memory);
  return opcode_ == Opcode::terminate ? judge_terminate(header, n) : judge_untagged(header, n, memory);
}

Fault Stream::judge_tagged(const std::byte* header, std::uint32_t n, Memory& memory) noexcept {
  const auto key = load_be<std::uint32_t>(header + kKeyAt);
  const auto to = load_be<std::uint64_t>(header + kTaggedOffsetAt);
  if (open_ == Open::untagged) return Fault::broken_message;
  if (open_ == Open::tagged && (key != field_ || to != next_)) return Fault::broken_message;
  if (n == 0 && !last_) return Fault::bad_length;
  const std::uint32_t before = open_ == Open::tagged ? length_ : 0;
  if (before > max_message_ || n > max_message_ - before) return Fault::write_too_long;
  left_ = n;
  if (n != 0) {
    MutableBytes place;
    const Fault fault = memory.resolve(key, to, n, place);
    if (fault != Fault::none) return fault;
    RTRS_ASSERT(place.size() == n);
    place_ = place.data();
  }
  open_ = Open::tagged;
  field_ = key;
  next_ = to + n;  // cannot overflow, because the range is inside the key's range
  length_ = before + n;
  return Fault::none;
}

// True if the reserved bytes of a SEND hold a key or an immediate. Each segment must then have the same
// value.
bool Stream::field_matters() const noexcept {
  if (opcode_ == Opcode::send_solicited) return send_with_immediate_;
  return opcode_ == Opcode::send_invalidate || opcode_ == Opcode::send_solicited_invalidate;
}

Fault Stream::judge_continuation(std::uint32_t field, std::uint32_t offset) const noexcept {
  if (open_ == Open::none) return offset == 0 ? Fault::none : Fault::bad_offset;
  if (offset != length_) return Fault::bad_offset;
  if (opcode_ != open_opcode_) return Fault::broken_message;
  return field_matters() && field != field_ ? Fault::broken_message : Fault::none;
}

Fault Stream::judge_untagged(const std::byte* header, std::uint32_t n, Memory& memory) noexcept {
  const auto field = load_be<std::uint32_t>(header + kFieldAt);
  if (open_ == Open::tagged) return Fault::broken_message;
  if (load_be<std::uint32_t>(header + kQueueAt) != kSendQueue) return Fault::bad_queue;
  if (load_be<std::uint32_t>(header + kNumberAt) != number_) return Fault::bad_number;
  const Fault continues = judge_continuation(field, load_be<std::uint32_t>(header + kOffsetAt));
  if (continues != Fault::none) return continues;
  if (opcode_ == Opcode::immediate && (n != kImmediateBytes || !last_)) return Fault::bad_immediate;
  if (n == 0 && !last_) return Fault::bad_length;
  const std::uint32_t before = open_ == Open::untagged ? length_ : 0;
  if (opcode_ != Opcode::immediate && (before > max_message_ || n > max_message_ - before))
    return Fault::message_too_long;
  if (open_ == Open::none) {
    const std::optional<MutableBytes> receive = memory.take_receive();
    stalled_ = !receive;
    if (stalled_) return Fault::none;
    receive_ = *receive;
  }
  if (opcode_ == Opcode::immediate) {
    place_ = small_.data();
  } else {
    if (before > receive_.size() || n > receive_.size() - before) return Fault::message_too_long;
    place_ = receive_.data() + before;
  }
  open_ = Open::untagged;
  open_opcode_ = opcode_;
  field_ = field;
  left_ = n;
  length_ = before + n;
  return Fault::none;
}

// A Terminate message is valid at any time, even between the segments of a message, because it ends the
// stream.
Fault Stream::judge_terminate(const std::byte* header, std::uint32_t n) noexcept {
  if (load_be<std::uint32_t>(header + kQueueAt) != kTerminateQueue) return Fault::bad_queue;
  if (load_be<std::uint32_t>(header + kNumberAt) != kFirstNumber) return Fault::bad_number;
  if (load_be<std::uint32_t>(header + kOffsetAt) != 0) return Fault::bad_offset;
  if (!last_ || n < kTerminateBytes || n > kMaxTerminateBytes) return Fault::bad_terminate;
  place_ = small_.data();
  left_ = n;
  return Fault::none;
}

Fault Stream::finish(Memory& memory) noexcept {
  left_ = 0;
  std::optional<Event> event;
  if (opcode_ == Opcode::terminate) {
    const auto parts = std::to_integer<std::uint8_t>(small_[0]);
    event = PeerTerminated{{static_cast<std::uint8_t>(parts >> 4U), static_cast<std::uint8_t>(parts & 0x0fU),
                            std::to_integer<std::uint8_t>(small_[1])}};
    ended_ = true;
  } else if (last_) {
    open_ = Open::none;
    const Fault fault = finish_message(memory, event);
    if (fault != Fault::none) return fault;
  }
  if (!greeted_) {
    greeted_ = true;
    emit(Greeted{});
  }
  if (event)
    emit(*event);
  else
    ++quiet_;
  return Fault::none;
}

Fault Stream::finish_message(Memory& memory, std::optional<Event>& event) noexcept {
  if (opcode_ == Opcode::write) return Fault::none;
  ++number_;
  const Bytes payload = receive_.first(opcode_ == Opcode::immediate ? 0 : length_);
  switch (opcode_) {
    case Opcode::immediate:
      event = Immediate{load_be<std::uint32_t>(small_.data())};
      break;
    case Opcode::send_solicited:
      event = Message{send_with_immediate_ ? std::optional(field_) : std::nullopt, payload};
      break;
    case Opcode::send_invalidate:
    case Opcode::send_solicited_invalidate: {
      const Fault fault = memory.invalidate(field_);
      if (fault != Fault::none) return fault;
      event = Invalidated{field_, payload};
      break;
    }
    default:
      event = Message{std::nullopt, payload};
      break;
  }
  return Fault::none;
}

void Stream::emit(const Event& event) noexcept {
  if (!events_->full()) {
    events_->push(event);
  } else {
    RTRS_ASSERT(!held_);
    held_ = event;
  }
}

Stream::Step Stream::violate(Fault fault) noexcept {
  fault_ = fault;
  ended_ = true;
  emit(Violated{fault});
  return Step::stop;
}

// `fpdu` is in the caller's bytes or in staging_; its CRC is correct. The function is flattened, because each
// IO takes this path.
[[gnu::flatten]] Stream::Step Stream::process_fpdu(const std::byte* fpdu, Memory& memory) noexcept {
  Fault fault = judge_control(fpdu);
  if (fault == Fault::none) fault = judge(fpdu, memory);
  if (fault != Fault::none) return violate(fault);
  if (stalled_) return Step::stop;
  if (left_ != 0) std::memcpy(place_, fpdu + header_bytes_of(fpdu), left_);
  phase_ = Phase::header;
  collected_ = 0;
  fault = finish(memory);
  return fault != Fault::none ? violate(fault) : Step::go_on;
}

}  // namespace rtrs::iwarp
