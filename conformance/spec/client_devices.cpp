#include "conformance/spec/client_devices.hpp"

#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/device_numbers.hpp"

namespace rtrs::spec {

ClientDevicesSpec::ClientDevicesSpec(Findings& findings, unsigned machine, const DeviceEvent* begin)
    : findings_(findings), machine_(machine), whole_(begin != nullptr) {
  if (begin != nullptr) link_ = extended_ = false;
}

void ClientDevicesSpec::on(const DeviceEvent& event) {
  if (class_of(event.kind) == EventClass::input) end_step();
  event_ = event;
  if (class_of(event.kind) == EventClass::input) input_ = event;
  switch (event.kind) {
    case DeviceKind::LinkUp:
      return link_up();
    case DeviceKind::LinkDown:
      return link_down();
    case DeviceKind::MapRequested:
      return map_requested();
    case DeviceKind::MapAnswered:
      return map_answered();
    case DeviceKind::UnmapRequested:
      return unmap_requested();
    case DeviceKind::RemapRequested:
      if (Device* const device = find(event.device); device != nullptr && device->refused && link_ == true)
        device->refused = false, device->reopen = true, device->not_open_in_a_row = 0;
      return;
    case DeviceKind::ReopenDue:
      for (Device& device : devices_)
        if (device.is_mapped() && device.refused && link_ == true)
          device.refused = false, device.reopen = true, device.not_open_in_a_row = 0;
      return;
    case DeviceKind::RetryDue:
      paused_ = false;
      return;
    case DeviceKind::ResizeRequested:
      return resize_requested();
    case DeviceKind::MessageDone:
      return message_done();
    case DeviceKind::IoBegun:
      io_ = event;
      return;
    case DeviceKind::IoDone:
      return io_done();
    case DeviceKind::SendMessage:
      return send_message();
    case DeviceKind::DeviceChanged:
      return device_changed();
    case DeviceKind::CacheReplaced:
      return cache_replaced();
    case DeviceKind::IoStarted:
      return io_started();
    case DeviceKind::IoJudged:
      return io_judged();
    default:
      return;
  }
}

ClientDevicesSpec::Device* ClientDevicesSpec::find(std::uint32_t handle) {
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [handle](const Device& one) { return one.handle == handle; });
  return found == devices_.end() ? nullptr : &*found;
}

ClientDevicesSpec::Device* ClientDevicesSpec::find_mapped(std::string_view name) {
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [name](const Device& one) { return one.name == name && one.is_mapped(); });
  return found == devices_.end() ? nullptr : &*found;
}

bool ClientDevicesSpec::is_id_of_another(const Device& device, std::uint32_t id) const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const Device& one) { return &one != &device && one.id == id; });
}

bool ClientDevicesSpec::any_open_unanswered() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const Device& one) { return one.open_token != 0; });
}

// Another server process may answer from now on, so the client must reopen every device before the next IO.
void ClientDevicesSpec::require_reopen() {
  for (Device& device : devices_)
    if (device.is_mapped() && !device.refused) device.reopen = true;
}

void ClientDevicesSpec::forget_ids() {
  for (Device& device : devices_) device.id.reset(), device.close_due = false;
  require_reopen();
}

void ClientDevicesSpec::link_up() {
  link_ = true;
  extended_ = event_.extended;
  informed_ = paused_ = false;
  for (Device& device : devices_) {
    device.refused = device.close_due = false;
    device.not_open_in_a_row = 0;
    device.may_close = true;
  }
  require_reopen();
}

void ClientDevicesSpec::link_down() {
  link_ = false;
  paused_ = false;
  for (Device& device : devices_) device.may_close = true, device.close_due = false;
}

void ClientDevicesSpec::map_requested() {
  asked_ = Device{};
  asked_->name = event_.name;
  asked_->mode = event_.mode;
  asked_->reopen = true;
  // The OPEN may be sent in this step, before MapAnswered.
  if (find_mapped(event_.name) != nullptr) return;
  if (devices_.size() > kMostClientDevices)
    asked_.reset();  // exceeds the limit of every client: the records are wrong
  else
    devices_.push_back(*asked_);
}

