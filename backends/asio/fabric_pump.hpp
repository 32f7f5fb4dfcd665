// Keeps a fabric and the driver on it going on a Boost.Asio io_context: sleeps until the fabric has news
// or a deadline comes (WaitMode::events), or polls without pause (WaitMode::busy_poll). Everything runs on
// the thread that runs the io_context, which must be one at a time.
//
// Its waits are no work of the io_context: run() returns unless somebody holds a work guard, as every
// operation of a session does. A program that serves others holds one itself.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/system/clock.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::asio {

enum class WaitMode : std::uint8_t {
  events,     // sleeps: the default
  busy_poll,  // lowest latency, one core always busy
};

// The `now` of a driver that runs on a pump.
using rtrs::steady_now;

class FabricPump {
 public:
  struct Hooks {
    std::function<bool(Nanos now)> step;   // polls the driver; true: call again at once
    std::function<Nanos()> next_deadline;  // of the driver
    // Whether nobody waits for anything: WaitMode::busy_poll sleeps then. Empty: never.
    std::function<bool()> idle = {};
  };

  // `patience`: how long it goes on asking after the last step that found something, before it sleeps
  // (WaitMode::events), where that pays (poll_habit.hpp). Between two questions other threads get the
  // processor.
  FabricPump(boost::asio::io_context&, Fabric&, WaitMode, Hooks, Nanos patience = 0);
  ~FabricPump();
  FabricPump(const FabricPump&) = delete;
  FabricPump& operator=(const FabricPump&) = delete;

  void start();
  void stop();
  // Call after anything that may have made a deadline earlier or a result ready outside of a step.
  void step_if_due();
  // Takes a step soon, whatever the deadlines: after anything else that changes what there is to do.
  void step_soon();

 private:
  struct State;
  std::shared_ptr<State> state_;  // outlives the pump while handlers are pending
};

}  // namespace rtrs::asio
