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
  // Failure without numbers, to compare runs: the oracle's id (with the violated rule of the specification if
  // only the specification found the failure), or the signal and the assertion that ended the process.
  std::string signature;
  std::string seen;  // what the oracle saw, as text
  std::string scenario;
  Nanos time = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;
  sim::ChoiceLog choice_log;
  std::uint64_t log_entries = 0;  // number of draws, and begins and ends of groups
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
  // Makes later runs in which no oracle fires be checked against the specification as well.
  void ask_specification();

  // Makes later runs end without a failure once their choice log has more entries (draws and groups).
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
