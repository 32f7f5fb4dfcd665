// Keeps the last records before a divergence.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/record/codec.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::trace {

// Ring of the last 20 records. Records are stored as bytes and converted to text only when lines() is called.
class History {
 public:
  void add(const Record& record) {
    Kept& kept = ring_[count_++ % ring_.size()];
    kept.record = record;
    kept.fields.assign(record.fields);
  }
  std::vector<std::string> lines(const Schema& schema, const TimeBase& base) const {
    std::vector<std::string> lines;
    std::vector<Value> values(kMaxFields);
    const std::uint64_t first = count_ > ring_.size() ? count_ - ring_.size() : 0;
    for (std::uint64_t i = first; i < count_; ++i) {
      const Kept& kept = ring_[i % ring_.size()];
      Record record = kept.record;
      const auto* at = reinterpret_cast<const std::uint8_t*>(kept.fields.data());
      get_values(at, at + kept.fields.size(), *record.event, values.data());
      record.values = {values.data(), record.event->fields.size()};
      lines.push_back(std::to_string(record.seq) + "  " + record_text(record, schema, base));
    }
    return lines;
  }

 private:
  struct Kept {
    Record record;
    std::string fields;
  };
  std::array<Kept, 20> ring_;
  std::uint64_t count_ = 0;
};

}  // namespace rtrs::trace
