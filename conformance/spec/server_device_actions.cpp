// Checks a server's actions against those that are due.
#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/device_numbers.hpp"
#include "conformance/spec/server_devices.hpp"

namespace rtrs::spec {

ServerDevicesSpec::Opening* ServerDevicesSpec::opening_of(std::string_view name) {
  const auto found = std::find_if(openings_.begin(), openings_.end(),
                                  [name](const Opening& one) { return one.name == name; });
  return found == openings_.end() ? nullptr : &*found;
}

ServerDevicesSpec::Exports::iterator ServerDevicesSpec::open_export_of(std::string_view name) {
  return std::find_if(exports_.begin(), exports_.end(),
                      [name](const auto& one) { return one.second.name == name && !one.second.closing; });
}

ServerDevicesSpec::Exports::iterator ServerDevicesSpec::export_with_id(std::uint32_t id) {
  return std::find_if(exports_.begin(), exports_.end(),
                      [id](const auto& one) { return one.second.id == id; });
}

bool ServerDevicesSpec::is_closing(std::string_view name) const {
  return std::any_of(exports_.begin(), exports_.end(),
                     [name](const auto& one) { return one.second.name == name && one.second.closing; });
}

void ServerDevicesSpec::storage() {
  const auto found = requests_.find(event_.request);
  if (found == requests_.end()) {
    check(!whole_, Rule::device_storage, "storage is asked for a request that nobody sent",
          "one that waits for it");
    return;
  }
  Request& request = found->second;
  const bool known = request.due != Due::unknown;
  const bool wanted = !known || request.due == Due::storage;
  check(
      wanted, Rule::device_storage, [&] { return "storage is asked for a request " + due_text(request); },
      "once, for an IO that its device allows");
  if (known && wanted) same_storage(request);
  take_operation(event_.request, request);
  request.due = Due::storage_done;
  if (const auto device = exports_.find(request.handle);
      known && device != exports_.end() && request.io.syncs()) {
    request.sync = ++device->second.syncs;
    request.failures = device->second.failures;
  }
}

// Storage results identify a request by its operation number.
void ServerDevicesSpec::take_operation(std::uint64_t id, Request& request) {
  operations_[event_.operation] = id;
  request.operation = event_.operation;
}

void ServerDevicesSpec::same_storage(const Request& request) {
  const Io& io = request.io;
  const bool flush = io.opcode == Opcode::flush;
  const std::uint64_t sector = flush ? 0 : io.sector;
  const std::uint32_t bytes = flush ? 0 : io.size;
  const bool same = event_.handle == request.handle && event_.opcode == io.opcode &&
                    event_.sector == sector && event_.bytes == bytes &&
                    event_.fua == (io.changes() && io.fua) && event_.preflush == (!flush && io.preflush) &&
                    event_.nounmap == (io.opcode == Opcode::write_zeroes && io.nounmap) &&
                    (!version_ || event_.prio == (*version_ >= kVersion ? io.prio : 0));
  check(
      same, Rule::device_storage_same,
      [&] {
        return std::string(name_of(event_.opcode)) + " of " + std::to_string(event_.bytes) +
               " bytes at sector " + std::to_string(event_.sector) + " of export " +
               std::to_string(event_.handle) + (event_.fua ? ", FUA" : "") +
               (event_.preflush ? ", PREFLUSH" : "") + (event_.nounmap ? ", NOUNMAP" : "") + ", priority " +
               std::to_string(event_.prio);
      },
      "what the message says");
}

std::string ServerDevicesSpec::due_text(const Request& request) {
  switch (request.due) {
    case Due::answer:
      return "that is to be answered with " + std::to_string(request.result);
    case Due::storage:
      return "that is to be given to storage";
    case Due::measure:
      return "whose export is to be measured";
    case Due::opened:
      return "whose device is being opened";
    case Due::storage_done:
      return "that storage works on";
    case Due::measured:
      return "whose export is being measured";
    case Due::settled:
      return "that waits for older syncs";
    case Due::closed:
      return "whose device is being closed";
    case Due::unknown:
      break;
  }
  return "of before the trace";
}

void ServerDevicesSpec::respond() {
  const auto found = requests_.find(event_.request);
  if (found == requests_.end()) {
    check(!whole_, Rule::device_answer, "a request is answered that is not there, or was answered",
          "once for each request");
    return;
  }
  const Request& request = found->second;
  const std::uint16_t result = event_.peer_errno;
  // ENOSPC is allowed if a slot may have used up its device ids.
  const bool no_ids =
      result == kNoSpace && request.due == Due::opened && opens_ > generations_ && generations_ != 0;
  // The session may have been closed before the trace began, or all operations may have been in use.
  const bool unseen = !whole_ && (result == kBusy || result == kNotConnected);
  if (request.due != Due::unknown && !no_ids && !unseen) responded_with(request, result);
  if (result == 0) check_response(request);
  check(result == 0 || !request.written, Rule::device_response,
        "a response is written for a request that fails", "none");
  forget(event_.request);
}

void ServerDevicesSpec::responded_with(const Request& request, std::uint16_t result) {
  if (!check(
          request.due == Due::answer, Rule::device_answer,
          [&] { return "a request is answered with " + std::to_string(result) + " " + due_text(request); },
          "when it is settled"))
    return;
  const bool sync = request.message == Message::io && request.io.syncs();
  check(
      result == request.result, sync ? Rule::device_sync : Rule::device_result,
      [&] { return "answered with " + std::to_string(result) + " a request " + due_text(request); },
      "the errno of the message's first flaw, of its device or of storage");
}

void ServerDevicesSpec::check_response(const Request& request) {
  if (request.message == Message::io || request.message == Message::close) {
    check(!request.written, Rule::device_response, "a response is written for an IO or a CLOSE", "none");
    return;
  }
  if (request.message == Message::malformed) return;
  if (!request.written) {
    check(request.due == Due::unknown, Rule::device_response,
          "an OPEN or SESS_INFO succeeds without a response", "WriteBack before it");
    return;
  }
  const std::string_view response = *request.written;
  if (request.message == Message::open) return check_open_rsp(request, response);
  const bool fine = response.size() == kSessInfoBytes && u16_at(response, 0) == kSessInfoRsp &&
                    static_cast<std::uint8_t>(response[4]) == std::min(request.version, kVersion);
  check(fine, Rule::device_response, "SESS_INFO_RSP names another version", "the lower one of both sides");
}

void ServerDevicesSpec::check_open_rsp(const Request& request, std::string_view response) {
  const auto found = exports_.find(request.handle);
  if (found == exports_.end()) return;
  Export& device = found->second;
  const Geometry& geometry = device.geometry;
  if (!check(response.size() == kOpenRspBytes && u16_at(response, 0) == kOpenRsp, Rule::device_response,
             "the response to an OPEN is no OPEN_RSP", "56 bytes of type 3"))
    return;
  const std::uint32_t id = u32_at(response, 4);
  const auto holder = export_with_id(id);
  const bool fresh = !device.id && holder == exports_.end() && given_ids_.insert(id).second;
  check(
      fresh || device.id == id, Rule::device_response,
      [&] { return "OPEN_RSP gives the id " + std::to_string(id); },
      "the id of this device, or at the first OPEN one that no device of the session had");
  if (!device.id) device.id = id;
  device.doubtful = false;
  const auto short_or = [](std::uint32_t value, std::uint16_t otherwise) {
    return value > 0xffff ? otherwise : static_cast<std::uint16_t>(value);
  };
  const std::uint8_t cache =
      static_cast<std::uint8_t>((geometry.fua ? 1 : 0) | (geometry.write_cache ? 2 : 0));
  const bool same = number_at(response, 8, 8) == geometry.nsectors &&
                    u32_at(response, 16) == geometry.max_hw_sectors &&
                    u32_at(response, 20) == geometry.max_write_zeroes_sectors &&
                    u32_at(response, 24) == geometry.max_discard_sectors &&
                    u32_at(response, 28) == geometry.discard_granularity &&
                    u32_at(response, 32) == geometry.discard_alignment &&
                    u16_at(response, 36) == short_or(geometry.physical_block_size, 0) &&
                    u16_at(response, 38) == short_or(geometry.logical_block_size, 0) &&
                    u16_at(response, 40) == short_or(geometry.max_segments, 0xffff) &&
                    u16_at(response, 42) == 0 && static_cast<std::uint8_t>(response[45]) == cache &&
                    static_cast<std::uint8_t>(response[46]) == geometry.features &&
                    number_at(response, 48, 8) == device.instance;
  check(
      same, Rule::device_response,
      [&] {
        return "OPEN_RSP announces " + std::to_string(number_at(response, 8, 8)) +
               " sectors, or other limits";
      },
      "geometry and cache instance of the export");
}

void ServerDevicesSpec::open_export() {
  const auto found = requests_.find(event_.request);
  const auto opening = std::find_if(openings_.begin(), openings_.end(), [&](const Opening& one) {
    return std::find(one.waiters.begin(), one.waiters.end(), event_.request) != one.waiters.end();
  });
  if (opening == openings_.end()) {
    const bool unknown = found == requests_.end() || found->second.due == Due::unknown;
    check(!whole_ && unknown, Rule::device_open, "an export is opened for a request that waits for none",
          "for an OPEN of a device that is not open");
    if (whole_ || found == requests_.end() || found->second.message != Message::open) return;
    if (exports_.size() + openings_.size() >= kMostDevices) return;
    openings_.push_back({found->second.name, event_.mode, {event_.request}, event_.operation, false});
    hold(found->second, Due::opened);
    return;
  }
  const bool ready = !opening->operation && !is_closing(opening->name) && !session_closed_;
  check(ready, Rule::device_open, "an export is opened while its name is open or closing, or twice",
        "when no other export of the name is open");
  check(event_.mode == opening->mode && is_name(event_.name, opening->name), Rule::device_open,
        "an export is opened with another name or mode", "those of the first OPEN");
  opening->operation = event_.operation;
}

// Traces store names as escaped text, so a name with a backslash or a byte that is not printable ASCII cannot
// be compared.
bool ServerDevicesSpec::is_name(std::string_view text, std::string_view name) {
  const bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '\\'; });
  return !plain || text == name;
}

