#include "tools/lib/trace/roce/synthesis.hpp"

#include <utility>

#include "core/wire/messages.hpp"

namespace rtrs::roce {
namespace {

using trace::WireCmKind;
using trace::WireOp;

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Synthesis::Synthesis(const Recordings& recordings, const SynthesisOptions& options, Out out)
    : recordings_(recordings),
      options_(options),
      out_(std::move(out)),
      links_(recordings.connections().size()) {}

void Synthesis::run() {
  for (const Recordings::Told& told : recordings_.story()) {
    const StoredNote& note = *told.note;
    const Half& half = recordings_.halves()[note.half];
    Link& link = links_[half.connection];
    if (note.kind == StoredNote::Kind::cm) {
      if (note.cm == WireCmKind::dreq || note.cm == WireCmKind::rej) link.ends = true;
    } else if (note.kind == StoredNote::Kind::received) {
      ++(half.client ? link.to_client : link.to_server).arrivals;
    }
  }
  for (const Recordings::Told& told : recordings_.story()) {
    now_ = told.time;
    tell(*told.note);
  }
  for (Link& link : links_)
    if (!link.closed) post_held(link);
}

// Assigns addresses and queue pairs. Each path has two addresses, 10.SESSION.PATH.1 and 10.SESSION.PATH.2;
// each connection has two queue pairs.
void Synthesis::place(Link& link, const Half& half) {
  ++counters_.connections;
  link.known = true;
  link.setup = !half.request.empty();
  if (!link.setup) ++counters_.without_setup;
  const auto parsed = wire::parse_conn_req(half.request);
  std::string session = "?";
  std::string path = "?" + std::to_string(half.file) + "/" + std::to_string(half.key.path);
  link.attempt = path + "/" + std::to_string(half.key.epoch);
  if (parsed) {
    session = text_of(std::as_bytes(std::span(parsed.value.paths_uuid.bytes)));
    path = session + text_of(std::as_bytes(std::span(parsed.value.sess_uuid.bytes)));
    link.attempt = path + std::to_string(parsed.value.recon_cnt);
  }
  attempts_[link.attempt].connections.push_back(half.connection);
  const auto number = session_numbers_.try_emplace(session, session_numbers_.size()).first->second;
  const auto way = path_numbers_.try_emplace(path, path_numbers_.size()).first->second;
  const auto high = static_cast<std::uint8_t>(10 + (number >> 8) % 200);
  const auto middle = static_cast<std::uint8_t>(number & 0xffU);
  const auto low = static_cast<std::uint8_t>(way & 0xffU);
  link.client = ipv4(high, middle, low, 1);
  link.server = ipv4(high, middle, low, 2);
  const std::uint32_t index = half.connection + 1;
  link.client_qpn = (2 * index) & kPsnMask;
  link.server_qpn = (2 * index + 1) & kPsnMask;
  link.transaction = (std::uint64_t{1} << 32) + index;
  link.port = static_cast<std::uint16_t>(0xc000U + index % 0x4000U);
  // The first sequence numbers of the connections are far apart. The first one soon wraps (24 bits).
  link.to_server.next_psn = (0xfffff0U + index * 0x10101U) & kPsnMask;
  link.to_client.next_psn = (0x7ffff0U + index * 0x20203U) & kPsnMask;
}

void Synthesis::tell(const StoredNote& note) {
  const Half& half = recordings_.halves()[note.half];
  Link& link = links_[half.connection];
  if (!link.known) place(link, half);
  if (note.kind == StoredNote::Kind::cm) return cm(link, half, note);
  said(link, half, note);
}

void Synthesis::cm(Link& link, const Half& half, const StoredNote& note) {
  const ConnectionEnds& ends = recordings_.connections()[half.connection];
  const bool alone = ends.client == ConnectionEnds::kNone || ends.server == ConnectionEnds::kNone;
  CmMessage message;
  message.private_data = note.bytes;
  // If both ends recorded an event, uses only the note of the end that caused the event.
  const bool first_hand = note.cm_sent || alone;
  switch (note.cm) {
    case WireCmKind::req:
      if (!first_hand) return;
      message.attribute = CmAttribute::request;
      message.service = kTcpServicePrefix + options_.port;
      message.qpn = link.client_qpn;
      message.psn = link.to_client.next_psn;
      message.path_mtu = mtu_code(options_.path_mtu);
      message.source_port = link.port;
      message.source = link.client;
      message.destination = link.server;
      return send_cm(link, true, std::move(message));
    case WireCmKind::rep:
      return connected(link, half, note, alone);
    case WireCmKind::rej:
      if (!first_hand || link.closed) return;
      message.attribute = CmAttribute::reject;
      message.reason = kRejectConsumer;
      link.closed = true;
      return send_cm(link, false, std::move(message));
    case WireCmKind::dreq:
      // If only the server was recorded, a client that disconnects is assumed to have received all messages.
      // This holds for all connections of the path, because the server closes the others when the first one
      // ends.
      if (ends.client == ConnectionEnds::kNone && !note.cm_sent) acknowledge_all_to_client(link);
      return disconnect(link, half.client == note.cm_sent);
    case WireCmKind::closed:
      return;
  }
}

void Synthesis::connected(Link& link, const Half& half, const StoredNote& note, bool alone) {
  if (half.key.con == 0) attempts_[link.attempt].chunks.connected(note.bytes);
  if (note.cm_sent || alone) {
    link.replied = link.setup;
    CmMessage message;
    message.attribute = CmAttribute::reply;
    message.private_data = note.bytes;
    message.qpn = link.server_qpn;
    message.psn = link.to_server.next_psn;
    send_cm(link, false, std::move(message));
  }
  if (alone || !note.cm_sent) {
    link.ready = true;
    CmMessage message;
    message.attribute = CmAttribute::ready;
    send_cm(link, true, std::move(message));
  }
}

// Posts the invalidations whose responses never came.
void Synthesis::post_held(Link& link) {
  if (link.held.empty()) return;
  for (const Message& invalidation : link.held) post(link, false, invalidation, true);
  link.held.clear();
  acknowledge_all(link, false);
}

// Sends the first disconnect of a connection, and the reply of the other side.
void Synthesis::disconnect(Link& link, bool from_client) {
  // A connection attempt that got no reply ends without a disconnect message.
  if (link.closed || !link.replied) return;
  link.closed = true;
  CmMessage message;
  if (from_client && !link.ready) {  // the client ended the attempt before it received the reply
    message.attribute = CmAttribute::reject;
    message.reason = kRejectTimeout;
    return send_cm(link, true, std::move(message));
  }
  post_held(link);
  acknowledge_arrivals(link);
  message.attribute = CmAttribute::disconnect_request;
  message.qpn = from_client ? link.server_qpn : link.client_qpn;
  send_cm(link, from_client, std::move(message));
  message = CmMessage{};
  message.attribute = CmAttribute::disconnect_reply;
  send_cm(link, !from_client, std::move(message));
}

void Synthesis::said(Link& link, const Half& half, const StoredNote& note) {
  const ConnectionEnds& ends = recordings_.connections()[half.connection];
  const bool sent = note.kind == StoredNote::Kind::sent;
  const bool to_server = half.client == sent;
  learn(link, to_server, note);
  if (ends.server == ConnectionEnds::kNone) return client_alone(link, note);
  if (ends.client == ConnectionEnds::kNone) return server_alone(link, note);
  if (sent) {
    post(link, to_server, message_of(note), note.op != WireOp::write);
  } else {
    Lane& lane = to_server ? link.to_server : link.to_client;
    if (lane.arrivals == 0) return;
    --lane.arrivals;
    acknowledge_next(link, to_server);
  }
}

// Acknowledges the messages whose receiver records them only after the disconnect. The adapter has received
// them before, while the process did not run.
void Synthesis::acknowledge_arrivals(Link& link) {
  for (const bool to_server : {true, false}) {
    Lane& lane = to_server ? link.to_server : link.to_client;
    for (; lane.arrivals > 0; --lane.arrivals) acknowledge_next(link, to_server);
  }
}

}  // namespace rtrs::roce
