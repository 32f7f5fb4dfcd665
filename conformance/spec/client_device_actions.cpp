// Checks a client's actions (messages, IO, state changes of devices) against those that are allowed now.
#include <algorithm>
#include <utility>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/client_devices.hpp"
#include "conformance/spec/device_numbers.hpp"

namespace rtrs::spec {

void ClientDevicesSpec::send_message() {
  check(event_.token > last_token_ || last_token_ == 0, Rule::message_form,
        "a message has a token that was used", "a new one");
  last_token_ = event_.token;
  check(link_ != false, Rule::open_alone, "a message is sent while no path is connected", "none");
  switch (event_.message) {
    case MessageKind::sess_info: {
      const std::string_view header = event_.header;
      check(header.size() == kSessInfoBytes && u16_at(header, 0) == kSessInfo && header[4] != '\0' &&
                event_.reads && event_.response_length == kSessInfoBytes,
            Rule::message_form, "SESS_INFO has another form", "36 bytes with a version, a READ of 36 bytes");
      const bool alone = io_in_flight_ == 0 && !any_open_unanswered() && info_token_ == 0;
      check(alone, Rule::open_alone, "SESS_INFO is sent while IO or another message is in flight",
            "when nothing is in flight");
      info_token_ = event_.token;
      return;
    }
    case MessageKind::open:
      return send_open();
    case MessageKind::close:
      return send_close();
  }
}

void ClientDevicesSpec::send_open() {
  const std::string_view header = event_.header;
  const bool form = header.size() == kOpenBytes && u16_at(header, 0) == kOpen && event_.reads &&
                    event_.response_length == kOpenRspBytes &&
                    header.substr(6, kNameField).find('\0') != header.npos;
  if (!check(form, Rule::message_form, "OPEN has another form", "264 bytes with a name, a READ of 56 bytes"))
    return;
  const std::string_view name = header.substr(6, header.substr(6, kNameField).find('\0'));
  const bool closes =
      std::any_of(devices_.begin(), devices_.end(), [](const Device& one) { return one.close_token != 0; });
  const bool other_round = std::any_of(devices_.begin(), devices_.end(), [&](const Device& one) {
    return one.open_token != 0 && (first_open_ == 0 || one.open_token < first_open_);
  });
  check(io_in_flight_ == 0 && !closes && info_token_ == 0 && !other_round, Rule::open_alone,
        "OPEN is sent while IO, a CLOSE or an earlier OPEN is in flight", "when only OPENs of this step are");
  check(informed_ || !link_ || !whole_, Rule::open_alone,
        "OPEN is sent before SESS_INFO was answered on this link", "after it");
  if (first_open_ == 0) first_open_ = event_.token;
  Device* const device = find_mapped_by_bytes(name);
  if (device == nullptr) {
    check(!whole_, Rule::message_form, "OPEN names a device that is not mapped", "a mapped one");
    return;
  }
  check(static_cast<AccessMode>(header[4]) == device->mode && device->open_token == 0 &&
            (device->reopen || !whole_),
        Rule::message_form, "OPEN has another access mode, or its device needs none",
        "the mode of the mapping, once after each change of the link or server");
  device->open_token = event_.token;
  device->reopen = false;
  device->id.reset();
}

// Finds a device by the name bytes in an OPEN. Traces store names as escaped text, which differs from the
// bytes if the name has a backslash or a byte that is not printable ASCII. Such a name matches any device
// with an escaped name that waits for its OPEN.
ClientDevicesSpec::Device* ClientDevicesSpec::find_mapped_by_bytes(std::string_view name) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '\\'; };
  if (std::all_of(name.begin(), name.end(), plain)) return find_mapped(name);
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const Device& one) {
    return one.is_mapped() && one.reopen && one.open_token == 0 &&
           !std::all_of(one.name.begin(), one.name.end(), plain);
  });
  return found == devices_.end() ? nullptr : &*found;
}