void ServerDevicesSpec::close_export() {
  if (const auto vain = std::find(unwanted_.begin(), unwanted_.end(), event_.handle);
      vain != unwanted_.end()) {
    unwanted_.erase(vain);
    return;
  }
  const auto found = exports_.find(event_.handle);
  if (found == exports_.end()) {
    check(!whole_, Rule::device_close, "an export is closed that is not open", "once for each export");
    return;
  }
  const Export& device = found->second;
  check(
      device.doubtful || (device.closing && device.in_flight == 0), Rule::device_close,
      [&] {
        return std::string("export ") + std::to_string(event_.handle) + " is closed with " +
               std::to_string(device.in_flight) + " requests in flight" +
               (device.closing ? "" : ", and nobody asked for it");
      },
      "when it is to be closed and nothing of it is in flight");
  for (auto& [id, request] : requests_)
    if (request.due == Due::closed && request.handle == event_.handle) answer_with(id, request, 0);
  const std::string name = device.name;
  exports_.erase(found);
  Opening* const next = session_closed_ ? opening_of(name) : nullptr;
  if (next == nullptr || next->operation) return;
  for (const std::uint64_t id : next->waiters)
    if (const auto waiter = requests_.find(id); waiter != requests_.end())
      answer_with(id, waiter->second, kNotConnected);
  std::erase_if(openings_, [next](const Opening& one) { return &one == next; });
}

