// Blocks signals while threads are started, so that the threads receive none.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace rtrs::net {

// Blocks all signals of the calling thread during its lifetime. A thread that is started during this time
// inherits the mask, so that signals go to the application's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rtrs::net
