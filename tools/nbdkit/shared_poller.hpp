// Shares one source of events between many threads. A thread that waits for an operation polls the source for
// all threads (tools/nbdkit/poll_turns.hpp). While no thread waits, a thread of the poller, the keeper, does.
// With one operation in flight at a time, no thread switch is needed.
//
// Every call to the source is made under one mutex, which a polling thread releases only while it sleeps.
#pragma once
#include <semaphore.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/proto/ids.hpp"
#include "tools/nbdkit/poll_turns.hpp"

namespace rtrs::nbdkit {

class SharedPoller {
 public:
  // A source may call only finish() and announce() of the poller.
  class Source {
   public:
    virtual ~Source() = default;
    // Descriptor that is readable when step() has work; -1: none, so the source is polled without sleeping.
    virtual int wait_fd() const noexcept = 0;
    // Returns true if nothing is pending, so it is safe to sleep on wait_fd().
    virtual bool try_wait() = 0;
    virtual void step(Nanos now) = 0;
    // Time of the next step() even if wait_fd() is not readable. While no thread waits, it may be called up
    // to kPause later.
    virtual Nanos next_deadline() = 0;
  };

  // One operation, on the stack of the waiting thread.
  class Waiter : private PollWaiter {
   public:
    Waiter() { ::sem_init(&woken_, 0, 0); }
    ~Waiter() { ::sem_destroy(&woken_); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    friend class SharedPoller;
    sem_t woken_;
    Waiter* next_ = nullptr;  // next in the list of threads to wake
  };

  // Holds the mutex. Wakes threads after releasing the mutex, so that woken threads can take it at once.
  class Lock {
   public:
    explicit Lock(SharedPoller& poller) : poller_(poller), held_(poller.mutex_) {}
    ~Lock() {
      if (held_.owns_lock()) release();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    friend class SharedPoller;
    void release();
    void acquire() { held_.lock(); }
    SharedPoller& poller_;
    std::unique_lock<std::mutex> held_;
  };

  static constexpr Nanos kPause = milliseconds(5);

  // Starts the keeper, which blocks all signals because they belong to the host program. From here on
  // `source` must be called only under the lock.
  explicit SharedPoller(Source& source);
  // Requires that no thread waits.
  ~SharedPoller();
  SharedPoller(const SharedPoller&) = delete;
  SharedPoller& operator=(const SharedPoller&) = delete;

  // Sleeps or polls until finish(waiter) is called. The lock must have been held since the operation was
  // started. Releases the lock.
  void wait(Lock&, Waiter&);
  // Marks the operation as complete. Call it under the lock, exactly once.
  void finish(Waiter&);

  // For rare waits: releases the lock until announce() is called or `until` is reached.
  void wait_for_news(Lock&, Nanos until);
  void announce() { news_.notify_all(); }
  // Must be called under the lock after a change that may have made the next deadline earlier, except the
  // start of an operation with a waiter.
  void nudge();

 private:
  void keep();
  void keep_polling(Lock&);
  void sleep_until_event(Lock&);
  void step(Lock&);
  void wake_now(Lock&);
  void wake_next(const PollTurns::Next&);
  void wake_later(Waiter&);

  Source& source_;
  std::mutex mutex_;
  PollTurns turns_;
  Waiter* to_wake_ = nullptr;
  Nanos sleeps_until_ = 0;  // deadline of the sleeping poller; 0: it does not sleep
  bool kicked_ = false;     // kick_ is readable
  int kick_ = -1;
  bool stopping_ = false;
  std::condition_variable keeper_;
  std::condition_variable news_;
  std::thread thread_;
};

}  // namespace rtrs::nbdkit
