#include "sim/world/storage_model.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace rtrs::sim {

namespace {
constexpr std::array<std::uint16_t, 10> kErrors = {5, 1, 28, 30, 110, 511, 512, 524, 1024, 4095};
}  // namespace

void StorageModel::push(Nanos time, std::uint32_t op, Instant instant) {
  heap_.push_back(Event{time, serial_++, op, instant});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void StorageModel::start(const Op& op, Nanos now, ChoiceSource& choice) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(ops_.size());
    ops_.push_back(op);
  } else {
    index = free_.back();
    free_.pop_back();
    ops_[index] = op;
  }
  if (!planned_.empty()) {
    const Planned planned = planned_.front();
    planned_.pop_front();
    ops_[index].error = planned.error;
    if (planned.error == 0) push(now + planned.effect, index, Instant::effect);
    push(now + std::max(planned.effect, planned.end), index, Instant::end);
    return;
  }
  const bool slow = choice.fires(options_.slow_rate, Label::storage_order);
  Nanos length = draw_time(choice, slow ? options_.slow_latency : options_.latency, Label::storage_delay);
  if (slow) length += options_.latency;
  const Nanos effect = draw_time(choice, length, Label::storage_delay);
  if (choice.fires(options_.error_rate, Label::storage_error))
    ops_[index].error =
        kErrors[choice.draw(static_cast<std::uint32_t>(kErrors.size()), Label::storage_error)];
  // A failed write may still take effect.
  const bool acts = ops_[index].error == 0 || choice.draw(2, Label::storage_error) == 1;
  if (acts) push(now + effect, index, Instant::effect);
  push(now + length, index, Instant::end);
}

bool StorageModel::take(Nanos now, Due& due) {
  if (next_time() > now) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  due.instant = event.instant;
  due.op = ops_[event.op];
  if (event.instant == Instant::end) free_.push_back(event.op);
  return true;
}

std::span<std::byte> StorageModel::at(std::uint64_t lba, std::size_t bytes) noexcept {
  if (lba > options_.sectors || bytes > (options_.sectors - lba) * kSectorBytes) return {};
  return std::span(bytes_).subspan(lba * kSectorBytes, bytes);
}

void StorageModel::perform(const Op& op) noexcept {
  const std::span<std::byte> place = at(op.lba, op.data.size());
  if (place.empty()) return;
  if (op.direction == Direction::write) {
    std::memcpy(place.data(), op.data.data(), place.size());
  } else {
    std::memcpy(op.data.data(), place.data(), place.size());
  }
}

}  // namespace rtrs::sim
