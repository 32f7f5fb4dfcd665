// Event loop of client and server: calls a driver until it is done, in the chosen wait mode.
#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Maximum time that closing a session may take.
constexpr Nanos kCloseTime = seconds(2);
// An idle program notices a signal within this time.
constexpr Nanos kNap = milliseconds(100);

// Calls the functions until done() returns true. step(now) polls, and returns true if it should be called
// again immediately. deadline() returns the time at which step() must be called next.
template <class Step, class Deadline, class Done>
void run_until(Fabric& fabric, Wait wait, Step step, Deadline deadline, Done done) {
  if (wait == Wait::busy) {
    while (!done()) step(asio::steady_now());
    return;
  }
  boost::asio::io_context context(1);
  const auto mode = wait == Wait::events ? asio::WaitMode::events : asio::WaitMode::busy_poll;
  asio::FabricPump pump(context, fabric, mode,
                        {[&](Nanos now) {
                           const bool again = step(now);
                           if (done()) context.stop();
                           return again;
                         },
                         deadline});
  pump.start();
  const auto work = boost::asio::make_work_guard(context);
  context.run();
}

}  // namespace rtrs::perf
