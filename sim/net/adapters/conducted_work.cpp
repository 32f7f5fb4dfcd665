// Queue pairs driven by a conductor.
#include <optional>
#include <utility>

#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

Carried carry_out(std::uint32_t number) {
  const std::scoped_lock lock(world().lock);
  const auto found = world().queue_pairs.find(number);
  if (found == world().queue_pairs.end()) return Carried::nothing;
  QueuePair& pair = *found->second;
  if (pair.state != IBV_QPS_RTS || pair.sends.empty() || awaits_rejection(pair)) return Carried::nothing;
  ibv_wc_status status = IBV_WC_SUCCESS;
  const Step made = carry_out(pair, status);
  if (made == Step::waits) return Carried::no_peer;
  if (made == Step::no_receive) return Carried::no_receive;
  pair.unheard.emplace_back(std::move(pair.sends.front()), status);
  pair.sends.pop_front();
  return made == Step::done ? Carried::done : Carried::refused;
}

void acknowledge(std::uint32_t number) {
  const std::scoped_lock lock(world().lock);
  const auto found = world().queue_pairs.find(number);
  if (found == world().queue_pairs.end() || found->second->state != IBV_QPS_RTS) return;
  QueuePair& pair = *found->second;
  while (!pair.unheard.empty()) {
    const auto [work, status] = std::move(pair.unheard.front());
    pair.unheard.pop_front();
    finish(pair, work, status);
    if (status != IBV_WC_SUCCESS) return fail(pair);
  }
}

void give_up(std::uint32_t number) {
  const std::scoped_lock lock(world().lock);
  const auto found = world().queue_pairs.find(number);
  if (found == world().queue_pairs.end() || found->second->state != IBV_QPS_RTS) return;
  QueuePair& pair = *found->second;
  end_sends(pair);
  std::optional<Work> first;
  if (!pair.unheard.empty()) {
    first = std::move(pair.unheard.front().first);
    pair.unheard.pop_front();
  } else if (!pair.sends.empty()) {
    first = std::move(pair.sends.front());
    pair.sends.pop_front();
  }
  if (!first) return;
  finish(pair, *first, IBV_WC_RETRY_EXC_ERR);
  fail(pair);
}

void break_queue_pair(std::uint32_t number, bool with_event) {
  const std::scoped_lock lock(world().lock);
  const auto found = world().queue_pairs.find(number);
  if (found == world().queue_pairs.end() || found->second->state != IBV_QPS_RTS) return;
  if (with_event) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_FATAL;
    event.element.qp = found->second;
    raise(*found->second->adapter, event);
  }
  fail(*found->second);
}

Outstanding outstanding(std::uint32_t number) {
  const std::scoped_lock lock(world().lock);
  const auto found = world().queue_pairs.find(number);
  if (found == world().queue_pairs.end()) return {};
  return {found->second->sends.size(), found->second->unheard.size(), found->second->state == IBV_QPS_RTS};
}

}  // namespace rtrs::mock_hca
