// Latencies of requests by machine and path, and gaps in which requests waited without any record.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::replay_tool {

// Latencies of one path of one machine. Client: from submission to completion, counted for the path that
// answered. Server: from delivery to the application to its response.
struct PathLatency {
  std::uint64_t reads = 0, writes = 0;
  std::uint64_t bytes = 0;   // data bytes; client only
  std::uint64_t failed = 0;  // number of failed requests
  // All latencies, sorted by finish(). Not a histogram, because a malicious trace may use a new path in every
  // record, and a histogram per path would need far more memory than the trace.
  std::vector<Nanos> took;
  Nanos percentile(double part) const;  // 0 without requests
};

// Time without records of a machine with pending requests.
struct Gap {
  Nanos length = 0;
  Nanos from = 0;
  std::uint64_t record = 0;  // first record after the gap
  InstanceId instance = 0;
  std::uint64_t waiting = 0;  // number of pending requests
};

class LatencyMeter {
 public:
  explicit LatencyMeter(const trace::Schema& schema);
  void add(const trace::Record& record);
  void finish();

  using Place = std::pair<InstanceId, std::uint16_t>;  // machine, path index in its session
  const std::map<Place, PathLatency>& paths() const { return paths_; }
  const std::vector<Gap>& gaps() const { return gaps_; }  // the longest gaps, longest first

 private:
  struct Open {
    Nanos since = 0;
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

  std::vector<Known> known_;  // indexed by event number
  std::map<InstanceId, Machine> machines_;
  std::map<Place, PathLatency> paths_;
  std::vector<Gap> gaps_;
};

}  // namespace rtrs::replay_tool
