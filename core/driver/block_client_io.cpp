// Splits user requests into RNBD messages and combines their results.
#include <algorithm>
#include <utility>

#include "core/driver/block_client_impl.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

using wire::rnbd::Opcode;
using namespace wire::linux_errno;

namespace {

bool wants_fua(const BlockRequest& io, const rnbd::Geometry& geometry) noexcept {
  return io.fua && io.opcode == Opcode::write && rnbd::durability(geometry) == rnbd::Durability::fua;
}

}  // namespace

std::uint32_t BlockClient::Impl::take_request(rnbd::DeviceHandle device, Nanos now, const BlockRequest& io) {
  if (free_requests.empty()) {
    requests.emplace_back();
    free_requests.push_back(requests, static_cast<std::uint32_t>(requests.size() - 1));
  }
  const std::uint32_t index = free_requests.pop_front(requests);
  Request& request = requests[index];
  const bool empty = io.length == 0 && io.opcode != Opcode::flush;
  request = Request{.io = io, .device = device, .since = now, .all_sent = empty};
  ++under_way;
  return index;
}

void BlockClient::Impl::begin(Fabric& fabric, Nanos now, std::uint32_t index) {
  Request& request = requests[index];
  if (devices.state(request.device) == rnbd::DeviceState::unmapped) {
    request.result = {Errc::not_open, kEnodev};
    request.all_sent = true;
  }
  if (request.all_sent) return finish(index);
  request.arrival = devices.arrive(request.device);
  device_of(request.device).backlog.push_back(requests, index);
  note_held(request);
  issue(fabric, now);
}

// Sends as many pieces as the devices and the session accept, one piece of each device in turn.
void BlockClient::Impl::issue(Fabric& fabric, Nanos now) {
  bool progress = true;
  while (progress && queued != 0 && in_flight < max_pieces) {
    progress = false;
    for (unsigned count = 0; count < slots && in_flight < max_pieces; ++count) {
      turn = turn + 1 < slots ? turn + 1 : 0;
      progress = issue_one(fabric, now, devices_by_slot[turn]) || progress;
    }
  }
  update_idle_since(now);
}

// Holds requests that need a path or a permit here, because their queue_timeout would start again in the
// session.
rnbd::Gate BlockClient::Impl::gate_of(Nanos now, std::uint32_t request) const noexcept {
  const rnbd::Gate gate = devices.gate(requests[request].device);
  const bool blocked = gate == rnbd::Gate::go && session.queue_ends(now) != kNever;
  return blocked ? rnbd::Gate::hold : gate;
}

// Returns false if nothing can be sent for the device now.
bool BlockClient::Impl::issue_one(Fabric& fabric, Nanos now, Device& device) {
  if (!device.again.empty()) {
    const std::uint32_t piece = device.again.front();
    const std::uint32_t owner = pieces[piece].request;
    const rnbd::Gate gate = gate_of(now, owner);
    if (gate == rnbd::Gate::hold) return false;
    device.again.pop_front(pieces);
    --queued;
    if (gate == rnbd::Gate::refuse) {
      end_piece(piece, refusal(requests[owner].device));
    } else if (!still_fits(pieces[piece])) {
      requests[owner].misfit = true;
      end_piece(piece, {});
    } else {
      send_piece(fabric, now, piece);
    }
    return true;
  }
  if (device.backlog.empty()) return false;
  const rnbd::Gate gate = gate_of(now, device.backlog.front());
  if (gate == rnbd::Gate::hold) return false;
  issue_next(fabric, now, device, gate);
  return true;
}

// Sends one more piece of the request at the head of the backlog, or fails the request.
void BlockClient::Impl::issue_next(Fabric& fabric, Nanos now, Device& device, rnbd::Gate gate) {
  const std::uint32_t index = device.backlog.front();
  Request& request = requests[index];
  if (request.flushing && flushed_elsewhere(request)) reset_progress(request);
  Result failed = request.result;
  if (!failed && gate == rnbd::Gate::refuse) failed = refusal(request.device);
  const std::uint32_t piece = take_piece(index);
  if (!failed) failed = next_piece(request, pieces[piece]);
  if (failed) {
    free_pieces.push_back(pieces, piece);
    request.result = failed;
    request.all_sent = true;
  } else {
    ++request.outstanding;
  }
  // The request leaves the backlog before the piece is sent, because a piece that the session does not accept
  // may end the request.
  if (request.all_sent) {
    device.backlog.pop_front(requests);
    --queued;
  }
  if (failed) return finish_if_done(index);
  send_piece(fabric, now, piece);
}

