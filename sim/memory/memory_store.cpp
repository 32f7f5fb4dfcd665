#include "sim/memory/memory_store.hpp"

#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/wire/linux_errno.hpp"

namespace rtrs::sim {

MemoryStore::~MemoryStore() {
  while (!open_.empty()) close(open_.begin()->first);
}

bool MemoryStore::serve(BlockServer& server, Fabric& fabric, Nanos now) {
  std::array<block::Action, 32> actions;
  const std::size_t count = server.poll(fabric, now, actions);
  for (const block::Action& action : std::span(actions).first(count)) {
    if (const auto* start = std::get_if<block::StartStorage>(&action)) {
      server.storage_done(fabric, now, start->id, carry_out(*open_.at(start->handle).disk, *start));
    } else if (const auto* asked = std::get_if<block::OpenExport>(&action)) {
      const block::ExportOpened opened = open(*asked);
      if (!server.export_opened(fabric, now, asked->id, opened) && opened.error == 0) close(opened.handle);
    } else if (const auto* done = std::get_if<block::CloseExport>(&action)) {
      close(done->handle);
    } else if (const auto* measure = std::get_if<block::MeasureExport>(&action)) {
      const std::size_t bytes = open_.at(measure->handle).disk->bytes.size();
      server.export_measured(fabric, now, measure->id, bytes / wire::rnbd::kSectorBytes);
    }
  }
  return count != 0;
}

block::ExportOpened MemoryStore::open(const block::OpenExport& asked) {
  block::ExportOpened opened;
  const bool writes = rnbd::is_writable(asked.mode);
  const auto found = disks_.find(std::string(asked.name));
  if (found == disks_.end()) {
    opened.error = wire::linux_errno::kEnoent;
    return opened;
  }
  MemoryDisk& disk = found->second;
  if (writes && disk.writers != 0) {
    opened.error = wire::linux_errno::kEperm;
    return opened;
  }
  ++disk.opens;
  disk.writers += writes ? 1 : 0;
  opened.handle = ++last_handle_;
  opened.export_id = static_cast<std::uint64_t>(std::distance(disks_.begin(), found));
  open_[opened.handle] = Open{&disk, writes};
  opened.instance = disk.instance;
  opened.geometry.nsectors = disk.bytes.size() / wire::rnbd::kSectorBytes;
  opened.geometry.logical_block_size = disk.logical_block_size;
  opened.geometry.max_discard_sectors = disk.max_discard_sectors;
  opened.geometry.max_write_zeroes_sectors = disk.max_write_zeroes_sectors;
  opened.geometry.write_cache = disk.write_cache;
  opened.geometry.fua = disk.fua;
  return opened;
}

void MemoryStore::close(std::uint64_t handle) {
  const auto found = open_.find(handle);
  found->second.disk->writers -= found->second.writes ? 1 : 0;
  open_.erase(found);
}

int MemoryStore::carry_out(MemoryDisk& disk, const block::StartStorage& operation) {
  using wire::rnbd::Opcode;
  if (operation.opcode == Opcode::flush) {
    ++disk.flushes;
    return 0;
  }
  if (disk.next_error != 0) return std::exchange(disk.next_error, 0);
  std::byte* const place = disk.bytes.data() + operation.sector * wire::rnbd::kSectorBytes;
  if (operation.opcode == Opcode::read) {
    std::memcpy(operation.data.data(), place, operation.bytes);
  } else if (operation.opcode == Opcode::write) {
    std::memcpy(place, operation.data.data(), operation.bytes);
    disk.fua_writes += operation.fua ? 1 : 0;
  } else {
    std::memset(place, 0, operation.bytes);
  }
  return 0;
}

}  // namespace rtrs::sim
