#include "tools/nbdkit/poll_turns.hpp"

#include <utility>

#include "core/base/assert.hpp"

namespace rtrs::nbdkit {

bool PollTurns::begin(PollWaiter& waiter) noexcept {
  if (poller_ == nullptr && !keeper_polls_) {
    poller_ = &waiter;
    waiter.polls = true;
    ++turns_;
    return true;
  }
  waiter.sleeps = true;
  waiter.older = newest_;
  if (newest_ != nullptr) newest_->newer = &waiter;
  newest_ = &waiter;
  return false;
}

bool PollTurns::finish(PollWaiter& waiter) noexcept {
  waiter.done = true;
  if (waiter.polls) return false;
  RTRS_ASSERT(waiter.sleeps);
  remove(waiter);
  keeper_served_ = keeper_polls_;
  return true;
}

PollTurns::Next PollTurns::leave(PollWaiter& waiter) noexcept {
  RTRS_ASSERT(poller_ == &waiter);
  poller_ = nullptr;
  return pass_on();
}

PollTurns::Keeper PollTurns::check_keeper() noexcept {
  const bool news = std::exchange(seen_, turns_) != turns_;
  if (news) return Keeper::pauses;
  if (poller_ != nullptr) {
    parked_ = true;
    return Keeper::parks;
  }
  keeper_polls_ = true;
  return Keeper::polls;
}

PollTurns::Next PollTurns::stop_keeper() noexcept {
  keeper_polls_ = keeper_served_ = false;
  ++turns_;
  return pass_on();
}

PollTurns::Next PollTurns::pass_on() noexcept {
  if (newest_ == nullptr) return {nullptr, std::exchange(parked_, false)};
  poller_ = newest_;
  remove(*poller_);
  poller_->polls = true;
  ++turns_;
  return {poller_, false};
}

void PollTurns::remove(PollWaiter& waiter) noexcept {
  (waiter.newer != nullptr ? waiter.newer->older : newest_) = waiter.older;
  if (waiter.older != nullptr) waiter.older->newer = waiter.newer;
  waiter.older = waiter.newer = nullptr;
  waiter.sleeps = false;
}

}  // namespace rtrs::nbdkit
