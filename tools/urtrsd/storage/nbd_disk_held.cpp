// Handling of commands that wait for a lost NBD server.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "tools/urtrsd/storage/nbd_disk.hpp"

namespace rtrs::daemon {

void NbdDisk::hold(NbdCommand& command, Nanos now) {
  command.wait_until = link_.wait_until(now, command.wait_until);
  if (command.wait_until == 0 || !waits_.load(std::memory_order_relaxed)) return finish(command, -ENOTCONN);
  held_until_ = std::min(held_until_, command.wait_until);
  held_.push(command);
}

void NbdDisk::fail_overdue(Nanos now) {
  const bool waits = waits_.load(std::memory_order_relaxed);
  if (waits && !told_wait_is_over_ && link_.wait_is_over(now)) {
    told_wait_is_over_ = true;
    tell_(described_ + ": its NBD server did not return in time; IO fails until it does");
  }
  if (held_.empty() || (waits && now < held_until_)) return;
  NbdCommands waiting = std::exchange(held_, {});
  held_until_ = kNever;
  while (NbdCommand* command = waiting.pop()) hold(*command, now);
}

// Sends the waiting commands in the order of their arrival. The server may already have executed those that
// were in flight. Repeating them is safe: they write the same data to the same blocks, and no later command
// was acknowledged.
void NbdDisk::send_held() {
  NbdCommands waiting = std::exchange(held_, {});
  held_until_ = kNever;
  while (NbdCommand* command = waiting.pop()) begin(*command);
}

}  // namespace rtrs::daemon