BlockClient::Impl::Result BlockClient::Impl::next_piece(Request& request, Piece& piece) const {
  const BlockRequest& io = request.io;
  const rnbd::Geometry& geometry = *devices.geometry(request.device);
  piece.what.opcode = request.flushing ? Opcode::flush : io.opcode;
  piece.what.prio = io.prio;
  if (piece.what.opcode == Opcode::flush) {
    request.all_sent = true;
    return {};
  }
  const std::uint32_t block = geometry.logical_block_size;
  const std::uint64_t size = geometry.nsectors * wire::rnbd::kSectorBytes;
  if (io.offset % block != 0 || io.length % block != 0) return {Errc::invalid, kEinval};
  if (io.offset > size || io.length > size - io.offset) return {Errc::invalid, kEio};
  const bool writable = devices_by_slot[rnbd::slot_of(request.device)].writable;
  // Write protection is checked before the device's capabilities, because a server reports no discard support
  // for a device opened read-only.
  const bool changes = io.opcode != Opcode::read && io.opcode != Opcode::secure_erase;
  if (changes && !writable) return {Errc::invalid, kEperm};
  const std::uint32_t bytes =
      rnbd::next_piece(geometry, session.max_io_size(), io.opcode, io.length - request.sent);
  if (bytes == 0) return {Errc::invalid, kEopnotsupp};
  piece.at = request.sent;
  piece.what.sector = (io.offset + request.sent) / wire::rnbd::kSectorBytes;
  piece.what.size = bytes;
  piece.what.fua = wants_fua(io, geometry);
  piece.what.nounmap = io.nounmap;
  if (const std::uint16_t error = rnbd::check_io(geometry, writable, piece.what))
    return {Errc::invalid, error};
  request.all_fua = request.all_fua && piece.what.fua;
  request.sent += bytes;
  request.all_sent = request.sent == io.length;
  return {};
}

// After a reopen, the server may have other blocks, another size or other limits than those that the piece
// was made for.
bool BlockClient::Impl::still_fits(const Piece& piece) const noexcept {
  if (piece.what.opcode == Opcode::flush) return true;
  const Request& request = requests[piece.request];
  const rnbd::Geometry& geometry = *devices.geometry(request.device);
  const BlockRequest& io = request.io;
  const std::uint32_t block = geometry.logical_block_size;
  const bool whole_blocks = io.offset % block == 0 && io.length % block == 0 && piece.at % block == 0;
  const bool writable = devices_by_slot[rnbd::slot_of(request.device)].writable;
  return whole_blocks && piece.what.fua == wants_fua(io, geometry) &&
         rnbd::next_piece(geometry, session.max_io_size(), io.opcode, piece.what.size) == piece.what.size &&
         rnbd::check_io(geometry, writable, piece.what) == 0;
}

BlockClient::Impl::Result BlockClient::Impl::refusal(rnbd::DeviceHandle device) const noexcept {
  const rnbd::DeviceState state = devices.state(device);
  const bool mapped = state != rnbd::DeviceState::unmapped && state != rnbd::DeviceState::unmapping;
  return {mapped ? Errc::peer_error : Errc::not_open, devices.refusal_errno(device)};
}

// Precondition: the gate of the piece's device is open.
void BlockClient::Impl::send_piece(Fabric& fabric, Nanos now, std::uint32_t index) {
  Piece& piece = pieces[index];
  const Request& request = requests[piece.request];
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  const rnbd::IoBegun input{request.device, nature_of(piece), request.arrival, now};
  if (recorder != nullptr) recorder->input(kClientDevices, input);
  const rnbd::IoStart start = devices.begin_io(input);
  if (recorder != nullptr)
    recorder->device_actions(kClientDevices, std::span<const rnbd::ClientAction>(), start);
  piece.ticket = start.ticket;
  piece.what.device_id = start.device_id;
  const auto framing = rnbd::encode_io(piece.what, header);
  IoRequest message;
  message.direction = framing.direction;
  message.affinity = affinity.next(in_flight != 0, framing.data_len);
  message.user_header = header;
  message.data = {framing.data_len == 0 ? nullptr : request.io.data + piece.at, framing.data_len};
  if (framing.data_len != 0) message.region = request.io.region;
  message.region_offset = request.io.region_offset + static_cast<std::uint32_t>(piece.at);
  message.user_data = index;
  const Errc taken = session.submit(fabric, now, message);
  if (taken == Errc::ok) {
    ++in_flight;
  } else {
    on_piece_done(fabric, now, index, taken, 0);
  }
}

// A write with FUA to a device without a volatile cache is sent without FUA, because the guarantee is the
// same.
rnbd::IoNature BlockClient::Impl::nature_of(const Piece& piece) const {
  const Request& request = requests[piece.request];
  if (request.flushing) return {false, true, true};
  const bool as_written =
      request.io.fua && rnbd::durability(*devices.geometry(request.device)) == rnbd::Durability::as_written;
  return rnbd::nature_of(piece.what.opcode, piece.what.fua || as_written);
}

std::uint32_t BlockClient::Impl::take_piece(std::uint32_t request) {
  if (free_pieces.empty()) {
    pieces.emplace_back();
    free_pieces.push_back(pieces, static_cast<std::uint32_t>(pieces.size() - 1));
  }
  const std::uint32_t index = free_pieces.pop_front(pieces);
  pieces[index] = Piece{};
  pieces[index].request = request;
  return index;
}

