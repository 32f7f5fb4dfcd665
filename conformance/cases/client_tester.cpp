#include "conformance/cases/client_tester.hpp"

#include <algorithm>

#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {

namespace {
constexpr std::size_t kMaxKept = 64;  // maximum number of breaches, and of messages, kept per attempt
}

bool Attempt::up() const noexcept {
  return answered &&
         std::all_of(cons.begin(), cons.end(), [](const Con* one) { return one != nullptr && one->up(); });
}

bool Attempt::over() const noexcept {
  return std::all_of(cons.begin(), cons.end(), [](const Con* one) { return one == nullptr || one->over(); });
}

ClientTester::ClientTester(Endpoint& endpoint, const ClientSetup& setup)
    : endpoint_(endpoint), setup_(setup), busy_(kDepth, false), disk_(std::size_t{16} << 20) {
  const auto memory = endpoint.fabric().allocate(std::size_t{kDepth} * kChunk);
  if (!memory) return;
  const auto remote_key = endpoint.fabric().make_key(memory->id, 0, memory->bytes.size());
  if (!remote_key) return;
  chunks_ = *memory;
  whole_ = *remote_key;
}

ClientTester::~ClientTester() {
  endpoint_.forget_since(0, seconds(2));
  for (const Attempt& attempt : attempts_)
    for (const RemoteKeyId one : attempt.remote_keys) endpoint_.fabric().release_key(one);
  if (!usable()) return;
  endpoint_.fabric().release_key(whole_.id);
  endpoint_.fabric().release(chunks_.id);
}

std::span<std::byte> ClientTester::chunk(std::uint32_t index) const {
  return chunks_.bytes.subspan(std::size_t{index} * kChunk, kChunk);
}

bool ClientTester::wait(const std::function<bool()>& done, Nanos limit) {
  return endpoint_.wait(
      [&] {
        serve();
        return done();
      },
      limit);
}

void ClientTester::stop_misbehaving() {
  spoil_accept = {};
  reject_with = {};
  spoil_info = {};
  runs = 1;
  flags = 0;
  grants_data_with_answer = false;
  hold_requests = false;
  for (; !held_.empty(); held_.pop_front())
    if (held_.front().con->up()) answer(held_.front(), 0);
}

void ClientTester::serve() {
  for (auto& waiting = endpoint_.incoming(); !waiting.empty();) {
    const Incoming request = std::move(waiting.front());
    waiting.pop_front();
    take_request(request);
  }
  for (Attempt& attempt : attempts_) take_arrivals(attempt);
}

Attempt& ClientTester::attempt_of(const wire::ConnReq& request) {
  for (auto one = attempts_.rbegin(); one != attempts_.rend(); ++one) {
    const wire::ConnReq& first = one->parsed.front();
    if (first.sess_uuid != request.sess_uuid) continue;
    const bool room = request.cid < one->cons.size() && one->cons[request.cid] == nullptr;
    if (first.recon_cnt == request.recon_cnt && room && !one->answered) return *one;
    break;
  }
  Attempt& made = attempts_.emplace_back();
  made.number = static_cast<std::uint16_t>(attempts_.size());
  made.cons.resize(request.cid_num, nullptr);
  return made;
}

void ClientTester::take_request(const Incoming& incoming) {
  const auto parsed = wire::parse_conn_req(incoming.bytes);
  Message bytes(wire::kConnRspBytes);
  if (!parsed) {
    if (wire::encode(wire::make_reject(104), bytes) != 0) endpoint_.reject(incoming, bytes);
    return;
  }
  const std::uint16_t cid = parsed.value.cid;
  Attempt& attempt = attempt_of(parsed.value);
  attempt.requests.push_back(incoming.bytes);
  attempt.parsed.push_back(parsed.value);
  const int error = reject_with ? reject_with(cid) : -1;
  wire::ConnRsp rsp;
  rsp.queue_depth = kDepth;
  rsp.max_io_size = kChunk - 4096;
  rsp.max_hdr_size = 4096;
  rsp.flags = flags;
  attempt.joins_data =
      grants_data_with_answer && has(parsed.value.extensions, wire::Extensions::data_with_answer);
  if (attempt.joins_data) rsp.flags |= wire::granting_flags(wire::Extensions::data_with_answer);
  if (error >= 0) {
    rsp = wire::ConnRsp{};
    rsp.error = static_cast<std::int16_t>(-error);
  }
  if (wire::encode(rsp, bytes) == 0) fail("the tester cannot encode this CON_RSP");
  if (error >= 0) return endpoint_.reject(incoming, bytes);
  if (spoil_accept) spoil_accept(cid, bytes);
  Con& con = endpoint_.accept(incoming, attempt.number, cid, bytes);
  attempt.cons[cid] = &con;
  if (cid == 0) endpoint_.post_receives(con, 1, wire::kInfoReqBytes);
  endpoint_.post_receives(con, Endpoint::kReceives, con.receive_bytes);
}

