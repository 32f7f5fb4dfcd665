// How long requests took, by machine and path, and when requests waited while nothing happened.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::tools {

// Of one path of one machine. Client: from submission to completion, of the path that answered. Server: from
// delivery to the application to its answer.
struct PathLatency {
  std::uint64_t reads = 0, writes = 0;
  std::uint64_t bytes = 0;   // client only: of data
  std::uint64_t failed = 0;  // ended with an error
  // Each one, sorted by finish(): a hostile trace names a new path in every record, and a histogram for each
  // would take far more memory than the trace.
  std::vector<Nanos> took;
  Nanos percentile(double part) const;  // 0 without requests
};

// A time without any record of a machine that had requests in its hands.
struct Gap {
  Nanos length = 0;
  Nanos from = 0;
  std::uint64_t record = 0;  // the first one after it
  InstanceId instance = 0;
  std::uint64_t waiting = 0;  // requests
};

class LatencyMeter {
 public:
  explicit LatencyMeter(const trace::Schema& schema);
  void add(const trace::Record& record);
  void finish();

  using Place = std::pair<InstanceId, std::uint16_t>;  // machine, index of the path in its session
  const std::map<Place, PathLatency>& paths() const { return paths_; }
  const std::vector<Gap>& gaps() const { return gaps_; }  // the longest, longest first

 private:
  struct Open {
    Nanos since = 0;
    std::uint16_t path = 0;
    std::uint32_t bytes = 0;
    bool write = false;
    bool used = false;
  };
  struct Machine {
    std::vector<Open> open;  // by permit or chunk
    std::uint64_t waiting = 0;
    Nanos last = 0;
    bool seen = false;
  };
  // What an event means here.
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

  std::vector<Known> known_;  // by number of the event
  std::map<InstanceId, Machine> machines_;
  std::map<Place, PathLatency> paths_;
  std::vector<Gap> gaps_;
};

}  // namespace rtrs::tools
