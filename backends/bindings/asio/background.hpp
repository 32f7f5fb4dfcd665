// Waits that keep a session alive without keeping run() of the io_context running.
#pragma once
#include <boost/asio/io_context.hpp>
#include <utility>

namespace rtrs::asio {

// `start(handler)` starts one asynchronous wait, which is not counted as work of the context: run() returns
// while it is pending if nothing else is outstanding, and the handler runs in the next run(). Call it from a
// handler that the context runs, or while other work is outstanding, because a context whose work ends is
// stopped. Not for post(), whose work is counted elsewhere when the context has one thread.
template <class Start, class Handler>
void wait_in_background(boost::asio::io_context& context, Start start, Handler handler) {
  const auto executor = context.get_executor();
  start([executor, handler = std::move(handler)](const auto&... result) mutable {
    executor.on_work_started();  // the context takes this work off again when the handler has returned
    handler(result...);
  });
  executor.on_work_finished();
}

}  // namespace rtrs::asio
