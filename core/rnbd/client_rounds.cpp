// Decides when the client sends messages, and handles their responses.
#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd {
namespace {

using namespace wire::linux_errno;
using wire::Refusal;

template <class Message>
SendMessage make_message(std::uint64_t token, MessageKind kind, const wire::rnbd::Framing& framing,
                         const Message& message) noexcept {
  SendMessage send{token, kind, framing.direction, static_cast<std::uint16_t>(framing.data_len), {}};
  send.header.length = framing.usr_len;
  RTRS_ASSERT(encode(message, send.header.units) == framing.usr_len);
  return send;
}

}  // namespace

bool ClientDevices::round_wanted() const noexcept {
  return link_up_ && std::any_of(devices_.begin(), devices_.end(),
                                 [](const Device& device) { return device.needs_open; });
}

bool ClientDevices::any_open_pending() const noexcept {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const Device& device) { return device.open_token != 0; });
}

bool ClientDevices::is_id_held_by_another(const Device& device, std::uint32_t device_id) const noexcept {
  return std::any_of(devices_.begin(), devices_.end(), [&device, device_id](const Device& other) {
    return &other != &device && other.state != DeviceState::unmapped && other.id_known &&
           other.device_id == device_id;
  });
}

void ClientDevices::advance(ClientActions& actions) noexcept {
  send_closes(actions);
  if (round_wanted() && !paused_ && io_in_flight_ == 0 && messages_in_flight() == 0) {
    if (needs_info_) {
      send_sess_info(actions);
    } else {
      send_opens(actions);
    }
  }
  holding_ = any_open_pending() || (link_up_ && (info_token_ != 0 || round_wanted()));
  ending_ = std::any_of(devices_.begin(), devices_.end(), [](const Device& device) {
    return device.state == DeviceState::unmapping || device.close_due;
  });
}

void ClientDevices::send_closes(ClientActions& actions) noexcept {
  if (any_open_pending()) return;
  for (Device& device : devices_) {
    if (device.close_due && device.in_flight == 0 && device.close_token == 0) {
      device.close_due = false;
      if (device.id_known && link_up_) {
        device.close_token = ++last_token_;
        actions.push_back(make_message(device.close_token, MessageKind::close, wire::rnbd::kCloseFraming,
                                       wire::rnbd::Close{device.device_id}));
      }
      device.id_known = false;
    }
    const bool idle = device.in_flight == 0 && device.close_token == 0;
    if (device.state == DeviceState::unmapping && idle) end_device(device, device.peer_errno, actions);
  }
}

void ClientDevices::send_sess_info(ClientActions& actions) noexcept {
  needs_info_ = false;
  info_token_ = ++last_token_;
  actions.push_back(make_message(info_token_, MessageKind::sess_info, wire::rnbd::kSessInfoFraming,
                                 wire::rnbd::SessInfo{}));
}

void ClientDevices::send_opens(ClientActions& actions) noexcept {
  for (Device& device : devices_) {
    if (!device.needs_open) continue;
    device.needs_open = false;
    device.id_known = false;
    device.open_token = ++last_token_;
    actions.push_back(make_message(device.open_token, MessageKind::open, wire::rnbd::kOpenFraming,
                                   wire::rnbd::Open{device.mode, device.name}));
  }
}

void ClientDevices::finish_sess_info(const MessageDone& input, ClientActions& actions) noexcept {
  if (!input.delivered) {
    paused_ = link_up_ && !needs_info_;
    needs_info_ = true;
    return;
  }
  const auto response = wire::rnbd::parse_sess_info_rsp(input.response.span());
  if (input.peer_errno == 0 && response) {
    version_ = wire::rnbd::negotiated_version(response.value.version);
    return;
  }
  if (needs_info_) return;  // the response belongs to an earlier round; the next round sends SESS_INFO again
  needs_info_ = true;
  const std::uint16_t error = input.peer_errno != 0 ? input.peer_errno : std::uint16_t{kEinval};
  for (Device& device : devices_) {
    if (device.needs_open) refuse_device(device, error, actions);
  }
}

