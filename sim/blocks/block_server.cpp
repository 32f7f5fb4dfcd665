// What the server of a block world keeps its exports on: disks in memory, and storage that takes its time.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

void BlockWorld::poll_server() {
  std::array<block::Action, 64> actions;
  const std::size_t room = std::min<std::size_t>(options_.actions, actions.size());
  const std::size_t count = server_->poll(*server_fabric_, now(), std::span(actions).first(room));
  for (const block::Action& action : std::span(actions).first(count))
    std::visit([this](const auto& one) { this->perform(one); }, action);
  PathEvent news;
  while (server_->take_news(news)) {
  }
  if (server_->next_deadline() == 0) return;  // some wait to be handed out
  for (const auto& [handle, one] : exports_)
    expect(!one.shrunk, "a server asks how large " + one.disk + " is when storage failed");
}

void BlockWorld::perform(const block::CacheDamaged& action) {
  BlockDisk& disk = disks_.at(exports_.at(action.handle).disk);
  ++disk.sync_failures;
  disk.damaged_at = now();
}

std::uint64_t BlockWorld::instance_of(const BlockDisk& disk) const {
  if (!disk.tells_instance) return 0;
  const std::uint64_t life = disk.memory ? deaths_ : hosts_;
  // Each process counts its failures from 0.
  const std::uint64_t process = disk.sync_failures == 0 ? 0 : deaths_ + 1;
  return life << 48 | std::uint64_t{disk.number} << 32 | process << 16 | disk.sync_failures;
}

// What the kernel does when it cannot write back: it says so once, and takes the pages for clean.
void BlockWorld::forget_unsynced(const std::string& name) {
  BlockDisk& disk = disks_.at(name);
  disk.damaged_at = now();
  allow_alarm(disk);
  note_loss();
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector) {
    if (disk.now[sector] == disk.durable[sector]) continue;
    disk.forgotten[sector] = true;
    lose(name, sector);
  }
}

void BlockWorld::fail_sync(const std::string& name) {
  forget_unsynced(name);
  BlockDisk& disk = disks_.at(name);
  ++disk.sync_failures;
  if (server_) server_->sync_failed(disk.number, EIO);
}

int BlockWorld::sync(const std::string& name) {
  BlockDisk& disk = disks_.at(name);
  if (std::exchange(disk.next_sync_fails, false)) {
    forget_unsynced(name);
    return EIO;
  }
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector)
    if (!disk.forgotten[sector]) disk.durable[sector] = disk.now[sector];
  return 0;
}

void BlockWorld::perform(const block::StartStorage& action) {
  const auto device = exports_.find(action.handle);
  if (device == exports_.end()) return expect(false, "IO reaches only what is open");
  expect(!device->second.taken_away, "storage sees nothing new of a device that was taken away");
  judge_request(action, device->second.disk);
  StorageOp op;
  op.due = now() + draw_time(choice_, options_.storage, Label::storage_delay);
  op.what = action;
  storage_.push_back(op);
}

void BlockWorld::perform(const block::OpenExport& action) {
  Opening opening{now(), action.id, std::string(action.name), action.mode};
  if (options_.opening == 0) return finish_opening(opening);
  opening.due = now() + draw_time(choice_, options_.opening, Label::storage_delay);
  openings_.push_back(opening);
}

void BlockWorld::openings_due() {
  for (std::size_t at = 0; at < openings_.size();) {
    if (openings_[at].due > now()) {
      ++at;
      continue;
    }
    const Opening opening = openings_[at];
    openings_.erase(openings_.begin() + static_cast<std::ptrdiff_t>(at));
    finish_opening(opening);
  }
}

void BlockWorld::finish_opening(const Opening& opening) {
  block::ExportOpened answer;
  const auto found = disks_.find(opening.disk);
  if (found == disks_.end()) {
    answer.error = ENOENT;
  } else if (rnbd::is_writable(opening.mode) && !found->second.writable) {
    answer.error = EPERM;
  } else {
    BlockDisk& disk = found->second;
    ++disk.holders;
    disk.opened_at = now();
    answer.handle = next_handle_++;
    answer.export_id = disk.number;
    exports_[answer.handle] = Export{found->first, rnbd::is_writable(opening.mode)};
    answer.geometry.nsectors = disk.now.size();
    answer.geometry.max_discard_sectors = answer.geometry.max_write_zeroes_sectors = 1U << 16;
    answer.geometry.discard_granularity = kSector;
    answer.geometry.write_cache = disk.volatile_cache && !disk.memory;
    answer.geometry.fua = answer.geometry.write_cache && disk.fua;
    answer.instance = instance_of(disk);
  }
  expect(server_->export_opened(*server_fabric_, now(), opening.id, answer), "an open waits for its export");
}