void ClientDevicesSpec::map_answered() {
  if (!asked_) return;
  const std::string name = asked_->name;
  asked_.reset();
  Device* const fresh = devices_.empty() || devices_.back().handle ? nullptr : &devices_.back();
  const std::uint16_t error = event_.peer_errno;
  if (fresh == nullptr) {
    check(error == kExists, Rule::map_answer, "a name is mapped twice", "EEXIST");
    return;
  }
  const bool is_new = find(event_.device) == nullptr;
  if (error == 0) {
    check(is_new, Rule::map_answer, "a handle is given to a second device", "one that no device has");
    fresh->handle = event_.device;
    return;
  }
  const bool bad_name = name.empty() || name.size() > kNameField - 1;
  const bool full = devices_.size() > kMostClientDevices;
  check(
      !whole_ || (error == kInvalid && bad_name) || (error == kNoSpace && full), Rule::map_answer,
      [&] { return "a device is refused with errno " + std::to_string(error); },
      "0 for a name that is not mapped");
  devices_.pop_back();
}

void ClientDevicesSpec::unmap_requested() {
  Device* const device = find(event_.device);
  if (device == nullptr || device->unmapping) return;
  device->close_allowed = device->close_allowed || device->id.has_value();
  device->close_due = device->state == DeviceState::open && device->id && link_ == true;
  device->unmapping = true;
  device->reopen = device->refused = false;
  device->refusal = 0;
}

void ClientDevicesSpec::resize_requested() {
  Device* const device = find(event_.device);
  if (device == nullptr || device->state != DeviceState::open) return;
  Geometry geometry = device->geometry;
  geometry.nsectors = event_.nsectors;
  if (is_valid(geometry)) device->may_open = geometry;
}

void ClientDevicesSpec::message_done() {
  const std::uint64_t token = event_.token;
  if (token == 0) return;
  if (token == info_token_) {
    info_token_ = 0;
    const std::string_view response = event_.response;
    const bool fine = event_.delivered && event_.peer_errno == 0 && response.size() >= kSessInfoBytes &&
                      u16_at(response, 0) == kSessInfoRsp;
    informed_ = fine;
    paused_ = paused_ || !event_.delivered;
    if (event_.delivered && !fine)
      for (Device& device : devices_)
        if (device.reopen) refused(device, event_.peer_errno);
    return;
  }
  for (Device& device : devices_) {
    if (token == device.open_token) return open_answered(device);
    if (token == device.close_token) device.close_token = 0;
  }
}

void ClientDevicesSpec::open_answered(Device& device) {
  device.open_token = 0;
  // Another server process may have executed the OPEN, so the known ids may belong to other devices.
  if (!event_.delivered) {
    paused_ = true;
    return forget_ids();
  }
  if (event_.peer_errno != 0) {
    // If `reopen` is set, the device must be opened again in any case, so this refusal does not count.
    if (!device.reopen) refused(device, event_.peer_errno);
    return;
  }
  opened(device, event_.response);
}

// `error`: errno of the server's answer; 0: its response is malformed.
void ClientDevicesSpec::refused(Device& device, std::uint16_t error) {
  device.id.reset();
  device.reopen = false;
  if (!device.unmapping) device.refusal = error == 0 ? kInvalid : error;
  if (device.state == DeviceState::init) {
    device.unmapping = true;
    return;
  }
  device.refused = true;
  device.may_close = true;
}

Geometry ClientDevicesSpec::geometry_of(std::string_view response) {
  const auto byte = [response](std::size_t at) { return static_cast<std::uint8_t>(response[at]); };
  Geometry geometry;
  geometry.nsectors = number_at(response, 8, 8);
  geometry.max_hw_sectors = u32_at(response, 16);
  geometry.max_write_zeroes_sectors = u32_at(response, 20);
  geometry.max_discard_sectors = u32_at(response, 24);
  geometry.discard_granularity = u32_at(response, 28);
  geometry.discard_alignment = u32_at(response, 32);
  geometry.physical_block_size = u16_at(response, 36);
  geometry.logical_block_size = u16_at(response, 38);
  geometry.max_segments = u16_at(response, 40);
  geometry.write_cache = (byte(45) & 2) != 0;
  geometry.fua = geometry.write_cache && (byte(45) & 1) != 0;
  geometry.features = byte(46);
  return geometry;
}

