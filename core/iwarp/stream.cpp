#include "core/iwarp/stream.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/crc32c.hpp"

namespace rtrs::iwarp {
namespace {

// Bytes of a header that are checked as soon as they arrive: the length and both control bytes.
constexpr std::uint32_t kControlBytes = 4;

std::uint32_t ulpdu_of(const std::byte* fpdu) noexcept {
  return load_be<std::uint16_t>(fpdu);
}

bool good_crc(const std::byte* fpdu, std::size_t size) noexcept {
  const std::size_t covered = size - kCrcBytes;
  const std::uint32_t crc = crc32c(fpdu, covered);
  std::uint32_t sent = 0;
  for (unsigned i = 0; i < kCrcBytes; ++i)
    sent |= std::to_integer<std::uint32_t>(fpdu[covered + i]) << (8 * i);
  return crc == sent;
}

Bytes take(Bytes& bytes, std::size_t most) noexcept {
  const Bytes taken = bytes.first(std::min(bytes.size(), most));
  bytes = bytes.subspan(taken.size());
  return taken;
}

}  // namespace

Stream::Stream(const Options& options) noexcept
    : crc_(options.crc),
      send_with_immediate_(options.send_with_immediate),
      max_message_(options.max_message),
      staging_(options.staging.data()),
      greeted_(options.role == Role::initiator),
      number_(options.first_number) {
  RTRS_ASSERT(!crc_ || options.staging.size() >= kMaxFpduBytes);
}

[[gnu::flatten]] std::size_t Stream::feed(Bytes bytes, Memory& memory, Events& events) noexcept {
  const std::size_t offered = bytes.size();
  begin(events);
  while (!held_ && !ended_ && !events.full() && quiet_ < kQuietFpdus) {
    if (bytes.empty() && phase_ != Phase::judge) break;
    if (step(bytes, memory) == Step::stop) break;
  }
  events_ = nullptr;
  return ended_ ? offered : offered - bytes.size();
}

MutableBytes Stream::wants() const noexcept {
  if (ended_) return {};
  if (phase_ == Phase::payload && !key_died_) return {place_, left_};
  if (phase_ == Phase::staging && collected_ >= kLengthBytes)
    return {staging_ + collected_, staged_goal() - collected_};
  return {};
}

void Stream::placed(std::size_t n, Memory& memory, Events& events) noexcept {
  begin(events);
  if (!ended_ && n != 0) {
    if (phase_ == Phase::staging) {
      RTRS_ASSERT(n <= staged_goal() - collected_);
      staged(n, memory);
    } else {
      RTRS_ASSERT(phase_ == Phase::payload && n <= left_);
      const Fault fault = key_died_ ? resolve_again(memory) : Fault::none;
      place_ += n;
      left_ -= static_cast<std::uint32_t>(n);
      if (fault != Fault::none)
        violate(fault);
      else if (left_ == 0)
        phase_ = Phase::trailer;
    }
  }
  events_ = nullptr;
}

void Stream::key_died(std::uint32_t key) noexcept {
  if (phase_ == Phase::payload && opcode_ == Opcode::write && field_ == key) key_died_ = true;
}

bool Stream::between_messages() const noexcept {
  return phase_ == Phase::header && collected_ == 0 && open_ == Open::none && !stalled_;
}

void Stream::fail(Fault fault) noexcept {
  if (ended_) return;
  fault_ = fault;
  ended_ = true;
  stalled_ = false;
  held_.reset();
}

void Stream::begin(Events& events) noexcept {
  events_ = &events;
  quiet_ = 0;
  stalled_ = false;
  if (held_ && !events.full()) {
    events.push(*held_);
    held_.reset();
  }
}

Stream::Step Stream::step(Bytes& bytes, Memory& memory) noexcept {
  switch (phase_) {
    case Phase::header: {
      const std::size_t size = collected_ == 0 ? whole_fpdu(bytes) : 0;
      if (size != 0) {
        if (crc_ && !good_crc(bytes.data(), size)) return violate(Fault::bad_crc);
        const Step next = process_fpdu(bytes.data(), memory);
        if (!stalled_) bytes = bytes.subspan(size);
        return next;
      }
      if (!crc_) return collect_header(bytes);
      phase_ = Phase::staging;
      return collect_staged(bytes, memory);
    }
    case Phase::judge:
      return crc_ ? process_fpdu(staging_, memory) : judge_collected(memory);
    case Phase::payload:
      return collect_payload(bytes, memory);
    case Phase::trailer:
      return collect_trailer(bytes, memory);
    case Phase::staging:
      return collect_staged(bytes, memory);
  }
  return Step::stop;
}

// Returns the size of the FPDU if all of it has arrived and its length is valid, else 0.
std::size_t Stream::whole_fpdu(Bytes bytes) const noexcept {
  if (bytes.size() < kControlBytes) return 0;
  const std::uint32_t ulpdu = ulpdu_of(bytes.data());
  if (ulpdu < kTaggedBytes) return 0;
  const std::size_t size = fpdu_bytes(ulpdu);
  return bytes.size() < size ? 0 : size;
}

Stream::Step Stream::collect_header(Bytes& bytes) noexcept {
  while (!bytes.empty()) {
    const std::uint32_t goal = collected_ < kControlBytes ? kControlBytes : header_bytes_of(header_.data());
    const Bytes taken = take(bytes, goal - collected_);
    std::memcpy(header_.data() + collected_, taken.data(), taken.size());
    collected_ += static_cast<std::uint32_t>(taken.size());
    if (collected_ < goal) return Step::stop;
    if (goal != kControlBytes) {
      phase_ = Phase::judge;
      return Step::go_on;
    }
    const Fault fault = judge_control(header_.data());
    if (fault != Fault::none) return violate(fault);
  }
  return Step::stop;
}

Stream::Step Stream::judge_collected(Memory& memory) noexcept {
  const Fault fault = judge(header_.data(), memory);
  if (fault != Fault::none) return violate(fault);
  if (stalled_) return Step::stop;
  collected_ = 0;
  trailer_ = static_cast<std::uint32_t>(padding(ulpdu_of(header_.data())) + kCrcBytes);
  phase_ = left_ != 0 ? Phase::payload : Phase::trailer;
  return Step::go_on;
}

// Resolves the rest of the payload again, with the same checks as at the start of the segment.
Fault Stream::resolve_again(Memory& memory) noexcept {
  MutableBytes place;
  const Fault fault = memory.resolve(field_, next_ - left_, left_, place);
  if (fault != Fault::none) return fault;
  RTRS_ASSERT(place.size() == left_);
  place_ = place.data();
  return Fault::none;
}

Stream::Step Stream::collect_payload(Bytes& bytes, Memory& memory) noexcept {
  if (key_died_) {
    const Fault fault = resolve_again(memory);
    if (fault != Fault::none) return violate(fault);
  }
  const Bytes taken = take(bytes, left_);
  std::memcpy(place_, taken.data(), taken.size());
  place_ += taken.size();
  left_ -= static_cast<std::uint32_t>(taken.size());
  if (left_ == 0) phase_ = Phase::trailer;
  return Step::go_on;
}

Stream::Step Stream::collect_trailer(Bytes& bytes, Memory& memory) noexcept {
  collected_ += static_cast<std::uint32_t>(take(bytes, trailer_ - collected_).size());
  if (collected_ < trailer_) return Step::stop;
  phase_ = Phase::header;
  collected_ = 0;
  const Fault fault = finish(memory);
  return fault != Fault::none ? violate(fault) : Step::go_on;
}

std::size_t Stream::staged_goal() const noexcept {
  return collected_ < kLengthBytes ? kLengthBytes : fpdu_bytes(ulpdu_of(staging_));
}

Stream::Step Stream::collect_staged(Bytes& bytes, Memory& memory) noexcept {
  const Bytes taken = take(bytes, staged_goal() - collected_);
  std::memcpy(staging_ + collected_, taken.data(), taken.size());
  return staged(taken.size(), memory);
}

// Records that `n` more bytes are in staging_.
Stream::Step Stream::staged(std::size_t n, Memory& memory) noexcept {
  const std::size_t goal = staged_goal();
  collected_ += static_cast<std::uint32_t>(n);
  if (collected_ < goal) return Step::go_on;
  if (collected_ == kLengthBytes)
    return ulpdu_of(staging_) < kTaggedBytes ? violate(Fault::bad_length) : Step::go_on;
  if (!good_crc(staging_, goal)) return violate(Fault::bad_crc);
  // From here on, the FPDU is handled like an FPDU that arrived in one piece. If no receive is posted, it
  // waits in staging_.
  phase_ = Phase::judge;
  return process_fpdu(staging_, memory);
}

}  // namespace rtrs::iwarp
