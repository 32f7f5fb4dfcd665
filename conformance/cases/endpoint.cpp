#include "conformance/cases/endpoint.hpp"

#include <algorithm>
#include <array>

#include "conformance/cases/verdict.hpp"
#include "core/base/overloaded.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {

namespace {
constexpr ConnectionParams kParams{128, 2 * Endpoint::kReceives + 64, 8};
constexpr InstanceId kInstance = 0;

Message copy_of(wire::Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}
}  // namespace

Endpoint::Endpoint(Fabric& fabric, Bench& bench) : fabric_(fabric), bench_(bench) {
  const auto memory = fabric.allocate(kMemory);
  if (!memory) return;
  const auto remote_key = fabric.make_key(memory->id, 0, memory->bytes.size());
  if (!remote_key) {
    fabric.release(memory->id);
    return;
  }
  memory_ = *memory;
  remote_key_ = *remote_key;
}

Endpoint::~Endpoint() {
  forget_since(0, seconds(1));
  if (!usable()) return;
  fabric_.release_key(remote_key_.id);
  fabric_.release(memory_.id);
}

// The address is set for each connection, because here the connections of one path have different epochs.
ConnectionParams Endpoint::params() const noexcept {
  ConnectionParams params = kParams;
  params.address = address_;
  return params;
}

Con& Endpoint::add(std::uint16_t path, std::uint16_t cid) {
  auto made = std::make_unique<Con>();
  made->key = ConKey{path, cid, ++epoch_};
  Con& con = *made;
  cons_.emplace(epoch_, std::move(made));
  return con;
}

Con& Endpoint::connect(std::uint16_t path, std::uint16_t cid, const PathAddress& to,
                       wire::Bytes private_data) {
  Con& con = add(path, cid);
  con.to = to;
  con.asked = copy_of(private_data);
  tap_.cm(kInstance, now(), con.key, trace::WireCmKind::req, true, private_data);
  fabric_.connect(con.key, to, params(), private_data);
  return con;
}

Con& Endpoint::accept(const Incoming& request, std::uint16_t path, std::uint16_t cid,
                      wire::Bytes private_data) {
  Con& con = add(path, cid);
  con.state = Con::State::up;
  tap_.cm(kInstance, request.at, con.key, trace::WireCmKind::req, false, request.bytes);
  tap_.cm(kInstance, now(), con.key, trace::WireCmKind::rep, true, private_data);
  fabric_.accept(request.request, con.key, kParams, private_data);
  return con;
}

void Endpoint::reject(const Incoming& request, wire::Bytes private_data) {
  tap_.cm(kInstance, request.at, ConKey{}, trace::WireCmKind::req, false, request.bytes);
  tap_.cm(kInstance, now(), ConKey{}, trace::WireCmKind::rej, true, private_data);
  fabric_.reject(request.request, private_data);
}

void Endpoint::post_receives(Con& con, unsigned count, std::uint32_t bytes_each) {
  fabric_.post_receive(con.key, count, bytes_each);
}

void Endpoint::disconnect(Con& con) {
  if (con.over()) return;
  con.state = Con::State::lost;
  con.reason = Reason::requested;
  con.lost_at = now();
  tap_.cm(kInstance, con.lost_at, con.key, trace::WireCmKind::dreq, true);
  fabric_.disconnect(con.key);
}

bool Endpoint::forget_since(std::uint32_t mark, Nanos limit) {
  const auto first = cons_.upper_bound(mark);
  for (auto at = first; at != cons_.end(); ++at) disconnect(*at->second);
  const bool all = wait(
      [&] { return std::all_of(first, cons_.end(), [](const auto& one) { return one.second->closed; }); },
      limit);
  cons_.erase(first, cons_.end());
  return all;
}

Endpoint::Piece Endpoint::cut(std::size_t bytes) {
  const std::size_t size = (bytes + 63) / 64 * 64;
  if (size > memory_.bytes.size()) fail("a message of {} bytes is more than the tester can hold", bytes);
  if (cut_ + size > memory_.bytes.size()) cut_ = 0;
  const Piece piece{memory_.bytes.subspan(cut_, bytes), static_cast<std::uint32_t>(cut_)};
  cut_ += size;
  return piece;
}

Endpoint::Landing Endpoint::landing(const Con& con, std::size_t bytes) {
  const Piece piece = cut(bytes);
  return Landing{piece.bytes, remote_key_.remote_addr + piece.offset, fabric_.rkey_of(con.key, remote_key_)};
}

