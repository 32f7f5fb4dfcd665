// Finds times in which the recording process did not run: nothing was recorded although a heartbeat timer was
// due. A process that runs records at least this timer.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "conformance/spec/event.hpp"

namespace rtrs::trace {

struct Pause {
  std::uint64_t from = 0, to = 0;  // in ns, clock of the trace: when the timer was due, next record
  std::uint64_t silent_since = 0;  // time of the record before
  std::uint64_t record = 0;        // first record after the pause
  std::uint64_t length() const noexcept { return to - from; }
};

class PauseFinder {
 public:
  // A timer that is later than this proves that the process did not run.
  static constexpr std::uint64_t kLate = 500'000'000;  // in ns

  // Call for each record of the trace, before on(). Returns true if a pause ended at this record.
  bool at(std::uint64_t record, std::uint64_t time);
  // Takes a pause back that at() found at this record if the record begins another process.
  void on(unsigned instance, const spec::Event&);
  const std::vector<Pause>& pauses() const noexcept { return pauses_; }

 private:
  void begin_again(const spec::Event&);
  struct Machine {
    std::uint64_t interval = 0;                  // of heartbeats; 0: unknown
    std::map<std::uint16_t, std::uint64_t> due;  // next tick, by path
  };
  std::map<unsigned, Machine> machines_;
  std::uint64_t last_ = 0;
  std::vector<Pause> pauses_;
};

}  // namespace rtrs::trace
