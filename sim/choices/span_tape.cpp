#include "sim/choices/span_tape.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rtrs::sim {

SpanTapeChoice::Queue& SpanTapeChoice::queue_of(std::vector<Queue>& queues, Label label) {
  if (Queue* found = find(queues, label)) return *found;
  return queues.emplace_back(Queue{label, 0, {}});
}

SpanTapeChoice::Queue* SpanTapeChoice::find(std::vector<Queue>& queues, Label label) noexcept {
  const auto found = std::find_if(queues.begin(), queues.end(),
                                  [label](const Queue& queue) { return queue.label == label; });
  return found == queues.end() ? nullptr : &*found;
}

SpanTapeChoice::SpanTapeChoice(const Tape& tape) : nodes_(1), open_{0} {
  nodes_.reserve(tape.spans.size() + 1);
  struct Open {
    std::uint32_t node;
    std::size_t end;
  };
  std::vector<Open> around{{0, tape.draws.size()}};
  std::size_t next = 0;
  const auto draws_until = [&](std::size_t end) {
    for (; next < end; ++next)
      queue_of(nodes_[around.back().node].draws, tape.draws[next].label)
          .items.push_back(tape.draws[next].value);
  };
  const auto leave = [&] {
    draws_until(around.back().end);
    around.pop_back();
  };
  for (const ChoiceSpan& span : tape.spans) {
    while (around.size() > std::size_t{span.depth} + 1) leave();
    draws_until(span.begin);
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back().left_out = span.left_out;
    queue_of(nodes_[around.back().node].spans, span.label).items.push_back(node);
    around.push_back({node, span.end});
  }
  while (!around.empty()) leave();
}

std::uint32_t SpanTapeChoice::choose(std::uint32_t, Label label) {
  if (open_.back() == kCalm) return 0;
  Queue* queue = find(nodes_[open_.back()].draws, label);
  return queue == nullptr || queue->empty() ? 0 : queue->items[queue->next++];
}

bool SpanTapeChoice::skip(Label label) {
  if (open_.back() == kCalm) return true;
  Queue* queue = find(nodes_[open_.back()].spans, label);
  if (queue == nullptr || queue->empty()) return true;
  if (!nodes_[queue->items[queue->next]].left_out) return false;
  ++queue->next;
  return true;
}

void SpanTapeChoice::entered(Label label) {
  Queue* queue = open_.back() == kCalm ? nullptr : find(nodes_[open_.back()].spans, label);
  open_.push_back(queue == nullptr || queue->empty() ? kCalm : queue->items[queue->next++]);
}

void SpanTapeChoice::left() {
  if (open_.size() > 1) open_.pop_back();
}

Tape trimmed(const Tape& tape) {
  // The innermost span of each draw, and the last draw that is not calm of each label in each span.
  const std::size_t outside = tape.spans.size();
  std::vector<std::size_t> span_of(tape.draws.size(), outside);
  for (std::size_t span = 0; span < tape.spans.size(); ++span)
    for (std::size_t at = tape.spans[span].begin; at < tape.spans[span].end; ++at) span_of[at] = span;
  std::map<std::pair<std::size_t, Label>, std::size_t> last;
  for (std::size_t at = 0; at < tape.draws.size(); ++at)
    if (tape.draws[at].value != 0) last[{span_of[at], tape.draws[at].label}] = at;
  std::map<Label, std::size_t> last_kept;  // spans at the top that happened
  for (std::size_t span = 0; span < tape.spans.size(); ++span)
    if (!tape.spans[span].left_out) last_kept[tape.spans[span].label] = span;

  Tape out;
  std::vector<std::size_t> moved(tape.draws.size() + 1);  // where a draw went
  for (std::size_t at = 0; at < tape.draws.size(); ++at) {
    moved[at] = out.draws.size();
    const auto found = last.find({span_of[at], tape.draws[at].label});
    if (found != last.end() && at <= found->second) out.draws.push_back(tape.draws[at]);
  }
  moved.back() = out.draws.size();
  for (std::size_t span = 0; span < tape.spans.size(); ++span) {
    ChoiceSpan kept = tape.spans[span];
    if (kept.left_out && kept.depth == 0) {
      const auto found = last_kept.find(kept.label);
      if (found == last_kept.end() || found->second < span) continue;
    }
    kept.begin = moved[kept.begin];
    kept.end = moved[kept.end];
    out.spans.push_back(kept);
  }
  return out;
}

}  // namespace rtrs::sim