void BlockClient::Impl::on_piece_done(Fabric& fabric, Nanos now, std::uint32_t index, Errc result,
                                      std::uint16_t peer_errno) {
  const rnbd::DeviceHandle device = requests[pieces[index].request].device;
  rnbd::IoDone done;
  done.device = device;
  done.delivered = was_answered(result);
  done.peer_errno = peer_errno;
  done.ticket = pieces[index].ticket;
  const rnbd::Disposition disposition = step(now, done);
  if (disposition == rnbd::Disposition::retry_after_remap && !close_begun) {
    device_of(device).again.push_back(pieces, index);
    note_held(requests[pieces[index].request]);
  } else if (disposition == rnbd::Disposition::lost) {
    end_piece(index, {Errc::cache_lost, kEio});
  } else {
    const rnbd::IoTicket& ticket = pieces[index].ticket;
    Request& request = requests[pieces[index].request];
    if (disposition == rnbd::Disposition::ok && ticket.nature.changes) {
      request.cache = std::min(request.cache, ticket.cache);
      // No OPEN is answered while a piece is in flight, so openings() has not changed since the piece was
      // sent.
      if (!ticket.nature.durable) request.opening = std::min(request.opening, devices.openings(device));
    }
    const std::uint16_t error = result == Errc::peer_error ? peer_errno : to_linux_errno(result);
    end_piece(index, {result, error});
  }
  // A successful IO without actions changes no state that perform() reads.
  if (disposition != rnbd::Disposition::ok || !actions.empty()) perform(fabric, now);
}

void BlockClient::Impl::end_piece(std::uint32_t index, const Result& result) {
  const std::uint32_t owner = pieces[index].request;
  Request& request = requests[owner];
  free_pieces.push_back(pieces, index);
  --request.outstanding;
  const bool worse = may_still_execute(result.result) && !may_still_execute(request.result.result);
  if (result && (!request.result || worse)) request.result = result;
  finish_if_done(owner);
}

void BlockClient::Impl::finish_if_done(std::uint32_t index) {
  Request& request = requests[index];
  if (!request.all_sent || request.outstanding != 0) return;
  const bool misfit = request.misfit && !request.result;
  if (misfit || has_lost_piece(request) || flushed_elsewhere(request)) return restart_request(index);
  const bool flush = !request.flushing && request.io.fua && !request.result && !request.all_fua;
  const rnbd::Geometry* geometry = flush ? devices.geometry(request.device) : nullptr;
  if (geometry == nullptr || rnbd::durability(*geometry) == rnbd::Durability::as_written)
    return finish(index);
  request.flushing = true;
  // A loss reported since the request arrived concerns the request too, so only `changes` is updated: the
  // flush covers all changes that have succeeded until now.
  request.arrival.changes = devices.arrive(request.device).changes;
  if (close_begun) {
    request.result = {Errc::session_closed, kEshutdown};
    return finish(index);
  }
  request.all_sent = false;
  device_of(request.device).backlog.push_front(requests, index);
  note_held(request);
}

// Returns true if a piece succeeded in a server cache that has been replaced since then. The request must
// restart: a FLUSH may already have reported this loss, and later FLUSHes do not report it again.
bool BlockClient::Impl::has_lost_piece(const Request& request) const noexcept {
  return !request.result && !request.flushing && request.cache != kNoCache &&
         request.cache != devices.caches(request.device);
}

// Returns true if a piece was answered before the device was last reopened. A flush then does not prove that
// the piece is durable: a sync may have failed in between, known only to a server process that has exited.
// Checked before the flush is sent and after it completed.
bool BlockClient::Impl::flushed_elsewhere(const Request& request) const noexcept {
  return !request.result && request.io.fua && request.opening != kNoOpening &&
         request.opening != devices.openings(request.device);
}

void BlockClient::Impl::restart_request(std::uint32_t index) {
  Request& request = requests[index];
  if (close_begun) {
    request.result = {Errc::session_closed, kEshutdown};
    return finish(index);
  }
  reset_progress(request);
  device_of(request.device).backlog.push_front(requests, index);
  note_held(request);
}

void BlockClient::Impl::reset_progress(Request& request) noexcept {
  request.sent = 0;
  request.all_sent = false;
  request.all_fua = true;
  request.flushing = false;
  request.misfit = false;
  request.cache = kNoCache;
  request.opening = kNoOpening;
}

void BlockClient::Impl::finish(std::uint32_t index) {
  finished.push_back(requests, index);
}

// Ends all pieces and requests that wait to be sent; pieces in flight still complete.
void BlockClient::Impl::abandon(Device& device, const Result& result) {
  while (!device.again.empty()) {
    end_piece(device.again.pop_front(pieces), result);
    --queued;
  }
  while (!device.backlog.empty()) {
    const std::uint32_t index = device.backlog.pop_front(requests);
    --queued;
    Request& request = requests[index];
    if (!request.result) request.result = result;
    request.all_sent = true;
    finish_if_done(index);
  }
}

}  // namespace rtrs
