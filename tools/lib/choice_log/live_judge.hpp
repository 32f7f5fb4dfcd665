// The specification beside a simulated run: it hears the records of all nodes while they are made, so that a
// run needs no trace files to be judged (docs/conformance.md).
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/world.hpp"
#include "tools/lib/choice_log/trace_judge.hpp"
#include "tools/lib/judge/live_check.hpp"

namespace rtrs::tools {

// For one run after the other: WorldOptions::listeners, then verdict() when the world is gone.
class LiveJudge final : public sim::NodeListeners {
 public:
  LiveJudge();
  trace::Listener& of(sim::NodeId node) override;
  // The earliest violation of the run, as judge_traces() finds it in its trace files. Forgets the run.
  std::optional<TraceViolation> verdict();

 private:
  struct Node {
    sim::NodeId id = 0;
    std::unique_ptr<sim::LiveCheck> check;
  };
  sim::Translator translator_;  // expensive to make, so it is made once
  std::unique_ptr<sim::LawCollector> laws_;
  std::vector<Node> nodes_;
};

}  // namespace rtrs::tools