void ClientDevicesSpec::opened(Device& device, std::string_view response) {
  if (response.size() < kOpenRspBytes || u16_at(response, 0) != kOpenRsp) {
    if (!device.reopen) refused(device, 0);
    return;
  }
  const std::uint32_t id = u32_at(response, 4);
  const bool twice = is_id_of_another(device, id);
  // A device that was mapped before the trace may have the id.
  if (!whole_) device.may_close = device.given_up = true;
  if (!device.unmapping) device.refusal = 0;
  Geometry geometry = geometry_of(response);
  const std::uint32_t block = geometry.logical_block_size;
  const bool usable = block >= kSectorBytes && (block & (block - 1)) == 0 && geometry.nsectors < kMostSectors;
  if (!usable) {
    if (twice) forget_ids();
    if (!device.reopen || twice) refused(device, 0);
    if (!twice) device.id = id, device.close_allowed = true;
    return;
  }
  if (twice) {
    forget_ids();
    // A client refuses the device only if the server repeats this error, or refuses its IO; device_changed()
    // shows whether it does.
    ++device.not_open_in_a_row;
    device.may_close = device.given_up = true;
    device.refusal.reset();
    return;
  }
  device.id = id;
  const std::uint64_t instance = extended_ != false ? number_at(response, 48, 8) : 0;
  if (instance != 0) {
    if (extended_ && device.instance != 0 && device.instance != instance)
      device.cache_report = device.changes - device.flushed;
    device.instance = instance;
  }
  if (device.unmapping) {
    device.close_allowed = true;
    device.close_due = link_ == true;
    return;
  }
  if (extended_ == false) geometry.features = 0;
  device.may_open = geometry;
}

// SESS_INFO or OPEN is sent as soon as a device is to be opened and nothing is in flight.
void ClientDevicesSpec::check_round() const {
  if (!whole_ || link_ != true || paused_ || io_in_flight_ != 0 || info_token_ != 0) return;
  const bool messages = std::any_of(devices_.begin(), devices_.end(), [](const Device& one) {
    return one.open_token != 0 || one.close_token != 0;
  });
  const auto due = std::find_if(devices_.begin(), devices_.end(), [](const Device& one) {
    return one.is_mapped() && one.reopen && one.handle;
  });
  check(messages || due == devices_.end(), Rule::open_alone,
        "no message is sent, although a device is to be opened and nothing is in flight",
        "SESS_INFO or OPEN");
}

void ClientDevicesSpec::end_step() {
  check_round();
  const bool link = input_.kind == DeviceKind::LinkDown || input_.kind == DeviceKind::LinkUp;
  if (io_) {
    const bool begun = io_->kind == DeviceKind::IoBegun;
    check(false, begun ? Rule::io_device_id : Rule::io_disposition,
          "nothing follows the begin or end of an IO", "IoStarted or IoJudged");
    io_.reset();
  }
  if (asked_) check(false, Rule::map_answer, "a mapping is not answered", "MapAnswered");
  asked_.reset();
  first_open_ = 0;
  for (Device& device : devices_) {
    check(!device.cache_report, Rule::cache_replaced,
          "a server with another cache opened a device, unreported", "CacheReplaced");
    device.cache_report.reset();
    check(!link || !device.is_mapped() || device.state != DeviceState::open || device.may_open,
          Rule::device_state, "a device stays open when the link changes",
          "closed until an OPEN is answered");
    device.may_open.reset();
    device.may_close = device.given_up = false;
  }
  devices_.remove_if([](const Device& one) { return one.state == DeviceState::unmapped; });
}

}  // namespace rtrs::spec
