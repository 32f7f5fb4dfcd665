// Loss of cached data when the server dies, and when a sync fails.
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "sim/disks/disk_book.hpp"
#include "sim/disks/disks.hpp"

namespace rtrs::sim {

void Disks::crash(Death death, Nanos now) {
  note([&] { return std::string("the server dies ") + (death == Death::host ? "with its host" : "alone"); });
  ++deaths_;
  if (death == Death::host) ++hosts_;
  for (DiskBook* book : books_) book->server_died(now);
  openings_.clear();
  sessions_ = 0;
  // The result of a failed sync may not have reached the server yet. Counts such a failure now, because it is
  // lost with the process.
  for (const StorageOp& op : storage_)
    if (op.sync_failed)
      each_part(disks_.at(exports_.at(op.what.handle).disk),
                [](auto&, BlockDisk& part) { ++part.sync_failures; });
  exports_.clear();
  storage_.clear();
  settling_.clear();
  reported_.clear();
  for (auto& [name, disk] : disks_) {
    disk.holders = 0;
    disk.foreign_sync_fails = disk.removal_planned = false;
    if (death == Death::host || disk.memory) revert(name, disk);
    // Only the dead process knew that a sync had failed. The next process reports the same cache instance as
    // before the failure.
    const bool unreported_damage = std::exchange(disk.failure_unreported, false);
    if (std::exchange(disk.sync_failures, 0) == 0 && !unreported_damage) continue;
    allow_alarm(disk);
    disk.book->forget_loss_reports(name);
    for (std::size_t sector = 0; sector < disk.forgotten.size(); ++sector)
      if (disk.forgotten[sector]) disk.lost_unknown_at[sector] = moment_;
  }
}

void Disks::revert(const std::string& name, BlockDisk& disk) {
  allow_alarm(disk);
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector) {
    std::uint64_t& content = disk.now[sector];
    const std::uint64_t before = content;
    if (disk.memory) content = disk.durable[sector] = 0;
    if (content != disk.durable[sector] && (disk.forgotten[sector] || choice_.draw(2, Label::workload) == 0))
      content = disk.durable[sector];
    disk.durable[sector] = content;
    disk.forgotten[sector] = false;
    if (content != before) disk.book->lost(name, sector);
    disk.book->reverted(name, sector, content);
  }
}

void Disks::exchange(const std::string& name) {
  each_part(at(name), [this](const std::string& part, BlockDisk& disk) {
    note([&] { return "another disk, which is empty, is " + part + " now"; });
    ++disk.exchanged;
    allow_alarm(disk);
    for (std::size_t sector = 0; sector < disk.now.size(); ++sector) {
      const bool kept = std::exchange(disk.now[sector], 0) == 0;
      disk.durable[sector] = 0;
      disk.forgotten[sector] = false;
      if (!kept) disk.book->lost(part, sector);
      disk.book->reverted(part, sector, 0);
    }
  });
}

void Disks::reshape(BlockDisk& disk) {
  static constexpr std::array<std::uint32_t, 4> kMost{1U << 16, 4, 0, 64};
  disk.most_discard = kMost[choice_.draw(kMost.size(), Label::closing)];
  if (choice_.draw(2, Label::closing) == 1) disk.fua = !disk.fua;
  const std::uint32_t other = disk.block == kDiskSector ? 2 * kDiskSector : kDiskSector;
  if (disk.now.size() % 2 == 0 && choice_.draw(2, Label::closing) == 1) disk.block = other;
}

void Disks::allow_alarm(BlockDisk& disk) {
  disk.may_alarm = true;
  disk.alarm_from = moment_;
}

void Disks::fail_sync_during_open(BlockDisk& disk) {
  disk.next_sync_fails = disk.fails_during_open = true;
  each_part(disk, [&disk](auto&, BlockDisk& part) {
    if (&part != &disk) part.removal_planned = true;
  });
}

// Imitates the Linux kernel after a failed writeback: the error is reported once, and the pages are marked
// clean, so that their data is lost.
void Disks::forget_unsynced(const std::string& name, Nanos now) {
  each_part(disks_.at(name),
            [&](const std::string& part, BlockDisk& disk) { forget_unsynced(part, disk, now); });
}

bool Disks::is_shared(const BlockDisk& disk) {
  unsigned parts = 0;
  each_part(disk, [&parts](auto&, auto&) { ++parts; });
  return parts > 1;
}

void Disks::forget_unsynced(const std::string& name, BlockDisk& disk, Nanos now) {
  disk.damaged_at = now;
  allow_alarm(disk);
  disk.book->note_loss(now);
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector) {
    if (disk.now[sector] == disk.durable[sector]) continue;
    disk.forgotten[sector] = true;
    disk.book->lost(name, sector);
  }
}

void Disks::fail_sync(const std::string& name, BlockServer* server, Nanos now) {
  note([&] { return "a sync of " + name + " by another session fails"; });
  forget_unsynced(name, now);
  BlockDisk& disk = disks_.at(name);
  each_part(disk, [](auto&, BlockDisk& part) { ++part.sync_failures; });
  if (server != nullptr) server->sync_failed(disk.export_id, EIO);
}

int Disks::sync(const std::string& name, Nanos now) {
  BlockDisk& disk = disks_.at(name);
  if (std::exchange(disk.next_sync_fails, false)) {
    note([&] { return "a sync of " + name + " fails"; });
    forget_unsynced(name, now);
    disk.fails_during_open = false;
    if (is_shared(disk)) each_part(disk, [](auto&, BlockDisk& part) { part.failure_unreported = true; });
    return EIO;
  }
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector)
    if (!disk.forgotten[sector]) disk.durable[sector] = disk.now[sector];
  return 0;
}

// A sync on a failing medium retries for a long time. Opening another disk of the same export waits until the
// sync gives up.
bool Disks::blocks_opening(const StorageOp& op, const Opening& opening) const {
  const BlockDisk& disk = disks_.at(exports_.at(op.what.handle).disk);
  const auto other = disks_.find(opening.disk);
  return op.what.opcode == Opcode::flush && disk.fails_during_open && other != disks_.end() &&
         other->second.export_id == disk.export_id;
}

}  // namespace rtrs::sim
