// Handles inputs (requests, storage results, the end of a session): determines which actions become due.
#include "conformance/spec/server_devices.hpp"

#include <algorithm>
#include <bit>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/device_numbers.hpp"

namespace rtrs::spec {

ServerDevicesSpec::ServerDevicesSpec(Findings& findings, unsigned machine, const DeviceEvent* begin)
    : findings_(findings), machine_(machine), whole_(begin != nullptr) {
  if (begin == nullptr) return;
  generations_ = begin->generations;
  version_ = 0;
}

void ServerDevicesSpec::on(const DeviceEvent& event) {
  if (class_of(event.kind) == EventClass::input) end_step();
  event_ = event;
  switch (event.kind) {
    case DeviceKind::DeviceRequest:
      return arrived();
    case DeviceKind::ExportOpened:
      return export_opened();
    case DeviceKind::ExportMeasured:
      return export_measured();
    case DeviceKind::StorageDone:
      return storage_done();
    case DeviceKind::SyncFailed:
      if (const auto found = exports_.find(event.handle);
          found != exports_.end() && found->second.sync_error == 0)
        found->second.sync_error = event.error == 0 ? kIoError : wire_errno(event.error);
      return;
    case DeviceKind::DeviceForceClosed:
      return force_closed();
    case DeviceKind::SessionClosed:
      return session_closed();
    case DeviceKind::Storage:
      return storage();
    case DeviceKind::Respond:
      return respond();
    case DeviceKind::WriteBack:
      if (const auto found = requests_.find(event.request); found != requests_.end())
        found->second.written = std::string(event.response);
      return;
    case DeviceKind::OpenExport:
      return open_export();
    case DeviceKind::CloseExport:
      return close_export();
    case DeviceKind::MeasureExport:
      return measure_export();
    case DeviceKind::CacheDamaged:
      check(
          !whole_ || (damaged_ && *damaged_ == std::pair(event.handle, event.peer_errno)),
          Rule::device_cache_damaged,
          [&] { return "export " + std::to_string(event.handle) + " is reported damaged"; },
          "only the export and errno of a sync that just failed");
      damaged_.reset();
      return;
    case DeviceKind::SessionDrained:
      return session_drained();
    default:
      return;
  }
}

void ServerDevicesSpec::parse_io(Request& request) const {
  const std::string_view header = event_.header;
  request.result = kInvalid;
  if (header.size() < kIoMinBytes) return;
  const std::uint32_t rw = u32_at(header, 16);
  request.result = kNotSupported;
  if ((rw & 0xff) > static_cast<unsigned>(Opcode::write_zeroes)) return;
  Io& io = request.io;
  io.device_id = u32_at(header, 4);
  io.sector = number_at(header, 8, 8);
  io.opcode = static_cast<Opcode>(rw & 0xff);
  io.fua = (rw & 0x200) != 0;
  io.preflush = (rw & 0x400) != 0;
  io.nounmap = (rw & 0x800) != 0;
  io.size = u32_at(header, 20);
  if (header.size() >= kIoBytes) io.prio = u16_at(header, 24);
  const std::uint64_t sectors = (std::uint64_t{io.size} + kSectorBytes - 1) / kSectorBytes;
  const bool too_far = io.sector >= kMostSectors || sectors > kMostSectors - io.sector;
  request.result = kIoError;
  if (io.opcode != Opcode::flush && too_far) return;
  request.result = 0;
  request.message = Message::io;
}

// Sets `message` if the message is well-formed, otherwise sets `result` to the errno of the answer.
void ServerDevicesSpec::parse(Request& request) const {
  const std::string_view header = event_.header;
  request.result = kInvalid;
  if (header.size() < kDeviceHeaderBytes) return;
  const bool answer_fits = event_.reads && event_.data_len >= kSessInfoBytes;
  switch (u16_at(header, 0)) {
    case kSessInfo:
      if (header.size() < kSessInfoBytes || !answer_fits) return;
      request.version = static_cast<std::uint8_t>(header[4]);
      request.message = Message::sess_info;
      break;
    case kOpen: {
      if (header.size() < kOpenBytes || !event_.reads || event_.data_len < kOpenRspBytes) return;
      const std::string_view field = header.substr(6, kNameField);
      const std::size_t length = field.find('\0');
      if (static_cast<std::uint8_t>(header[4]) > 2 || length == 0 || length == std::string_view::npos) return;
      request.mode = static_cast<AccessMode>(header[4]);
      request.name = field.substr(0, length);
      request.message = Message::open;
      break;
    }
    case kClose:
      if (header.size() < kCloseBytes || event_.reads || event_.data_len != 0) return;
      request.io.device_id = u32_at(header, 4);
      request.message = Message::close;
      break;
    case kIo:
      return parse_io(request);
    default:
      return;
  }
  request.result = 0;
}

void ServerDevicesSpec::arrived() {
  // More requests than any server can have unanswered: the records are wrong, or the beginning of the trace
  // is missing.
  if (requests_.size() > 2 * kMostOperations) forget(requests_.begin()->first);
  const auto [at, fresh] = requests_.insert_or_assign(event_.request, Request{});
  static_cast<void>(fresh);
  Request& request = at->second;
  current_ = event_.request;
  request.reads = event_.reads;
  request.data_len = event_.data_len;
  touched_.push_back(event_.request);
  parse(request);
  if (session_closed_) return answer_with(event_.request, request, kNotConnected);
  if (request.message == Message::malformed) return answer_with(event_.request, request, request.result);
  decide(event_.request, request);
}

void ServerDevicesSpec::answer_with(std::uint64_t id, Request& request, std::uint16_t result) {
  request.due = Due::answer;
  request.result = result;
  touched_.push_back(id);
}

void ServerDevicesSpec::hold(Request& request, Due due) {
  request.due = due;
  request.held = true;
  ++operations_in_use_;
}

void ServerDevicesSpec::decide(std::uint64_t id, Request& request) {
  switch (request.message) {
    case Message::sess_info:
      version_ = std::min(request.version, kVersion);
      return answer_with(id, request, 0);
    case Message::open:
      return decide_open(id, request);
    case Message::close:
      return decide_close(request);
    case Message::io:
      return decide_io(request);
    case Message::malformed:
      break;
  }
}

void ServerDevicesSpec::decide_open(std::uint64_t id, Request& request) {
  Opening* const opening = opening_of(request.name);
  const auto open = open_export_of(request.name);
  const bool writes = request.mode != AccessMode::read_only;
  if (opening == nullptr && open == exports_.end()) {
    if (!whole_) return;
    if (exports_.size() + openings_.size() >= kMostDevices) return answer_with(id, request, kNoSpace);
    if (is_full()) return answer_with(id, request, kBusy);
    openings_.push_back({request.name, request.mode, {id}, {}, false});
    ++opens_;
    return hold(request, Due::opened);
  }
  const AccessMode mode = opening != nullptr ? opening->mode : open->second.mode;
  if (writes && mode == AccessMode::read_only) return answer_with(id, request, kNotPermitted);
  if (opening == nullptr) {
    if (is_full()) return answer_with(id, request, kBusy);
    request.handle = open->first;
    request.counted = true;
    ++open->second.in_flight;
    return hold(request, Due::measure);
  }
  if (is_full() || opening->waiters.size() >= kMostWaiters) return answer_with(id, request, kBusy);
  opening->waiters.push_back(id);
  hold(request, Due::opened);
}

void ServerDevicesSpec::decide_close(Request& request) {
  const auto found = export_with_id(request.io.device_id);
  if (found == exports_.end()) {
    if (whole_) answer_with(event_.request, request, 0);
    return;
  }
  if (is_full() || found->second.closers >= kMostWaiters) return answer_with(event_.request, request, kBusy);
  request.handle = found->first;
  ++found->second.closers;
  hold(request, Due::closed);
  found->second.closing = true;
}

// Returns the errno with which the device must refuse the IO; 0: none. kIoError: the IO ends beyond the
// device.
std::uint16_t ServerDevicesSpec::refusal(const Export& device, const Io& io) const {
  const Geometry& geometry = device.geometry;
  if (io.opcode == Opcode::secure_erase ||
      (io.opcode == Opcode::discard && geometry.max_discard_sectors == 0) ||
      (io.opcode == Opcode::write_zeroes && geometry.max_write_zeroes_sectors == 0))
    return kNotSupported;
  if (io.opcode == Opcode::flush) return 0;
  if (io.changes() && device.mode == AccessMode::read_only) return kNotPermitted;
  const std::uint32_t block = geometry.logical_block_size;
  if (io.size == 0 || io.size % block != 0 || io.sector % (block / kSectorBytes) != 0) return kInvalid;
  const bool fits = io.sector <= geometry.nsectors && io.size / kSectorBytes <= geometry.nsectors - io.sector;
  return fits ? std::uint16_t{0} : kIoError;
}

void ServerDevicesSpec::decide_io(Request& request) {
  const Io& io = request.io;
  const auto found = export_with_id(io.device_id);
  if (found == exports_.end()) {
    if (whole_) answer_with(event_.request, request, kNotConnected);
    return;
  }
  Export& device = found->second;
  if (device.closing) return answer_with(event_.request, request, kNotConnected);
  const bool moves = io.opcode == Opcode::read || io.opcode == Opcode::write;
  const bool removes = io.opcode == Opcode::discard || io.opcode == Opcode::secure_erase;
  const bool length_fits = moves     ? request.data_len == io.size
                           : removes ? request.data_len == 0 || request.data_len == io.size
                                     : request.data_len == 0;
  const bool direction_fits = io.opcode == Opcode::flush || request.reads == (io.opcode == Opcode::read);
  if (!length_fits || !direction_fits) return answer_with(event_.request, request, kInvalid);
  const std::uint16_t refused = refusal(device, io);
  if (refused != 0 && refused != kIoError) return answer_with(event_.request, request, refused);
  if (io.flushes() && device.sync_error != 0) return answer_with(event_.request, request, device.sync_error);
  if (is_full()) return answer_with(event_.request, request, kBusy);
  request.handle = found->first;
  request.counted = true;
  ++device.in_flight;
  hold(request, refused == 0 ? Due::storage : Due::measure);
}

void ServerDevicesSpec::export_opened() {
  const auto opening = std::find_if(openings_.begin(), openings_.end(),
                                    [&](const Opening& one) { return one.operation == event_.operation; });
  if (opening == openings_.end()) return;
  const bool usable = event_.error == 0 && is_valid(event_.geometry) && !session_closed_;
  if (event_.error == 0 && !usable) unwanted_.push_back(event_.handle);
  std::uint16_t result = usable ? std::uint16_t{0} : kNotConnected;
  if (event_.error != 0)
    result = wire_errno(event_.error);
  else if (!is_valid(event_.geometry))
    result = kIoError;
  if (usable) {
    Export& device = exports_[event_.handle];
    device = Export{};
    device.name = opening->name;
    device.mode = opening->mode;
    device.geometry = event_.geometry;
    device.instance = event_.instance;
  }
  const bool doubtful = usable && opening->may_be_doomed;
  if (doubtful) exports_[event_.handle].doubtful = true;
  for (const std::uint64_t id : opening->waiters) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;
    found->second.handle = event_.handle;
    answer_with(id, found->second, result);
    if (doubtful) found->second.due = Due::unknown;
  }
  openings_.erase(opening);
}

