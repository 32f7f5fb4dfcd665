// Runs a fabric and its driver on a Boost.Asio io_context. Sleeps until the fabric has events or a deadline
// expires (WaitMode::events), or polls without pause (WaitMode::busy_poll). Everything runs on the thread
// that runs the io_context; only one thread may run it at a time.
//
// The waits do not count as work of the io_context: run() returns unless a work guard exists, as it does
// during every operation of a session. A server program must hold one itself.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/platform/system/clock.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::asio {

enum class WaitMode : std::uint8_t {
  events,     // sleeps: the default
  busy_poll,  // lowest latency, one core always busy
};

// Clock for the `now` of a driver that runs on a pump.
using platform::steady_now;

class FabricPump {
 public:
  struct Hooks {
    std::function<bool(Nanos now)> step;   // polls the driver; true: call again at once
    std::function<Nanos()> next_deadline;  // next deadline of the driver
    // Returns true if no operation is pending: WaitMode::busy_poll then sleeps. Empty: never idle.
    std::function<bool()> idle = {};
  };

  // `patience`: after a step that found something, the pump polls for this time (ns) before it sleeps, if
  // polling pays (poll_habit.hpp). Only for WaitMode::events. The pump yields the processor between two
  // polls.
  FabricPump(boost::asio::io_context&, Fabric&, WaitMode, Hooks, Nanos patience = 0);
  ~FabricPump();
  FabricPump(const FabricPump&) = delete;
  FabricPump& operator=(const FabricPump&) = delete;

  void start();
  void stop();
  // Call after a change outside of a step if the change may have moved the next deadline forward or completed
  // a result. Schedules a step if the pump would otherwise sleep beyond the deadline.
  void step_if_due();
  // Schedules a step soon, regardless of deadlines. Call after any other change that creates work.
  void step_soon();

 private:
  struct State;
  std::shared_ptr<State> state_;  // outlives the pump while handlers are pending
};

}  // namespace rtrs::asio
