// Runs a driver until it is done, in any wait mode.
#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Time for a session to close.
constexpr Nanos kCloseTime = seconds(2);
// Maximum delay for noticing a signal while idle.
constexpr Nanos kNap = milliseconds(100);

// step(now) polls and returns true to be called again at once. deadline() returns the latest time of the next
// step. Returns when done() is true.
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
