// Requests of the user and the messages they are made of.
#include <algorithm>

#include "backends/asio/error.hpp"
#include "backends/asio/remote_device.hpp"

namespace rtrs::asio {
namespace {

using wire::rnbd::Opcode;

// Fewer than a session queues (ClientOptions::max_queued), so that messages of the device always find room.
constexpr std::uint32_t kMaxPieces = 4000;

}  // namespace

RemoteDevice::Request& RemoteDevice::take_request(const DeviceIo& io) {
  if (free_requests_.empty()) {
    requests_.push_back(std::make_unique<Request>());
    free_requests_.push_back(requests_.back().get());
  }
  Request& request = *free_requests_.back();
  free_requests_.pop_back();
  request.io = io;
  request.sent = 0;
  request.outstanding = 0;
  request.all_sent = io.length == 0 && io.opcode != Opcode::flush;
  request.all_fua = true;
  request.error = {};
  return request;
}

void RemoteDevice::begin(Request& request) {
  if (close_begun_) {
    request.error = to_error_code(Errc::session_closed);
  } else if (!has_handle_) {
    request.error = to_error_code(Errc::not_open);
  }
  if (request.error || request.all_sent) {
    finished_.push_back(&request);
  } else {
    request.arrival = devices_.arrive(handle_);
    backlog_.push_back(&request);
    issue();
  }
  if (!finished_.empty()) settle_later();
}

// Sends as much as the device and the session take now.
void RemoteDevice::issue() {
  while (!again_.empty() && in_flight_ < kMaxPieces) {
    const std::uint32_t piece = again_.front();
    if (!submit(piece)) return;
    again_.pop_front();
  }
  while (!backlog_.empty() && again_.empty() && in_flight_ < kMaxPieces) {
    if (devices_.gate(handle_) == rnbd::Gate::hold) return;
    issue_next(*backlog_.front());
  }
}

// Sends one more piece of the request at the head of the backlog, or ends its sending.
void RemoteDevice::issue_next(Request& request) {
  if (!request.error && devices_.gate(handle_) == rnbd::Gate::refuse)
    request.error = of_errno(devices_.refusal_errno(handle_));
  Piece piece;
  if (!request.error) request.error = next_piece(request, piece);
  if (request.error) {
    request.all_sent = true;
  } else {
    ++request.outstanding;
    submit(take_piece(piece));
  }
  if (!request.all_sent) return;
  backlog_.pop_front();
  finish_if_done(request);
}

boost::system::error_code RemoteDevice::next_piece(Request& request, Piece& piece) {
  const DeviceIo& io = request.io;
  piece.request = &request;
  piece.what.opcode = io.opcode;
  if (io.opcode == Opcode::flush) {
    request.all_sent = true;
    return {};
  }
  const std::uint32_t block = geometry_.logical_block_size;
  if (io.offset % block != 0 || io.length % block != 0) return of_errno(EINVAL);
  if (io.offset > size_bytes() || io.length > size_bytes() - io.offset) return of_errno(EIO);
  const std::uint32_t bytes =
      rnbd::next_piece(geometry_, session_.client().max_io_size(), io.opcode, io.length - request.sent);
  piece.what.sector = (io.offset + request.sent) / wire::rnbd::kSectorBytes;
  piece.what.bytes = bytes;
  piece.what.fua =
      io.fua && io.opcode == Opcode::write && rnbd::durability(geometry_) == rnbd::Durability::fua;
  piece.what.nounmap = io.nounmap;
  if (io.data != nullptr) piece.data = io.data + request.sent;
  if (bytes == 0) return of_errno(EOPNOTSUPP);
  if (const int error = rnbd::check_piece(geometry_, writable(), piece.what)) return of_errno(error);
  request.all_fua = request.all_fua && piece.what.fua;
  request.sent += bytes;
  request.all_sent = request.sent == io.length;
  return {};
}

// False: not now; the piece stays as it is.
bool RemoteDevice::submit(std::uint32_t index) {
  Piece& piece = pieces_[index];
  switch (devices_.gate(handle_)) {
    case rnbd::Gate::hold:
      return false;
    case rnbd::Gate::refuse:
      end_piece(index, of_errno(devices_.refusal_errno(handle_)));
      return true;
    case rnbd::Gate::go:
      break;
  }
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  piece.ticket.nature = nature_of(piece);
  piece.ticket.arrival = piece.request->arrival;
  const rnbd::IoStart start = devices_.begin_io(handle_, piece.ticket);
  piece.ticket = start.ticket;
  const auto framing = rnbd::encode_io(start.device_id, piece.what, header);
  IoRequest request;
  request.direction = framing.direction == wire::Direction::read ? Direction::read : Direction::write;
  request.affinity = next_affinity_++;
  request.user_header = header;
  request.data = {piece.data, framing.data_len};
  ++in_flight_;
  session_.async_request(
      request, [this, index](const boost::system::error_code& error) { on_piece_done(index, error); });
  return true;
}

// A write with FUA to a device without a volatile cache is sent as a plain one, and promises the same.
rnbd::IoNature RemoteDevice::nature_of(const Piece& piece) const {
  const bool as_written = rnbd::durability(geometry_) == rnbd::Durability::as_written;
  return rnbd::nature_of(piece.what.opcode, piece.what.fua || (piece.request->io.fua && as_written));
}

std::uint32_t RemoteDevice::take_piece(const Piece& piece) {
  if (free_pieces_.empty()) {
    free_pieces_.push_back(static_cast<std::uint32_t>(pieces_.size()));
    pieces_.emplace_back();
  }
  const std::uint32_t index = free_pieces_.back();
  free_pieces_.pop_back();
  pieces_[index] = piece;
  return index;
}

void RemoteDevice::on_piece_done(std::uint32_t index, const boost::system::error_code& error) {
  --in_flight_;
  rnbd::IoDone done;
  done.device = handle_;
  done.delivered = !error || error.category() == boost::system::generic_category();
  if (done.delivered) done.peer_errno = static_cast<std::uint16_t>(error.value());
  done.ticket = pieces_[index].ticket;
  actions_.clear();
  const rnbd::Disposition disposition = devices_.on(done, actions_);
  if (disposition == rnbd::Disposition::retry_after_remap && !close_begun_) {
    again_.push_back(index);
  } else {
    end_piece(index, disposition == rnbd::Disposition::lost ? of_errno(EIO) : error);
  }
  perform();
  settle();
}

void RemoteDevice::end_piece(std::uint32_t index, const boost::system::error_code& error) {
  Request& request = *pieces_[index].request;
  free_pieces_.push_back(index);
  --request.outstanding;
  if (error && !request.error) request.error = error;
  finish_if_done(request);
}

void RemoteDevice::finish_if_done(Request& request) {
  if (!request.all_sent || request.outstanding != 0) return;
  const bool flush = request.io.fua && !request.error && !request.all_fua &&
                     rnbd::durability(geometry_) != rnbd::Durability::as_written;
  if (!flush) return finished_.push_back(&request);
  request.io = DeviceIo{Opcode::flush, 0, 0, nullptr, false};
  if (close_begun_) {
    request.error = to_error_code(Errc::session_closed);
    return finished_.push_back(&request);
  }
  request.all_sent = false;
  backlog_.push_front(&request);
}

// Ends the sending of everything that was not sent yet.
void RemoteDevice::abandon(const boost::system::error_code& error) {
  for (; !again_.empty(); again_.pop_front()) end_piece(again_.front(), error);
  while (!backlog_.empty()) {
    Request& request = *backlog_.front();
    backlog_.pop_front();
    request.error = error;
    request.all_sent = true;
    finish_if_done(request);
  }
}

}  // namespace rtrs::asio
