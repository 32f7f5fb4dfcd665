#include "tools/lib/trace/roce/trace_import.hpp"

#include <algorithm>

#include "core/record/chain_hash.hpp"
#include "core/wire/imm.hpp"
#include "tools/lib/trace/roce/cm.hpp"

namespace rtrs::roce {
namespace {

using trace::WireCmKind;
using trace::WireOp;

WireOp op_of(Message::Op op) noexcept {
  switch (op) {
    case Message::Op::write:
      return WireOp::write;
    case Message::Op::write_imm:
      return WireOp::write_imm;
    case Message::Op::send:
      return WireOp::send;
    case Message::Op::send_imm:
      return WireOp::send_imm;
    case Message::Op::send_inv:
      return WireOp::send_inv;
  }
  return WireOp::write;
}

// Removes the zeros with which CM pads private data, but keeps at least 56 bytes.
Bytes trimmed(const std::vector<std::byte>& data) {
  std::size_t size = data.size();
  while (size > wire::kConnRspBytes && data[size - 1] == std::byte{0}) --size;
  return Bytes(data).first(std::min(size, data.size()));
}

std::uint64_t digest_of(Bytes data) {
  return data.empty() ? 0 : trace::content_digest(data.data(), data.size());
}

}  // namespace

template <class Note>
void TraceImport::put(const Connection& connection, const Note& note) {
  if (error_ != 0) return;
  error_ = writer_.append_note(connection.instance, note);
  ++counters_.notes;
}

void TraceImport::on(const WireEvent& event) {
  std::vector<Connection>& connections = connections_[event.iwarp ? 1 : 0];
  while (connections.size() <= event.connection) connections.emplace_back();
  Connection& connection = connections[event.connection];
  if (event.kind == WireEvent::Kind::request) return request(event, connection);
  if (!connection.ours) return;
  switch (event.kind) {
    case WireEvent::Kind::request:
      return;
    case WireEvent::Kind::reply:
    case WireEvent::Kind::reject:
    case WireEvent::Kind::closed:
      return cm(event, connection);
    case WireEvent::Kind::message:
      return message(event, connection);
    case WireEvent::Kind::gap: {
      trace::WireGap note;
      note.now = event.time - options_.time_zero;
      note.key = connection.key;
      note.sent = event.to_server;
      note.packets = event.number;
      return put(connection, note);
    }
  }
}

void TraceImport::request(const WireEvent& event, Connection& connection) {
  const auto parsed = wire::parse_conn_req(event.data);
  if (parsed) {
    place(parsed.value, connection);
  } else if (event.number == kTcpServicePrefix + options_.port) {
    ++counters_.unparsed_requests;
    connection.key = ConKey{0, 0, ++unparsed_};
  } else {
    ++counters_.other_connections;
    return;
  }
  connection.ours = true;
  ++counters_.connections;
  cm(event, connection);
}

void TraceImport::without_setup(std::uint64_t packets, std::uint64_t time) {
  trace::WireGap note;
  note.now = time - std::min(time, options_.time_zero);
  note.packets = packets;
  put(Connection{}, note);
}

// Assigns the connection to a connection attempt of its path. A new attempt begins if the reconnect counter
// changes, or if a connection of the current attempt is requested again.
void TraceImport::place(const wire::ConnReq& request, Connection& connection) {
  Session& session = sessions_[request.paths_uuid];
  if (session.instance == 0) session.instance = static_cast<InstanceId>(++counters_.sessions);
  const auto [found, added] =
      path_index_.try_emplace(std::pair(request.paths_uuid, request.sess_uuid), paths_.size());
  if (added) {
    paths_.push_back(Path{session.instance, session.paths++, 0, {}});
    ++counters_.paths;
  }
  Path& path = paths_[found->second];
  const bool present =
      !path.attempts.empty() && path.attempts.back().recon_cnt == request.recon_cnt &&
      (request.cid >= path.attempts.back().cids.size() || !path.attempts.back().cids[request.cid]);
  if (!present) {
    path.attempts.emplace_back();
    path.attempts.back().epoch = ++path.epochs;
    path.attempts.back().recon_cnt = request.recon_cnt;
  }
  Attempt& attempt = path.attempts.back();
  if (attempt.cids.size() <= request.cid) attempt.cids.resize(request.cid + 1U);
  attempt.cids[request.cid] = true;
  connection.instance = path.session;
  connection.key = ConKey{path.index, request.cid, attempt.epoch};
  connection.path = found->second;
  connection.attempt = path.attempts.size() - 1;
  connection.parsed = true;
}

ChunkTable* TraceImport::chunks(const Connection& connection) {
  return connection.parsed ? &paths_[connection.path].attempts[connection.attempt].chunks : nullptr;
}

void TraceImport::cm(const WireEvent& event, const Connection& connection) {
  trace::WireCm note;
  note.now = event.time - options_.time_zero;
  note.key = connection.key;
  note.sent = event.to_server;
  if (event.kind == WireEvent::Kind::closed) {
    note.kind = WireCmKind::dreq;
    return put(connection, note);
  }
  note.private_data = trimmed(event.data);
  note.kind = event.kind == WireEvent::Kind::request ? WireCmKind::req
              : event.kind == WireEvent::Kind::reply ? WireCmKind::rep
                                                     : WireCmKind::rej;
  ChunkTable* table = chunks(connection);
  if (note.kind == WireCmKind::rep && connection.key.con == 0 && table != nullptr)
    table->connected(note.private_data);
  put(connection, note);
}

std::pair<std::size_t, std::size_t> TraceImport::head_of(const WireEvent& event,
                                                         const Connection& connection) {
  const Message& message = event.message;
  const std::size_t size = message.payload.size();
  // A server's write carries only data, even if it has the immediate of a response.
  const bool answer = message.op == Message::Op::write_imm && !event.to_server;
  if (message.op == Message::Op::write || answer) return {size, 0};
  if (message.op != Message::Op::write_imm || size == 0) return {0, std::min(size, trace::kMaxHead)};
  static const ChunkTable kUnknown;
  const ChunkTable* table = chunks(connection);
  const auto layout =
      find_request(table != nullptr ? *table : kUnknown, message.imm, message.remote_addr, message.payload);
  if (!layout) {
    ++counters_.headless;
    const std::size_t kept = std::min<std::size_t>(size, 1024);
    return {size - kept, kept};
  }
  const std::size_t from = std::max(layout->user, size - std::min(size, trace::kMaxHead));
  return {from, size - from};
}

// On iWARP, a response with data looks like data followed by a response without it. A server joins them only
// if that was agreed.
void TraceImport::split(const WireEvent& event, const Connection& connection) {
  WireEvent part = event;
  part.iwarp = false;
  part.message.op = Message::Op::write;
  part.message.imm = 0;
  message(part, connection);
  part.message = Message{};
  part.message.op = Message::Op::write_imm;
  part.message.imm = event.message.imm;
  message(part, connection);
}

void TraceImport::message(const WireEvent& event, const Connection& connection) {
  const Message& message = event.message;
  if (event.iwarp && !event.to_server && message.op == Message::Op::write_imm && !message.payload.empty()) {
    const ChunkTable* agreed = chunks(connection);
    if (agreed == nullptr || !agreed->joins_data()) return split(event, connection);
  }
  if (is_filled_invalidation(message)) {
    WireEvent bare = event;
    bare.message.payload.clear();
    return this->message(bare, connection);
  }
  const Bytes payload(message.payload);
  const auto head = head_of(event, connection);
  std::size_t from = head.first;
  std::size_t length = head.second;
  const bool write = message.op == Message::Op::write || message.op == Message::Op::write_imm;
  if (options_.payload && write) {
    from = payload.size() - std::min(payload.size(), trace::kMaxHead);
    length = payload.size() - from;
  }
  const auto fill = [&](auto note) {
    note.now = event.time - options_.time_zero;
    note.key = connection.key;
    note.op = op_of(message.op);
    note.has_imm = message.has_imm();
    note.imm = message.imm;
    note.rkey = message.rkey;
    note.remote_addr = message.remote_addr;
    note.length = static_cast<std::uint32_t>(payload.size());
    note.head = payload.subspan(from, length);
    note.digest = digest_of(from > 0 ? payload.first(from) : payload.subspan(length));
    put(connection, note);
  };
  if (event.to_server) {
    fill(trace::WireSent{});
  } else {
    fill(trace::WireReceived{});
  }
  ChunkTable* table = chunks(connection);
  if (event.to_server || table == nullptr) return;
  if (message.op == Message::Op::send && connection.key.con == 0) table->offered(payload);
  if (message.op != Message::Op::send_imm) return;
  const auto key = wire::parse_rkey_rsp(payload, table->depth());
  if (key) table->renewed(key.value.buf_id, key.value.rkey);
}

}  // namespace rtrs::roce
