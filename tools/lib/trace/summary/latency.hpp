// Measures latencies of requests by state machine and path, and finds gaps in which requests waited without
// any record.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"
#include "tools/lib/trace/hangs/stages.hpp"

namespace rtrs::trace {

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
  bool client = false;  // measured by a client
  StageTimes stages;
};

class LatencyMeter {
 public:
  explicit LatencyMeter(const Schema& schema);
  // Counts only requests that begin in the range, and gaps that end in it; both ends are included.
  void set_range(std::int64_t from, std::int64_t to) noexcept { from_ = from, to_ = to; }
  // `stages`: of the request that ends with the record, if known.
  void add(const Record& record, const std::optional<StageTimes>& stages = {});
  void finish();

  // The request that ended with the last record; nullptr if none did.
  const Slow* ended() const { return ended_ ? &*ended_ : nullptr; }
  // Number of failed requests that the device layer of a client sends again.
  std::uint64_t repeated() const noexcept { return repeated_; }
  // Number of pending requests of all clients, or of all servers.
  std::uint64_t waiting(bool clients) const { return waiting_[clients ? 1 : 0]; }

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
    bool client = false;
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
    begun,
    judged
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
  void close(const Record& record, Machine& machine, Open& open, bool failed);
  void note_gap(const Record& record, Machine& machine);

  bool in_range(Nanos time) const noexcept {
    return static_cast<std::int64_t>(time) >= from_ && static_cast<std::int64_t>(time) <= to_;
  }

  std::int64_t from_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t to_ = std::numeric_limits<std::int64_t>::max();
  std::uint64_t repeated_ = 0;
  StageTimes stages_;         // of the request that ends
  std::vector<Known> known_;  // indexed by event number
  std::map<InstanceId, Machine> machines_;
  std::map<Place, PathLatency> paths_;
  std::vector<Gap> gaps_;
  std::vector<Slow> slowest_;
  std::optional<Slow> ended_;
  std::uint64_t waiting_[2] = {0, 0};  // of servers, of clients
};

}  // namespace rtrs::trace
