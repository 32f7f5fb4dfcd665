#include "core/rnbd/client_devices.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/fingerprint.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd {

using namespace wire::linux_errno;

const char* to_string(DeviceState state) noexcept {
  switch (state) {
    case DeviceState::init:
      return "init";
    case DeviceState::open:
      return "open";
    case DeviceState::closed:
      return "closed";
    case DeviceState::unmapping:
      return "unmapping";
    case DeviceState::unmapped:
      return "unmapped";
  }
  return "unknown";
}

namespace {

bool is_mapped(DeviceState state) noexcept {
  return state == DeviceState::init || state == DeviceState::open || state == DeviceState::closed;
}

}  // namespace

void ClientDevices::on(const LinkUp& input, ClientActions& actions) noexcept {
  link_up_ = true;
  extended_ = input.extended;
  paused_ = false;
  needs_info_ = true;
  for (Device& device : devices_) {
    if (!is_mapped(device.state)) continue;
    device.refused = false;
    device.futile_reopens = 0;
    if (device.state == DeviceState::open) change(device, DeviceState::closed, 0, actions);
  }
  require_reopen_of_all();
  advance(actions);
}

void ClientDevices::on(const LinkDown&, ClientActions& actions) noexcept {
  link_up_ = false;
  paused_ = false;
  for (Device& device : devices_) {
    if (device.state == DeviceState::open) change(device, DeviceState::closed, 0, actions);
  }
  advance(actions);
}

MapOutcome ClientDevices::on(const MapRequested& input, ClientActions& actions) noexcept {
  const auto name = wire::make_name(input.name);
  if (!name || name.value.length == 0) return {kEinval, 0};
  const bool known = std::any_of(devices_.begin(), devices_.end(), [&name](const Device& device) {
    return is_mapped(device.state) && device.name == name.value;
  });
  if (known) return {kEexist, 0};
  Device* free = std::find_if(devices_.begin(), devices_.end(), [](const Device& device) {
    return device.state == DeviceState::unmapped && device.uses < kMaxGenerations;
  });
  if (free == devices_.end()) {
    if (devices_.full()) return {kEnospc, 0};
    devices_.push_back(Device{});
    free = devices_.end() - 1;
  }
  const std::uint32_t use = free->uses;
  *free = Device{};
  free->name = name.value;
  free->mode = input.mode;
  free->uses = use + 1;
  free->handle = make_slot_id(static_cast<std::uint32_t>(free - devices_.begin()), 0, use);
  free->state = DeviceState::init;
  free->needs_open = true;
  const DeviceHandle handle = free->handle;
  advance(actions);
  return {0, handle};
}

void ClientDevices::on(const UnmapRequested& input, ClientActions& actions) noexcept {
  Device* device = find(input.device);
  if (device == nullptr || device->state == DeviceState::unmapping) return;
  device->close_due = device->close_due || (device->state == DeviceState::open && device->id_known);
  device->state = DeviceState::unmapping;
  device->needs_open = false;
  device->refused = false;
  device->peer_errno = 0;
  advance(actions);
}

void ClientDevices::on(const RemapRequested& input, ClientActions& actions) noexcept {
  Device* device = find(input.device);
  if (device == nullptr || !device->refused || !link_up_) return;
  device->refused = false;
  device->futile_reopens = 0;
  device->needs_open = true;
  advance(actions);
}

void ClientDevices::on(const ResizeRequested& input, ClientActions& actions) noexcept {
  Device* device = find(input.device);
  if (device == nullptr || device->state != DeviceState::open) return;
  Geometry resized = device->geometry;
  resized.nsectors = input.nsectors;
  if (!valid(resized)) return;
  device->geometry = resized;
  actions.push_back(DeviceChanged{device->handle, DeviceState::open, 0, resized});
}

bool ClientDevices::reopen_wanted() const noexcept {
  return link_up_ && std::any_of(devices_.begin(), devices_.end(), [](const Device& device) {
           return is_mapped(device.state) && device.refused;
         });
}

bool ClientDevices::refused(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device != nullptr && is_mapped(device->state) && device->refused;
}

unsigned ClientDevices::reopen_pause_s() const noexcept {
  return std::min(1U << reopens_, kReopenPauseMax);
}

void ClientDevices::on(const ReopenDue&, ClientActions& actions) noexcept {
  if (!reopen_wanted()) return;
  if (reopen_pause_s() < kReopenPauseMax) ++reopens_;
  for (Device& device : devices_) {
    if (!is_mapped(device.state) || !device.refused) continue;
    device.refused = false;
    device.futile_reopens = 0;
    device.needs_open = true;
  }
  advance(actions);
}

void ClientDevices::on(const RetryDue&, ClientActions& actions) noexcept {
  paused_ = false;
  advance(actions);
}