void Endpoint::post(std::span<const WorkRequest> work) {
  for (const WorkRequest& one : work) tap_.sent(kInstance, now(), fabric_, one);
  const bool posted = wait(
      [&] {
        work = work.subspan(fabric_.post(work));
        return work.empty();
      },
      seconds(30));
  require(posted, "the send queue stayed full for 30 s: the peer receives nothing");
}

void Endpoint::send(Con& con, wire::Bytes message) {
  WorkRequest work;
  work.key = con.key;
  work.op = WorkRequest::Op::send;
  work.inline_bytes = message;
  work.signalled = true;
  post(std::span(&work, 1));
}

void Endpoint::send_imm(Con& con, std::uint32_t imm, wire::Bytes message) {
  WorkRequest work;
  work.key = con.key;
  work.op = WorkRequest::Op::send_imm;
  work.imm = imm;
  work.inline_bytes = message;
  work.signalled = true;
  post(std::span(&work, 1));
}

void Endpoint::send_inv(Con& con, std::uint32_t rkey) {
  WorkRequest work;
  work.key = con.key;
  work.op = WorkRequest::Op::send_inv;
  work.rkey = rkey;
  work.signalled = true;
  post(std::span(&work, 1));
}

WorkRequest Endpoint::write_work(Con& con, std::uint32_t imm, wire::Bytes payload, std::size_t head,
                                 std::uint64_t remote_addr, std::uint32_t rkey) {
  WorkRequest work;
  work.key = con.key;
  work.op = WorkRequest::Op::write_imm;
  work.imm = imm;
  work.signalled = true;
  if (payload.empty()) return work;
  const Piece piece = cut(payload.size());
  std::copy(payload.begin(), payload.end(), piece.bytes.begin());
  work.remote_addr = remote_addr;
  work.rkey = rkey;
  const auto data = static_cast<std::uint32_t>(payload.size() - head);
  if (data != 0) work.parts[work.part_count++] = LocalPart{memory_.id, piece.offset, data};
  const auto rest = static_cast<std::uint32_t>(head);
  if (head != 0) work.parts[work.part_count++] = LocalPart{memory_.id, piece.offset + data, rest};
  return work;
}

void Endpoint::write_imm(Con& con, std::uint32_t imm, wire::Bytes payload, std::size_t head,
                         std::uint64_t remote_addr, std::uint32_t rkey) {
  const WorkRequest work = write_work(con, imm, payload, head, remote_addr, rkey);
  post(std::span(&work, 1));
}

void Endpoint::write(Con& con, wire::Bytes payload, std::uint64_t remote_addr, std::uint32_t rkey) {
  WorkRequest work = write_work(con, 0, payload, 0, remote_addr, rkey);
  work.op = WorkRequest::Op::write;
  post(std::span(&work, 1));
}

bool Endpoint::wait(const std::function<bool()>& done, Nanos limit) {
  const Nanos end = now() + limit;
  for (;;) {
    pump();
    if (done()) return true;
    if (now() >= end) return false;
    bench_.rest(fabric_, end);
  }
}

void Endpoint::pump() {
  std::array<FabricEvent, 32> events;
  std::size_t count = 0;
  do {
    count = fabric_.poll(now(), events);
    for (const FabricEvent& event : std::span(events).first(count)) handle(event);
  } while (count == events.size());
}

