#include "tools/urtrsd/storage/access_table.hpp"

#include <cerrno>
#include <utility>

namespace rtrs::daemon {

const char* to_string(ExportKind kind) noexcept {
  switch (kind) {
    case ExportKind::file:
      return "file";
    case ExportKind::block_device:
      return "block device";
    case ExportKind::memory:
      return "memory";
    case ExportKind::nbd:
      return "NBD server";
  }
  return "unknown";
}

Lease::Lease(Lease&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)), id_(other.id_), mode_(other.mode_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    table_ = std::exchange(other.table_, nullptr);
    id_ = other.id_;
    mode_ = other.mode_;
  }
  return *this;
}

void Lease::release() noexcept {
  if (AccessTable* table = std::exchange(table_, nullptr)) table->release(id_, mode_);
}

tl::expected<Lease, OpenError> AccessTable::acquire(const DeviceId& id, AccessMode mode,
                                                    const std::string& session, const std::string& device) {
  const std::uint32_t writing = writers(id);
  const std::uint32_t allowed = mode == AccessMode::read_write ? 1 : 2;
  if (mode != AccessMode::read_only && writing >= allowed) {
    return tl::unexpected(
        OpenError{EPERM, "session " + in_quotes(session) + " may not open device " + in_quotes(device) +
                             " as " + to_string(mode) + ": it already has " + std::to_string(writing) +
                             (writing == 1 ? " writer" : " writers") + ", the last one is session " +
                             in_quotes(devices_.at(id).last_writer)});
  }
  Users& users = devices_[id];
  if (mode == AccessMode::read_only) {
    ++users.readers;
  } else {
    ++users.writers;
    users.last_writer = session;
  }
  return Lease(*this, id, mode);
}

void AccessTable::release(const DeviceId& id, AccessMode mode) noexcept {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return;
  Users& users = found->second;
  --(mode == AccessMode::read_only ? users.readers : users.writers);
  if (users.readers == 0 && users.writers == 0) devices_.erase(found);
}

std::uint32_t AccessTable::readers(const DeviceId& id) const {
  const auto found = devices_.find(id);
  return found == devices_.end() ? 0 : found->second.readers;
}

std::uint32_t AccessTable::writers(const DeviceId& id) const {
  const auto found = devices_.find(id);
  return found == devices_.end() ? 0 : found->second.writers;
}

}  // namespace rtrs::daemon