Disposition ClientDevices::on(const IoDone& input, ClientActions& actions) noexcept {
  Device* device = find(input.device);
  RTRS_ASSERT(device != nullptr && device->in_flight > 0);
  --device->in_flight;
  --io_in_flight_;
  Disposition disposition = Disposition::fail;
  if (!input.delivered || (input.peer_errno == kEnotconn && !is_mapped(device->state))) {
    disposition = Disposition::fail;
  } else if (input.peer_errno != kEnotconn) {
    device->futile_reopens = 0;
    disposition = input.peer_errno == 0 ? end_well(*device, input.ticket) : Disposition::fail;
  } else if (device->refused && !may_pass(device->peer_errno)) {
    disposition = Disposition::fail;
  } else if (device->refused || device->needs_open || !link_up_) {
    disposition = Disposition::retry_after_remap;
  } else if (device->futile_reopens == kMaxFutileReopens) {
    refuse_device(*device, kEnotconn, actions);
  } else {
    // The server restarted, or its operator removed the device.
    ++device->futile_reopens;
    change(*device, DeviceState::closed, kEnotconn, actions);
    needs_info_ = true;
    require_reopen_of_all();
    disposition = Disposition::retry_after_remap;
  }
  if (holding_ || ending_ || input.peer_errno == kEnotconn) advance(actions);
  return disposition;
}

void ClientDevices::on(const MessageDone& input, ClientActions& actions) noexcept {
  if (input.token == 0) return;
  if (input.token == info_token_) {
    info_token_ = 0;
    finish_sess_info(input, actions);
    return advance(actions);
  }
  for (Device& device : devices_) {
    if (input.token == device.open_token) {
      device.open_token = 0;
      finish_open(device, input, actions);
      return advance(actions);
    }
    if (input.token == device.close_token) {
      // A CLOSE that was not delivered is not resent, because the server closes all devices of a lost
      // session.
      device.close_token = 0;
      return advance(actions);
    }
  }
}

Gate ClientDevices::gate(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  if (device == nullptr || !is_mapped(device->state)) return Gate::refuse;
  if (device->refused && !may_pass(device->peer_errno)) return Gate::refuse;
  return device->id_known && !holding_ ? Gate::go : Gate::hold;
}

std::uint16_t ClientDevices::refusal_errno(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  if (device == nullptr || !is_mapped(device->state)) return kEnodev;
  return device->peer_errno != 0 ? device->peer_errno : kEio;
}

std::uint16_t ClientDevices::last_refusal(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr || !is_mapped(device->state) ? std::uint16_t{0} : device->peer_errno;
}

IoArrival ClientDevices::arrive(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? IoArrival{} : IoArrival{device->flush_told, device->fua_told, device->changes};
}

IoStart ClientDevices::begin_io(const IoBegun& input) noexcept {
  RTRS_ASSERT(gate(input.device) == Gate::go);
  Device* device = find(input.device);
  ++device->in_flight;
  ++io_in_flight_;
  IoTicket ticket;
  ticket.nature = input.nature;
  ticket.arrival = input.arrival;
  const std::uint64_t told = ticket.nature.durable   ? ticket.arrival.fua_told
                             : ticket.nature.flushes ? ticket.arrival.flush_told
                                                     : device->losses;
  ticket.doomed = device->losses > told;
  ticket.losses = device->losses;
  ticket.cache = device->caches;
  return {device->device_id, ticket};
}

// Called when an IO succeeded. No OPEN was answered since the IO began, so the cache instance that executed
// the IO is the known one.
Disposition ClientDevices::end_well(Device& device, const IoTicket& ticket) noexcept {
  if (ticket.nature.changes && !ticket.nature.durable) ++device.changes;
  if (!ticket.doomed) {
    if (ticket.nature.flushes) device.flushed = std::max(device.flushed, ticket.arrival.changes);
    return Disposition::ok;
  }
  if (ticket.nature.flushes && !ticket.nature.durable)
    device.flush_told = std::max(device.flush_told, ticket.losses);
  device.fua_told = std::max(device.fua_told, ticket.losses);
  return Disposition::lost;
}

unsigned ClientDevices::io_in_flight(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? 0 : device->in_flight;
}

std::uint32_t ClientDevices::caches(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? 0 : device->caches;
}

std::uint32_t ClientDevices::openings(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? 0 : device->openings.count;
}

std::uint64_t ClientDevices::unflushed(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? 0 : device->changes - device->flushed;
}

DeviceState ClientDevices::state(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? DeviceState::unmapped : device->state;
}

const Geometry* ClientDevices::geometry(DeviceHandle handle) const noexcept {
  const Device* device = find(handle);
  return device == nullptr ? nullptr : &device->geometry;
}

unsigned ClientDevices::mapped_count() const noexcept {
  return static_cast<unsigned>(std::count_if(devices_.begin(), devices_.end(), [](const Device& device) {
    return device.state != DeviceState::unmapped;
  }));
}

unsigned ClientDevices::messages_in_flight() const noexcept {
  unsigned count = info_token_ != 0 ? 1 : 0;
  for (const Device& device : devices_) {
    count += (device.open_token != 0 ? 1U : 0U) + (device.close_token != 0 ? 1U : 0U);
  }
  return count;
}

std::uint64_t ClientDevices::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(*this);
  return hash.value();
}

}  // namespace rtrs::rnbd
