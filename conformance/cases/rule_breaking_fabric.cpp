#include "conformance/cases/rule_breaking_fabric.hpp"

namespace rtrs::conformance {

std::span<const std::byte> RuleBreakingFabric::changed(std::span<const std::byte> truth,
                                                       const std::function<void(Bytes&)>& change) {
  changed_.assign(truth.begin(), truth.end());
  if (change) change(changed_);
  return changed_;
}

std::vector<RegionId> RuleBreakingFabric::regions_of(std::size_t bytes) const {
  std::vector<RegionId> found;
  for (std::size_t id = 0; id < regions_.size(); ++id)
    if (regions_[id].size() == bytes) found.push_back(static_cast<RegionId>(id));
  return found;
}

std::size_t RuleBreakingFabric::post(std::span<const WorkRequest> work) noexcept {
  std::size_t taken = 0;
  for (WorkRequest one : work) {
    if (one.op == WorkRequest::Op::send && change_message)
      one.inline_bytes = changed(one.inline_bytes, change_message);
    const unsigned times = change_work ? change_work(one) : 1;
    for (unsigned i = 0; i < times; ++i)
      if (inner_.post(std::span(&one, 1)) == 0) return taken;
    ++taken;
  }
  return taken;
}

std::size_t RuleBreakingFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  received_.clear();
  received_.reserve(events.size());
  const std::size_t count = inner_.poll(now, events);
  std::size_t kept = 0;
  for (FabricEvent& event : events.first(count)) {
    if (drop_event && drop_event(event)) continue;
    const bool greets = std::holds_alternative<event::ConnectRequested>(event) ||
                        std::holds_alternative<event::Connected>(event);
    if (change_received && greets) {
      auto& bytes = *bytes_in(event);
      change_received(received_.emplace_back(bytes.begin(), bytes.end()));
      bytes = received_.back();
    }
    events[kept++] = event;
  }
  return kept;
}

}  // namespace rtrs::conformance
