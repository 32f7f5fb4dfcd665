#include "tools/lib/trace/roce/analyzer.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::roce {

void Analyzer::packet(std::uint64_t time, Packet&& packet) {
  ++counters_.packets;
  now_ = std::max(now_, time);
  if (packet.bad_icrc) ++counters_.bad_icrc;
  if (packet.dest_qp == kCmQueuePair) {
    if (auto message = decode_cm(packet)) cm(packet, std::move(*message));
  } else {
    transport(std::move(packet));
  }
  release(false);
}

void Analyzer::finish() {
  release(true);
}

void Analyzer::add(WireEvent&& event, Stream::Psn last, bool waits) {
  event.time = now_;
  const bool late = connections_[event.connection]->closed;
  pending_.push_back(Pending{std::move(event), last, waits, late});
}

bool Analyzer::arrived(const Pending& pending, const Connection& connection) {
  if (!pending.waits) return true;
  if (pending.event.kind == WireEvent::Kind::reply) return connection.ready;
  return connection.to_client->acknowledged() > pending.last;
}

void Analyzer::report(WireEvent& event) {
  reported_ = std::max(reported_, event.time);
  sink_(event);
}

// Reports pending events in capture order. Therefore an event that must wait delays all later events.
void Analyzer::release(bool all) {
  while (!pending_.empty()) {
    Pending& first = pending_.front();
    Connection& connection = *connections_[first.event.connection];
    if (arrived(first, connection)) {
      report(first.event);
    } else if (!all && first.event.time + kPatience > now_) {
      return;
    } else if (first.event.kind != WireEvent::Kind::reply && !first.late && counters_.acknowledgements == 0) {
      doubt(first, connection);
      report(first.event);
    } else {
      set_aside(connection, std::move(first));
    }
    pending_.pop_front();
  }
}

// The acknowledgement may come later, for example after a client was stopped for minutes.
void Analyzer::set_aside(Connection& connection, Pending&& pending) {
  ++counters_.unacknowledged;
  connection.unreceived.push_back(std::move(pending));
  if (connection.unreceived.size() > kMostSetAside) connection.unreceived.pop_front();
}

// Reports messages whose acknowledgement came late. The order of the trace is that of time, so they have the
// time of the last reported event.
void Analyzer::report_late(Connection& connection) {
  while (!connection.unreceived.empty() && arrived(connection.unreceived.front(), connection)) {
    --counters_.unacknowledged;
    connection.unreceived.front().event.time = reported_;
    report(connection.unreceived.front().event);
    connection.unreceived.pop_front();
  }
}

// Handles a message in a capture without acknowledgements. Such a capture does not show what clients
// received, so the message is assumed to have arrived, and one gap event per connection reports the
// uncertainty.
void Analyzer::doubt(const Pending& pending, Connection& connection) {
  ++counters_.unproven;
  if (std::exchange(connection.doubted, true)) return;
  WireEvent gap;
  gap.kind = WireEvent::Kind::gap;
  gap.to_server = false;
  gap.connection = pending.event.connection;
  gap.time = pending.event.time;
  report(gap);
}

std::unique_ptr<Stream> Analyzer::stream(ConnectionNumber number, bool to_server, std::uint32_t psn) {
  Stream::Sink sink;
  sink.message = [this, number, to_server](std::uint64_t, Stream::Psn last, Message&& message) {
    WireEvent event;
    event.kind = WireEvent::Kind::message;
    event.to_server = to_server;
    event.connection = number;
    event.message = std::move(message);
    add(std::move(event), last, !to_server);
  };
  sink.gap = [this, number, to_server](std::uint64_t, std::uint64_t packets) {
    ++counters_.gaps;
    counters_.lost_packets += packets;
    WireEvent event;
    event.kind = WireEvent::Kind::gap;
    event.to_server = to_server;
    event.connection = number;
    event.number = packets;
    add(std::move(event));
  };
  return std::make_unique<Stream>(psn, std::move(sink));
}

void Analyzer::cm(const Packet& packet, CmMessage&& message) {
  switch (message.attribute) {
    case CmAttribute::request:
      return cm_request(packet, std::move(message));
    case CmAttribute::reply:
      return cm_reply(packet, std::move(message));
    case CmAttribute::reject:
      return cm_reject(packet, std::move(message));
    case CmAttribute::disconnect_request:
      return cm_disconnect(packet, message);
    case CmAttribute::ready:
      return cm_ready(packet, message);
    case CmAttribute::receipt:
    case CmAttribute::disconnect_reply:
      return;
  }
}

