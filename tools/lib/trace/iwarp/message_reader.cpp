#include "tools/lib/trace/iwarp/message_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/crc32c.hpp"

namespace rtrs::iwarp_capture {
namespace {

using iwarp::load_be;
using iwarp::Opcode;

// Longest SEND: an INFO_RSP with 65,535 chunks.
constexpr std::size_t kReceiveBytes = std::size_t{1} << 20;
// Maximum number of bytes whose CRC is computed to find FPDUs after lost bytes, for each direction. Bytes
// that look like many overlapping FPDUs would otherwise cost their square.
constexpr std::uint64_t kMaxTried = std::uint64_t{256} << 20;
// Maximum number of messages of which a capture without CRC may lack all segments in one place.
constexpr std::uint32_t kMaxLostMessages = 1U << 20;

// Offsets in an FPDU.
constexpr std::size_t kDdpAt = 2;
constexpr std::size_t kRdmapAt = 3;
constexpr std::size_t kFieldAt = 4;
constexpr std::size_t kQueueAt = 8;
constexpr std::size_t kNumberAt = 12;
constexpr std::size_t kOffsetAt = 16;

unsigned octet(Bytes from, std::size_t at) noexcept {
  return std::to_integer<unsigned>(from[at]);
}
bool is_tagged(Bytes fpdu) noexcept {
  return (octet(fpdu, kDdpAt) & iwarp::kTagged) != 0;
}
bool is_last(Bytes fpdu) noexcept {
  return (octet(fpdu, kDdpAt) & iwarp::kLast) != 0;
}
Opcode opcode_of(Bytes fpdu) noexcept {
  return static_cast<Opcode>(octet(fpdu, kRdmapAt) & iwarp::kOpcodeMask);
}
std::uint32_t word(Bytes fpdu, std::size_t at) noexcept {
  return load_be<std::uint32_t>(fpdu.data() + at);
}

// True if the first 4 bytes can be those of an FPDU whose sender leaves reserved bits zero.
bool looks_like_control(Bytes bytes) noexcept {
  const std::size_t length = load_be<std::uint16_t>(bytes.data());
  const bool tagged = is_tagged(bytes);
  if (length < (tagged ? iwarp::kTaggedBytes : iwarp::kUntaggedBytes)) return false;
  if ((octet(bytes, kDdpAt) & ~(iwarp::kTagged | iwarp::kLast)) != iwarp::kDdpVersion) return false;
  if ((octet(bytes, kRdmapAt) & ~iwarp::kOpcodeMask) != iwarp::kRdmapVersion) return false;
  const unsigned opcode = octet(bytes, kRdmapAt) & iwarp::kOpcodeMask;
  return tagged ? opcode == 0 : opcode >= 3 && opcode <= 8;
}

// True if `size` bytes are an untagged message that follows message `before`, and `behind` can begin another
// FPDU. Without CRC, this recognises an FPDU by about 20 bytes with known values.
bool looks_like_message(Bytes bytes, std::size_t size, std::uint32_t before) noexcept {
  if (is_tagged(bytes) || word(bytes, kQueueAt) != iwarp::kSendQueue || word(bytes, kOffsetAt) != 0)
    return false;
  const std::uint32_t number = word(bytes, kNumberAt);
  if (number - before - 1 >= kMaxLostMessages || word(bytes, size - iwarp::kCrcBytes) != 0) return false;
  if (opcode_of(bytes) == Opcode::terminate || !looks_like_control(bytes.subspan(size))) return false;
  if (opcode_of(bytes) == Opcode::send) return word(bytes, kFieldAt) == 0;
  if (opcode_of(bytes) != Opcode::immediate) return true;
  return is_last(bytes) && size == iwarp::fpdu_bytes(iwarp::kUntaggedBytes + iwarp::kImmediateBytes) &&
         word(bytes, kFieldAt) == 0 && word(bytes, iwarp::kMaxHeaderBytes + 4) == 0;
}

bool has_valid_crc(Bytes fpdu) noexcept {
  const std::size_t covered = fpdu.size() - iwarp::kCrcBytes;
  return iwarp::swap_bytes(crc32c(fpdu.data(), covered)) == word(fpdu, covered);
}

}  // namespace

MessageReader::MessageReader(Position start, const iwarp::Wishes& agreed, Sink sink)
    : sink_(std::move(sink)),
      agreed_(agreed),
      start_(start),
      next_(start),
      end_(start),
      staging_(agreed.crc ? new std::byte[iwarp::kMaxFpduBytes] : nullptr),
      stream_(new_stream(iwarp::kFirstNumber)),
      number_(iwarp::kFirstNumber) {}

// The role is that of an initiator for both directions: a responder would also report the first FPDU.
iwarp::Stream MessageReader::new_stream(std::uint32_t first_number) const noexcept {
  iwarp::Stream::Options options;
  options.role = iwarp::Role::initiator;
  options.crc = agreed_.crc;
  options.send_with_immediate = agreed_.send_with_immediate;
  if (agreed_.crc) options.staging = {staging_.get(), iwarp::kMaxFpduBytes};
  options.first_number = first_number;
  return iwarp::Stream(options);
}

iwarp::Fault MessageReader::resolve(std::uint32_t key, std::uint64_t to, std::size_t n,
                                    iwarp::MutableBytes& place) noexcept {
  if (!open_) {
    open_.emplace();
    open_->rkey = key;
    open_->remote_addr = to;
  }
  const std::size_t before = open_->payload.size();
  open_->payload.resize(before + n);
  place = iwarp::MutableBytes(open_->payload).subspan(before);
  return iwarp::Fault::none;
}

std::optional<iwarp::MutableBytes> MessageReader::take_receive() noexcept {
  if (receive_ == nullptr) receive_.reset(new std::byte[kReceiveBytes]);
  return iwarp::MutableBytes(receive_.get(), kReceiveBytes);
}

// Precondition: the length of the FPDU has arrived.
std::size_t MessageReader::size_of_fpdu() const noexcept {
  return iwarp::fpdu_bytes(load_be<std::uint16_t>(fpdu_.data()));
}

void MessageReader::bytes(Bytes bytes) {
  next_ += bytes.size();
  if (state_ == State::seeking) {
    fpdu_.insert(fpdu_.end(), bytes.begin(), bytes.end());
    return seek(next_ - bytes.size());
  }
  while (!bytes.empty() && state_ == State::reading) read(bytes);
  skipped_ += bytes.size();
}

// Takes bytes of one FPDU from the front of `bytes`.
void MessageReader::read(Bytes& bytes) {
  const auto move = [&](std::size_t goal) {
    const Bytes part = bytes.first(std::min(bytes.size(), goal - fpdu_.size() - ignored_));
    bytes = bytes.subspan(part.size());
    end_ = next_ - bytes.size();
    return part;
  };
  if (fpdu_.empty() && bytes.size() >= iwarp::kLengthBytes) {
    const std::size_t size = iwarp::fpdu_bytes(load_be<std::uint16_t>(bytes.data()));
    if (size <= bytes.size()) return take(move(size));
  }
  if (fpdu_.size() < iwarp::kLengthBytes) {
    const Bytes part = move(iwarp::kLengthBytes);
    fpdu_.insert(fpdu_.end(), part.begin(), part.end());
    return;
  }
  const Bytes part = move(size_of_fpdu());
  if (damaged_) {
    ignored_ += part.size();
    return end_damaged();
  }
  fpdu_.insert(fpdu_.end(), part.begin(), part.end());
  if (fpdu_.size() < size_of_fpdu()) return;
  take(fpdu_);
  fpdu_.clear();
}

void MessageReader::lost(std::uint64_t count) {
  next_ += count;
  if (state_ == State::stopped) return;
  if (state_ == State::reading && fpdu_.size() >= iwarp::kLengthBytes &&
      count <= size_of_fpdu() - fpdu_.size() - ignored_) {
    // The length of the FPDU is known, so the next FPDU is found.
    damaged_ = true;
    ignored_ += count;
    end_ = next_;
    return end_damaged();
  }
  skipped_ += fpdu_.size();
  fpdu_.clear();
  damaged_ = false;
  ignored_ = 0;
  if (state_ == State::reading) interrupt(Drop::unclear);
  state_ = State::seeking;
}

// Ends a damaged FPDU if it is complete, and the message that it is part of.
void MessageReader::end_damaged() {
  if (fpdu_.size() + ignored_ < size_of_fpdu()) return;
  const bool clear = fpdu_.size() > kRdmapAt && !is_tagged(fpdu_);
  const Drop drop = !clear ? Drop::unclear : is_last(fpdu_) ? Drop::none : Drop::send_rest;
  fpdu_.clear();
  damaged_ = false;
  ignored_ = 0;
  interrupt(drop);
}

void MessageReader::interrupt(Drop drop) {
  open_.reset();
  held_.reset();
  number_.reset();
  drop_ = drop;
  stream_ = new_stream(iwarp::kFirstNumber);
  unsure_ = true;
}

// Reports a message, and before it the gap after lost bytes: messages may be missing until here.
void MessageReader::deliver(Position end, roce::Message&& message) {
  if (end <= late_until_) return void(unsure_ = true);
  report_loss();
  sink_.message(end, std::move(message));
}

void MessageReader::stop() {
  state_ = State::stopped;
  skipped_ += fpdu_.size();
  fpdu_.clear();
}

bool MessageReader::begins_fpdu(Bytes bytes, std::size_t size) {
  if (!agreed_.crc) return looks_like_message(bytes, size, last_number_);
  tried_ += size;
  return has_valid_crc(bytes.first(size));
}

// Looks for an FPDU in `fpdu_`. FPDUs begin at multiples of 4 bytes.
void MessageReader::seek(Position before) {
  std::size_t at = (start_ - (next_ - fpdu_.size())) % 4;
  const std::size_t behind = agreed_.crc ? 0 : kRdmapAt + 1;  // control bytes of the next FPDU
  for (; at + iwarp::kMaxHeaderBytes <= fpdu_.size(); at += 4) {
    const Bytes rest = Bytes(fpdu_).subspan(at);
    if (!looks_like_control(rest)) continue;
    const std::size_t size = iwarp::fpdu_bytes(load_be<std::uint16_t>(rest.data()));
    if (rest.size() < size + behind) break;
    if (!begins_fpdu(rest, size)) continue;
    state_ = State::reading;
    unsure_ = true;
    late_until_ = before;
    skipped_ += at;
    const std::vector<std::byte> found(rest.begin(), rest.end());
    fpdu_.clear();
    Bytes left(found);
    while (!left.empty() && state_ == State::reading) read(left);
    skipped_ += left.size();
    return;
  }
  at = std::min(at, fpdu_.size());
  skipped_ += at;
  fpdu_.erase(fpdu_.begin(), fpdu_.begin() + static_cast<std::ptrdiff_t>(at));
  if (tried_ > kMaxTried) stop();
}

// True if the FPDU belongs to a message whose beginning was lost.
bool MessageReader::drops(Bytes fpdu) noexcept {
  if (drop_ == Drop::none || fpdu.size() < iwarp::kMaxHeaderBytes) return false;
  if (is_tagged(fpdu)) {
    if (drop_ == Drop::send_rest) drop_ = Drop::none;
    return drop_ == Drop::unclear;
  }
  if (opcode_of(fpdu) == Opcode::terminate) return false;
  const bool immediate = opcode_of(fpdu) == Opcode::immediate;
  if (drop_ == Drop::unclear && !immediate && word(fpdu, kOffsetAt) == 0) {
    drop_ = Drop::none;
    return false;
  }
  drop_ = immediate || is_last(fpdu) ? Drop::none : Drop::send_rest;
  return true;
}

void MessageReader::take(Bytes fpdu) {
  if (drops(fpdu)) {
    skipped_ += fpdu.size();
    return;
  }
  const bool counted =
      fpdu.size() >= iwarp::kMaxHeaderBytes && !is_tagged(fpdu) && opcode_of(fpdu) != Opcode::terminate;
  if (counted && !number_ && stream_.between_messages()) {
    number_ = word(fpdu, kNumberAt);
    stream_ = new_stream(*number_);
  }
  std::array<iwarp::Event, 4> list;
  iwarp::Events events(list);
  stream_.feed(fpdu, *this, events);
  for (const iwarp::Event& event : events.all()) on(event);
  if (counted) last_number_ = word(fpdu, kNumberAt);
  if (open_ && stream_.between_messages()) {
    flush();
    held_ = std::exchange(open_, std::nullopt);
    held_end_ = end_;
  }
  if (!stream_.ended()) return;
  flush();
  fault_ = stream_.fault();
  if (fault_ != iwarp::Fault::none) interrupt(Drop::none);
  state_ = State::stopped;
}

void MessageReader::on(const iwarp::Event& event) {
  roce::Message message;
  if (const auto* immediate = std::get_if<iwarp::Immediate>(&event)) {
    if (held_) message = *std::exchange(held_, std::nullopt);
    message.op = roce::Message::Op::write_imm;
    message.imm = immediate->imm;
    return deliver(end_, std::move(message));
  }
  flush();
  if (const auto* send = std::get_if<iwarp::Message>(&event)) {
    message.op = send->imm ? roce::Message::Op::send_imm : roce::Message::Op::send;
    message.imm = send->imm.value_or(0);
    message.payload.assign(send->payload.begin(), send->payload.end());
    return deliver(end_, std::move(message));
  }
  if (const auto* invalidated = std::get_if<iwarp::Invalidated>(&event)) {
    message.op = roce::Message::Op::send_inv;
    message.rkey = invalidated->key;
    message.payload.assign(invalidated->payload.begin(), invalidated->payload.end());
    return deliver(end_, std::move(message));
  }
}

void MessageReader::flush() {
  if (held_) deliver(held_end_, *std::exchange(held_, std::nullopt));
}

void MessageReader::report_loss() {
  if (std::exchange(unsure_, false)) sink_.gap();
}

void MessageReader::pause() {
  flush();
  report_loss();
}

void MessageReader::finish() {
  if (state_ == State::seeking) stop();
  pause();
}

}  // namespace rtrs::iwarp_capture
