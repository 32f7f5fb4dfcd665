// Which thread polls the fabric of a session that many threads use. Decisions only: no lock, thread or clock.
//
// One thread polls at a time, and completes the operations of all. A thread whose operation is not complete
// polls when nobody else does, and sleeps otherwise. A poller whose own operation is complete leaves, and the
// turn passes to a sleeping thread. While no operation is under way the keeper polls, a thread of the session
// itself. It takes the turn only when no other thread has polled for a whole pause, so that IO one request at
// a time does not wake it.
#pragma once
#include <cstdint>

namespace rtrs::nbdkit {

// One operation that a thread waits for.
struct PollWaiter {
  bool done = false;   // the operation is complete
  bool polls = false;  // its thread was given the turn; never false again
  bool sleeps = false;
  // Of the sleeping ones, by age.
  PollWaiter* older = nullptr;
  PollWaiter* newer = nullptr;
};

class PollTurns {
 public:
  // Who is to be woken up.
  struct Next {
    PollWaiter* waiter = nullptr;  // has the turn now
    bool keeper = false;           // it was parked, and nobody polls
  };

  // The operation was started and is not complete. True: its thread polls now; false: it sleeps until
  // finish() or leave() names it.
  bool begin(PollWaiter&) noexcept;
  // The operation is complete. True: its thread sleeps and is to be woken up.
  bool finish(PollWaiter&) noexcept;
  // The poller's operation is complete. The turn passes to the newest operation: its completion comes last,
  // as a rule, so that turns change seldom.
  Next leave(PollWaiter&) noexcept;

  enum class Keeper : std::uint8_t {
    polls,   // it has the turn
    pauses,  // looks again after a pause
    parks,   // sleeps until leave() names it
  };
  Keeper keeper_looks() noexcept;
  // It has completed an operation: more will follow, and their threads poll themselves.
  bool keeper_is_to_leave() const noexcept { return keeper_served_; }
  Next keeper_leaves() noexcept;

 private:
  Next pass_on() noexcept;
  void remove(PollWaiter&) noexcept;

  PollWaiter* poller_ = nullptr;
  PollWaiter* newest_ = nullptr;  // of the sleeping ones
  bool keeper_polls_ = false;
  bool keeper_served_ = false;
  bool parked_ = false;
  std::uint64_t turns_ = 0;  // that began
  std::uint64_t seen_ = 0;   // of which the keeper knew when it looked last
};

}  // namespace rtrs::nbdkit
