#include "tools/lib/trace/hangs/pauses.hpp"

#include <algorithm>

#include "core/proto/limits.hpp"

namespace rtrs::trace {

bool PauseFinder::at(std::uint64_t record, std::uint64_t time) {
  const std::uint64_t before = last_;
  last_ = time;
  if (time < before || time - before <= kLate) return false;
  std::uint64_t due = time;
  for (const auto& [instance, machine] : machines_)
    for (const auto& [path, tick] : machine.due) due = std::min(due, tick);
  due = std::max(due, before);
  if (time - due <= kLate) return false;
  pauses_.push_back({due, time, before, record});
  return true;
}

// A process that ended before had no timers, so the silence until its successor began is no pause.
void PauseFinder::begin_again(const spec::Event& event) {
  if (!pauses_.empty() && pauses_.back().record == event.seq) pauses_.pop_back();
  machines_.clear();
}

void PauseFinder::on(unsigned instance, const spec::Event& event) {
  using spec::Kind;
  const auto path_of = [](std::uint16_t path) { return static_cast<std::uint16_t>(path % kMaxPaths); };
  switch (event.kind) {
    case Kind::BeginServerRegistry:
      begin_again(event);
      return;
    case Kind::BeginClient:
      if (machines_.contains(instance)) begin_again(event);
      [[fallthrough]];
    case Kind::BeginServerSession:
      machines_[instance] = {event.settings.heartbeat_interval, {}};
      return;
    case Kind::End:
    case Kind::EndSession:
      machines_.erase(instance);
      return;
    default:
      break;
  }
  const auto found = machines_.find(instance);
  if (found == machines_.end() || found->second.interval == 0) return;
  Machine& machine = found->second;
  const std::uint64_t next =
      event.now > spec::kNever - machine.interval ? spec::kNever : event.now + machine.interval;
  switch (event.kind) {
    // A path is connected by these messages.
    case Kind::InfoAccepted:
    case Kind::InfoRequested:
      if (event.error == 0) machine.due[path_of(event.key.path)] = next;
      return;
    case Kind::PathChanged:
      if (event.state != spec::PathState::connected) machine.due.erase(path_of(event.path));
      return;
    case Kind::ConnectionLost:
      machine.due.erase(path_of(event.key.path));
      return;
    case Kind::DeadlineReached:
      for (auto& [path, tick] : machine.due)
        if (tick <= event.now) tick = next;
      return;
    default:
      return;
  }
}

}  // namespace rtrs::trace