void ClientDevices::finish_open(Device& device, const MessageDone& input, ClientActions& actions) noexcept {
  if (!input.delivered) return undelivered_open(device);
  if (input.peer_errno != 0) {
    // If needs_open is set, the OPEN belongs to an earlier round; the next round sends it again.
    if (!device.needs_open) refuse_device(device, input.peer_errno, actions);
    return;
  }
  const auto response = wire::rnbd::parse_open_rsp(input.response.span());
  if (response) return accept_open(device, response.value, actions);
  if (response.why == Refusal::bad_block_size || response.why == Refusal::bad_count) {
    device.device_id = response.value.device_id;
    device.close_due = !is_id_held_by_another(device, device.device_id);
    if (!device.close_due) invalidate_ids();
  }
  if (!device.needs_open) refuse_device(device, kEinval, actions);
  device.id_known = device.close_due;
}

void ClientDevices::accept_open(Device& device, const wire::rnbd::OpenRsp& response,
                                ClientActions& actions) noexcept {
  if (is_id_held_by_another(device, response.device_id)) {
    // A correct server does not assign one id to two devices, so another server may have answered.
    invalidate_ids();
    if (device.futile_reopens == kMaxFutileReopens) return refuse_device(device, kEio, actions);
    ++device.futile_reopens;
    return;
  }
  device.device_id = response.device_id;
  device.id_known = true;
  ++device.openings.count;
  note_instance(device, response.instance, actions);
  if (device.state == DeviceState::unmapping) {
    device.close_due = true;
    return;
  }
  const Geometry before = device.geometry;
  device.geometry = geometry_of(response);
  if (!extended_) device.geometry.features = 0;  // a kernel server leaves reserved bytes here
  device.peer_errno = 0;
  if (device.needs_open || !link_up_) return;
  if (device.state == DeviceState::open && device.geometry == before) return;
  change(device, DeviceState::open, 0, actions);
}

// Records the cache instance in an OPEN response. No IO of the device is in flight, because the OPEN was
// unanswered until now.
void ClientDevices::note_instance(Device& device, std::uint64_t instance, ClientActions& actions) noexcept {
  if (!extended_ || instance == 0) return;
  const std::uint64_t before = std::exchange(device.instance, instance);
  if (before == 0 || before == instance) return;
  const std::uint64_t unflushed = device.changes - device.flushed;
  device.flushed = device.changes;
  if (unflushed != 0) ++device.losses;
  ++device.caches;
  actions.push_back(CacheReplaced{device.handle, unflushed});
}

// Marks all ids as invalid, because another server may be answering although the link never went down.
void ClientDevices::invalidate_ids() noexcept {
  for (Device& device : devices_) device.id_known = false;
  needs_info_ = true;
  require_reopen_of_all();
}

void ClientDevices::refuse_device(Device& device, std::uint16_t peer_errno, ClientActions& actions) noexcept {
  device.id_known = false;
  device.needs_open = false;
  if (device.state == DeviceState::unmapping) return;
  device.peer_errno = peer_errno;
  if (device.state == DeviceState::init) {
    device.state = DeviceState::unmapping;
    return;
  }
  device.refused = true;
  change(device, DeviceState::closed, peer_errno, actions);
}

// Called when an OPEN was not delivered. Marks all ids as invalid, because another server may have executed
// the OPEN and assigned an id that belongs to another device at the previous server.
void ClientDevices::undelivered_open(const Device& device) noexcept {
  if (!device.needs_open) paused_ = link_up_;
  invalidate_ids();
}

void ClientDevices::require_reopen_of_all() noexcept {
  for (Device& device : devices_) {
    const bool mapped = device.state == DeviceState::init || device.state == DeviceState::open ||
                        device.state == DeviceState::closed;
    if (mapped && !device.refused) device.needs_open = true;
  }
}

void ClientDevices::end_device(Device& device, std::uint16_t peer_errno, ClientActions& actions) noexcept {
  device.id_known = false;
  change(device, DeviceState::unmapped, peer_errno, actions);
}

void ClientDevices::change(Device& device, DeviceState state, std::uint16_t peer_errno,
                           ClientActions& actions) noexcept {
  device.state = state;
  if (state == DeviceState::open) reopens_ = 0;
  actions.push_back(DeviceChanged{device.handle, state, peer_errno, device.geometry});
}

}  // namespace rtrs::rnbd