void ServerDevicesSpec::export_measured() {
  const auto at = operations_.find(event_.operation);
  if (at == operations_.end()) return;
  const std::uint64_t id = at->second;
  const auto found = requests_.find(id);
  const auto device = found == requests_.end() ? exports_.end() : exports_.find(found->second.handle);
  if (device == exports_.end()) return;
  Request& request = found->second;
  Geometry& geometry = device->second.geometry;
  if (event_.nsectors != 0 && event_.nsectors < kMostSectors)
    geometry.nsectors = event_.nsectors - event_.nsectors % (geometry.logical_block_size / kSectorBytes);
  touched_.push_back(id);
  if (request.storage_failed) return answer_with(id, request, kIoError);
  if (request.message == Message::open)
    return answer_with(id, request, device->second.closing ? kNotConnected : std::uint16_t{0});
  if (const std::uint16_t refused = refusal(device->second, request.io); refused != 0)
    return answer_with(id, request, refused);
  request.due = Due::storage;
}

void ServerDevicesSpec::storage_done() {
  const auto at = operations_.find(event_.operation);
  const auto found = at == operations_.end() ? requests_.end() : requests_.find(at->second);
  if (found == requests_.end()) return;
  const std::uint64_t id = at->second;
  Request& request = found->second;
  const auto device = exports_.find(request.handle);
  if (device == exports_.end()) {
    request.due = Due::unknown;
    return;
  }
  touched_.push_back(id);
  Export& of = device->second;
  const bool syncs = request.io.syncs();
  if (event_.error == kIoError && !event_.sync_failed) {
    request.storage_failed = true;
    request.due = Due::measure;
    measuring_ = event_.operation;
  } else if (event_.error == 0 && syncs) {
    request.due = Due::settled;
    request.sync = of.syncs;
  } else {
    const bool gone = event_.error == kNotConnected;
    answer_with(id, request, gone ? kIoError : wire_errno(event_.error));
    if (event_.error != 0 && event_.sync_failed) {
      if (of.sync_error == 0) of.sync_error = request.result;
      ++of.failures;
      damaged_ = {request.handle, request.result};
    }
  }
  if (syncs) settle(request.handle);
}

// A successful sync is answered only when every sync that started before its end has also ended, because a
// kernel reports a failed writeback to one sync only.
void ServerDevicesSpec::settle(std::uint64_t handle) {
  std::uint64_t oldest = ~std::uint64_t{0};
  for (const auto& [id, request] : requests_)
    if (request.handle == handle && request.due == Due::storage_done && request.io.syncs())
      oldest = std::min(oldest, request.sync);
  const Export& device = exports_.at(handle);
  for (auto& [id, request] : requests_) {
    if (request.handle != handle || request.due != Due::settled || request.sync >= oldest) continue;
    const bool failed = request.io.flushes() || request.failures != device.failures;
    answer_with(id, request, failed ? device.sync_error : std::uint16_t{0});
  }
}

void ServerDevicesSpec::force_closed() {
  const auto found = export_with_id(event_.device_id);
  if (found != exports_.end()) found->second.closing = true;
  if (found != exports_.end()) return;
  for (Opening& opening : openings_) opening.may_be_doomed = true;
}

void ServerDevicesSpec::session_closed() {
  session_closed_ = true;
  for (auto& [handle, device] : exports_) device.closing = true;
}

}  // namespace rtrs::spec
