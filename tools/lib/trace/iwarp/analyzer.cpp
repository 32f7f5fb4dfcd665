#include "tools/lib/trace/iwarp/analyzer.hpp"

#include <algorithm>
#include <string_view>

#include "core/iwarp/greeting_layout.hpp"
#include "tools/lib/trace/roce/cm.hpp"

namespace rtrs::iwarp_capture {
namespace {

bool begins_request(Bytes payload) noexcept {
  constexpr std::string_view kKey = iwarp::greeting::kRequestKey;
  return payload.size() >= kKey.size() &&
         std::equal(kKey.begin(), kKey.end(), payload.begin(),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

// True if the bytes can begin a record of TLS.
bool begins_tls_record(Bytes payload) noexcept {
  if (payload.size() < 3) return false;
  const auto type = std::to_integer<unsigned>(payload[0]);
  return type >= 0x14 && type <= 0x17 && payload[1] == std::byte{3} && payload[2] <= std::byte{4};
}

}  // namespace

bool Analyzer::segment(std::uint64_t time, Segment&& segment) {
  now_ = std::max(now_, time);
  const ConnectionRef connection = find(segment);
  if (connection == nullptr) return false;
  ++counters_.segments;
  switch (connection->stage) {
    case Stage::sealed:
      ++counters_.sealed;
      break;
    case Stage::unknown:
      ++counters_.strangers;
      break;
    case Stage::ended:
      break;
    default:
      put_in_order(connection, std::move(segment));
  }
  release(false);
  return true;
}

// Returns the connection of the segment; nullptr if it is not of the fabric tcp.
Analyzer::ConnectionRef Analyzer::find(const Segment& segment) {
  const auto found = by_ends_.find(std::minmax(segment.source, segment.destination));
  if (segment.syn && !segment.ack) {
    if (found == by_ends_.end()) return begin(segment, true);
    const ConnectionRef known = found->second;
    if (known->client == segment.source && known->first == segment.sequence + 1) return known;
    take_held(known);
    end(known);
    return begin(segment, true);
  }
  if (found != by_ends_.end()) return found->second;
  if (segment.syn) return begin(segment, false);
  if (begins_request(segment.payload)) return begin(segment, true);
  const bool to_server = segment.destination.port == port_;
  if (segment.payload.empty() || (!to_server && segment.source.port != port_)) return nullptr;
  ConnectionRef late = begin(segment, to_server);
  late->stage = begins_tls_record(segment.payload) ? Stage::sealed : Stage::unknown;
  return late;
}

Analyzer::ConnectionRef Analyzer::begin(const Segment& segment, bool from_client) {
  auto connection = std::make_shared<Connection>();
  connection->client = from_client ? segment.source : segment.destination;
  connection->server = from_client ? segment.destination : segment.source;
  connection->first = from_client ? segment.sequence + (segment.syn ? 1 : 0) : segment.acknowledgement;
  connection->to_server.bytes = std::make_unique<Reassembly>(connection->first);
  const Ends ends = std::minmax(segment.source, segment.destination);
  by_ends_[ends] = connection;
  begun_.push_back(ends);
  forget_oldest();
  return connection;
}

// A capture may contain the two directions of a connection out of order. A segment that acknowledges bytes
// was sent after them, so it waits for them.
void Analyzer::put_in_order(const ConnectionRef& connection, Segment&& segment) {
  std::deque<Held>& held = connection->held;
  if (segment.rst) take_held(connection);
  for (Held& one : held) ++one.passed;
  held.push_back({std::move(segment), 0});
  const auto waits = [&](const Held& one) {
    const std::optional<std::uint32_t>& other =
        connection->sent[one.segment.source == connection->client ? 0 : 1];
    const bool ahead = other && static_cast<std::int32_t>(one.segment.acknowledgement - *other) > 0;
    return one.segment.ack && ahead && one.passed < kMostDisorder;
  };
  for (bool again = true; again;) {
    again = false;
    for (auto one = held.begin(); one != held.end(); ++one) {
      const bool behind = std::any_of(held.begin(), one, [&](const Held& other) {
        return other.segment.source == one->segment.source &&
               static_cast<std::int32_t>(other.segment.sequence - one->segment.sequence) <= 0;
      });
      if (behind || waits(*one)) continue;
      Segment next = std::move(one->segment);
      held.erase(one);
      take(connection, std::move(next));
      again = connection->stage != Stage::ended;
      break;
    }
  }
}

// Takes all held segments, because no others follow.
void Analyzer::take_held(const ConnectionRef& connection) {
  while (!connection->held.empty() && connection->stage <= Stage::open) {
    Segment next = std::move(connection->held.front().segment);
    connection->held.pop_front();
    take(connection, std::move(next));
  }
}

// Bounds the memory for connections that never send anything, or have ended.
void Analyzer::forget_oldest() {
  constexpr unsigned kTries = 16;  // there may be that many open ones
  for (unsigned tries = 0; tries < kTries && begun_.size() > kMostRemembered; ++tries) {
    const Ends ends = begun_.front();
    begun_.pop_front();
    const auto found = by_ends_.find(ends);
    if (found == by_ends_.end()) continue;
    const Stage stage = found->second->stage;
    if (stage == Stage::open || stage == Stage::reply)
      begun_.push_back(ends);
    else
      by_ends_.erase(found);
  }
}

void Analyzer::take(const ConnectionRef& connection, Segment&& segment) {
  std::optional<std::uint32_t>& sent = connection->sent[segment.source == connection->client ? 1 : 0];
  const std::uint32_t behind = segment.sequence + static_cast<std::uint32_t>(segment.payload.size()) +
                               segment.cut + (segment.syn ? 1 : 0) + (segment.fin ? 1 : 0);
  if (!sent || static_cast<std::int32_t>(behind - *sent) > 0) sent = behind;
  const bool to_server = segment.source == connection->client;
  const bool rst = segment.rst;
  Direction& own = to_server ? connection->to_server : connection->to_client;
  const Direction& other = to_server ? connection->to_client : connection->to_server;
  if (!own.bytes) own.bytes = std::make_unique<Reassembly>(segment.sequence + (segment.syn ? 1 : 0));
  if (segment.ack && other.bytes) {
    other.bytes->acknowledged_before(segment.acknowledgement);
    if (to_server) acknowledged(*connection);
  }
  if (!own.bytes->add(std::move(segment))) ++counters_.retransmitted;
  read(connection, to_server);
  if (rst || (own.bytes && own.bytes->finished())) closed(connection, to_server);
  const auto finished = [](const Direction& one) { return one.bytes && one.bytes->finished(); };
  if (rst || (finished(connection->to_server) && finished(connection->to_client))) end(connection);
}

// Processes the last segment, of direction `to_server`. The other direction is first: the acknowledgement in
// the segment shows which of its bytes are lost, and messages in the segment may answer those bytes.
void Analyzer::read(const ConnectionRef& connection, bool to_server) {
  do
    while (step(connection, !to_server)) {
    }
  while (step(connection, to_server));
}

// Processes the next piece of one direction. Returns false if there is none yet, or if the other direction
// has to be processed first.
bool Analyzer::step(const ConnectionRef& connection, bool to_server) {
  Direction& direction = to_server ? connection->to_server : connection->to_client;
  if (!direction.bytes) return false;
  if (connection->stage == (to_server ? Stage::reply : Stage::request)) {
    if (direction.bytes->full()) unreadable(connection, false);
    return false;
  }
  const Piece piece = direction.bytes->front();
  if (piece.empty()) return false;
  counters_.lost_bytes += piece.lost;
  if (!direction.messages) {
    greet(connection, direction, piece.bytes, to_server);
    return true;
  }
  if (piece.lost != 0)
    direction.messages->lost(piece.lost);
  else
    direction.messages->bytes(piece.bytes);
  direction.bytes->consume(piece.bytes.size());
  return true;
}

// Reads bytes of the request or reply; empty if bytes of it are lost.
void Analyzer::greet(const ConnectionRef& connection, Direction& direction, Bytes bytes, bool to_server) {
  if (bytes.empty()) return unreadable(connection, false);
  if (!direction.greeting)
    direction.greeting = std::make_unique<iwarp::GreetingReader>(to_server ? iwarp::GreetingKind::request
                                                                           : iwarp::GreetingKind::reply);
  iwarp::GreetingReader& reader = *direction.greeting;
  const std::size_t size = std::min(bytes.size(), reader.missing());
  if (reader.feed(bytes.first(size)) != iwarp::Fault::none)
    return unreadable(connection, to_server && begins_tls_record(bytes));
  direction.bytes->consume(size);
  if (!reader.complete()) return;
  to_server ? requested(connection, reader.greeting()) : replied(connection, reader.greeting());
}

void Analyzer::requested(const ConnectionRef& connection, const iwarp::Greeting& request) {
  connection->number = connections_++;
  connection->wishes = request.wishes;
  connection->stage = Stage::reply;
  roce::WireEvent event;
  event.kind = roce::WireEvent::Kind::request;
  event.number = roce::kTcpServicePrefix + connection->server.port;
  event.data.assign(request.private_data.begin(), request.private_data.end());
  add(connection, std::move(event));
}

void Analyzer::replied(const ConnectionRef& connection, const iwarp::Greeting& reply) {
  roce::WireEvent event;
  event.kind = reply.rejected ? roce::WireEvent::Kind::reject : roce::WireEvent::Kind::reply;
  event.to_server = false;
  event.number = reply.rejected ? roce::kRejectConsumer : 0;
  event.data.assign(reply.private_data.begin(), reply.private_data.end());
  const Position behind = connection->to_client.bytes->next();
  const iwarp::Wishes agreed = iwarp::agree(connection->wishes, reply);
  add(connection, std::move(event), behind, !reply.rejected);
  if (reply.rejected) return end(connection);
  connection->stage = Stage::open;
  connection->to_server.messages = reader(connection, true, agreed);
  connection->to_client.messages = reader(connection, false, agreed);
  connection->to_server.greeting.reset();
  connection->to_client.greeting.reset();
}

std::unique_ptr<MessageReader> Analyzer::reader(const ConnectionRef& connection, bool to_server,
                                                const iwarp::Wishes& agreed) {
  const std::weak_ptr<Connection> of = connection;  // the connection owns the reader
  MessageReader::Sink sink;
  sink.message = [this, of, to_server](Position end, roce::Message&& message) {
    const ConnectionRef known = of.lock();
    report_holes(to_server ? known->to_client : known->to_server);
    roce::WireEvent event;
    event.to_server = to_server;
    event.message = std::move(message);
    add(known, std::move(event), end, !to_server);
  };
  sink.gap = [this, of, to_server] {
    ++counters_.gaps;
    roce::WireEvent event;
    event.kind = roce::WireEvent::Kind::gap;
    event.to_server = to_server;
    event.number = 1;
    add(of.lock(), std::move(event));
  };
  const Direction& direction = to_server ? connection->to_server : connection->to_client;
  return std::make_unique<MessageReader>(direction.bytes->next(), agreed, std::move(sink));
}

// Call before a message of the other direction, which may answer messages that are not in the capture: the
// receiver has acknowledged bytes that are lost, or that the capture contains later.
void Analyzer::report_holes(Direction& direction) {
  if (!direction.messages || !direction.bytes) return;
  const Position acknowledged = direction.bytes->acknowledged();
  if (acknowledged > std::max(direction.bytes->next(), direction.hole_end) && !direction.bytes->finished()) {
    direction.hole_end = acknowledged;
    direction.messages->report_hole();
  }
  direction.messages->report_loss();
}

// Ends a connection whose request or reply cannot be read.
void Analyzer::unreadable(const ConnectionRef& connection, bool sealed) {
  const bool requested = connection->stage == Stage::reply;
  if (requested) {
    ++counters_.gaps;
    roce::WireEvent event;
    event.kind = roce::WireEvent::Kind::gap;
    event.to_server = false;
    event.number = 1;
    add(connection, std::move(event));
  }
  connection->to_server = {};
  connection->to_client = {};
  if (requested || connection->server.port == port_) {
    connection->stage = sealed ? Stage::sealed : Stage::unknown;
    ++(sealed ? counters_.sealed : counters_.strangers);
  } else {
    connection->stage = Stage::ended;
    by_ends_.erase(std::minmax(connection->client, connection->server));
  }
}

// Reports the end of the connection, and before it the gaps of both directions, because the trace has no
// later message of the connection that they would precede.
void Analyzer::closed(const ConnectionRef& connection, bool to_server) {
  if (connection->stage != Stage::open || std::exchange(connection->closed, true)) return;
  for (Direction* one : {&connection->to_server, &connection->to_client}) one->bytes->finish();
  read(connection, to_server);
  for (Direction* one : {&connection->to_server, &connection->to_client}) one->messages->pause();
  roce::WireEvent event;
  event.kind = roce::WireEvent::Kind::closed;
  event.to_server = to_server;
  add(connection, std::move(event));
}

void Analyzer::end(const ConnectionRef& connection) {
  for (Direction* one : {&connection->to_server, &connection->to_client})
    if (one->bytes) one->bytes->finish();
  if (connection->stage != Stage::ended) read(connection, true);
  for (Direction* one : {&connection->to_server, &connection->to_client}) end_direction(*one);
  if (connection->stage == Stage::request)
    by_ends_.erase(std::minmax(connection->client, connection->server));
  connection->stage = Stage::ended;
  connection->held.clear();
  counters_.unacknowledged += connection->unreceived.size();
  connection->unreceived.clear();
}

void Analyzer::end_direction(Direction& direction) {
  if (direction.messages) {
    direction.messages->finish();
    counters_.undecoded += direction.messages->skipped();
    const iwarp::Fault fault = direction.messages->fault();
    if (fault != iwarp::Fault::none && counters_.faults++ == 0) counters_.first_fault = fault;
  }
  direction = {};
}

// Reports messages whose acknowledgement came late. The order of the trace is that of time, so they have the
// time of the last reported event.
void Analyzer::acknowledged(Connection& connection) {
  connection.received = connection.to_client.bytes->acknowledged();
  while (!connection.unreceived.empty() && connection.unreceived.front().end <= connection.received) {
    Pending& first = connection.unreceived.front();
    connection.unreceived_bytes -= first.event.message.payload.size();
    first.event.time = reported_;
    report(first.event);
    connection.unreceived.pop_front();
  }
}

void Analyzer::add(const ConnectionRef& connection, roce::WireEvent&& event, Position end, bool waits) {
  event.iwarp = true;
  event.connection = connection->number;
  event.time = now_;
  pending_bytes_ += event.message.payload.size();
  pending_.push_back({connection, std::move(event), end, waits});
}

void Analyzer::report(roce::WireEvent& event) {
  reported_ = std::max(reported_, event.time);
  sink_(event);
}

void Analyzer::set_aside(Pending&& pending) {
  Connection& connection = *pending.connection;
  connection.unreceived_bytes += pending.event.message.payload.size();
  connection.unreceived.push_back(std::move(pending));
  connection.unreceived.back().connection.reset();  // the connection owns it
  while (connection.unreceived_bytes > kMaxPending) {
    connection.unreceived_bytes -= connection.unreceived.front().event.message.payload.size();
    connection.unreceived.pop_front();
    ++counters_.unacknowledged;
  }
}

// Reports pending events in capture order.
void Analyzer::release(bool all) {
  while (!pending_.empty()) {
    Pending& first = pending_.front();
    const Connection& connection = *first.connection;
    const bool arrived = !first.waits || first.end <= connection.received;
    const bool ended = all || connection.stage == Stage::ended;
    if (!arrived && !ended && pending_bytes_ <= kMaxPending && first.event.time + kPatience > now_) return;
    pending_bytes_ -= first.event.message.payload.size();
    if (arrived)
      report(first.event);
    else if (ended)
      ++counters_.unacknowledged;
    else
      set_aside(std::move(first));
    pending_.pop_front();
  }
}

void Analyzer::finish() {
  const auto all = by_ends_;  // end() erases connections
  for (const auto& [ends, connection] : all) take_held(connection);
  for (const auto& [ends, connection] : all) end(connection);
  release(true);
}

}  // namespace rtrs::iwarp_capture
