// Decides which thread polls the fabric of a session that many threads use. Pure: no lock, thread or clock.
//
// One thread at a time has the turn: it polls and completes the operations of all threads. A thread that
// waits for its operation polls if no other thread does, otherwise it sleeps. When the operation of the
// polling thread completes, it passes the turn to a sleeping thread. While no operation is in flight, the
// keeper polls, a thread of the session itself. It takes the turn only if no other thread has polled for a
// whole pause, so that consecutive single requests do not wake it.
#pragma once
#include <cstdint>

namespace rtrs::nbdkit {

// One operation that a thread waits for.
struct PollWaiter {
  bool done = false;   // the operation is complete
  bool polls = false;  // its thread got the turn to poll; never reset
  bool sleeps = false;
  // Neighbours in the list of sleeping waiters, ordered by age.
  PollWaiter* older = nullptr;
  PollWaiter* newer = nullptr;
};

class PollTurns {
 public:
  // Threads to wake.
  struct Next {
    PollWaiter* waiter = nullptr;  // waiter that has the turn now; nullptr: none
    bool keeper = false;           // wake the keeper, which was parked, because no thread polls
  };

  // Call it for a started, incomplete operation. Returns true if its thread must poll now. Otherwise the
  // thread must sleep until finish() or leave() selects it.
  bool begin(PollWaiter&) noexcept;
  // Call it when the operation is complete. Returns true if its thread sleeps and must be woken.
  bool finish(PollWaiter&) noexcept;
  // Call it when the operation of the polling thread is complete. Passes the turn to the newest operation,
  // which usually completes last, so that turns change rarely.
  Next leave(PollWaiter&) noexcept;

  enum class Keeper : std::uint8_t {
    polls,   // has the turn to poll
    pauses,  // must call check_keeper() again after a pause
    parks,   // must sleep until leave() or stop_keeper() selects it
  };
  Keeper check_keeper() noexcept;
  // True after the keeper completed an operation: more will follow, and their threads should poll.
  bool keeper_should_stop() const noexcept { return keeper_served_; }
  Next stop_keeper() noexcept;

 private:
  Next pass_on() noexcept;
  void remove(PollWaiter&) noexcept;

  PollWaiter* poller_ = nullptr;
  PollWaiter* newest_ = nullptr;  // newest sleeping waiter
  bool keeper_polls_ = false;
  bool keeper_served_ = false;
  bool parked_ = false;
  std::uint64_t turns_ = 0;  // number of turns begun
  std::uint64_t seen_ = 0;   // value of turns_ at the last check_keeper()
};

}  // namespace rtrs::nbdkit