void ClientDevicesSpec::send_close() {
  const std::string_view header = event_.header;
  const bool form = header.size() == kCloseBytes && u16_at(header, 0) == kClose && !event_.reads &&
                    event_.response_length == 0;
  if (!check(form, Rule::message_form, "CLOSE has another form", "8 bytes, a WRITE without data")) return;
  check(!any_open_unanswered(), Rule::open_alone, "CLOSE is sent while an OPEN is in flight", "when none is");
  const std::uint32_t id = u32_at(header, 4);
  const auto found =
      std::find_if(devices_.begin(), devices_.end(), [id](const Device& one) { return one.id == id; });
  if (found == devices_.end()) {
    check(!whole_, Rule::message_form, "CLOSE names an id that no device has", "the id of a device");
    return;
  }
  check(found->close_allowed && found->in_flight == 0, Rule::message_form,
        "CLOSE is sent for a device that is wanted, or has IO in flight", "for an unmapped one without IO");
  found->close_allowed = found->close_due = false;
  found->close_token = event_.token;
  found->id.reset();
}

void ClientDevicesSpec::io_started() {
  const std::optional<DeviceEvent> begun = std::exchange(io_, std::nullopt);
  if (!begun || begun->kind != DeviceKind::IoBegun) return;
  Device* const device = find(begun->device);
  if (device == nullptr) return;
  check(!any_open_unanswered(), Rule::open_alone, "IO begins while an OPEN is in flight", "when none is");
  check(
      device->is_mapped() && device->id == event_.device_id, Rule::io_device_id,
      [&] { return "IO with device id " + std::to_string(event_.device_id); },
      "the id that the last OPEN of a mapped device gave");
  const bool waits = std::any_of(devices_.begin(), devices_.end(),
                                 [](const Device& one) { return one.is_mapped() && one.reopen; });
  check(link_ != true || !waits, Rule::io_device_id, "IO begins while a device is to be opened again",
        "after it");
  IoFacts facts = begun->io;
  const std::uint64_t told = facts.durable   ? facts.fua_told
                             : facts.flushes ? facts.flush_told
                                             : device->losses;
  facts.doomed = device->losses > told;
  facts.losses = device->losses;
  facts.cache = device->caches;
  const bool arrived = facts.flush_told <= device->flush_told && facts.fua_told <= device->fua_told &&
                       facts.changes_before <= device->changes;
  check(arrived && event_.io == facts, Rule::io_losses, "an IO begins with other facts about lost changes",
        "those of its arrival and of its device");
  ++device->in_flight;
  ++io_in_flight_;
}

void ClientDevicesSpec::io_done() {
  io_ = event_;
  Device* const device = find(event_.device);
  if (device == nullptr) return;
  if (device->in_flight == 0) {
    io_.reset();  // the IO began before the trace
    return;
  }
  --device->in_flight;
  --io_in_flight_;
  if (event_.delivered && event_.peer_errno == kNotConnected) device->may_close = true;
}

void ClientDevicesSpec::io_judged() {
  const std::optional<DeviceEvent> done = std::exchange(io_, std::nullopt);
  if (!done || done->kind != DeviceKind::IoDone) return;
  Device* const device = find(done->device);
  if (device == nullptr) return;
  const Disposition told = event_.disposition;
  const bool not_open = done->delivered && done->peer_errno == kNotConnected;
  Disposition wanted = Disposition::fail;
  if (done->delivered && done->peer_errno == 0)
    wanted = done->io.doomed ? Disposition::lost : Disposition::ok;
  bool fine = told == wanted;
  if (not_open && device->is_mapped()) {
    const bool hopeless = device->refused || !whole_ || ++device->not_open_in_a_row > kMostFutileReopens;
    fine = told == Disposition::retry_after_remap || (told == Disposition::fail && hopeless);
    if (told == Disposition::retry_after_remap && !device->refused && link_ != false) require_reopen();
    if (told == Disposition::fail && !device->refused) refused(*device, kNotConnected);
  } else if (done->delivered && !not_open) {
    device->not_open_in_a_row = 0;
  }
  check(
      fine, Rule::io_disposition,
      [&] {
        return std::string(name_of(told)) + " for an IO that " +
               (done->delivered ? "was answered with " + std::to_string(done->peer_errno)
                                : "was not delivered") +
               (done->io.doomed ? ", after changes were lost" : "");
      },
      "what the answer means: success, the loss of earlier changes, another try, or failure");
  if (done->delivered && done->peer_errno == 0) io_succeeded(*device, *done);
}

