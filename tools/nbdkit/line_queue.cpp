#include "tools/nbdkit/line_queue.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/platform/address/signals_blocked.hpp"
#include "tools/lib/text/log_limiter.hpp"

namespace rtrs::nbdkit {

struct LineQueue::State {
  struct Line {
    bool important = false;
    std::string text;
  };
  Print print;
  Stamp stamp;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Line> lines;
  std::size_t left_out = 0;
  tools::LogLimiter limiter{static_cast<std::size_t>(Flood::count)};
  bool ending = false;
  bool ended = false;
};

LineQueue::LineQueue(Print print, std::chrono::milliseconds patience, Stamp stamp)
    : state_(std::make_shared<State>()), patience_(patience) {
  state_->print = std::move(print);
  state_->stamp = std::move(stamp);
  const net::SignalsBlocked blocked;
  std::thread(run, state_).detach();
}

LineQueue::~LineQueue() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, patience_, [this] { return state_->ended; });
}

void LineQueue::push(bool important, const std::string& line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() == kCapacity) {
    ++state_->left_out;
    return;
  }
  state_->lines.push_back({important, state_->stamp() + line});
  state_->changed.notify_all();
}

void LineQueue::push(Flood kind, const std::string& line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->limiter.allow(static_cast<std::size_t>(kind), asio::steady_now())) {
      // Wakes the thread, so that it later prints the number of suppressed lines.
      state_->changed.notify_all();
      return;
    }
  }
  push(true, line);
}

// Reports how many lines were suppressed in the time windows that have ended. When the thread ends, reports
// all windows. Empty if there is nothing to report.
std::string LineQueue::suppressed_summary(State& state) {
  const auto summary = state.ending ? state.limiter.rest() : state.limiter.due(asio::steady_now());
  if (!summary) return {};
  return std::to_string(summary->more) +
         (summary->kind == static_cast<std::size_t>(Flood::refused_export)
              ? " more connections to exports were rejected"
              : " more requests failed") +
         " within " + std::to_string(tools::LogLimiter::kWindow / seconds(1)) + " s";
}

void LineQueue::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    const auto news = [&] { return state->ending || !state->lines.empty(); };
    if (state->limiter.next_due() == kNever)
      state->changed.wait(lock, [&] { return news() || state->limiter.next_due() != kNever; });
    else
      state->changed.wait_for(lock, std::chrono::nanoseconds(state->limiter.next_due() - asio::steady_now()),
                              news);
    if (const std::string summary = suppressed_summary(*state); !summary.empty()) {
      lock.unlock();
      state->print(true, state->stamp() + summary);
      lock.lock();
      continue;
    }
    if (state->lines.empty() && !state->ending) continue;
    if (state->lines.empty()) break;
    const State::Line line = std::move(state->lines.front());
    state->lines.pop_front();
    const std::size_t left_out = state->lines.empty() ? std::exchange(state->left_out, 0) : 0;
    lock.unlock();
    state->print(line.important, line.text);
    if (left_out != 0)
      state->print(true, state->stamp() + std::to_string(left_out) +
                             " lines were dropped, because the log was not read in time");
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace rtrs::nbdkit
