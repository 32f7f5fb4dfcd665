// Connection manager messages in transit.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/net/verbs/mock_net.hpp"

namespace rtrs::mock_net {

bool MockNet::allocation_fails() {
  if (asks_ == kNone) return false;
  return refuses_ || allocation_fails(asks_, *choice_);
}

int MockNet::resolve() {
  if (!choice_->fires(rates_.resolve_failed, Label::resolve_failed)) return 0;
  ++stats_.unresolved;
  return EHOSTUNREACH;
}

void MockNet::made(std::uint32_t identifier) {
  if (connecting_ == kNone) return;
  ends_[connecting_].identifier = identifier;
  by_identifier_[identifier] = connecting_;
}

void MockNet::joined(std::uint32_t identifier, std::uint32_t queue_pair) {
  const auto found = by_identifier_.find(identifier);
  if (found == by_identifier_.end()) return;
  ends_[found->second].queue_pair = queue_pair;
  by_queue_pair_[queue_pair] = found->second;
}

LinkId MockNet::link_between(std::size_t from, std::size_t to, Way& way) const noexcept {
  const auto [a, a_port] = adapters_[from];
  const auto [b, b_port] = adapters_[to];
  for (LinkId id = 0; id < links_.size(); ++id) {
    const LinkInfo& info = links_[id].info;
    const bool there =
        info.client == a && info.client_port == a_port && info.server == b && info.server_port == b_port;
    const bool back =
        info.client == b && info.client_port == b_port && info.server == a && info.server_port == a_port;
    if (!there && !back) continue;
    way = there ? Way::to_server : Way::to_client;
    return id;
  }
  return kNone;
}

// True if the message belongs to a connection whose traffic is dropped.
bool MockNet::is_swallowed(const Message& message) const noexcept {
  const auto holds = [this](std::uint32_t identifier) {
    const auto found = by_identifier_.find(identifier);
    return found != by_identifier_.end() && ends_[found->second].swallowed;
  };
  return holds(message.from) || holds(message.to);
}

void MockNet::sent(const Message& message) {
  using Kind = Message::Kind;
  ChoiceSource& choice = *choice_;
  const bool waits =
      message.kind == Kind::request || message.kind == Kind::reply || message.kind == Kind::disconnect;
  if (waits && !asks_already(message)) {
    asking_[next_asking_] = {message.from, message.kind};
    schedule(now_ + config_.cm_timeout, Event::Kind::ask_again, next_asking_++);
  }
  Way way = Way::to_server;
  const LinkId link = link_between(message.sender, message.receiver, way);
  if (link == kNone) return;
  std::uint32_t lost = rates_.disconnect_lost, late = rates_.disconnect_late;
  if (message.kind == Kind::request) lost = rates_.request_lost, late = rates_.request_late;
  if (message.kind == Kind::reply || message.kind == Kind::ready)
    lost = rates_.reply_lost, late = rates_.reply_late;
  if (message.kind == Kind::reject) lost = rates_.reject_lost, late = rates_.reject_late;
  if (is_cut(link, way) || is_swallowed(message) || choice.fires(lost, Label::cm_lost)) {
    ++stats_.cm_lost;
    return;
  }
  Nanos time = now_ + links_[link].latency + draw_time(choice, config_.cm_latency, Label::cm_latency);
  if (choice.fires(late, Label::cm_late)) {
    ++stats_.cm_late;
    time += draw_exponential(choice, config_.cm_late_hold / 10, config_.cm_late_hold, Label::cm_late);
  }
  messages_[next_message_] = message;
  schedule(time, Event::Kind::message, next_message_++);
}

void MockNet::on_message(std::uint32_t index) {
  const Message message = messages_.extract(index).mapped();
  Way way = Way::to_server;
  const LinkId link = link_between(message.sender, message.receiver, way);
  const Node& there = nodes_[adapters_[message.receiver].first];
  if (is_cut(link, way) || is_swallowed(message) || (!there.up && there.silent)) {
    ++stats_.cm_lost;
    return;
  }
  happened(16, static_cast<std::uint64_t>(message.kind), message.from, message.to);
  mock_hca::deliver(message);
}

bool MockNet::asks_already(const Message& message) const noexcept {
  return std::any_of(asking_.begin(), asking_.end(), [&](const auto& one) {
    return one.second.identifier == message.from && one.second.kind == message.kind;
  });
}

void MockNet::on_ask_again(std::uint32_t index) {
  Asking& one = asking_[index];
  const bool waits = mock_hca::waits_for_answer(one.identifier, one.kind);
  if (waits && ++one.attempts <= config_.cm_retries + 1) {
    mock_hca::resend_last(one.identifier);
    return schedule(now_ + config_.cm_timeout, Event::Kind::ask_again, index);
  }
  if (waits) mock_hca::unanswered(one.identifier);
  asking_.erase(index);
}

}  // namespace rtrs::mock_net