void ClientTester::take_arrivals(Attempt& attempt) {
  for (Con* con : attempt.cons) {
    if (con == nullptr) continue;
    while (!con->inbox.empty()) {
      const Arrival arrival = std::move(con->inbox.front());
      con->inbox.pop_front();
      if (con->over()) continue;
      if (arrival.kind == Arrival::Kind::immediate) {
        take_imm(attempt, *con, arrival.imm);
      } else {
        take_message(attempt, *con, arrival);
      }
    }
  }
}

void ClientTester::take_message(Attempt& attempt, Con& con, const Arrival& arrival) {
  if (con.key.con != 0 || attempt.info.has_value() || arrival.has_imm) {
    attempt.breaches.push_back("a SEND that no server expects");
    return;
  }
  attempt.info = arrival.bytes;
  send_info(attempt);
}

void ClientTester::send_info(Attempt& attempt) {
  Fabric& fabric = endpoint_.fabric();
  std::vector<wire::Descriptor> described;
  const std::uint32_t each = kDepth * kChunk / runs;
  for (std::uint16_t i = 0; i < runs; ++i) {
    wire::Descriptor one{whole_.remote_addr + std::uint64_t{i} * each,
                         fabric.rkey_of(attempt.cons[0]->key, whole_), each};
    // With fresh keys, each chunk has a separate key, which can be invalidated alone.
    if ((flags & wire::kConnRspNewRkey) != 0) {
      const auto own = fabric.make_key(chunks_.id, std::size_t{i} * each, each);
      if (!own) not_run("the fabric has no more keys");
      one = {own->remote_addr, fabric.rkey_of(attempt.cons[0]->key, *own), each};
      attempt.remote_keys.push_back(own->id);
    }
    described.push_back(one);
  }
  Message bytes(wire::info_rsp_bytes(runs));
  if (wire::encode_info_rsp(described, bytes) == 0) fail("the tester cannot encode this INFO_RSP");
  attempt.answered = true;
  if (!spoil_info || spoil_info(bytes)) endpoint_.send(*attempt.cons[0], bytes);
}

void ClientTester::take_imm(Attempt& attempt, Con& con, std::uint32_t imm) {
  const auto breach = [&attempt](std::string text) {
    if (attempt.breaches.size() < kMaxKept) attempt.breaches.push_back(std::move(text));
  };
  if (!attempt.answered) breach("a request before INFO_RSP");
  const auto place = wire::check_io_req(kDepth, kChunk, imm);
  if (!place) return breach(fmt::format("immediate {:#010x}: {}", imm, to_string(place.why)));
  const auto memory = chunk(place.value.buf_id);
  const auto parsed = wire::parse_io_request(memory, place.value.buf_id, place.value.off, false);
  if (!parsed) return breach(fmt::format("a request header: {}", to_string(parsed.why)));
  if (busy_[place.value.buf_id]) breach(fmt::format("a second request on chunk {}", place.value.buf_id));
  judge_request(attempt, parsed.value, con.key.con);
  const auto user = wire::user_header(memory, parsed.value);
  ClientRequest request{&attempt, &con, parsed.value, Message(user.begin(), user.end())};
  const auto type = wire::rnbd::message_type(user);
  if (type && attempt.user_messages.size() < kMaxKept) {
    static constexpr const char* kNames[] = {"sess_info", "sess_info_rsp", "open", "open_rsp", "io", "close"};
    attempt.user_messages.emplace_back(kNames[static_cast<unsigned>(type.value)]);
  }
  busy_[place.value.buf_id] = true;
  if (hold_requests) {
    held_.push_back(std::move(request));
    return;
  }
  answer(request, 0);
}

