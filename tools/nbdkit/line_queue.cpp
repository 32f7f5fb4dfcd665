#include "tools/nbdkit/line_queue.hpp"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace rtrs::nbdkit {

struct LineQueue::State {
  struct Line {
    bool important = false;
    std::string text;
  };
  Print print;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Line> lines;
  std::size_t left_out = 0;
  bool ending = false;
  bool ended = false;
};

LineQueue::LineQueue(Print print, std::chrono::milliseconds patience)
    : state_(std::make_shared<State>()), patience_(patience) {
  state_->print = std::move(print);
  // The thread takes no signals: they are for the program whose guest we are.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(run, state_).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LineQueue::~LineQueue() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, patience_, [this] { return state_->ended; });
}

void LineQueue::push(bool important, std::string line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() == kCapacity) {
    ++state_->left_out;
    return;
  }
  state_->lines.push_back({important, std::move(line)});
  state_->changed.notify_all();
}

void LineQueue::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ending || !state->lines.empty(); });
    if (state->lines.empty()) break;
    const State::Line line = std::move(state->lines.front());
    state->lines.pop_front();
    const std::size_t left_out = state->lines.empty() ? std::exchange(state->left_out, 0) : 0;
    lock.unlock();
    state->print(line.important, line.text);
    if (left_out != 0)
      state->print(
          true, std::to_string(left_out) + " more lines were left out, because they were not read in time");
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace rtrs::nbdkit
