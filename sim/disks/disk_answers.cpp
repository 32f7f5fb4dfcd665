// Storage that fails, or answers nothing for a while. Also the rule that the server answers a request exactly
// when the last operation that it waits for has ended.
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "sim/disks/disk_book.hpp"
#include "sim/disks/disks.hpp"

namespace rtrs::sim {

void Disks::fail_next_io(BlockDisk& disk, bool falls_silent) {
  static constexpr std::array<std::uint16_t, 6> kErrors{EIO, ENOSPC, ETIMEDOUT, EILSEQ, ENOTCONN, 524};
  disk.next_error = kErrors[choice_.draw(kErrors.size(), Label::disk)];
  disk.falls_silent = falls_silent;
}

// Plans no failures of flushes, because a failed flush damages the cache; see sync().
std::uint16_t Disks::planned_error(const StorageOp& op, BlockDisk& disk, Nanos now) {
  if (disk.next_error == 0 || op.what.opcode == Opcode::flush || op.what.preflush) return 0;
  if (std::exchange(disk.falls_silent, false)) {
    disk.silent_until = now + 4 * storage_time_;
    for (StorageOp& other : storage_)
      if (&disks_.at(exports_.at(other.what.handle).disk) == &disk)
        other.due = std::max(other.due, disk.silent_until);
  }
  return std::exchange(disk.next_error, 0);
}

bool Disks::is_sync(const block::StartStorage& what) {
  return what.opcode == Opcode::flush || what.preflush || what.fua;
}

// Called when an operation has left storage, just before the server gets its result.
void Disks::note_end(const StorageOp& op, bool all_handed_out) {
  answers_due_ = true;
  if (!is_sync(op.what)) return;
  for (SettlingSync& one : settling_) std::erase(one.others, op.serial);
  if (op.error == 0) {
    SettlingSync fresh{op.what.handle, {}, all_handed_out};
    for (const StorageOp& other : storage_)
      if (other.what.handle == op.what.handle && is_sync(other.what)) fresh.others.push_back(other.serial);
    settling_.push_back(std::move(fresh));
  }
  std::erase_if(settling_, [](const SettlingSync& one) { return one.known && one.others.empty(); });
}

void Disks::check_answers(const BlockServer& server) {
  for (const auto& [handle, one] : exports_)
    expect(!one.shrunk, "a server asks how large " + one.disk + " is when storage failed");
  if (!std::exchange(answers_due_, false)) return;
  unsigned seen = 0;
  for (std::uint16_t session = 0; seen < sessions_ && session < kMaxSessions; ++session) {
    const rnbd::ServerDevices* devices = server.devices(session);
    if (devices == nullptr) continue;
    ++seen;
    expect(devices->unanswered() == 0 || !storage_.empty() || !openings_.empty(),
           "a server answers every request when storage has answered everything");
    check_settling(*devices);
  }
}

void Disks::check_settling(const rnbd::ServerDevices& devices) {
  for (const rnbd::ServerDevices::Device& device : devices) {
    using State = rnbd::ServerDevices::DeviceState;
    if (device.state != State::open && device.state != State::closing) continue;
    unsigned waiting = 0;
    bool known = true;
    for (const SettlingSync& one : settling_) {
      if (one.handle != device.handle) continue;
      ++waiting;
      known = known && one.known;
    }
    expect(!known || device.settling == waiting,
           "a sync is answered once all syncs have ended that began before its success: " +
               std::to_string(device.settling) + " wait instead of " + std::to_string(waiting));
    if (!known && device.settling == 0)
      std::erase_if(settling_, [&device](const auto& one) { return one.handle == device.handle; });
  }
}

}  // namespace rtrs::sim
