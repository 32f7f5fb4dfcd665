// The server's half of a block world: what urtrsd does, over memory.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

namespace {

std::uint64_t pack(RequestId id) {
  return std::uint64_t{id.session} << 32 | std::uint64_t{id.chunk} << 16 | id.serial;
}

}  // namespace

void BlockWorld::poll_server() {
  std::array<ServerEvent, 64> events;
  const std::size_t count = server_->poll(*server_fabric_, now(), events);
  for (const ServerEvent& event : std::span(events).first(count)) server_event(event);
  PathNews news;
  while (server_->take_news(news)) {
  }
}

void BlockWorld::server_event(const ServerEvent& event) {
  switch (event.kind) {
    case ServerEvent::Kind::session_opened:
      sessions_[event.session].devices =
          std::make_unique<rnbd::ServerDevices>(rnbd::ServerOptions{generation_++, rnbd::kMaxGenerations});
      break;
    case ServerEvent::Kind::session_closed:
      feed(event.session, rnbd::SessionClosed{});
      sessions_.erase(event.session);
      break;
    case ServerEvent::Kind::request: {
      const std::uint64_t name = pack(event.id);
      sessions_[event.id.session].requests[name] = {event.id, event.data};
      rnbd::RequestArrived input;
      input.request = name;
      input.direction = event.direction == Direction::read ? wire::Direction::read : wire::Direction::write;
      input.data_len = static_cast<std::uint32_t>(event.data.size());
      input.user_header = event.user_header;
      feed(event.id.session, input);
      break;
    }
  }
}

template <class Input>
void BlockWorld::feed(std::uint16_t session, const Input& input) {
  rnbd::ServerActions actions;
  sessions_[session].devices->on(input, actions);
  for (const rnbd::ServerAction& action : actions)
    std::visit([this, session](const auto& one) { this->perform(session, one); }, action);
  // Only now: the devices take no input while their actions are being performed.
  while (!opened_.empty()) {
    const auto [opener, answer] = opened_.front();
    opened_.pop_front();
    feed(opener, answer);
  }
  while (!measured_.empty()) {
    const auto [asker, answer] = measured_.front();
    measured_.pop_front();
    feed(asker, answer);
  }
  tell_damage();
}

// Every session that has such a disk open, the one that met the error too: it knows already.
void BlockWorld::tell_damage() {
  while (!damaged_.empty()) {
    const std::string name = damaged_.front();
    damaged_.pop_front();
    for (const auto& [handle, device] : exports_) {
      if (device.disk != name) continue;
      rnbd::ServerActions none;
      for (auto& [index, session] : sessions_) session.devices->on(rnbd::SyncFailed{handle, EIO}, none);
    }
  }
}

void BlockWorld::perform(std::uint16_t, const rnbd::CacheDamaged& action) {
  const std::string& name = exports_.at(action.handle).disk;
  ++disks_.at(name).sync_failures;
  damaged_.push_back(name);
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
  allow_alarm(disk);
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector) {
    if (disk.now[sector] == disk.durable[sector]) continue;
    disk.forgotten[sector] = true;
    lose(name, sector);
  }
}

void BlockWorld::fail_sync(const std::string& name) {
  forget_unsynced(name);
  ++disks_.at(name).sync_failures;
  damaged_.push_back(name);
  tell_damage();
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

void BlockWorld::perform(std::uint16_t session, const rnbd::Storage& action) {
  StorageOp op;
  op.due = now() + draw_time(choice_, options_.storage, Label::storage_delay);
  op.session = session;
  op.what = action;
  if (action.opcode == Opcode::read || action.opcode == Opcode::write)
    op.data = sessions_[session].requests.at(action.request).second.first(action.bytes);
  storage_.push_back(op);
}

void BlockWorld::perform(std::uint16_t session, const rnbd::Respond& action) {
  const auto found = sessions_[session].requests.find(action.request);
  if (found == sessions_[session].requests.end()) return expect(false, "a request is answered once");
  const RequestId id = found->second.first;
  sessions_[session].requests.erase(found);
  server_->respond(*server_fabric_, now(), id, action.peer_errno);
}

void BlockWorld::perform(std::uint16_t session, const rnbd::WriteBack& action) {
  const auto data = sessions_[session].requests.at(action.request).second;
  rnbd::fill(action, data);
  for (const std::byte byte : data.subspan(action.length))
    expect(byte == std::byte{0}, "behind an answer nothing of the old memory goes out");
}

void BlockWorld::perform(std::uint16_t session, const rnbd::OpenExport& action) {
  rnbd::ExportOpened answer;
  answer.operation = action.operation;
  const auto found = disks_.find(std::string(action.name));
  if (found == disks_.end()) {
    answer.error = ENOENT;
  } else if (rnbd::is_writable(action.mode) && !found->second.writable) {
    answer.error = EPERM;
  } else {
    BlockDisk& disk = found->second;
    ++disk.holders;
    answer.handle = next_handle_++;
    exports_[answer.handle] = Export{found->first, rnbd::is_writable(action.mode)};
    answer.geometry.nsectors = disk.now.size();
    answer.geometry.max_discard_sectors = answer.geometry.max_write_zeroes_sectors = 1U << 16;
    answer.geometry.discard_granularity = kSector;
    answer.geometry.write_cache = answer.geometry.fua = disk.volatile_cache && !disk.memory;
    answer.instance = instance_of(disk);
  }
  opened_.emplace_back(session, answer);
}

void BlockWorld::perform(std::uint16_t session, const rnbd::CloseExport& action) {
  const auto found = exports_.find(action.handle);
  if (found == exports_.end()) return expect(false, "an export is closed once");
  for (const StorageOp& op : storage_)
    expect(op.session != session || op.what.handle != action.handle, "an export that is closed has no IO");
  --disks_[found->second.disk].holders;
  exports_.erase(found);
}

void BlockWorld::perform(std::uint16_t session, const rnbd::MeasureExport& action) {
  const auto found = exports_.find(action.handle);
  if (found == exports_.end()) return expect(false, "only what is open is measured");
  measured_.emplace_back(session,
                         rnbd::ExportMeasured{action.operation, disks_[found->second.disk].now.size()});
}

void BlockWorld::perform(std::uint16_t session, const rnbd::SessionDrained&) {
  expect(sessions_[session].requests.empty(), "a drained session has answered every request");
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
    feed(op.session, rnbd::StorageDone{op.what.operation, op.error, op.error != 0 && syncs});
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
        std::memcpy(op.data.data() + at * kSector + word, &content, sizeof content);
      continue;
    }
    std::uint64_t fresh = 0;
    if (op.what.opcode == Opcode::write) {
      std::memcpy(&fresh, op.data.data() + at * kSector, sizeof fresh);
      expect(fresh >> 56 == disk.number, "what is written to a disk is meant for it");
    }
    content = fresh;
    disk.forgotten[op.what.sector + at] = false;
    if (op.what.fua || !disk.volatile_cache) disk.durable[op.what.sector + at] = fresh;
  }
  return 0;
}

void BlockWorld::take_away(const std::string& name) {
  for (auto& [index, session] : sessions_) {
    std::uint32_t id = 0;
    bool held = false;
    for (const auto& device : *session.devices) {
      if (device.state != rnbd::ServerDevices::DeviceState::open || device.name.view() != name) continue;
      id = device.id;
      held = true;
    }
    if (held) feed(index, rnbd::DeviceForceClosed{id});
  }
}

}  // namespace rtrs::sim
