#include "sim/choices/grouped_choice.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rtrs::sim {

GroupedChoice::Queue& GroupedChoice::queue_of(std::vector<Queue>& queues, Label label) {
  if (Queue* found = find(queues, label)) return *found;
  return queues.emplace_back(Queue{label, 0, {}});
}

GroupedChoice::Queue* GroupedChoice::find(std::vector<Queue>& queues, Label label) noexcept {
  const auto found = std::find_if(queues.begin(), queues.end(),
                                  [label](const Queue& queue) { return queue.label == label; });
  return found == queues.end() ? nullptr : &*found;
}

GroupedChoice::GroupedChoice(const ChoiceLog& choice_log) : nodes_(1), open_{0} {
  nodes_.reserve(choice_log.groups.size() + 1);
  struct Open {
    std::uint32_t node;
    std::size_t end;
  };
  std::vector<Open> around{{0, choice_log.draws.size()}};
  std::size_t next = 0;
  const auto draws_until = [&](std::size_t end) {
    for (; next < end; ++next)
      queue_of(nodes_[around.back().node].draws, choice_log.draws[next].label)
          .items.push_back(choice_log.draws[next].value);
  };
  const auto leave = [&] {
    draws_until(around.back().end);
    around.pop_back();
  };
  for (const ChoiceGroup& group : choice_log.groups) {
    while (around.size() > std::size_t{group.depth} + 1) leave();
    draws_until(group.begin);
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back().left_out = group.left_out;
    queue_of(nodes_[around.back().node].groups, group.label).items.push_back(node);
    around.push_back({node, group.end});
  }
  while (!around.empty()) leave();
}

std::uint32_t GroupedChoice::choose(std::uint32_t, Label label) {
  if (open_.back() == kCalm) return 0;
  Queue* queue = find(nodes_[open_.back()].draws, label);
  return queue == nullptr || queue->empty() ? 0 : queue->items[queue->next++];
}

bool GroupedChoice::skip(Label label) {
  if (open_.back() == kCalm) return true;
  Queue* queue = find(nodes_[open_.back()].groups, label);
  if (queue == nullptr || queue->empty()) return true;
  if (!nodes_[queue->items[queue->next]].left_out) return false;
  ++queue->next;
  return true;
}

void GroupedChoice::entered(Label label) {
  Queue* queue = open_.back() == kCalm ? nullptr : find(nodes_[open_.back()].groups, label);
  open_.push_back(queue == nullptr || queue->empty() ? kCalm : queue->items[queue->next++]);
}

void GroupedChoice::left() {
  if (open_.size() > 1) open_.pop_back();
}

ChoiceLog trimmed(const ChoiceLog& choice_log) {
  // `group_of`: innermost group of each draw. `last`: last draw that is not calm, by group and label.
  const std::size_t outside = choice_log.groups.size();
  std::vector<std::size_t> group_of(choice_log.draws.size(), outside);
  for (std::size_t group = 0; group < choice_log.groups.size(); ++group)
    for (std::size_t at = choice_log.groups[group].begin; at < choice_log.groups[group].end; ++at)
      group_of[at] = group;
  std::map<std::pair<std::size_t, Label>, std::size_t> last;
  for (std::size_t at = 0; at < choice_log.draws.size(); ++at)
    if (choice_log.draws[at].value != 0) last[{group_of[at], choice_log.draws[at].label}] = at;
  std::map<Label, std::size_t> last_kept;  // last outermost group that is not left out, by label
  for (std::size_t group = 0; group < choice_log.groups.size(); ++group)
    if (!choice_log.groups[group].left_out) last_kept[choice_log.groups[group].label] = group;

  ChoiceLog out;
  std::vector<std::size_t> moved(choice_log.draws.size() + 1);  // new index of each draw
  for (std::size_t at = 0; at < choice_log.draws.size(); ++at) {
    moved[at] = out.draws.size();
    const auto found = last.find({group_of[at], choice_log.draws[at].label});
    if (found != last.end() && at <= found->second) out.draws.push_back(choice_log.draws[at]);
  }
  moved.back() = out.draws.size();
  for (std::size_t group = 0; group < choice_log.groups.size(); ++group) {
    ChoiceGroup kept = choice_log.groups[group];
    if (kept.left_out && kept.depth == 0) {
      const auto found = last_kept.find(kept.label);
      if (found == last_kept.end() || found->second < group) continue;
    }
    kept.begin = moved[kept.begin];
    kept.end = moved[kept.end];
    out.groups.push_back(kept);
  }
  return out;
}

}  // namespace rtrs::sim
