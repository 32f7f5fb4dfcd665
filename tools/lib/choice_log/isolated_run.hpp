// One simulated run in a process of its own: a run that crashes or does not end is a result like any other,
// and its choice log is known all the same.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sim/choices/choice.hpp"
#include "sim/cluster/world.hpp"
#include "tools/lib/choice_log/live_judge.hpp"

namespace rtrs::tools {

struct IsolatedResult {
  bool failed = false;
  bool stalled = false;
  // What failed, without numbers: the oracle's id, with the rule of the specification that the traces break
  // where the oracle itself found nothing, or the signal and the assertion that ended the process.
  std::string signature;
  std::string seen;  // in words
  std::string scenario;
  Nanos time = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;
  sim::ChoiceLog choice_log;
  std::uint64_t log_entries = 0;  // draws, and beginnings and ends of groups
};
using MakeChoice = std::function<std::unique_ptr<sim::ChoiceSource>()>;

// Runs worlds one after the other. Not copyable; one at a time.
class IsolatedRunner {
 public:
  IsolatedRunner();
  ~IsolatedRunner();
  IsolatedRunner(const IsolatedRunner&) = delete;
  IsolatedRunner& operator=(const IsolatedRunner&) = delete;
  // False when the system gave no memory to share.
  bool works() const noexcept { return shared_ != nullptr; }
  // From now on runs in which every oracle is content are judged by the specification as well.
  void ask_specification();

  // From now on a run ends, without a failure, when its choice log is longer than this: draws and groups.
  void set_longest_log(std::uint64_t entries) noexcept { longest_log_ = entries; }

  IsolatedResult run(const sim::WorldOptions&, const MakeChoice&);

 private:
  struct Shared;
  void child(sim::WorldOptions, const MakeChoice&) noexcept;
  void read_choice_log(sim::ChoiceLog&) const;
  std::string last_words() const;

  Shared* shared_ = nullptr;
  std::uint64_t longest_log_ = ~std::uint64_t{0};
  int stderr_ = -1;                           // of the child, a file in memory
  std::unique_ptr<LiveJudge> specification_;  // null: not asked
};

}  // namespace rtrs::tools
