// IO of an open device: checks each IO before it is passed to storage, waits for the size of the export, and
// waits for concurrent syncs. Waiting for syncs is needed because a kernel reports a failed writeback to only
// one sync per file description; any other sync that ends later succeeds although the data is lost.
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/rnbd/server_devices.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd {
namespace {

using namespace wire::linux_errno;
using wire::Refusal;
using wire::rnbd::Opcode;

int errno_of(Refusal why) noexcept {
  switch (why) {
    case Refusal::bad_opcode:
      return kEopnotsupp;
    case Refusal::bad_offset:
      return kEio;  // the same errno as for an IO beyond the device end
    default:
      return kEinval;
  }
}

}  // namespace

void ServerDevices::on_io(const DeviceRequest& input, ServerActions& actions) noexcept {
  const auto message = wire::rnbd::parse_io(input.header);
  if (!message) return respond(input.request, errno_of(message.why), actions);
  const wire::rnbd::Io& io = message.value;
  const std::uint16_t slot = slot_by_id(io.device_id);
  if (slot == kNone || devices_[slot].state != DeviceState::open) {
    return respond(input.request, kEnotconn, actions);
  }
  if (wire::rnbd::check_io_framing(io, input.direction, input.data_len) != Refusal::none) {
    return respond(input.request, kEinval, actions);
  }
  const Device& device = devices_[slot];
  if (io.unknown_flags != 0) ++unknown_flags_;
  const std::uint16_t error = check_io(device.geometry, is_writable(device.mode), io);
  if (error != 0 && error != kEio) return respond(input.request, error, actions);
  const bool flushes = io.opcode == Opcode::flush || io.preflush;
  if (flushes && device.sync_error != 0) return respond(input.request, device.sync_error, actions);
  const std::uint16_t operation = begin_operation(input, slot, error == 0 ? Kind::storage : Kind::late);
  if (operation == kNone) return respond(input.request, kEbusy, actions);
  operations_[operation].flushes = flushes;
  if (error == 0) return start_storage(operation, io, actions);
  // The IO is beyond the known end, but the export may have grown.
  operations_[operation].io = io;
  actions.push_back(MeasureExport{device.handle, operation});
}

void ServerDevices::start_storage(std::uint16_t operation, const wire::rnbd::Io& io,
                                  ServerActions& actions) noexcept {
  Operation& begun = operations_[operation];
  Device& device = devices_[begun.device];
  const bool flush = io.opcode == Opcode::flush;
  const bool changes = !flush && io.opcode != Opcode::read;
  begun.syncs = begun.flushes || (changes && io.fua);
  if (begun.syncs) {
    begun.sync = ++device.syncs_started;
    begun.failures = device.sync_failures;
    ++device.syncs_running;
  }
  actions.push_back(Storage{begun.request, device.handle, flush ? 0 : io.sector, flush ? 0 : io.size,
                            operation, version_ >= wire::rnbd::kProtoMajor ? io.prio : std::uint16_t{0},
                            io.opcode, changes && io.fua, !flush && io.preflush,
                            io.opcode == Opcode::write_zeroes && io.nounmap});
}

void ServerDevices::on(const ExportMeasured& input, ServerActions& actions) noexcept {
  RTRS_ASSERT(input.operation < operations_.size());
  Geometry& geometry = devices_[operations_[input.operation].device].geometry;
  const std::uint64_t block = geometry.logical_block_size / wire::rnbd::kSectorBytes;
  if (input.nsectors != 0 && input.nsectors < wire::rnbd::kMaxSectors) {
    geometry.nsectors = input.nsectors - input.nsectors % block;
  }
  finish_measured(input.operation, actions);
}

void ServerDevices::finish_measured(std::uint16_t operation, ServerActions& actions) noexcept {
  const Operation asked = operations_[operation];
  const Device& device = devices_[asked.device];
  if (asked.kind == Kind::late) {
    const std::uint16_t error = check_io(device.geometry, is_writable(device.mode), asked.io);
    if (error == 0) {
      operations_[operation].kind = Kind::storage;
      return start_storage(operation, asked.io, actions);
    }
    end_operation(operation);
    respond(asked.request, error, actions);
  } else if (asked.kind == Kind::failed) {
    end_operation(operation);
    respond(asked.request, kEio, actions);
  } else {
    RTRS_ASSERT(asked.kind == Kind::reopen);
    end_operation(operation);
    if (device.state == DeviceState::open) {
      answer_open(asked.request, asked.data_len, device, actions);
    } else {
      respond(asked.request, kEnotconn, actions);
    }
  }
  closing_if_idle(asked.device, actions);
}

void ServerDevices::closing_if_idle(std::uint16_t slot, ServerActions& actions) noexcept {
  if (devices_[slot].state == DeviceState::closing && devices_[slot].in_flight == 0) {
    finish_closing(slot, actions);
  }
  end_if_drained(actions);
}

void ServerDevices::on(const StorageDone& input, ServerActions& actions) noexcept {
  RTRS_ASSERT(input.operation < operations_.size() && operations_[input.operation].kind == Kind::storage);
  Operation& operation = operations_[input.operation];
  Device& device = devices_[operation.device];
  if (operation.syncs) --device.syncs_running;
  if (input.error == kEio && !input.sync_failed) {
    // The export may have shrunk. Requests beyond the new end are refused, because a write beyond the end of
    // a file would make the file grow again.
    operation.kind = Kind::failed;
    actions.push_back(MeasureExport{device.handle, input.operation});
    if (operation.syncs) settle(operation.device, actions);
    return;
  }
  const int error = input.error == kEnotconn ? kEio : input.error;
  if (error != 0 && input.sync_failed) {
    if (device.sync_error == 0) device.sync_error = to_wire_errno(error);
    ++device.sync_failures;
    actions.push_back(CacheDamaged{device.handle, to_wire_errno(error)});
  }
  const std::uint16_t slot = operation.device;
  if (error == 0 && operation.syncs) {
    operation.kind = Kind::settling;
    operation.sync = device.syncs_started;
    ++device.settling;
  } else {
    const std::uint64_t request = operation.request;
    end_operation(input.operation);
    respond(request, error, actions);
  }
  settle(slot, actions);
  closing_if_idle(slot, actions);
}

void ServerDevices::settle(std::uint16_t slot, ServerActions& actions) noexcept {
  const Device& device = devices_[slot];
  if (device.settling == 0) return;
  std::uint64_t oldest = ~std::uint64_t{0};
  for (const Operation& one : operations_) {
    if (device.syncs_running == 0) break;
    if (one.kind == Kind::storage && one.syncs && one.device == slot) oldest = std::min(oldest, one.sync);
  }
  for (std::uint16_t i = 0; i < operations_.size() && device.settling != 0; ++i) {
    const Operation& one = operations_[i];
    if (one.kind == Kind::settling && one.device == slot && one.sync < oldest) end_sync(i, actions);
  }
}

void ServerDevices::end_sync(std::uint16_t index, ServerActions& actions) noexcept {
  const Operation sync = operations_[index];
  Device& device = devices_[sync.device];
  --device.settling;
  end_operation(index);
  const bool failed = sync.flushes || sync.failures != device.sync_failures;
  respond(sync.request, failed ? device.sync_error : std::uint16_t{0}, actions);
}

void ServerDevices::on(const SyncFailed& input, ServerActions&) noexcept {
  for (Device& device : devices_) {
    const bool held = device.state == DeviceState::open || device.state == DeviceState::closing;
    if (held && device.handle == input.handle && device.sync_error == 0) {
      device.sync_error = input.error == 0 ? std::uint16_t{kEio} : to_wire_errno(input.error);
    }
  }
}

}  // namespace rtrs::rnbd
