#include <algorithm>
#include <span>

#include "conformance/spec/bytes.hpp"
#include "core/proto/ids.hpp"
#include "core/record/device_name.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/sequence/explain.hpp"
#include "tools/lib/trace/why/device.hpp"

namespace rtrs::tools::why {

using sequence::errno_words;
using spec::DeviceEvent;
using spec::DeviceKind;

namespace {

wire::Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string name_in_open(std::string_view header) {
  const auto type = wire::rnbd::message_type(bytes_of(header));
  if (!type || type.value != wire::rnbd::MsgType::open) return {};
  const auto open = wire::rnbd::parse_open(bytes_of(header));
  return open ? std::string(trace::name_text(open.value.device_name.view()).view()) : std::string();
}

std::string refusal_words(std::uint16_t error) {
  const rnbd::DeviceReasonText& text = rnbd::text_of(rnbd::reason_of_refusal(error));
  return std::string(text.code) + " (" + text.sentence + "), " + errno_words(error);
}

}  // namespace

std::size_t DeviceLog::device(bool client, const std::string& name) {
  for (std::size_t at = 0; at < devices_.size(); ++at)
    if (devices_[at].file == file_ && devices_[at].client == client && devices_[at].name == name) return at;
  devices_.push_back({file_, client, {}, name, {}});
  return devices_.size() - 1;
}

std::size_t DeviceLog::numbered(bool client, std::uint64_t number) const {
  for (std::size_t at = devices_.size(); at-- > 0;) {
    const Device& one = devices_[at];
    if (one.file == file_ && one.client == client &&
        std::find(one.numbers.begin(), one.numbers.end(), number) != one.numbers.end())
      return at;
  }
  return kNoDevice;
}

void DeviceLog::note(std::size_t device, const DeviceEvent& event, std::string text, bool trouble,
                     bool open) {
  if (device == kNoDevice) return;
  Device& one = devices_[device];
  one.notes.push_back({{file_, event.seq, event.now}, one.client, trouble, open, std::move(text)});
}

void DeviceLog::on(Index file, unsigned instance, const DeviceEvent& event) {
  file_ = file;
  Machine& machine = machines_[{file, instance}];
  if (event.kind == DeviceKind::BeginClientDevices || event.kind == DeviceKind::BeginServerDevices) {
    for (const auto& [handle, name] : machine.exports)
      note(device(false, name), event,
           "a new session of the server began, which does not know the devices of the last one", true);
    machine = Machine{};
    return;
  }
  static_cast<InstanceId>(instance) == kClientDevices ? on_client(machine, event) : on_server(machine, event);
}

void DeviceLog::on_client(Machine& machine, const DeviceEvent& event) {
  switch (event.kind) {
    case DeviceKind::MapRequested:
      machine.mapping = event.name;
      devices_[device(true, machine.mapping)].unmapped = false;
      return note(device(true, machine.mapping), event, "the client maps the device", false);
    case DeviceKind::MapAnswered: {
      const std::size_t at = device(true, machine.mapping);
      if (event.error != 0)
        return note(at, event, "the mapping failed: " + errno_words(static_cast<std::uint64_t>(event.error)),
                    true);
      devices_[at].numbers.push_back(event.device);
      return;
    }
    case DeviceKind::SendMessage:
      if (const std::string name = name_in_open(event.header); !name.empty())
        machine.by_token[event.token] = device(true, name);
      return;
    case DeviceKind::MessageDone: {
      const auto found = machine.by_token.find(event.token);
      if (found == machine.by_token.end()) return;
      if (!event.delivered)
        note(found->second, event, "the OPEN was not delivered: the session lost its paths", true);
      else if (event.peer_errno != 0)
        note(found->second, event, "the server refused the OPEN: " + refusal_words(event.peer_errno), true);
      if (event.peer_errno != 0) machine.refused = event.seq;
      machine.by_token.erase(found);
      return;
    }
    case DeviceKind::RemapRequested:
      return note(numbered(true, event.device), event, "a remap was requested at the client", true);
    case DeviceKind::UnmapRequested:
      if (const std::size_t at = numbered(true, event.device); at != kNoDevice) devices_[at].unmapped = true;
      return;
    case DeviceKind::DeviceChanged: {
      const bool open = event.state == spec::DeviceState::open;
      // The refusal of the OPEN is its own note.
      if (event.seq == machine.refused + 1 || event.state == spec::DeviceState::unmapped) return;
      return note(numbered(true, event.device), event,
                  "at the client the device is " + std::string(name_of(event.state)) +
                      (event.peer_errno == 0 ? "" : ": " + errno_words(event.peer_errno)),
                  !open && event.peer_errno != 0, open);
    }
    case DeviceKind::CacheReplaced:
      return note(numbered(true, event.device), event,
                  "the server's cache of the device is another one, " + std::to_string(event.unflushed) +
                      " changes were not flushed",
                  event.unflushed != 0);
    default:
      return on_io(machine, event);
  }
}

void DeviceLog::on_io(Machine& machine, const DeviceEvent& event) {
  if (event.kind == DeviceKind::IoDone) {
    machine.io = numbered(true, event.device);
    machine.io_errno = event.peer_errno;
    if (!event.delivered) note(machine.io, event, "an IO was not delivered: the session ended it", true);
  } else if (event.kind == DeviceKind::IoJudged && event.disposition != spec::Disposition::ok) {
    const std::string error = machine.io_errno == 0 ? "" : " (" + errno_words(machine.io_errno) + ')';
    note(machine.io, event,
         event.disposition == spec::Disposition::retry_after_remap
             ? "an IO is sent again after the device is opened again" + error
         : event.disposition == spec::Disposition::lost
             ? "an IO fails with EIO, because changes before it were lost"
             : "an IO fails" + error,
         true);
  } else if (event.kind == DeviceKind::LinkDown) {
    for (std::size_t at = 0; at < devices_.size(); ++at)
      if (devices_[at].file == file_ && devices_[at].client && !devices_[at].unmapped)
        note(at, event, "no path of the session was connected any more", true);
  }
}

void DeviceLog::on_server(Machine& machine, const DeviceEvent& event) {
  switch (event.kind) {
    case DeviceKind::DeviceRequest:
      if (std::string name = name_in_open(event.header); !name.empty())
        machine.opening[event.request] = std::move(name);
      else if (const auto id = trace::rnbd_device_of(bytes_of(event.header)))
        machine.by_request[event.request] = numbered(false, *id);
      return;
    case DeviceKind::WriteBack: {
      const auto opened = machine.opening.find(event.request);
      const auto id = trace::rnbd_device_of(bytes_of(event.response));
      if (opened == machine.opening.end() || !id) return;
      const std::size_t at = device(false, opened->second);
      devices_[at].numbers.push_back(*id);
      return note(at, event, "the server opened it as device " + std::to_string(*id), false);
    }
    case DeviceKind::DeviceForceClosed:
      return note(numbered(false, event.device_id), event, "an operator of the server took the device away",
                  true);
    case DeviceKind::Respond:
      return on_request(machine, event);
    default:
      return on_export(machine, event);
  }
}

void DeviceLog::on_request(Machine& machine, const DeviceEvent& event) {
  const auto opened = machine.opening.find(event.request);
  if (opened != machine.opening.end()) {
    if (event.peer_errno != 0)
      note(device(false, opened->second), event,
           "the server answered the OPEN with " + errno_words(event.peer_errno), true);
    machine.opening.erase(opened);
    return;
  }
  const auto found = machine.by_request.find(event.request);
  if (found == machine.by_request.end()) return;
  if (event.peer_errno != 0)
    note(found->second, event, "the server answered an IO with " + errno_words(event.peer_errno), true);
  machine.by_request.erase(found);
}

void DeviceLog::on_export(Machine& machine, const DeviceEvent& event) {
  const auto device_of_handle = [&] {
    const auto found = machine.exports.find(event.handle);
    return found == machine.exports.end() ? kNoDevice : device(false, found->second);
  };
  const auto error = [&event] { return errno_words(static_cast<std::uint64_t>(event.error)); };
  switch (event.kind) {
    case DeviceKind::OpenExport:
      machine.opening[event.request] = event.name;
      machine.requests[event.operation] = event.request;
      return;
    case DeviceKind::ExportOpened: {
      const auto opened = machine.opening.find(machine.requests[event.operation]);
      if (opened == machine.opening.end()) return;
      if (event.error != 0) {
        note(device(false, opened->second), event, "the server could not open its export: " + error(), true);
        machine.opening.erase(opened);
        return;
      }
      machine.exports[event.handle] = opened->second;
      return;
    }
    case DeviceKind::CloseExport:
      machine.exports.erase(event.handle);
      return;
    case DeviceKind::Storage:
      machine.requests[event.operation] = event.request;
      return;
    case DeviceKind::StorageDone: {
      const auto found = machine.by_request.find(machine.requests[event.operation]);
      if (event.error != 0 && found != machine.by_request.end())
        note(found->second, event, "storage failed an IO with " + error(), true);
      return;
    }
    case DeviceKind::SyncFailed:
      return note(device_of_handle(), event, "a sync of the export by another session failed: " + error(),
                  true);
    case DeviceKind::CacheDamaged:
      return note(device_of_handle(), event, "a flush failed, and unflushed changes are lost: " + error(),
                  true);
    default:
      return;
  }
}

}  // namespace rtrs::tools::why
