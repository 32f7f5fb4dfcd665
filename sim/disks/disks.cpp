#include "sim/disks/disks.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/disks/disk_book.hpp"

namespace rtrs::sim {

const char* text_of(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::read:
      return "read";
    case Opcode::write:
      return "write";
    case Opcode::flush:
      return "flush";
    case Opcode::discard:
      return "discard";
    case Opcode::write_zeroes:
      return "write-zeroes";
    default:
      return "another operation";
  }
}

std::string errno_text(std::uint16_t error) {
  if (error == 0) return "success";
  const char* name = ::strerrorname_np(error);
  const std::string number = "errno " + std::to_string(error);
  return name == nullptr ? number : std::string(name) + " (" + number + ")";
}

Disks::Disks(ChoiceSource& choice, Nanos storage, Nanos opening, Fail fail)
    : choice_(choice), storage_time_(storage), opening_time_(opening), fail_(std::move(fail)) {}

BlockDisk& Disks::add(const std::string& name, std::uint64_t sectors, DiskBook& book) {
  BlockDisk& made = disks_[name];
  made.number = made.export_id = static_cast<std::uint32_t>(disks_.size());
  made.book = &book;
  made.now.assign(sectors, 0);
  made.durable = made.now;
  made.forgotten.assign(sectors, false);
  made.lost_unknown_at.assign(sectors, 0);
  if (std::find(books_.begin(), books_.end(), &book) == books_.end()) books_.push_back(&book);
  book.added(name, sectors);
  return made;
}

void Disks::perform(const Host& host, const block::Action& action) {
  std::visit([&](const auto& one) { perform(host, one); }, action);
}

void Disks::due(const Host& host) {
  operator_due(host);
  storage_due(host);
  openings_due(host);
}

Nanos Disks::next_time() const noexcept {
  Nanos next = kNever;
  for (const StorageOp& op : storage_) next = std::min(next, op.due);
  for (const Opening& one : openings_) next = std::min(next, one.due);
  for (const auto& [name, disk] : disks_)
    if (disk.foreign_sync_fails || disk.removal_planned) next = 0;
  return next;
}

void Disks::calm() {
  for (auto& [name, disk] : disks_) {
    disk.writable = true;
    disk.absent = 0;
    disk.next_error = 0;
    disk.next_sync_fails = disk.fails_during_open = disk.replaced_during_write = disk.foreign_sync_fails =
        disk.removal_planned = false;
  }
}

void Disks::refuse_opens(const std::string& name, std::uint16_t error, Nanos until) {
  note([&] { return name + " can no longer be opened: " + errno_text(error); });
  BlockDisk& disk = at(name);
  disk.absent = error;
  disk.absent_until = until;
}

std::uint16_t Disks::draw_open_errno(ChoiceSource& choice) {
  static constexpr std::array<std::uint16_t, 5> kErrors{ENOENT, EACCES, EBUSY, ENODEV, EIO};
  return kErrors[choice.draw(kErrors.size(), Label::late_disk)];
}

void Disks::operator_due(const Host& host) {
  for (auto& [name, disk] : disks_) {
    if (std::exchange(disk.foreign_sync_fails, false)) fail_sync(name, &host.server, host.now);
    if (std::exchange(disk.removal_planned, false)) take_away(host, name);
  }
}

void Disks::resize(const std::string& name, std::uint64_t sectors) {
  sectors -= sectors % (at(name).block / kDiskSector);
  note([&] { return name + " has " + std::to_string(sectors) + " sectors now"; });
  BlockDisk& disk = at(name);
  if (sectors < disk.now.size()) ++cuts_;
  disk.now.resize(sectors, 0);
  disk.durable.resize(sectors, 0);
  disk.forgotten.resize(sectors, false);
  disk.lost_unknown_at.resize(sectors, 0);
  disk.book->resized(name, sectors);
}

void Disks::take_away(const Host& host, const std::string& name) {
  for (const auto& [handle, device] : exports_) {
    if (device.disk != name) continue;
    // The server may still pass requests to storage that it created before the removal. If none is pending
    // now, every later request is a violation.
    const bool none_pending = host.server.next_deadline() != 0;
    host.server.force_close(host.fabric, host.clock, handle);
    if (none_pending) exports_.at(handle).taken_away = true;
    at(name).book->taken_away(name, host.now);
    return;
  }
}

void Disks::perform(const Host& host, const block::CacheDamaged& action) {
  each_part(disks_.at(exports_.at(action.handle).disk), [&host](auto&, BlockDisk& part) {
    ++part.sync_failures;
    part.failure_unreported = false;
    part.damaged_at = host.now;
  });
}

std::uint64_t Disks::instance_of(const BlockDisk& disk) const {
  if (!disk.reports_instance) return 0;
  const std::uint64_t life = disk.memory ? deaths_ : hosts_;
  // The instance includes the number of the server process, because each process counts its failures from 0.
  const std::uint64_t process = disk.sync_failures == 0 ? 0 : deaths_ + 1;
  return life << 48 | std::uint64_t{disk.exchanged} << 40 | std::uint64_t{disk.number} << 32 | process << 16 |
         disk.sync_failures;
}

