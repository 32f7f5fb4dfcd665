// Plays a run in its own process, forks this process at given draws, and draws the rest of each copy again.
// The beginning is played once for all rests.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/choices/forked_choices.hpp"
#include "tools/lib/trace/choice_log/isolated_run.hpp"

namespace rtrs::tools {

struct ForkedResult {
  static constexpr std::size_t kMostSignature = 255;  // longer signatures are cut
  bool reached = false;                               // the run got to this fork
  bool failed = false;
  bool stalled = false;
  std::string signature;            // see IsolatedResult
  std::uint64_t events_before = 0;  // events up to the fork
  Nanos time_before = 0;            // virtual time of the fork
  std::string said;                 // last entry of the journal before the fork
  std::uint64_t events = 0;         // all events of the run, including those before the fork
  Nanos time = 0;                   // virtual time of the failure, or of the end
};

struct ForkedPlan {
  sim::WorldOptions world;
  MakeChoice choice;             // the run that is forked
  std::vector<sim::Fork> forks;  // in ascending order of draws; several may have one draw
  bool play_on = false;          // the run itself is played to its end, as the last result
  unsigned jobs = 1;             // rests that are played at the same time
};

class ForkedRuns {
 public:
  // `most`: maximum number of results of a plan.
  explicit ForkedRuns(std::size_t most);
  ~ForkedRuns();
  ForkedRuns(const ForkedRuns&) = delete;
  ForkedRuns& operator=(const ForkedRuns&) = delete;
  bool works() const noexcept { return slots_ != nullptr; }  // false if memory is short
  // Later runs in which no oracle fires are also checked against the specification. The judge must outlive
  // this object, and only its copies in other processes are changed.
  void ask_specification(LiveJudge* judge) noexcept { specification_ = judge; }

  // Returns one result for each fork, in order, and one more for play_on.
  std::vector<ForkedResult> play(const ForkedPlan& plan);

 private:
  class Child;
  struct Slot;

  // Returns the id of the process, which the caller waits for; -1: it could not be started.
  pid_t start(const ForkedPlan& plan);
  // Call after the process has ended.
  std::vector<ForkedResult> collect() const;

  const std::size_t most_;
  Slot* slots_ = nullptr;
  std::size_t used_ = 0;
  LiveJudge* specification_ = nullptr;
};

}  // namespace rtrs::tools