void ServerDevicesSpec::measure_export() {
  std::uint64_t id = current_;
  if (measuring_) {
    check(*measuring_ == event_.operation, Rule::device_measure,
          "an export is measured for another operation", "the one that failed with EIO");
    const auto at = operations_.find(*measuring_);
    if (at != operations_.end()) id = at->second;
    measuring_.reset();
  }
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second.due == Due::unknown) {
    if (check(!whole_, Rule::device_measure, "an export is measured that no request asks for", "none") &&
        found != requests_.end())
      take_operation(id, found->second);
    return;
  }
  Request& request = found->second;
  check(request.due == Due::measure && request.handle == event_.handle, Rule::device_measure,
        "an export is measured that needs no measuring",
        "for an IO beyond its end, an EIO of storage, and an OPEN of an open device");
  take_operation(id, request);
  request.due = Due::measured;
}

void ServerDevicesSpec::session_drained() {
  const bool all = session_closed_ && requests_.empty() && exports_.empty() && openings_.empty();
  check(!whole_ || (all && !drained_), Rule::device_drained, "the session is drained early, or twice",
        "once, when it is closed, no device is open and no request unanswered");
  drained_ = true;
}

// Removes an answered request.
void ServerDevicesSpec::forget(std::uint64_t id) {
  const auto found = requests_.find(id);
  const Request& request = found->second;
  if (request.operation) {
    const auto operation = operations_.find(*request.operation);
    if (operation != operations_.end() && operation->second == id) operations_.erase(operation);
  }
  if (request.held) --operations_in_use_;
  if (const auto device = exports_.find(request.handle); request.held && device != exports_.end()) {
    if (request.message == Message::close)
      --device->second.closers;
    else if (request.counted)
      --device->second.in_flight;
  }
  for (Opening& opening : openings_) std::erase(opening.waiters, id);
  std::erase_if(openings_, [](const Opening& one) { return one.waiters.empty() && !one.operation; });
  requests_.erase(found);
}