void ClientTester::judge_request(Attempt& attempt, const wire::IoRequest& io, std::uint16_t cid) {
  const auto breach = [&](const char* text) {
    if (attempt.breaches.size() < kMaxKept) attempt.breaches.emplace_back(text);
  };
  const bool read = io.direction == Direction::read;
  const std::uint32_t header = read ? 8 + (io.has_descriptor ? 16 : 0) : 4;
  if (io.off + header > kChunk) breach("a header that ends behind the chunk");
  if (io.usr_len + header > 4096) breach("headers longer than max_hdr_size");
  if (read && io.has_descriptor && io.desc.len != io.data_len)
    breach("a descriptor of another length than the room in the chunk");
  if (!read && io.data_len != 0 && cid == 0) breach("data on the service connection");
}

void ClientTester::answer(const ClientRequest& request, int error) {
  busy_[request.io.buf_id] = false;
  std::vector<std::byte> room(request.io.data_len);
  if (error == 0) error = execute(request, room);
  Attempt& attempt = *request.attempt;
  ++attempt.io;
  const std::uint32_t imm = wire::encode_io_rsp(wire::ImmType::io_rsp, request.io.buf_id, error);
  if (error == 0 && request.io.has_descriptor) {
    room.resize(std::min<std::size_t>(room.size(), request.io.desc.len));
    if (attempt.joins_data && !request.io.need_inval) {
      ++attempt.joined;
      return endpoint_.write_imm(*request.con, imm, room, 0, request.io.desc.addr, request.io.desc.key);
    }
    endpoint_.write(*request.con, room, request.io.desc.addr, request.io.desc.key);
  }
  if (attempt.remote_keys.empty()) return endpoint_.write_imm(*request.con, imm);
  // The old key is invalidated before the client can use the new one.
  Fabric& fabric = endpoint_.fabric();
  RemoteKeyId& old = attempt.remote_keys[request.io.buf_id];
  const auto fresh = fabric.make_key(chunks_.id, std::size_t{request.io.buf_id} * kChunk, kChunk);
  if (!fresh) not_run("the fabric has no more keys");
  fabric.release_key(old);
  old = fresh->id;
  Message bytes(wire::kRkeyRspBytes);
  const wire::RkeyRsp key{static_cast<std::uint16_t>(request.io.buf_id),
                          fabric.rkey_of(request.con->key, *fresh)};
  if (wire::encode(key, bytes) == 0) fail("the tester cannot encode this RKEY_RSP");
  endpoint_.send_imm(*request.con, imm, bytes);
}

void ClientTester::answer_with(std::initializer_list<std::uint32_t> immediates,
                               const ClientRequest& request) {
  busy_[request.io.buf_id] = false;
  std::vector<WorkRequest> work;
  for (const std::uint32_t imm : immediates)
    work.push_back(endpoint_.write_work(*request.con, imm, {}, 0, 0, 0));
  ++request.attempt->io;
  endpoint_.post(work);
}

int ClientTester::execute(const ClientRequest& request, std::span<std::byte> room) {
  using namespace wire::rnbd;
  const auto type = message_type(request.user);
  if (!type) return 22;
  switch (type.value) {
    case MsgType::sess_info:
      return encode(SessInfoRsp{}, room) != 0 ? 0 : 22;
    case MsgType::open:
      return open(request, room);
    case MsgType::io:
      return io(request, room);
    case MsgType::close:
      return 0;
    case MsgType::sess_info_rsp:
    case MsgType::open_rsp:
      break;
  }
  return 22;
}

int ClientTester::open(const ClientRequest& request, std::span<std::byte> room) {
  using namespace wire::rnbd;
  if (!parse_open(request.user)) return 22;
  OpenRsp rsp;
  rsp.device_id = 0;
  rsp.nsectors = disk_.size() / kSectorBytes;
  rsp.max_hw_sectors = (kChunk - 4096) / kSectorBytes;
  rsp.max_write_zeroes_sectors = rsp.max_discard_sectors = 2048;
  rsp.discard_granularity = 4096;
  rsp.physical_block_size = 4096;
  rsp.logical_block_size = 512;
  rsp.max_segments = 128;
  rsp.cache_policy = kCacheWriteback | kCacheFua;
  return encode(rsp, room) != 0 ? 0 : 22;
}