void Disks::perform(const Host& host, const block::StartStorage& action) {
  const auto device = exports_.find(action.handle);
  if (device == exports_.end()) return expect(false, "IO reaches only what is open");
  // Each IO of a simulated application has a priority that identifies it.
  expect(action.opcode != Opcode::flush || action.prio != 0 ||
             host.server.devices(action.session)->version() < wire::rnbd::kProtoMajor,
         "a flush has the priority of its request");
  expect(!device->second.taken_away, "storage gets no new IO of a device that was closed");
  const std::string& name = device->second.disk;
  at(name).book->judge_request(action, name, host.now);
  StorageOp op;
  op.due = host.now + draw_time(choice_, storage_time_, Label::storage_delay);
  op.what = action;
  op.serial = ++serial_;
  op.due = std::max(op.due, at(name).silent_until);
  if (action.opcode == Opcode::flush && at(name).fails_during_open) {
    op.due = host.now + 3 * opening_time_;
    for (const Opening& opening : openings_)
      if (blocks_opening(op, opening)) op.due = opening.due;
  }
  storage_.push_back(op);
}

void Disks::perform(const Host& host, const block::OpenExport& action) {
  for (const RequestInFlight& one : host.server.in_flight(action.session))
    expect(one.waits != RequestInFlight::Waits::open || one.con == 0,
           "an OPEN comes over the service connection");
  Opening opening{host.now, action.id, std::string(action.name), action.mode};
  if (opening_time_ == 0) return finish_opening(host, opening);
  opening.due = host.now + draw_time(choice_, opening_time_, Label::storage_delay);
  for (StorageOp& op : storage_)
    if (blocks_opening(op, opening)) op.due = opening.due;
  openings_.push_back(opening);
}

void Disks::openings_due(const Host& host) {
  for (std::size_t at = 0; at < openings_.size();) {
    if (openings_[at].due > host.now) {
      ++at;
      continue;
    }
    const Opening opening = openings_[at];
    openings_.erase(openings_.begin() + static_cast<std::ptrdiff_t>(at));
    finish_opening(host, opening);
  }
}

void Disks::finish_opening(const Host& host, const Opening& opening) {
  block::ExportOpened answer;
  answers_due_ = true;
  const auto found = disks_.find(opening.disk);
  if (found == disks_.end()) {
    answer.error = ENOENT;
  } else if (found->second.absent != 0 && host.now < found->second.absent_until) {
    answer.error = found->second.absent;
  } else if (rnbd::is_writable(opening.mode) && !found->second.writable) {
    answer.error = EPERM;
  } else {
    BlockDisk& disk = found->second;
    ++disk.holders;
    disk.opened_at = host.now;
    answer.handle = next_handle_++;
    answer.export_id = disk.export_id;
    exports_[answer.handle] = Export{found->first, rnbd::is_writable(opening.mode)};
    answer.geometry = disk.geometry = geometry_of(disk);
    answer.instance = instance_of(disk);
    note_opening(disk, answer.instance);
  }
  expect(host.server.export_opened(host.fabric, host.clock, opening.id, answer),
         "an open waits for its export");
}

// Each field has a different value, so that swapped fields are detected.
rnbd::Geometry Disks::geometry_of(const BlockDisk& disk) {
  rnbd::Geometry geometry;
  geometry.nsectors = disk.now.size();
  geometry.logical_block_size = disk.block;
  geometry.physical_block_size = 4 * disk.block;
  geometry.max_hw_sectors = 2048;
  geometry.max_segments = 128;
  geometry.max_discard_sectors = disk.most_discard;
  geometry.max_write_zeroes_sectors = kMaxZeroes;
  geometry.discard_granularity = 2 * disk.block;
  geometry.discard_alignment = disk.block;
  geometry.write_cache = disk.volatile_cache && !disk.memory;
  geometry.fua = geometry.write_cache && disk.fua;
  return geometry;
}

void Disks::note_opening(BlockDisk& disk, std::uint64_t instance) {
  ++disk.openings;
  if (instance == 0) return;
  if (disk.instance != 0 && disk.instance != instance) ++disk.caches;
  disk.instance = instance;
}

void Disks::perform(const Host&, const block::CloseExport& action) {
  const auto found = exports_.find(action.handle);
  if (found == exports_.end()) return expect(false, "an export is closed once");
  for (const StorageOp& op : storage_)
    expect(op.what.handle != action.handle, "an export that is closed has no IO");
  --disks_.at(found->second.disk).holders;
  exports_.erase(found);
}

void Disks::perform(const Host& host, const block::MeasureExport& action) {
  const auto found = exports_.find(action.handle);
  if (found == exports_.end()) return expect(false, "only what is open is measured");
  found->second.shrunk = false;
  BlockDisk& disk = disks_.at(found->second.disk);
  ++disk.openings;  // opening a disk that is already open only measures its size
  // A file may end with a partial block.
  const std::uint64_t sectors = disk.now.size() + disk.block / kDiskSector - 1;
  expect(host.server.export_measured(host.fabric, host.clock, action.id, sectors),
         "the server has requested this measurement");
}

