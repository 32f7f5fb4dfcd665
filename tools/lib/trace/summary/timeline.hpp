// Figures of a run over time, in a fixed number of buckets. When the run becomes longer than the buckets
// cover, each two of them become one, so memory does not grow with the run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "conformance/spec/event.hpp"
#include "core/base/histogram.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::trace {

class Timeline {
 public:
  static constexpr std::size_t kBuckets = 1024;
  static constexpr std::size_t kPaths = 64;           // further paths are not followed
  static constexpr std::uint64_t kFirstWidth = 1000;  // in ns; later widths are this times a power of two
  // Error of percentile(): at most one sixteenth of the value.
  using Latencies = Histogram<3>;

  struct Bucket {
    std::uint64_t completed = 0, failed = 0;  // `failed`: those of `completed` that failed
    std::uint64_t in_flight = 0;              // most requests at one time
    Nanos longest = 0;                        // of the requests that ended
    std::unique_ptr<Latencies> took;          // null: no request ended
    std::vector<std::uint8_t> states;         // by path: bit of each spec::PathState that the path had
    Nanos median() const { return took == nullptr ? 0 : std::min(took->percentile(50), longest); }
    void merge(const Bucket& other);
  };

  // Moves to the time of the next record. Earlier times than the last one count as the last one.
  void at(Nanos time);
  // The functions below are for the time of the last call of at(), which must have been called.
  void in_flight(std::uint64_t count);
  void ended(Nanos took, bool failed);
  // `path`: numbered by the caller from 0; ignored if it is not below kPaths.
  void state(std::size_t path, spec::PathState state);

  struct Part {
    const Timeline* timeline = nullptr;
    std::uint64_t shift = 0;  // in ns, to add to its times
  };
  // Returns the sum of the parts. Each bucket of a part counts where its middle is. The paths of a part
  // follow those of the part before. Up to `until`, parts that end earlier keep their last state.
  static Timeline sum_of(const std::vector<Part>& parts, std::int64_t until);

  bool empty() const noexcept { return buckets_.empty(); }
  Nanos from() const noexcept { return from_; }    // begin of the first bucket
  Nanos width() const noexcept { return width_; }  // of a bucket, in ns
  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }

 private:
  void put(const Timeline& part, std::uint64_t offset);
  // Returns the bucket of a time that is not before from_. Adds buckets like the last one up to it.
  Bucket& reach(Nanos time);
  void halve();

  std::vector<Bucket> buckets_;
  Nanos from_ = 0, width_ = kFirstWidth, last_ = 0;
  std::uint64_t in_flight_ = 0;
  std::vector<std::uint8_t> states_;  // now, by path
};

}  // namespace rtrs::trace