void ClientDevicesSpec::io_succeeded(Device& device, const DeviceEvent& done) {
  const IoFacts& io = done.io;
  if (io.changes && !io.durable) ++device.changes;
  if (!io.doomed) {
    if (io.flushes) device.flushed = std::max(device.flushed, io.changes_before);
    return;
  }
  if (io.flushes && !io.durable) device.flush_told = std::max(device.flush_told, io.losses);
  device.fua_told = std::max(device.fua_told, io.losses);
}

bool ClientDevicesSpec::errno_fits(const Device& device) const {
  if (event_.state == DeviceState::open) return event_.peer_errno == 0;
  if (!whole_) return true;
  if (event_.state == DeviceState::unmapped)
    return !device.refusal || event_.peer_errno == *device.refusal || device.given_up;
  switch (input_.kind) {
    case DeviceKind::LinkUp:
    case DeviceKind::LinkDown:
      return event_.peer_errno == 0;
    case DeviceKind::IoDone:
      return event_.peer_errno == kNotConnected;
    case DeviceKind::MessageDone:
      return !device.refusal || event_.peer_errno == *device.refusal || device.given_up;
    default:
      return true;
  }
}

void ClientDevicesSpec::device_changed() {
  Device* const device = find(event_.device);
  if (device == nullptr) return;
  const auto text = [&] {
    return "a device becomes " + std::string(name_of(event_.state)) + " from " +
           std::string(name_of(device->state)) + " with errno " + std::to_string(event_.peer_errno);
  };
  switch (event_.state) {
    case DeviceState::open:
      if (device->may_open && !extended_) device->may_open->features = event_.geometry.features;
      check(device->may_open && *device->may_open == event_.geometry, Rule::device_state, text,
            "by the answer to its OPEN, or by a resize, with that geometry");
      device->geometry = event_.geometry;
      break;
    case DeviceState::closed:
      check(device->state != DeviceState::init && (device->may_close || device->reopen || device->refused),
            Rule::device_state, text, "when the link changes, or the server refuses the device or its IO");
      if (device->given_up && event_.peer_errno == kIoError) device->refused = true, device->reopen = false;
      break;
    case DeviceState::unmapped:
      check((device->unmapping || device->given_up) && device->in_flight == 0 && device->close_token == 0,
            Rule::device_state, text, "when it is to be unmapped, and neither IO nor CLOSE is in flight");
      check(!device->close_due, Rule::device_state, text, "after its CLOSE, because the server has it open");
      break;
    case DeviceState::init:
    case DeviceState::unmapping:
      check(false, Rule::device_state, text, "open, closed or unmapped");
      break;
  }
  check(errno_fits(*device), Rule::device_state, text,
        "with the errno of what closed it: 0 for the link or its operator, else the server's");
  device->state = event_.state;
}

void ClientDevicesSpec::cache_replaced() {
  Device* const device = find(event_.device);
  if (device == nullptr) return;
  check(
      !extended_ || device->cache_report == event_.unflushed, Rule::cache_replaced,
      [&] { return "a lost cache with " + std::to_string(event_.unflushed) + " changes is reported"; },
      "when an OPEN is answered by another cache, with the changes that were not flushed");
  if (device->changes != device->flushed) ++device->losses;
  device->flushed = device->changes;
  ++device->caches;
  device->cache_report.reset();
}

}  // namespace rtrs::spec
