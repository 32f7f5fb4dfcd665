// Decides which thread polls the fabric of a session that many threads use. Pure: no lock, thread or clock.
//
// One thread at a time has the turn: it polls and completes the operations of all threads. A thread that
// waits for its operation polls if no other thread does; otherwise it sleeps. When the operation of the
// polling thread completes, that thread passes the turn to a sleeping thread. While no operation is in
// flight, the keeper polls. The keeper is a thread that belongs to the session and not to a request. The
// keeper takes the turn only if no other thread has polled for a whole pause, so that a sequence of single
// requests does not wake the keeper.
#pragma once
#include <cstdint>

namespace rtrs::nbdkit {

// An operation for which a thread waits.
struct PollWaiter {
  bool done = false;   // the operation is complete
  bool polls = false;  // the waiting thread got the turn to poll; never reset
  bool sleeps = false;
  // Neighbours in the list of waiters whose threads sleep, ordered by age.
  PollWaiter* older = nullptr;
  PollWaiter* newer = nullptr;
};

class PollTurns {
 public:
  // The threads that the caller must wake.
  struct Next {
    PollWaiter* waiter = nullptr;  // waiter whose thread now has the turn; nullptr: none
    bool keeper = false;           // wake the keeper from its sleep, because no thread polls
  };

  // Call it after starting an operation that has not completed. Returns true if the calling thread must poll
  // now. Otherwise the thread must sleep until finish() or leave() selects it.
  bool begin(PollWaiter&) noexcept;
  // Call it when the operation has completed. Returns true if the thread of the operation sleeps and must be
  // woken.
  bool finish(PollWaiter&) noexcept;
  // Call it in the polling thread when the operation of that thread has completed. Passes the turn to the
  // thread of the newest operation, which usually completes last, so that the turn changes rarely.
  Next leave(PollWaiter&) noexcept;

  enum class Keeper : std::uint8_t {
    polls,   // the keeper has the turn to poll
    pauses,  // the keeper must call check_keeper() again after a pause
    parks,   // the keeper must sleep until leave() or stop_keeper() selects it
  };
  Keeper check_keeper() noexcept;
  // True after the keeper has completed an operation. The thread that waited for that operation will probably
  // start more, and should then poll itself.
  bool keeper_should_stop() const noexcept { return keeper_served_; }
  Next stop_keeper() noexcept;

 private:
  Next pass_on() noexcept;
  void remove(PollWaiter&) noexcept;

  PollWaiter* poller_ = nullptr;
  PollWaiter* newest_ = nullptr;  // newest waiter whose thread sleeps
  bool keeper_polls_ = false;
  bool keeper_served_ = false;
  bool parked_ = false;
  std::uint64_t turns_ = 0;  // number of turns that have begun
  std::uint64_t seen_ = 0;   // value of turns_ at the last check_keeper()
};

}  // namespace rtrs::nbdkit