int ClientTester::io(const ClientRequest& request, std::span<std::byte> room) {
  using namespace wire::rnbd;
  const auto parsed = parse_io(request.user);
  if (!parsed || parsed.value.device_id != 0) return parsed ? 107 : 22;
  const Io& one = parsed.value;
  if (one.opcode == Opcode::flush) return 0;
  if (one.sector * kSectorBytes + one.size > disk_.size()) return 5;
  const auto place = disk_.begin() + static_cast<std::ptrdiff_t>(one.sector * kSectorBytes);
  const std::size_t size = std::min<std::size_t>(one.size, request.io.data_len);
  if (one.opcode == Opcode::read) {
    std::copy_n(place, size, room.begin());
  } else if (one.opcode == Opcode::write) {
    std::copy_n(chunk(request.io.buf_id).begin(), size, place);
  } else {
    std::fill_n(place, one.size, std::byte{0});
  }
  return 0;
}

Attempt& ClientTester::healthy_within(Nanos limit) {
  Attempt* found = nullptr;
  const auto await_path = [&] {
    const bool came = wait(
        [&] {
          found = nullptr;
          for (Attempt& one : attempts_)
            if (one.up()) found = &one;
          return found != nullptr;
        },
        limit);
    require(came, "no path of the client came up within {} s", limit / seconds(1));
  };
  await_path();
  bool answered = answers_heartbeat(*found);
  // When a program starts, it may open and close a first session as a test; the urtrs nbdkit plugin does.
  if (!answered && !found->up() && !trial_seen_) {
    trial_seen_ = true;
    await_path();
    answered = answers_heartbeat(*found);
  }
  judge_alive(*found, answered, "INFO_RSP");
  return *found;
}

Attempt& ClientTester::healthy() {
  return healthy_within(deadlines().reconnect);
}

bool ClientTester::answers_heartbeat(Attempt& attempt) {
  Con& con = *attempt.cons[0];
  const unsigned before = con.heartbeat_acks;
  endpoint_.write_imm(con, wire::encode_hb(wire::ImmType::hb_msg));
  wait([&] { return con.heartbeat_acks > before || !attempt.up(); }, deadlines().answer);
  return con.heartbeat_acks > before;
}

void ClientTester::expect_alive(Attempt& attempt, const char* after) {
  require(attempt.up(), "the client gave the path up after {}", after);
  judge_alive(attempt, answers_heartbeat(attempt), after);
}

void ClientTester::judge_alive(const Attempt& attempt, bool answered, const char* after) const {
  require(attempt.up(), "the client gave the path up after {}", after);
  require(answered, "no HB_ACK within {} s after {}", deadlines().answer / seconds(1), after);
}

void ClientTester::drop(Attempt& attempt) {
  std::fill(busy_.begin(), busy_.end(), false);
  held_.clear();
  for (Con* one : attempt.cons)
    if (one != nullptr) endpoint_.disconnect(*one);
}

void ClientTester::expect_given_up(const Attempt& attempt, Nanos limit, const char* because) {
  const bool gone = wait([&] { return attempt.over(); }, limit);
  std::fill(busy_.begin(), busy_.end(), false);
  require(gone, "the client kept the path for {} s: {}", limit / seconds(1), because);
}

Attempt& ClientTester::next_attempt(std::size_t seen) {
  const bool came = wait([&] { return attempts_.size() > seen; }, deadlines().reconnect);
  require(came, "the client did not await_path back within {} s", deadlines().reconnect / seconds(1));
  return attempts_.back();
}

ClientRequest ClientTester::take_request() {
  hold_requests = true;
  const bool came = wait([&] { return !held_.empty(); }, deadlines().reconnect);
  if (!came)
    not_run("the client sent no request within {} s: let it do IO all the time",
            deadlines().reconnect / seconds(1));
  ClientRequest request = std::move(held_.front());
  held_.pop_front();
  hold_requests = false;
  return request;
}

}  // namespace rtrs::conformance
