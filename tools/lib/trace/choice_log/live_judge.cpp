#include "tools/lib/trace/choice_log/live_judge.hpp"

#include <algorithm>
#include <string>

#include "core/record/schema.hpp"

namespace rtrs::tools {

LiveJudge::LiveJudge()
    : translator_(trace::builtin_schema()), laws_(std::make_unique<trace::LawCollector>()) {}

trace::Listener& LiveJudge::of(sim::NodeId node) {
  const auto trace = static_cast<unsigned>(nodes_.size());
  nodes_.push_back({node, std::make_unique<trace::LiveCheck>(translator_, *laws_, trace)});
  return *nodes_.back().check;
}

std::optional<TraceViolation> LiveJudge::verdict() {
  // Same order as judge_traces(): clients before the server.
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
    return (a.id == 0) != (b.id == 0) ? b.id == 0 : a.id < b.id;
  });
  TraceVerdict verdict;
  for (const Node& node : nodes_) {
    node.check->finish();
    const spec::Findings& findings = node.check->findings();
    verdict.add(findings.kept(), findings.most_states(),
                node.id == 0 ? "server" : "client" + std::to_string(node.id));
  }
  verdict.add(laws_->judge(trace::LawCollector::Contents::ignore));
  nodes_.clear();
  laws_ = std::make_unique<trace::LawCollector>();
  return verdict.first();
}

}  // namespace rtrs::tools