void ServerDevicesSpec::end_step() {
  for (const std::uint64_t id : touched_) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;
    const Due due = found->second.due;
    if (due != Due::answer && due != Due::storage && due != Due::measure) continue;
    const Rule rule = due == Due::answer    ? Rule::device_answer
                      : due == Due::storage ? Rule::device_storage
                                            : Rule::device_measure;
    check(
        false, rule, [&] { return "nothing is done for a request " + due_text(found->second); },
        "it, in the same step");
    forget(id);
  }
  if (!touched_.empty() || event_.kind == DeviceKind::SessionClosed ||
      event_.kind == DeviceKind::DeviceForceClosed || class_of(event_.kind) == EventClass::action)
    end_devices();
  touched_.clear();
  measuring_.reset();
  if (damaged_) check(false, Rule::device_cache_damaged, "a failed sync is not reported", "CacheDamaged");
  damaged_.reset();
}

void ServerDevicesSpec::end_devices() {
  for (const Opening& opening : openings_)
    check(opening.operation || is_closing(opening.name), Rule::device_open, "no export is opened for an OPEN",
          "OpenExport in the same step");
  std::erase_if(openings_, [&](const Opening& one) { return !one.operation && !is_closing(one.name); });
  for (auto& [handle, device] : exports_) {
    const bool late = device.closing && device.in_flight == 0 && !device.doubtful;
    check(!late, Rule::device_close, "an export that is to be closed is not closed",
          "CloseExport in the same step");
    if (late) device.doubtful = true;
  }
  check(unwanted_.empty(), Rule::device_close, "an export that was opened in vain is not closed",
        "CloseExport");
  unwanted_.clear();
  const bool done = session_closed_ && requests_.empty() && exports_.empty() && openings_.empty();
  check(!whole_ || !done || drained_, Rule::device_drained, "the session is not drained",
        "SessionDrained as soon as nothing is open and unanswered");
  if (done) drained_ = true;
}

}  // namespace rtrs::spec
