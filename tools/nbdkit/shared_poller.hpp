// Shares one source of events between many threads. A thread that waits for an operation polls the source for
// all threads (tools/nbdkit/poll_turns.hpp). While no thread waits, the keeper polls, a thread that belongs
// to the poller. With one operation in flight at a time, no thread switch is needed.
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
  // Interface of a source. Its functions may call only finish() and announce() of the poller.
  class Source {
   public:
    virtual ~Source() = default;
    // Returns a descriptor that is readable when step() has work; -1: there is none, so the source is polled
    // without sleeping.
    virtual int wait_fd() const noexcept = 0;
    // Returns true if no event is pending, so that the poller may sleep on wait_fd().
    virtual bool try_wait() = 0;
    virtual void step(Nanos now) = 0;
    // Time at which step() must be called even if wait_fd() is not readable. While no thread waits, the call
    // may be late by up to kPause.
    virtual Nanos next_deadline() = 0;
  };

  // An operation. The object is on the stack of the thread that waits for it.
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

  // Holds the mutex. The destructor first releases the mutex and then wakes threads, so that they can lock it
  // immediately.
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

  // Starts the keeper. The keeper blocks all signals, because they belong to the host program. After this,
  // `source` must only be called under the lock.
  explicit SharedPoller(Source& source);
  // Precondition: no thread is waiting.
  ~SharedPoller();
  SharedPoller(const SharedPoller&) = delete;
  SharedPoller& operator=(const SharedPoller&) = delete;

  // Sleeps or polls until finish(waiter) is called. The caller must have held the lock since it started the
  // operation. Releases the lock.
  void wait(Lock&, Waiter&);
  // Marks the operation as complete. Call it under the lock, exactly once.
  void finish(Waiter&);

  // Releases the lock and waits until announce() is called or the time `until` is reached. Meant for rare
  // waits.
  void wait_for_news(Lock&, Nanos until);
  void announce() { news_.notify_all(); }
  // Call it under the lock after a change that may have made the next deadline earlier. Not needed after
  // starting an operation that has a waiter.
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
  Nanos sleeps_until_ = 0;  // deadline until which the poller sleeps; 0: it does not sleep
  bool kicked_ = false;     // kick_ is readable
  int kick_ = -1;
  bool stopping_ = false;
  std::condition_variable keeper_;
  std::condition_variable news_;
  std::thread thread_;
};

}  // namespace rtrs::nbdkit
