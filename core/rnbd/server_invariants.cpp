#include <array>

#include "core/rnbd/server_devices.hpp"

namespace rtrs::rnbd {

namespace {

// Number of a device's operations by kind.
struct OperationCounts {
  std::uint32_t waiters = 0;
  std::uint32_t in_flight = 0;
  std::uint32_t syncs_running = 0;
  std::uint32_t settling = 0;
};

}  // namespace

bool ServerDevices::awaits(const ExportOpened& input) const noexcept {
  return input.operation < operations_.size() && operations_[input.operation].kind == Kind::open &&
         devices_[operations_[input.operation].device].state == DeviceState::opening;
}
bool ServerDevices::awaits(const StorageDone& input) const noexcept {
  return input.operation < operations_.size() && operations_[input.operation].kind == Kind::storage;
}
bool ServerDevices::awaits(const ExportMeasured& input) const noexcept {
  if (input.operation >= operations_.size()) return false;
  const Kind kind = operations_[input.operation].kind;
  return kind == Kind::late || kind == Kind::failed || kind == Kind::reopen;
}

const char* ServerDevices::broken_invariant() const noexcept {
  if (options_.generations == 0 || options_.generations > kMaxGenerations) return "generations are in bounds";
  std::array<OperationCounts, kMaxServerDevices> counts{};
  std::uint32_t used = 0;
  for (const Operation& operation : operations_) {
    if (operation.kind > Kind::settling || operation.io.opcode > wire::rnbd::Opcode::write_zeroes)
      return "an operation of an unknown kind";
    if (operation.kind == Kind::vacant) continue;
    if (operation.device >= devices_.size()) return "an operation belongs to a device";
    const bool opens = operation.kind == Kind::open || operation.kind == Kind::reopen;
    if (opens && operation.data_len < wire::rnbd::kOpenRspBytes) return "an OPEN has room for its answer";
    OperationCounts& of = counts[operation.device];
    ++used;
    ++(operation.kind == Kind::open || operation.kind == Kind::close ? of.waiters : of.in_flight);
    if (operation.kind == Kind::storage && operation.syncs) ++of.syncs_running;
    if (operation.kind == Kind::settling) ++of.settling;
  }
  if (used != unanswered_) return "each request that is not answered has an operation";
  std::size_t vacant = 0;
  for (std::uint16_t at = first_vacant_; at != kNone; at = operations_[at].next_vacant, ++vacant)
    if (at >= operations_.size() || operations_[at].kind != Kind::vacant || vacant >= operations_.size())
      return "the list of vacant operations is one";
  if (vacant + used != operations_.size()) return "each operation is used or vacant";
  for (std::uint16_t slot = 0; slot < devices_.size(); ++slot) {
    const Device& device = devices_[slot];
    const OperationCounts& of = counts[slot];
    if (device.state > DeviceState::closing || device.mode > wire::rnbd::AccessMode::migration)
      return "an invalid state or access mode";
    if (device.uses == 0 || device.uses > options_.generations ||
        device.id != make_slot_id(slot, options_.first_generation, device.uses - 1))
      return "an id names its slot and its use";
    const bool opened = device.state == DeviceState::open || device.state == DeviceState::closing;
    if (opened && !valid(device.geometry)) return "the geometry of an open device is valid";
    if (device.geometry.logical_block_size < wire::rnbd::kSectorBytes) return "a block is a sector at least";
    if (device.waiters != of.waiters || device.in_flight != of.in_flight || device.settling != of.settling ||
        device.syncs_running != of.syncs_running)
      return "a device counts its operations";
    if (device.state == DeviceState::vacant && of.waiters + of.in_flight != 0)
      return "nothing waits for a removed device";
  }
  return nullptr;
}

}  // namespace rtrs::rnbd
