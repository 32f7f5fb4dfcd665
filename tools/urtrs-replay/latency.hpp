// Measures latencies of requests by state machine and path, and finds gaps in which requests waited without
// any record.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {

// Latencies of one path of one machine. On a client: from submission to completion, counted for the path that
// delivered the response. On a server: from the delivery of the request to the application until the
// application's response.
struct PathLatency {
  std::uint64_t reads = 0, writes = 0;
  std::uint64_t bytes = 0;   // data bytes; client only
  std::uint64_t failed = 0;  // number of failed requests
  // All latencies, sorted by finish(). A histogram per path could need far more memory than the trace,
  // because a malicious trace may use a new path in every record.
  std::vector<Nanos> took;
  Nanos percentile(double part) const;  // Returns 0 if there are no requests.
};

// A time in which a state machine has pending requests, but no record.
struct Gap {
  Nanos length = 0;
  Nanos from = 0;
  std::uint64_t record = 0;  // first record after the gap
  InstanceId instance = 0;
  std::uint64_t waiting = 0;  // number of pending requests
};

// A completed request.
struct Slow {
  Nanos took = 0;
  Nanos since = 0;
  std::uint64_t record = 0;  // its submission or delivery
  std::uint64_t end = 0;     // record of its end
  InstanceId instance = 0;
  std::uint16_t path = 0;
  bool write = false;
  bool failed = false;
};

class LatencyMeter {
 public:
  explicit LatencyMeter(const trace::Schema& schema);
  // Only requests that begin in the range, and gaps that end in it, are counted.
  void set_range(const TimeRange& range) noexcept { range_ = range; }
  void add(const trace::Record& record);
  void finish();

  using Place = std::pair<InstanceId, std::uint16_t>;  // machine, path index in its session
  const std::map<Place, PathLatency>& paths() const { return paths_; }
  const std::vector<Gap>& gaps() const { return gaps_; }         // the longest gaps, longest first
  const std::vector<Slow>& slowest() const { return slowest_; }  // the slowest requests, slowest first

 private:
  struct Open {
    Nanos since = 0;
    std::uint64_t record = 0;
    std::uint16_t path = 0;
    std::uint32_t bytes = 0;
    bool write = false;
    bool used = false;
  };
  struct Machine {
    std::vector<Open> open;  // indexed by permit or chunk
    std::uint64_t waiting = 0;
    Nanos last = 0;
    bool seen = false;
  };
  // Meaning of an event for the measurement.
  enum class Role : std::uint8_t {
    other,
    submitted,
    posted,
    completed,
    delivered,
    responded,
    arrived,
    begun
  };
  struct Known {
    Role role = Role::other;
    int slot = -1;  // permit or chunk
    int path = -1;
    int bytes = -1;
    int direction = -1;
    int result = -1;
  };
  Open& slot(Machine& machine, std::uint64_t number);
  void close(const trace::Record& record, Machine& machine, Open& open, bool failed);
  void note_gap(const trace::Record& record, Machine& machine);

  TimeRange range_;
  std::vector<Known> known_;  // indexed by event number
  std::map<InstanceId, Machine> machines_;
  std::map<Place, PathLatency> paths_;
  std::vector<Gap> gaps_;
  std::vector<Slow> slowest_;
};

}  // namespace rtrs::replay_tool
