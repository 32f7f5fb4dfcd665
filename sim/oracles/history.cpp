#include "sim/oracles/history.hpp"

#include <algorithm>

namespace rtrs::sim {

namespace {

// A period [begin, end] throughout which the content must have been `value`, as its write and reads show.
struct Pin {
  Tick begin;
  Tick end;
  std::uint32_t value;
};

class Pins {
 public:
  void add(const Pin& pin) { pins_.push_back(pin); }
  // Sorts the pins. Returns false if two of them contradict each other.
  bool order() {
    std::sort(pins_.begin(), pins_.end(), [](const Pin& a, const Pin& b) { return a.begin < b.begin; });
    for (std::size_t at = 1; at < pins_.size(); ++at)
      if (pins_[at].begin <= pins_[at - 1].end) return false;
    return true;
  }
  // True if at some instant between `after` and `before`, both exclusive, no pin requires another value.
  bool allows(Tick after, Tick before, std::uint32_t value) const {
    if (after >= before) return false;
    const Pin* pin = last_from(after);
    return pin == nullptr || pin->value == value || pin->end < before;
  }
  bool overlaps(Tick from, Tick to, const Pin& pin) const { return pin.begin <= to && pin.end >= from; }

 private:
  // Returns the last pin that begins no later than `time`; nullptr if there is none.
  const Pin* last_from(Tick time) const {
    auto next = std::upper_bound(pins_.begin(), pins_.end(), time,
                                 [](Tick t, const Pin& pin) { return t < pin.begin; });
    return next == pins_.begin() ? nullptr : &*std::prev(next);
  }
  std::vector<Pin> pins_;
};

struct Value {
  std::uint32_t value = 0;
  Tick invoked = 0;
  Tick window_end = 0;
  Tick last_read = 0;  // latest invocation of a read that returned the value
  bool read = false;
  bool pinned = false;
};

// Shifts all times by one, so that the initial content precedes everything else.
std::vector<Value> values_of(std::span<const RegisterWrite> writes) {
  std::vector<Value> values;
  values.reserve(writes.size() + 1);
  values.push_back(Value{});
  for (const RegisterWrite& write : writes)
    values.push_back({write.value, write.invoked + 1,
                      write.window_end == kOpenEnd ? kOpenEnd : write.window_end + 1, 0, false, false});
  std::sort(values.begin(), values.end(), [](const Value& a, const Value& b) { return a.value < b.value; });
  return values;
}

Value* find(std::vector<Value>& values, std::uint32_t value) {
  const auto at = std::lower_bound(values.begin(), values.end(), value,
                                   [](const Value& a, std::uint32_t v) { return a.value < v; });
  return at != values.end() && at->value == value ? &*at : nullptr;
}

}  // namespace

const char* broken_register(std::span<const RegisterWrite> writes, std::span<const RegisterRead> reads) {
  std::vector<Value> values = values_of(writes);
  for (const RegisterRead& read : reads) {
    Value* value = find(values, read.value);
    if (value == nullptr) return "a read returned data that was never written";
    if (read.answered + 1 <= value->invoked && value->value != 0)
      return "a read returned what was written only later";
    value->read = true;
    value->last_read = std::max(value->last_read, read.invoked + 1);
  }
  Pins pins;
  for (Value& value : values) {
    value.pinned = value.read && value.last_read > value.window_end;
    if (value.pinned) pins.add(Pin{value.window_end, value.last_read, value.value});
  }
  if (!pins.order()) return "two contents must have existed at the same time";
  for (const RegisterWrite& write : writes)
    if (write.answered != kOpenEnd && !pins.allows(write.invoked + 1, write.answered + 1, write.value))
      return "an acknowledged write left no trace";
  for (const RegisterRead& read : reads) {
    const Value& value = *find(values, read.value);
    const Tick from = read.invoked + 1;
    const Tick to = read.answered + 1;
    if (value.pinned && pins.overlaps(from, to, Pin{value.window_end, value.last_read, value.value}))
      continue;
    if (!pins.allows(std::max(from, value.invoked), std::min(to, value.window_end), value.value))
      return "a read returned an overwritten content";
  }
  return nullptr;
}

}  // namespace rtrs::sim
