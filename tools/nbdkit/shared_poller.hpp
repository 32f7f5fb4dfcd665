// One source of events that many threads use and that none of them owns: whoever waits for an operation polls
// it for all (tools/nbdkit/poll_turns.hpp), and a thread of the poller, the keeper, while nobody waits. So an
// operation takes no switch of threads as long as one is under way at a time.
//
// Every call to the source happens under one mutex, which a poller gives up only while it sleeps.
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
  // Its calls may call finish() and announce(), nothing else of the poller.
  class Source {
   public:
    virtual ~Source() = default;
    // Readable when step() has something to do; -1: there is none, and the source is asked without sleep.
    virtual int wait_fd() const noexcept = 0;
    // True when it is safe to sleep on wait_fd(): nothing is pending.
    virtual bool try_wait() = 0;
    virtual void step(Nanos now) = 0;
    // Of step(), also when wait_fd() is not readable. A deadline that comes while nobody waits may be served
    // kPause later.
    virtual Nanos next_deadline() = 0;
  };

  // One operation. Lives on the stack of the thread that waits for it.
  class Waiter : private PollWaiter {
   public:
    Waiter() { ::sem_init(&woken_, 0, 0); }
    ~Waiter() { ::sem_destroy(&woken_); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    friend class SharedPoller;
    sem_t woken_;
    Waiter* next_ = nullptr;  // to be woken up
  };

  // Holds the mutex. Threads are woken up when it is free, so that they do not run into it.
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

  // The keeper takes no signals: they are for the program whose guest we are. `source` must not be asked by
  // others without the lock from here on.
  explicit SharedPoller(Source& source);
  // Nobody may wait any more.
  ~SharedPoller();
  SharedPoller(const SharedPoller&) = delete;
  SharedPoller& operator=(const SharedPoller&) = delete;

  // Sleeps or polls until finish(waiter) was called; call it under the lock under which the operation was
  // started. The lock is free afterwards.
  void wait(Lock&, Waiter&);
  // Under the lock: the operation is complete. Exactly once.
  void finish(Waiter&);

  // For waits that are rare: gives the lock up until announce() was called or `until` has come.
  void wait_for_news(Lock&, Nanos until);
  void announce() { news_.notify_all(); }
  // Under the lock, after anything but an operation with a waiter that may have made the next deadline
  // earlier.
  void nudge();

 private:
  void keep();
  void keep_polling(Lock&);
  void doze(Lock&);
  void step(Lock&);
  void wake_now(Lock&);
  void hand_on(const PollTurns::Next&);
  void wake_later(Waiter&);

  Source& source_;
  std::mutex mutex_;
  PollTurns turns_;
  Waiter* to_wake_ = nullptr;
  Nanos sleeps_until_ = 0;  // the poller, outside the mutex; 0: it does not sleep
  bool kicked_ = false;     // kick_ is readable
  int kick_ = -1;
  bool stopping_ = false;
  std::condition_variable keeper_;
  std::condition_variable news_;
  std::thread thread_;
};

}  // namespace rtrs::nbdkit
