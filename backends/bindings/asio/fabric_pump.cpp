#include "backends/bindings/asio/fabric_pump.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "backends/bindings/asio/background.hpp"
#include "backends/bindings/asio/poll_habit.hpp"

namespace rtrs::asio {

namespace {
constexpr unsigned kStepsInARow = 16;
// Pause between two steps of an idle driver whose fabric has no descriptor to wait on.
constexpr Nanos kIdlePause = milliseconds(1);
}  // namespace

struct FabricPump::State : std::enable_shared_from_this<State> {
  State(boost::asio::io_context& context_, Fabric& fabric_, WaitMode mode_, Hooks hooks_, Nanos patience_)
      : context(context_),
        fabric(fabric_),
        mode(mode_),
        hooks(std::move(hooks_)),
        patience(patience_),
        timer(context_) {}

  void start() {
    if (running) return;
    running = true;
    if (fabric.wait_fd() >= 0) descriptor.emplace(context, fabric.wait_fd());
    schedule();
  }

  void stop() {
    running = false;
    timer.cancel();
    if (descriptor) {
      descriptor->release();  // the fabric owns the descriptor
      descriptor.reset();
    }
  }

  void schedule() {
    if (scheduled || !running) return;
    scheduled = true;
    boost::asio::post(context, [self = shared_from_this()] { self->run(); });
  }

  void run() {
    scheduled = false;
    if (!running) return;
    // Each return to the io_context costs a system call, so several steps run in a row.
    bool again = true;
    for (unsigned steps = 0; again && steps < kStepsInARow; ++steps) {
      again = hooks.step(steady_now());
      if (!running) return;
    }
    if (again || (polls() && !(hooks.idle && hooks.idle()))) return schedule();
    if (patience > 0 && !polls() && habit.pays() && news_comes_soon()) return schedule();
    if (!running) return;
    if (descriptor) {
      if (!fabric.try_wait()) return schedule();
      wait_for_event();
    }
    wait_for_deadline();
  }

  bool polls() const { return mode == WaitMode::busy_poll || !descriptor; }

  bool news_comes_soon() {
    const Nanos end = steady_now() + patience;
    for (Nanos now = steady_now(); running && now < end; now = steady_now()) {
      // Yields the processor, because the thread or process that produces the next event may need it.
      std::this_thread::yield();
      if (!hooks.step(now)) continue;
      habit.found();
      return true;
    }
    habit.found_nothing();
    return false;
  }

  void wait_for_event() {
    if (waiting) return;
    waiting = true;
    wait_in_background(
        context,
        [this](auto handler) {
          descriptor->async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(handler));
        },
        [self = shared_from_this()](const boost::system::error_code& error) {
          self->waiting = false;
          if (!error) self->run_unless_scheduled();
        });
  }

  void wait_for_deadline() {
    Nanos deadline = hooks.next_deadline();
    if (!descriptor) deadline = std::min(deadline, steady_now() + kIdlePause);
    if (deadline == armed) return;
    armed = deadline;
    timer.cancel();
    if (deadline == kNever) return;
    timer.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline)));
    wait_in_background(
        context, [this](auto handler) { timer.async_wait(std::move(handler)); },
        [self = shared_from_this()](const boost::system::error_code& error) {
          if (error) return;
          self->armed = kNever;
          self->run_unless_scheduled();
        });
  }

  void run_unless_scheduled() {
    if (!scheduled) run();
  }

  boost::asio::io_context& context;
  Fabric& fabric;
  const WaitMode mode;
  const Hooks hooks;
  const Nanos patience;
  PollHabit habit;
  boost::asio::steady_timer timer;
  std::optional<boost::asio::posix::stream_descriptor> descriptor;
  Nanos armed = kNever;
  bool running = false;
  bool scheduled = false;
  bool waiting = false;
};

FabricPump::FabricPump(boost::asio::io_context& context, Fabric& fabric, WaitMode mode, Hooks hooks,
                       Nanos patience)
    : state_(std::make_shared<State>(context, fabric, mode, std::move(hooks), patience)) {}
FabricPump::~FabricPump() {
  state_->stop();
}
void FabricPump::start() {
  state_->start();
}
void FabricPump::stop() {
  state_->stop();
}

void FabricPump::step_if_due() {
  if (state_->polls() || state_->hooks.next_deadline() < state_->armed) state_->schedule();
}

void FabricPump::step_soon() {
  state_->schedule();
}

}  // namespace rtrs::asio