void Analyzer::cm_request(const Packet& packet, CmMessage&& message) {
  const QueuePair id{packet.source, message.local_id};
  const auto known = by_client_id_.find(id);
  if (known != by_client_id_.end()) {
    const Connection& old = *connections_[known->second];
    if (old.transaction == message.transaction && old.request_psn == message.psn) {
      ++counters_.cm_retransmitted;
      return;
    }
  }
  const auto number = static_cast<ConnectionNumber>(connections_.size());
  auto connection = std::make_unique<Connection>();
  connection->info.client = packet.source;
  connection->info.server = packet.destination;
  connection->info.service = message.service;
  connection->info.client_qpn = message.qpn;
  connection->info.path_mtu = mtu_bytes(message.path_mtu);
  connection->transaction = message.transaction;
  connection->request_psn = message.psn;
  connection->client_id = message.local_id;
  connections_.push_back(std::move(connection));
  by_client_id_[id] = number;
  WireEvent event;
  event.kind = WireEvent::Kind::request;
  event.connection = number;
  event.number = message.service;
  event.data = std::move(message.private_data);
  add(std::move(event));
}

void Analyzer::cm_reply(const Packet& packet, CmMessage&& message) {
  const auto found = by_client_id_.find(QueuePair{packet.destination, message.remote_id});
  if (found == by_client_id_.end()) {
    ++counters_.strangers;
    return;
  }
  const ConnectionNumber number = found->second;
  Connection& connection = *connections_[number];
  if (connection.replied || connection.closed) {
    ++counters_.cm_retransmitted;
    return;
  }
  connection.replied = true;
  connection.server_id = message.local_id;
  connection.info.server_qpn = message.qpn;
  // Each side sends, in its CM message, the first sequence number that it expects from the other side.
  connection.to_client = stream(number, false, connection.request_psn);
  connection.to_server = stream(number, true, message.psn);
  ends_[QueuePair{connection.info.server, message.qpn}] = End{number, true};
  ends_[QueuePair{connection.info.client, connection.info.client_qpn}] = End{number, false};
  WireEvent event;
  event.kind = WireEvent::Kind::reply;
  event.to_server = false;
  event.connection = number;
  event.data = std::move(message.private_data);
  add(std::move(event), 0, true);
}

void Analyzer::cm_ready(const Packet& packet, const CmMessage& message) {
  const auto found = by_client_id_.find(QueuePair{packet.source, message.local_id});
  if (found == by_client_id_.end()) return;
  connections_[found->second]->ready = true;
  report_late(*connections_[found->second]);
}

void Analyzer::cm_reject(const Packet& packet, CmMessage&& message) {
  auto found = by_client_id_.find(QueuePair{packet.destination, message.remote_id});
  const bool from_server = found != by_client_id_.end();
  // If a client rejects the reply, the reject has the client's own CM id.
  if (!from_server) found = by_client_id_.find(QueuePair{packet.source, message.local_id});
  if (found == by_client_id_.end()) {
    ++counters_.strangers;
    return;
  }
  Connection& connection = *connections_[found->second];
  if (connection.closed) {
    ++counters_.cm_retransmitted;
    return;
  }
  connection.closed = true;
  WireEvent event;
  event.kind = connection.replied ? WireEvent::Kind::closed : WireEvent::Kind::reject;
  event.to_server = !from_server;
  event.connection = found->second;
  event.number = message.reason;
  event.data = std::move(message.private_data);
  add(std::move(event));
}

void Analyzer::cm_disconnect(const Packet& packet, const CmMessage& message) {
  const auto end = ends_.find(QueuePair{packet.destination, message.qpn});
  if (end == ends_.end()) {
    ++counters_.strangers;
    return;
  }
  Connection& connection = *connections_[end->second.connection];
  if (connection.closed) {
    ++counters_.cm_retransmitted;
    return;
  }
  connection.closed = true;
  if (end->second.at_server) connection.ready = true;
  WireEvent event;
  event.kind = WireEvent::Kind::closed;
  event.to_server = end->second.at_server;
  event.connection = end->second.connection;
  add(std::move(event));
}

void Analyzer::transport(Packet&& packet) {
  const auto end = ends_.find(QueuePair{packet.destination, packet.dest_qp});
  if (end == ends_.end()) {
    ++counters_.strangers;
    return;
  }
  Connection& connection = *connections_[end->second.connection];
  const bool at_server = end->second.at_server;
  if (at_server && !std::exchange(connection.ready, true)) report_late(connection);
  if (headers_of(packet.opcode).aeth) return acknowledge(connection, at_server, packet);
  Stream& stream = at_server ? *connection.to_server : *connection.to_client;
  if (!stream.packet(now_, std::move(packet))) ++counters_.retransmitted;
}

// Handles an acknowledgement. If it is sent to the server (`at_server`), it acknowledges packets of the
// server.
void Analyzer::acknowledge(Connection& connection, bool at_server, const Packet& packet) {
  Stream& stream = at_server ? *connection.to_client : *connection.to_server;
  ++counters_.acknowledgements;
  std::uint32_t before = packet.psn;
  switch (packet.acknowledgement()) {
    case Acknowledgement::ack:
      ++before;
      break;
    case Acknowledgement::rnr_nak:
      ++counters_.rnr_naks;
      break;
    case Acknowledgement::nak:
      ++(packet.syndrome_value() == static_cast<std::uint8_t>(NakCode::psn_sequence) ? counters_.sequence_naks
                                                                                     : counters_.fatal_naks);
      break;
  }
  stream.acknowledged_before(now_, before);
  report_late(connection);
}

}  // namespace rtrs::roce