void Disks::perform(const Host&, const block::SessionClosed& action) {
  --sessions_;
  for (const StorageOp& op : storage_)
    expect(op.what.session != action.session, "a session that is closed has no IO");
}

// A storage engine may report an operation twice: when it is cancelled, and when it ends. Reports all results
// a second time; this must change nothing, although other operations may have begun in the meantime.
void Disks::repeat_results(const Host& host) {
  if (storage_.empty()) return;
  for (const block::OpId id : reported_)
    expect(!host.server.storage_done(host.fabric, host.clock, id, 0, false),
           "a result that comes a second time changes nothing");
  reported_.clear();
}

void Disks::storage_due(const Host& host) {
  repeat_results(host);
  while (true) {
    const auto due = std::min_element(storage_.begin(), storage_.end(),
                                      [](const auto& a, const auto& b) { return a.due < b.due; });
    if (due == storage_.end() || due->due > host.now) return;
    StorageOp op = *due;
    storage_.erase(due);
    const bool syncs = op.what.opcode == Opcode::flush || op.what.preflush;
    if (!op.acted) {
      op.error = act(op, host.now);
      op.acted = true;
      // Delays the result of a sync, because a failure is reported to one sync only, and the success of
      // another sync may overtake it. If several disks share the export, a failure is reported at once: until
      // then the server does not know that a sync failed.
      const bool at_once = op.sync_failed && is_shared(at(exports_.at(op.what.handle).disk));
      if (syncs && !at_once) op.due = host.now + draw_time(choice_, storage_time_, Label::storage_delay);
      // A failing medium retries for a long time.
      if (op.sync_failed && op.what.preflush && !at_once) op.due += 8 * storage_time_;
      if (syncs) storage_.push_back(op);
      if (syncs) continue;
    }
    const std::string& name = exports_.at(op.what.handle).disk;
    BlockDisk& disk = at(name);
    disk.book->served(op.what);
    if (disk.replaced_during_write && op.error == 0 && disk.book->is_part(op.what)) {
      disk.replaced_during_write = false;
      disk.foreign_sync_fails = disk.removal_planned = true;
    }
    if (op.error == EIO && !op.sync_failed) exports_.at(op.what.handle).shrunk = true;
    if (op.error != 0) disk.book->storage_failed(op.what, op.error);
    note_end(op, host.server.next_deadline() != 0);
    expect(host.server.storage_done(host.fabric, host.clock, op.what.id, op.error, op.sync_failed),
           "an operation waits for its result");
    reported_.push_back(op.what.id);
  }
}

int Disks::act(StorageOp& op, Nanos now) {
  const auto found = exports_.find(op.what.handle);
  if (found == exports_.end()) {
    expect(false, "IO reaches only what is open");
    return EIO;
  }
  const Export& device = found->second;
  note([&] {
    return "storage does IO " + std::to_string(op.what.prio) + ", " + text_of(op.what.opcode) +
           " of sectors " + std::to_string(op.what.sector) + "+" +
           std::to_string(op.what.bytes / kDiskSector) + " of " + device.disk + (op.what.fua ? ", FUA" : "") +
           (op.what.preflush ? ", flush before" : "");
  });
  BlockDisk& disk = disks_.at(device.disk);
  ++disk.operations;
  if (op.what.opcode == Opcode::flush || op.what.preflush) {
    const int error = sync(device.disk, now);
    op.sync_failed = error != 0;
    if (op.sync_failed || op.what.opcode == Opcode::flush) return error;
  }
  expect(op.what.opcode == Opcode::read || device.writable, "a device that is read-only does not change");
  if (const std::uint16_t error = planned_error(op, disk, now)) return error;
  if (op.what.sector + op.what.bytes / kDiskSector > disk.now.size())
    return EIO;  // the disk was shortened in the meantime
  for (std::size_t at = 0; at < op.what.bytes / kDiskSector; ++at) {
    std::uint64_t& content = disk.now[op.what.sector + at];
    if (op.what.opcode == Opcode::read) {
      for (std::size_t word = 0; word < kDiskSector; word += sizeof content)
        std::memcpy(op.what.data.data() + at * kDiskSector + word, &content, sizeof content);
      continue;
    }
    std::uint64_t fresh = 0;
    if (op.what.opcode == Opcode::write) {
      std::memcpy(&fresh, op.what.data.data() + at * kDiskSector, sizeof fresh);
      expect(fresh >> 56 == disk.number, "what is written to a disk is meant for it");
    }
    content = fresh;
    disk.forgotten[op.what.sector + at] = false;
    disk.lost_unknown_at[op.what.sector + at] = 0;
    if (op.what.fua || !disk.volatile_cache) disk.durable[op.what.sector + at] = fresh;
  }
  return 0;
}

}  // namespace rtrs::sim
