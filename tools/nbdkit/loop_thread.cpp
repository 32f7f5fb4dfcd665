#include "tools/nbdkit/loop_thread.hpp"

#include <csignal>

namespace rtrs::nbdkit {

LoopThread::LoopThread() {
  work_.emplace(context_.get_executor());
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { context_.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LoopThread::~LoopThread() {
  work_.reset();
  thread_.join();
}

}  // namespace rtrs::nbdkit