void BlockWorld::perform(const block::CloseExport& action) {
  const auto found = exports_.find(action.handle);
  if (found == exports_.end()) return expect(false, "an export is closed once");
  for (const StorageOp& op : storage_)
    expect(op.what.handle != action.handle, "an export that is closed has no IO");
  --disks_[found->second.disk].holders;
  exports_.erase(found);
}

void BlockWorld::perform(const block::MeasureExport& action) {
  const auto found = exports_.find(action.handle);
  if (found == exports_.end()) return expect(false, "only what is open is measured");
  found->second.shrunk = false;
  const std::uint64_t sectors = disks_[found->second.disk].now.size();
  expect(server_->export_measured(*server_fabric_, now(), action.id, sectors), "a measurement is waited for");
}

void BlockWorld::perform(const block::SessionClosed& action) {
  --sessions_;
  for (const StorageOp& op : storage_)
    expect(op.what.session != action.session, "a session that is closed has no IO");
}

void BlockWorld::storage_due() {
  while (!failed()) {
    const auto due = std::min_element(storage_.begin(), storage_.end(),
                                      [](const auto& a, const auto& b) { return a.due < b.due; });
    if (due == storage_.end() || due->due > now()) return;
    StorageOp op = *due;
    storage_.erase(due);
    const bool syncs = op.what.opcode == Opcode::flush || op.what.preflush;
    if (!op.acted) {
      op.error = act(op);
      op.acted = true;
      // A failure is told to one sync, and the success of another one may overtake its answer.
      if (syncs) op.due = now() + draw_time(choice_, options_.storage, Label::storage_delay);
      if (syncs) storage_.push_back(op);
      if (syncs) continue;
    }
    done_.insert({op.what.prio, op.what.sector});
    if (op.error == EIO && !syncs) exports_.at(op.what.handle).shrunk = true;
    expect(server_->storage_done(*server_fabric_, now(), op.what.id, op.error, op.error != 0 && syncs),
           "an operation waits for its result");
  }
}

int BlockWorld::act(StorageOp& op) {
  const auto found = exports_.find(op.what.handle);
  if (found == exports_.end()) {
    expect(false, "IO reaches only what is open");
    return EIO;
  }
  const Export& device = found->second;
  BlockDisk& disk = disks_[device.disk];
  ++disk.operations;
  if (op.what.opcode == Opcode::flush) return sync(device.disk);
  if (op.what.preflush) {
    if (const int error = sync(device.disk); error != 0) return error;
  }
  expect(op.what.opcode == Opcode::read || device.writable, "a device that is read-only does not change");
  if (op.what.sector + op.what.bytes / kSector > disk.now.size()) return EIO;  // it was cut short meanwhile
  for (std::size_t at = 0; at < op.what.bytes / kSector; ++at) {
    std::uint64_t& content = disk.now[op.what.sector + at];
    if (op.what.opcode == Opcode::read) {
      for (std::size_t word = 0; word < kSector; word += sizeof content)
        std::memcpy(op.what.data.data() + at * kSector + word, &content, sizeof content);
      continue;
    }
    std::uint64_t fresh = 0;
    if (op.what.opcode == Opcode::write) {
      std::memcpy(&fresh, op.what.data.data() + at * kSector, sizeof fresh);
      expect(fresh >> 56 == disk.number, "what is written to a disk is meant for it");
    }
    content = fresh;
    disk.forgotten[op.what.sector + at] = false;
    disk.lost_unknown_at[op.what.sector + at] = 0;
    if (op.what.fua || !disk.volatile_cache) disk.durable[op.what.sector + at] = fresh;
  }
  return 0;
}

void BlockWorld::replace_server() {
  if (!server_) return;
  server_->close(*server_fabric_, now());
  until("the server ends", [this] { return server_->closed(); });
  expect(sessions_ == 0 && exports_.empty() && storage_.empty() && openings_.empty(),
         "a server that has ended keeps nothing");
  crash_server(Death::process);
  start_server();
}

void BlockWorld::take_away(const std::string& name) {
  for (const auto& [handle, device] : exports_) {
    if (device.disk != name) continue;
    // What it has begun may still be handed out.
    const bool nothing_waits = server_->next_deadline() != 0;
    server_->force_close(*server_fabric_, now(), handle);
    if (nothing_waits) exports_.at(handle).taken_away = true;
    for (auto& [number, mapped] : mapped_)
      if (mapped.disk == name) disrupt(mapped);
    return;
  }
}

}  // namespace rtrs::sim
