#include "core/rnbd/server_devices.hpp"

#include <algorithm>
#include <array>

#include "core/base/assert.hpp"
#include "core/base/fingerprint.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd {
using namespace wire::linux_errno;
using wire::Refusal;
using wire::rnbd::MsgType;

// True if a SESS_INFO or OPEN arrives in a READ with room for its response.
bool ServerDevices::is_query(const DeviceRequest& input, std::size_t answer_bytes) noexcept {
  return input.direction == Direction::read && input.data_len >= answer_bytes;
}

void ServerDevices::respond(std::uint64_t request, int error, ServerActions& actions) noexcept {
  actions.push_back(Respond{request, to_wire_errno(error)});
}

void fill(const WriteBack& answer, wire::MutableBytes data) noexcept {
  const std::size_t length = std::min(answer.response.size(), data.size());
  std::copy_n(answer.response.units.begin(), length, data.begin());
  wire::store_zeros(data.subspan(length));
}

unsigned ServerDevices::open_count() const noexcept {
  return static_cast<unsigned>(
      std::count_if(begin(), end(), [](const Device& device) { return device.state == DeviceState::open; }));
}

void ServerDevices::on(const DeviceRequest& input, ServerActions& actions) noexcept {
  if (session_closed_) return respond(input.request, kEnotconn, actions);
  const auto type = wire::rnbd::message_type(input.header);
  if (!type) return respond(input.request, kEinval, actions);
  switch (type.value) {
    case MsgType::io:
      return on_io(input, actions);
    case MsgType::sess_info:
      return on_sess_info(input, actions);
    case MsgType::open:
      return on_open(input, actions);
    case MsgType::close:
      return on_close(input, actions);
    case MsgType::sess_info_rsp:
    case MsgType::open_rsp:
      break;
  }
  respond(input.request, kEinval, actions);
}

void ServerDevices::on_sess_info(const DeviceRequest& input, ServerActions& actions) noexcept {
  const auto message = wire::rnbd::parse_sess_info(input.header);
  if (!message || !is_query(input, wire::rnbd::kSessInfoRspBytes)) {
    return respond(input.request, kEinval, actions);
  }
  version_ = wire::rnbd::negotiated_version(message.value.version);
  std::array<std::byte, wire::rnbd::kSessInfoRspBytes> answer{};
  RTRS_ASSERT(encode(wire::rnbd::SessInfoRsp{version_}, answer) == answer.size());
  actions.push_back(WriteBack{input.request, answer});
  respond(input.request, 0, actions);
}

void ServerDevices::on_open(const DeviceRequest& input, ServerActions& actions) noexcept {
  const auto message = wire::rnbd::parse_open(input.header);
  if (!message || !is_query(input, wire::rnbd::kOpenRspBytes)) {
    return respond(input.request, kEinval, actions);
  }
  const std::uint16_t slot = slot_by_name(message.value.device_name);
  if (slot == kNone) return open_new(input, message.value, actions);
  if (is_writable(message.value.access_mode) && !is_writable(devices_[slot].mode)) {
    return respond(input.request, kEperm, actions);
  }
  open_known(input, slot, actions);
}

void ServerDevices::open_new(const DeviceRequest& input, const wire::rnbd::Open& open,
                             ServerActions& actions) noexcept {
  const std::uint16_t slot = vacant_slot();
  if (slot == kNone) return respond(input.request, kEnospc, actions);
  if (begin_operation(input, slot, Kind::open) == kNone) return respond(input.request, kEbusy, actions);
  Device& device = devices_[slot];
  const bool must_wait = is_name_closing(open.device_name);
  device.name = open.device_name;
  device.mode = open.access_mode;
  device.geometry = Geometry{};
  device.handle = 0;
  device.instance = 0;
  device.sync_error = 0;
  device.sync_failures = 0;
  device.doomed = false;
  device.id = make_slot_id(slot, options_.first_generation, device.uses);
  ++device.uses;
  device.state = DeviceState::queued;
  // If a device of that name is closing, its export holds the access right until it is closed.
  if (!must_wait) start_opening(slot, actions);
}

