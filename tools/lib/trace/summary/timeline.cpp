#include "tools/lib/trace/summary/timeline.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::trace {

void Timeline::Bucket::merge(const Bucket& other) {
  completed += other.completed;
  failed += other.failed;
  in_flight = std::max(in_flight, other.in_flight);
  longest = std::max(longest, other.longest);
  if (other.took != nullptr) {
    if (took == nullptr) took = std::make_unique<Latencies>();
    took->merge(*other.took);
  }
  states.resize(std::max(states.size(), other.states.size()));
  for (std::size_t path = 0; path < other.states.size(); ++path) states[path] |= other.states[path];
}

void Timeline::halve() {
  for (std::size_t i = 0; i < buckets_.size(); i += 2) {
    Bucket both = std::move(buckets_[i]);
    if (i + 1 < buckets_.size()) both.merge(buckets_[i + 1]);
    buckets_[i / 2] = std::move(both);
  }
  buckets_.resize((buckets_.size() + 1) / 2);
  width_ *= 2;
}

Timeline::Bucket& Timeline::reach(Nanos time) {
  while ((time - from_) / width_ >= kBuckets) halve();
  const auto index = static_cast<std::size_t>((time - from_) / width_);
  while (buckets_.size() <= index) {
    buckets_.emplace_back();
    buckets_.back().in_flight = in_flight_;
    buckets_.back().states = states_;
  }
  return buckets_[index];
}

void Timeline::at(Nanos time) {
  if (buckets_.empty()) from_ = last_ = time;
  last_ = std::max(last_, time);
  reach(last_);
}

void Timeline::in_flight(std::uint64_t count) {
  in_flight_ = count;
  Bucket& bucket = reach(last_);
  bucket.in_flight = std::max(bucket.in_flight, count);
}

void Timeline::ended(Nanos took, bool failed) {
  Bucket& bucket = reach(last_);
  ++bucket.completed;
  bucket.failed += failed ? 1 : 0;
  bucket.longest = std::max(bucket.longest, took);
  if (bucket.took == nullptr) bucket.took = std::make_unique<Latencies>();
  bucket.took->record(took);
}

void Timeline::state(std::size_t path, spec::PathState state) {
  if (path >= kPaths) return;
  const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(state));
  Bucket& bucket = reach(last_);
  if (states_.size() <= path) states_.resize(path + 1);
  if (bucket.states.size() <= path) bucket.states.resize(path + 1);
  states_[path] = bit;
  bucket.states[path] |= bit;
}

namespace {

std::uint64_t sum_within(std::uint64_t a, std::uint64_t b) {
  return b > ~a ? ~std::uint64_t{0} : a + b;
}

}  // namespace

Timeline Timeline::sum_of(const std::vector<Part>& parts, std::int64_t until) {
  Timeline sum;
  std::vector<std::pair<const Timeline*, std::int64_t>> all;
  for (const Part& part : parts)
    if (!part.timeline->empty())
      all.emplace_back(part.timeline, static_cast<std::int64_t>(part.timeline->from_ + part.shift));
  if (all.empty()) return sum;
  std::int64_t from = all.front().second;
  for (const auto& [part, begin] : all) from = std::min(from, begin);
  std::uint64_t span =
      until > from ? static_cast<std::uint64_t>(until) - static_cast<std::uint64_t>(from) : 0;
  for (const auto& [part, begin] : all) {
    const auto offset = static_cast<std::uint64_t>(begin) - static_cast<std::uint64_t>(from);
    span = std::max(span, sum_within(offset, part->buckets_.size() * part->width_ - part->width_ / 2));
    sum.width_ = std::max(sum.width_, part->width_);
  }
  while (span / sum.width_ >= kBuckets) sum.width_ *= 2;
  sum.from_ = static_cast<Nanos>(from);
  sum.buckets_.resize(static_cast<std::size_t>(span / sum.width_) + 1);
  for (const auto& [part, begin] : all)
    sum.put(*part, static_cast<std::uint64_t>(begin) - static_cast<std::uint64_t>(from));
  return sum;
}

void Timeline::put(const Timeline& part, std::uint64_t offset) {
  std::vector<std::uint64_t> in_flight(buckets_.size());
  const std::size_t paths = states_.size();
  states_.resize(paths + part.states_.size());
  std::size_t end = 0;
  for (std::size_t i = 0; i < part.buckets_.size(); ++i) {
    const std::uint64_t middle = sum_within(offset, i * part.width_ + part.width_ / 2);
    const auto index = std::min(static_cast<std::size_t>(middle / width_), buckets_.size() - 1);
    const Bucket& one = part.buckets_[i];
    Bucket moved;
    moved.completed = one.completed;
    moved.failed = one.failed;
    moved.longest = one.longest;
    if (one.took != nullptr) moved.took = std::make_unique<Latencies>(*one.took);
    moved.states.resize(paths);
    moved.states.insert(moved.states.end(), one.states.begin(), one.states.end());
    buckets_[index].merge(moved);
    in_flight[index] = std::max(in_flight[index], one.in_flight);
    end = index + 1;
  }
  for (; end < buckets_.size(); ++end) {
    in_flight[end] = part.in_flight_;
    buckets_[end].states.resize(paths);
    buckets_[end].states.insert(buckets_[end].states.end(), part.states_.begin(), part.states_.end());
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i].in_flight += in_flight[i];
}

}  // namespace rtrs::trace
