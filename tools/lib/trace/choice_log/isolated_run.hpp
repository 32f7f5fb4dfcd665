// Runs one simulated world in its own process, so that a run that crashes or hangs still yields a result and
// a choice log.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sim/choices/choice.hpp"
#include "sim/world/world.hpp"
#include "tools/lib/trace/choice_log/live_judge.hpp"

namespace rtrs::tools {

struct IsolatedResult {
  bool failed = false;
  bool stalled = false;
  // Description of the failure without numbers, to compare runs. Oracle failure: id of the oracle, and the
  // violated rule if only the specification found the failure. Crash: the signal, and the assertion that
  // failed.
  std::string signature;
  std::string seen;  // details from the oracle, as text
  std::string scenario;
  Nanos time = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;
  sim::ChoiceLog choice_log;
  std::uint64_t log_entries = 0;  // number of entries: draws, group begins and group ends
};
using MakeChoice = std::function<std::unique_ptr<sim::ChoiceSource>()>;

// Runs one world at a time.
class IsolatedRunner {
 public:
  IsolatedRunner();
  ~IsolatedRunner();
  IsolatedRunner(const IsolatedRunner&) = delete;
  IsolatedRunner& operator=(const IsolatedRunner&) = delete;
  // False if shared memory could not be allocated.
  bool works() const noexcept { return shared_ != nullptr; }
  // Later runs in which no oracle fires are also checked against the specification.
  void ask_specification();

  // In later runs, stops a run without a failure as soon as its choice log has more than `entries` entries
  // (draws and groups).
  void set_longest_log(std::uint64_t entries) noexcept { longest_log_ = entries; }

  IsolatedResult run(const sim::WorldOptions&, const MakeChoice&);

 private:
  struct Shared;
  void child(sim::WorldOptions, const MakeChoice&) noexcept;
  void read_choice_log(sim::ChoiceLog&) const;
  std::string last_words() const;

  Shared* shared_ = nullptr;
  std::uint64_t longest_log_ = ~std::uint64_t{0};
  int stderr_ = -1;                           // in-memory file for stderr of the child
  std::unique_ptr<LiveJudge> specification_;  // nullptr: runs are not checked against the specification
};

}  // namespace rtrs::tools