void ServerDevices::open_known(const DeviceRequest& input, std::uint16_t slot,
                               ServerActions& actions) noexcept {
  const Device& device = devices_[slot];
  if (device.state == DeviceState::open) {
    const std::uint16_t operation = begin_operation(input, slot, Kind::reopen);
    if (operation == kNone) return respond(input.request, kEbusy, actions);
    actions.push_back(MeasureExport{device.handle, operation});
    return;
  }
  if (device.waiters >= kMaxDeviceWaiters || begin_operation(input, slot, Kind::open) == kNone) {
    respond(input.request, kEbusy, actions);
  }
}

void ServerDevices::start_opening(std::uint16_t slot, ServerActions& actions) noexcept {
  for (std::uint16_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    if (operation.kind != Kind::open || operation.device != slot) continue;
    Device& device = devices_[slot];
    device.state = DeviceState::opening;
    actions.push_back(OpenExport{operation.request, i, device.mode, device.name.view()});
    return;
  }
  RTRS_ASSERT(false);
}

void ServerDevices::on(const ExportOpened& input, ServerActions& actions) noexcept {
  RTRS_ASSERT(input.operation < operations_.size() && operations_[input.operation].kind == Kind::open);
  const std::uint16_t slot = operations_[input.operation].device;
  Device& device = devices_[slot];
  RTRS_ASSERT(device.state == DeviceState::opening);
  int error = input.error;
  if (error == 0 && !valid(input.geometry)) error = kEio;
  if (error == 0 && (device.doomed || session_closed_)) error = kEnotconn;
  if (input.error == 0 && error != 0) actions.push_back(CloseExport{input.handle});
  if (error == 0) {
    device.state = DeviceState::open;
    device.handle = input.handle;
    device.geometry = input.geometry;
    device.instance = input.instance;
  }
  answer_waiters(slot, to_wire_errno(error), actions);
  if (error != 0) vacate(slot, actions);
  end_if_drained(actions);
}

void ServerDevices::answer_open(std::uint64_t request, std::uint32_t data_len, const Device& device,
                                ServerActions& actions) noexcept {
  RTRS_ASSERT(data_len >= wire::rnbd::kOpenRspBytes);
  std::array<std::byte, wire::rnbd::kOpenRspBytes> answer{};
  RTRS_ASSERT(encode(make_open_rsp(device.id, device.geometry, device.instance), answer) == answer.size());
  actions.push_back(WriteBack{request, answer});
  respond(request, 0, actions);
}

void ServerDevices::answer_waiters(std::uint16_t slot, std::uint16_t error, ServerActions& actions) noexcept {
  for (std::uint16_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    if (operation.device != slot || (operation.kind != Kind::open && operation.kind != Kind::close)) continue;
    if (operation.kind == Kind::open && error == 0) {
      answer_open(operation.request, operation.data_len, devices_[slot], actions);
    } else {
      respond(operation.request, error, actions);
    }
    end_operation(i);
  }
}

void ServerDevices::on_close(const DeviceRequest& input, ServerActions& actions) noexcept {
  const auto message = wire::rnbd::parse_close(input.header);
  if (!message || input.direction != Direction::write || input.data_len != 0) {
    return respond(input.request, kEinval, actions);
  }
  const std::uint16_t slot = slot_by_id(message.value.device_id);
  // Closing a device that is not open succeeds without effect.
  if (slot == kNone || devices_[slot].state == DeviceState::queued ||
      devices_[slot].state == DeviceState::opening) {
    return respond(input.request, 0, actions);
  }
  if (devices_[slot].waiters >= kMaxDeviceWaiters || begin_operation(input, slot, Kind::close) == kNone) {
    return respond(input.request, kEbusy, actions);
  }
  if (devices_[slot].state == DeviceState::open) start_closing(slot, actions);
}

void ServerDevices::start_closing(std::uint16_t slot, ServerActions& actions) noexcept {
  devices_[slot].state = DeviceState::closing;
  if (devices_[slot].in_flight == 0) finish_closing(slot, actions);
}

void ServerDevices::finish_closing(std::uint16_t slot, ServerActions& actions) noexcept {
  actions.push_back(CloseExport{devices_[slot].handle});
  answer_waiters(slot, 0, actions);
  vacate(slot, actions);
}

