#include "tools/nbdkit/loop_thread.hpp"

#include "backends/platform/address/signals_blocked.hpp"

namespace rtrs::nbdkit {

LoopThread::LoopThread() {
  work_.emplace(context_.get_executor());
  const net::SignalsBlocked blocked;
  thread_ = std::thread([this] { context_.run(); });
}

LoopThread::~LoopThread() {
  work_.reset();
  thread_.join();
}

}  // namespace rtrs::nbdkit
