// Asynchronous waits that do not count as work of the io_context, so that its run() can return.
#pragma once
#include <boost/asio/io_context.hpp>
#include <utility>

namespace rtrs::asio {

// `start(handler)` starts one asynchronous wait that is not counted as work of the context. If nothing else
// is outstanding, run() returns while the wait is pending, and the handler runs in the next run(). Call from
// a handler that the context runs, or while other work is outstanding, because a context without work is
// stopped. Do not use for post(): a single-threaded context counts posted handlers elsewhere.
template <class Start, class Handler>
void wait_in_background(boost::asio::io_context& context, Start start, Handler handler) {
  const auto executor = context.get_executor();
  start([executor, handler = std::move(handler)](const auto&... result) mutable {
    executor.on_work_started();  // the context calls on_work_finished() after the handler
    handler(result...);
  });
  executor.on_work_finished();
}

}  // namespace rtrs::asio