void ServerDevices::vacate(std::uint16_t slot, ServerActions& actions) noexcept {
  Device& device = devices_[slot];
  RTRS_ASSERT(device.in_flight == 0 && device.waiters == 0);
  device.state = DeviceState::vacant;
  const std::uint16_t next = slot_by_name(device.name);
  if (next == kNone || devices_[next].state != DeviceState::queued || is_name_closing(device.name)) return;
  if (!session_closed_) return start_opening(next, actions);
  answer_waiters(next, kEnotconn, actions);
  devices_[next].state = DeviceState::vacant;
}

void ServerDevices::on(const DeviceForceClosed& input, ServerActions& actions) noexcept {
  const std::uint16_t slot = slot_by_id(input.device_id);
  if (slot == kNone) return;
  Device& device = devices_[slot];
  if (device.state == DeviceState::queued || device.state == DeviceState::opening) device.doomed = true;
  if (device.state == DeviceState::open) start_closing(slot, actions);
}

void ServerDevices::on(const SessionClosed&, ServerActions& actions) noexcept {
  session_closed_ = true;
  for (std::uint16_t slot = 0; slot < devices_.size(); ++slot) {
    if (devices_[slot].state == DeviceState::open) start_closing(slot, actions);
  }
  end_if_drained(actions);
}

void ServerDevices::end_if_drained(ServerActions& actions) noexcept {
  if (!session_closed_ || drained_ || unanswered_ != 0) return;
  const bool any =
      std::any_of(begin(), end(), [](const Device& device) { return device.state != DeviceState::vacant; });
  if (any) return;
  drained_ = true;
  actions.push_back(SessionDrained{});
}

std::uint16_t ServerDevices::slot_by_id(std::uint32_t id) const noexcept {
  const std::uint32_t slot = slot_of(id);
  if (slot >= devices_.size() || devices_[slot].id != id || devices_[slot].state == DeviceState::vacant) {
    return kNone;
  }
  return static_cast<std::uint16_t>(slot);
}

// Returns the slot of the device with this name. Ignores a closing device, so that its name can be reopened.
std::uint16_t ServerDevices::slot_by_name(const wire::Name& name) const noexcept {
  for (std::uint16_t slot = 0; slot < devices_.size(); ++slot) {
    const Device& device = devices_[slot];
    const bool present = device.state == DeviceState::queued || device.state == DeviceState::opening ||
                         device.state == DeviceState::open;
    if (present && device.name == name) return slot;
  }
  return kNone;
}

bool ServerDevices::is_name_closing(const wire::Name& name) const noexcept {
  return std::any_of(begin(), end(), [&name](const Device& device) {
    return device.state == DeviceState::closing && device.name == name;
  });
}

std::uint16_t ServerDevices::vacant_slot() noexcept {
  for (std::uint16_t slot = 0; slot < devices_.size(); ++slot) {
    const Device& device = devices_[slot];
    if (device.state == DeviceState::vacant && device.uses < options_.generations) return slot;
  }
  if (devices_.full()) return kNone;
  devices_.push_back(Device{});
  return static_cast<std::uint16_t>(devices_.size() - 1);
}

std::uint16_t ServerDevices::begin_operation(const DeviceRequest& input, std::uint16_t slot,
                                             Kind kind) noexcept {
  std::uint16_t index = first_vacant_;
  if (index != kNone) {
    first_vacant_ = operations_[index].next_vacant;
  } else {
    if (operations_.full()) return kNone;
    index = static_cast<std::uint16_t>(operations_.size());
    operations_.push_back(Operation{});
  }
  Operation& begun = operations_[index];
  begun.request = input.request;
  begun.data_len = input.data_len;
  begun.device = slot;
  begun.next_vacant = kNone;
  begun.kind = kind;
  begun.flushes = begun.syncs = false;
  ++unanswered_;
  if (kind == Kind::open || kind == Kind::close) {
    ++devices_[slot].waiters;
  } else {
    ++devices_[slot].in_flight;
  }
  return index;
}

void ServerDevices::end_operation(std::uint16_t operation) noexcept {
  Operation& ended = operations_[operation];
  Device& device = devices_[ended.device];
  if (ended.kind == Kind::open || ended.kind == Kind::close) {
    --device.waiters;
  } else {
    --device.in_flight;
  }
  ended.kind = Kind::vacant;
  ended.next_vacant = first_vacant_;
  first_vacant_ = operation;
  --unanswered_;
}

std::uint64_t ServerDevices::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(*this);
  return hash.value();
}

}  // namespace rtrs::rnbd
