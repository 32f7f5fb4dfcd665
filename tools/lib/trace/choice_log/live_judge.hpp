// Checks a simulated run against the specification while it runs: receives the records of all nodes directly,
// so that no trace files are needed (docs/conformance.md).
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "sim/world/world.hpp"
#include "tools/lib/trace/choice_log/trace_judge.hpp"
#include "tools/lib/trace/judge/live_check.hpp"

namespace rtrs::tools {

// Reusable for successive runs: set as WorldOptions::listeners, then call verdict() after destroying the
// world.
class LiveJudge final : public sim::NodeListeners {
 public:
  LiveJudge();
  trace::Listener& of(sim::NodeId node) override;
  // Returns the earliest violation of the run, the same as judge_traces() on its trace files; resets the
  // judge.
  std::optional<TraceViolation> verdict();

 private:
  struct Node {
    sim::NodeId id = 0;
    std::unique_ptr<trace::LiveCheck> check;
  };
  trace::Translator translator_;  // expensive to create, so it is reused
  std::unique_ptr<trace::LawCollector> laws_;
  std::vector<Node> nodes_;
};

}  // namespace rtrs::tools
