#include "tools/lib/trace/iwarp/reassembly.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::iwarp_capture {
namespace {

// Offset of the first sequence number, so that the position of a late segment cannot become negative.
constexpr Position kBase = Position{1} << 40;
// Memory in bytes that a waiting segment takes besides its payload.
constexpr std::size_t kPartCost = 128;

}  // namespace

Reassembly::Reassembly(std::uint32_t first) noexcept
    : next_(kBase + first), acknowledged_(next_), missing_until_(next_) {}

// Extends a number to the position nearest to `next_`.
Position Reassembly::unwrap(std::uint32_t number) const noexcept {
  const auto ahead = static_cast<std::int32_t>(number - static_cast<std::uint32_t>(next_));
  return next_ + static_cast<Position>(static_cast<std::int64_t>(ahead));
}

bool Reassembly::add(Segment&& segment) {
  const Position start = unwrap(segment.sequence) + (segment.syn ? 1 : 0);
  const Position end = start + segment.payload.size() + segment.cut;
  if (end > next_ + kMaxWindow) return false;
  if (segment.fin && (!fin_ || *fin_ > end) && end >= next_) fin_ = end;
  if (start == end) return true;
  if (end <= next_) return false;
  const auto [found, added] = waiting_.try_emplace(start);
  Part& part = found->second;
  if (!added && part.bytes.size() + part.cut >= segment.payload.size() + segment.cut &&
      part.bytes.size() >= segment.payload.size())
    return false;
  if (added) waiting_bytes_ += kPartCost;
  if (segment.payload.size() > part.bytes.size()) {
    waiting_bytes_ += segment.payload.size() - part.bytes.size();
    part.bytes = std::move(segment.payload);
  }
  part.cut = static_cast<std::uint32_t>(std::max(end, found->first + part.bytes.size()) - found->first -
                                        part.bytes.size());
  return true;
}

void Reassembly::acknowledged_before(std::uint32_t number) noexcept {
  const Position position = unwrap(number);
  if (position <= next_ + kMaxWindow) acknowledged_ = std::max(acknowledged_, position);
}

// Returns the end of the lost bytes at `next_`; `next_` if none are known to be lost. Acknowledged bytes
// count as lost only if all bytes before the next waiting segment or the FIN were acknowledged, because a
// capture may contain an acknowledgement before its segment.
Position Reassembly::lost_until() const noexcept {
  if (waiting_.empty() && !fin_) return std::max(next_, missing_until_);
  const Position there = waiting_.empty() ? std::max(next_, *fin_) : waiting_.begin()->first;
  if (acknowledged_ >= there || full()) return there;
  return std::clamp(missing_until_, next_, there);
}

void Reassembly::drop_first() noexcept {
  waiting_bytes_ -= waiting_.begin()->second.bytes.size() + kPartCost;
  waiting_.erase(waiting_.begin());
}

Piece Reassembly::front() {
  while (!waiting_.empty() && waiting_.begin()->first <= next_) {
    const auto& [start, part] = *waiting_.begin();
    const Position end = start + part.bytes.size();
    if (end > next_) return {Bytes(part.bytes).subspan(static_cast<std::size_t>(next_ - start)), 0};
    missing_until_ = std::max(missing_until_, end + part.cut);
    drop_first();
  }
  return {{}, lost_until() - next_};
}

void Reassembly::consume(std::size_t size) noexcept {
  const bool bytes = !waiting_.empty() && waiting_.begin()->first <= next_;
  next_ = bytes ? next_ + size : lost_until();
}

void Reassembly::finish() noexcept {
  Position known = next_;
  for (const auto& [start, part] : waiting_) known = std::max(known, start + part.bytes.size() + part.cut);
  Position end = fin_ ? std::min(acknowledged_, *fin_) : acknowledged_;
  // A FIN takes one number. The capture may contain its acknowledgement, but not the FIN.
  if (end == known + 1) end = known;
  missing_until_ = std::max(missing_until_, end);
}

}  // namespace rtrs::iwarp_capture
