#include "tools/lib/trace/sequence/path_walk.hpp"

#include <string>

#include "tools/lib/trace/sequence/fields.hpp"

namespace rtrs::tools::sequence {

PathWalk::PathWalk(const Story& story, const Kept& kept) : story_(story), kept_(kept) {
  for (std::size_t at = 0; at < story.paths.size(); ++at) {
    const Path& path = story.paths[at];
    const ClientView& client = story.clients[static_cast<std::size_t>(path.owner)];
    paths_[{client.file, client.instance, path.number}] = static_cast<Index>(at);
  }
}

void PathWalk::close_span(Index path, Side side, Index at) {
  const auto open = open_.find({path, side});
  if (open == open_.end()) return;
  const auto span = spans_.find(open->second);
  span->second.to = at;
  if (!kept_.overlaps(span->second.from, at)) spans_.erase(span);
  open_.erase(open);
}

void PathWalk::change(const Step& step, Side side, Index at) {
  close_span(step.path, side, at);
  const std::string state(value_of(step.fields, "state"));
  if (state == "absent") return;
  open_[{step.path, side}] = next_;
  spans_[next_++] = {step.path, side, state, std::string(value_of(step.fields, "reason")), at, kNone};
}

// Ends the open spans of all paths of a state machine. Called when the machine ends or begins again.
void PathWalk::forget(const Machine& owner, Index at) {
  for (auto it = numbers_.begin(); it != numbers_.end();) {
    const Machine& other = story_.machines[static_cast<std::size_t>(it->first.first)];
    const bool same = other.file == owner.file && other.instance == owner.instance;
    if (same) close_span(it->second, owner.side, at);
    it = same ? numbers_.erase(it) : std::next(it);
  }
}

void PathWalk::on(Step& step, std::size_t number) {
  const auto at = static_cast<Index>(number);
  if (step.machine == kNone) return;
  const Machine& owner = story_.machines[static_cast<std::size_t>(step.machine)];
  if (step.event.starts_with("Begin") || step.event == "End") forget(owner, at);
  if (step.connection != kNone) {
    const Connection& one = story_.connections[static_cast<std::size_t>(step.connection)];
    step.path = one.path;
    if (step.path != kNone && owner.side == Side::server) numbers_[{step.machine, one.key.path}] = step.path;
  } else if (!value_of(step.fields, "path").empty()) {
    step.path = numbered(step, owner, static_cast<std::uint16_t>(number_of(step.fields, "path")));
  } else if (step.event == "FailedOver") {
    step.path = numbered(step, owner, static_cast<std::uint16_t>(number_of(step.fields, "to")));
  }
  if (step.event == "PathChanged" && step.path != kNone) change(step, owner.side, at);
}

Index PathWalk::numbered(const Step& step, const Machine& owner, std::uint16_t number) {
  if (owner.side == Side::client) {
    const auto found = paths_.find({owner.file, owner.instance, number});
    if (found == paths_.end()) return kNone;
    numbers_[{step.machine, number}] = found->second;
    return found->second;
  }
  const auto found = numbers_.find({step.machine, number});
  return found == numbers_.end() ? kNone : found->second;
}

void PathWalk::finish(Story& story) {
  for (auto& [index, span] : spans_)
    if (kept_.overlaps(span.from, span.to)) story.path_spans.push_back(std::move(span));
}

}  // namespace rtrs::tools::sequence
