// Delivery of work requests, and failures of queue pairs.
#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "sim/net/verbs/mock_net.hpp"

namespace rtrs::mock_net {
namespace {

using mock_hca::Carried;

constexpr Nanos kReceiverNotReady = microseconds(640);

}  // namespace

QpId MockNet::make_end(NodeId node, ConKey key, LinkId link, Way way) {
  const auto id = static_cast<QpId>(ends_.size());
  End& end = ends_.emplace_back();
  end.node = node;
  end.key = key;
  end.link = link;
  end.way = way;
  nodes_[node].by_key[packed(key)] = id;
  return id;
}

bool MockNet::is_open(const End& end) const {
  if (end.over || end.failed || end.link == kNone) return false;
  return end.queue_pair == 0 || mock_hca::outstanding(end.queue_pair).alive;
}

QpInfo MockNet::qp_info(QpId id) const noexcept {
  const End& end = ends_[id];
  QpInfo info = info_of(end);
  info.alive = !end.over && !end.failed && end.link != kNone;
  if (info.alive && end.queue_pair != 0) {
    const bool ready = mock_hca::outstanding(end.queue_pair).alive;
    info.established = ready && (end.way == Way::to_client || end.connected);
    // A connecting client counts as alive although its queue pair cannot send yet.
    info.alive = ready || (end.way == Way::to_server && !end.connected);
  }
  return info;
}

bool MockNet::all_delivered(QpId id) const noexcept {
  if (ends_[id].queue_pair == 0) return true;
  const mock_hca::Outstanding left = mock_hca::outstanding(ends_[id].queue_pair);
  return left.waiting == 0 && left.unheard == 0;
}

void MockNet::work_waits(std::uint32_t queue_pair, std::size_t waiting) {
  const auto found = by_queue_pair_.find(queue_pair);
  if (found == by_queue_pair_.end()) return;
  End& end = ends_[found->second];
  while (end.due.size() < waiting) {
    const Nanos after = end.due.empty() ? now_ : end.due.back();
    end.due.push_back(std::max(after, now_ + latency_of(end, *choice_)));
  }
  schedule_carry(found->second, end.due.front());
}

void MockNet::schedule_carry(QpId id, Nanos not_before) {
  if (!std::exchange(ends_[id].carry_scheduled, true)) schedule(not_before, Event::Kind::carry, id);
}

void MockNet::on_carry(QpId id, ChoiceSource& choice) {
  ends_[id].carry_scheduled = false;
  for (;;) {
    End& end = ends_[id];
    if (end.due.empty()) return;
    if (end.due.front() > now_) return schedule_carry(id, end.due.front());
    if (is_stopped(end)) return stuck(id, choice);
    const Nanos starved = links_[end.link].starved[static_cast<unsigned>(end.way)];
    if (now_ < starved && end.key.con == 0) return schedule_carry(id, starved);
    if (choice.fires(rates_.qp_error, Label::qp_error)) return break_qp(id, choice);
    const Carried made = mock_hca::carry_out(end.queue_pair);
    if (made == Carried::nothing) return end.due.clear();
    if (made == Carried::no_peer) return stuck(id, choice);
    if (made == Carried::no_receive) {
      ++stats_.rnr_waits;
      return schedule_carry(id, now_ + kReceiverNotReady);
    }
    end.due.pop_front();
    ++stats_.messages;
    if (made == Carried::refused) ++stats_.refused;
    happened(19, id, static_cast<std::uint64_t>(made));
    if (!std::exchange(end.status_scheduled, true))
      schedule(now_ + latency_of(end, choice), Event::Kind::word, id);
  }
}

void MockNet::on_peer_status(QpId id, ChoiceSource& choice) {
  End& end = ends_[id];
  end.status_scheduled = false;
  const mock_hca::Outstanding left = mock_hca::outstanding(end.queue_pair);
  if (!left.alive || left.unheard == 0) return;
  if (receives_nothing(end)) return stuck(id, choice);
  happened(20, id, left.unheard);
  end.stuck_since = kNever;
  mock_hca::acknowledge(end.queue_pair);
}

void MockNet::go_on(QpId id, ChoiceSource& choice) {
  schedule_carry(id, now_);
  on_peer_status(id, choice);
}

void MockNet::on_budget(QpId id, ChoiceSource& choice) {
  ends_[id].budget_scheduled = false;
  if (ends_[id].stuck_since == kNever || ends_[id].hung) return;
  const Nanos over = ends_[id].stuck_since + ends_[id].budget;
  if (now_ < over) {
    ends_[id].budget_scheduled = true;
    return schedule(over, Event::Kind::budget, id);
  }
  // Retransmits one last time, and gives up if nothing arrives.
  on_peer_status(id, choice);
  const std::uint64_t before = stats_.messages;
  if (ends_[id].stuck_since == kNever) return;
  on_carry(id, choice);
  if (stats_.messages != before) {
    ends_[id].stuck_since = kNever;
    return;
  }
  const mock_hca::Outstanding left = mock_hca::outstanding(ends_[id].queue_pair);
  if (!left.alive || left.waiting + left.unheard == 0) {
    ends_[id].stuck_since = kNever;
    return;
  }
  ++stats_.retry_exceeded;
  happened(21, id, 0);
  mock_hca::give_up(ends_[id].queue_pair);
}

unsigned MockNet::still_arrives(std::uint32_t queue_pair, unsigned waiting) {
  const auto found = by_queue_pair_.find(queue_pair);
  if (found == by_queue_pair_.end() || is_stopped(ends_[found->second])) return 0;
  return choice_->draw(waiting + 1, Label::ghost_count);
}

void MockNet::break_qp(QpId id, ChoiceSource& choice) {
  choice_ = &choice;
  const End& end = ends_[id];
  if (end.queue_pair == 0 || end.over || !mock_hca::outstanding(end.queue_pair).alive) return;
  ++stats_.qp_errors;
  happened(22, id, 0);
  mock_hca::break_queue_pair(end.queue_pair, choice.draw(2, Label::qp_error_side) == 1);
}

bool MockNet::hang(QpId id, ChoiceSource& choice) {
  const End& end = ends_[id];
  if (end.hung || peer_of(id) == kNone) return false;
  if (!qp_info(id).established || !qp_info(end.peer).established) return false;
  make_hung(id, choice);
  for (const QpId one : {id, end.peer}) ends_[one].stuck_since = kNever;
  return true;
}

}  // namespace rtrs::mock_net