void Endpoint::handle(const FabricEvent& event) {
  if (const auto* request = std::get_if<event::ConnectRequested>(&event)) return take_request(*request);
  const auto found = cons_.find(key_of(event)->epoch);
  if (found == cons_.end()) return;
  Con& con = *found->second;
  const auto* const failed = std::get_if<event::ConnectFailed>(&event);
  if (failed != nullptr && failed->reason == Reason::challenged && !con.answers_challenge && !con.over())
    return answer_challenge(found->first);
  using Cm = trace::WireCmKind;
  const auto cm = [&, this](Cm kind, wire::Bytes private_data = {}) {
    tap_.cm(kInstance, now(), con.key, kind, false, private_data);
  };
  std::visit(Overloaded{
                 [&](const event::AddressesFound& one) { addresses_ = std::max(addresses_, one.count); },
                 [&](const event::Connected& one) {
                   con.answer = copy_of(one.private_data);
                   cm(Cm::rep, one.private_data);
                   if (!con.over()) con.state = Con::State::up;
                 },
                 [&](const event::ConnectFailed& one) {
                   con.answer = copy_of(one.private_data);
                   if (one.reason == Reason::rejected) cm(Cm::rej, one.private_data);
                   ended(con, Con::State::refused, one.reason);
                 },
                 [&](const event::ConnectionLost& one) {
                   if (one.reason == Reason::peer_closed) cm(Cm::dreq);
                   ended(con, Con::State::lost, one.reason);
                 },
                 [&](const event::ConnectionClosed&) {
                   con.closed = true;
                   cm(Cm::closed);
                   if (!con.over()) con.state = Con::State::lost;
                 },
                 [&](const event::ImmReceived& one) {
                   tap_.received(kInstance, now(), one);
                   arrived(con, {Arrival::Kind::immediate, true, one.imm, 0, {}, now()});
                 },
                 [&](const event::MessageReceived& one) {
                   tap_.received(kInstance, now(), one);
                   arrived(con, {Arrival::Kind::message, one.imm.has_value(), one.imm.value_or(0), 0,
                                 copy_of(one.payload), now()});
                 },
                 [&](const event::KeyInvalidated& one) {
                   tap_.received(kInstance, now(), one);
                   arrived(con, {Arrival::Kind::invalidation, false, 0, one.rkey, {}, now()});
                 },
                 [](const event::ConnectRequested&) {},
                 [](const event::SendDone&) {},
                 [](const event::ChunkInvalidated&) {},
             },
             event);
}

// A request that the fabric refused is rejected here and not passed to the case, because cases do not test
// the peer's authentication keys.
void Endpoint::take_request(const event::ConnectRequested& request) {
  const Incoming incoming{request.request, copy_of(request.private_data), now()};
  if (request.refusal == Reason::none) return incoming_.push_back(incoming);
  Message refusal(wire::kConnRspBytes);
  require(wire::encode(wire::make_reject(wire::linux_errno::kEacces), refusal) != 0, "a reject has no room");
  reject(incoming, refusal);
}

// Repeats the connect request with the proof of the key, as a new connection. The case sees only one
// connection.
void Endpoint::answer_challenge(std::uint32_t epoch) {
  auto node = cons_.extract(epoch);
  Con& con = *node.mapped();
  tap_.cm(kInstance, now(), con.key, trace::WireCmKind::rej, false);
  fabric_.disconnect(con.key);
  con.key.epoch = node.key() = ++epoch_;
  con.answers_challenge = true;
  cons_.insert(std::move(node));
  tap_.cm(kInstance, now(), con.key, trace::WireCmKind::req, true, con.asked);
  fabric_.connect(con.key, con.to, params(), con.asked);
}

void Endpoint::ended(Con& con, Con::State state, Reason reason) {
  if (con.over()) return;
  con.state = state;
  con.reason = reason;
  con.lost_at = now();
  fabric_.disconnect(con.key);
}

void Endpoint::arrived(Con& con, Arrival arrival) {
  const bool used_one =
      arrival.kind != Arrival::Kind::immediate || fabric_.capabilities().imm_consumes_receive;
  if (used_one && con.up()) fabric_.post_receive(con.key, 1, con.receive_bytes);
  con.last_received = arrival.at;
  if (is_heartbeat(con, arrival)) return;
  if (on_arrival && on_arrival(con, arrival)) return;
  con.inbox.push_back(std::move(arrival));
}

bool Endpoint::is_heartbeat(Con& con, const Arrival& arrival) {
  if (arrival.kind != Arrival::Kind::immediate) return false;
  const wire::ImmType type = wire::imm_type(arrival.imm);
  if (type == wire::ImmType::hb_ack) {
    ++con.heartbeat_acks;
    return true;
  }
  if (type != wire::ImmType::hb_msg) return false;
  ++con.heartbeats;
  if (con.mute || !con.up()) return true;
  WorkRequest work;
  work.key = con.key;
  work.op = WorkRequest::Op::write_imm;
  work.imm = wire::encode_hb(wire::ImmType::hb_ack);
  work.signalled = true;
  tap_.sent(kInstance, now(), fabric_, work);
  // If the send queue is full, other messages already show the peer that this end is alive.
  static_cast<void>(fabric_.post(std::span(&work, 1)));
  return true;
}

}  // namespace rtrs::conformance
