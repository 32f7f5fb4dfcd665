#include "conformance/cases/path.hpp"

#include <algorithm>
#include <utility>

#include "conformance/cases/verdict.hpp"
#include "core/proto/reasons.hpp"

namespace rtrs::conformance {

namespace {
constexpr std::byte kPattern{0xa5};
}  // namespace

Path::Path(Endpoint& endpoint, const Deadlines& deadlines, PathAddress to, Identity identity,
           std::uint16_t con_num, std::uint16_t index)
    : endpoint_(endpoint),
      deadlines_(deadlines),
      to_(std::move(to)),
      identity_(std::move(identity)),
      con_num_(con_num),
      index_(index),
      cons_(con_num, nullptr) {}

wire::ConnReq Path::request(std::uint16_t cid) const {
  wire::ConnReq request;
  request.cid = cid;
  request.cid_num = con_num_;
  request.recon_cnt = recon_cnt_;
  request.sess_uuid = identity_.path;
  request.paths_uuid = identity_.session;
  request.first_conn = first_;
  request.extensions = offered_;
  return request;
}

Message Path::encoded(const wire::ConnReq& request) {
  Message bytes(wire::kConnReqBytes);
  if (wire::encode(request, bytes) == 0) fail("the tester cannot encode this CON_REQ");
  return bytes;
}

Con& Path::try_connect(std::uint16_t cid, wire::Bytes private_data) {
  Con& con = endpoint_.connect(index_, cid, to_, private_data);
  const bool decided =
      endpoint_.wait([&con] { return con.state != Con::State::connecting; }, deadlines_.connect);
  require(decided, "connection {}: neither accepted nor rejected within {} s", cid,
          deadlines_.connect / seconds(1));
  if (!con.up()) return con;
  if (cid < cons_.size()) cons_[cid] = &con;
  // The first message on the service connection is INFO_RSP, which needs a longer receive than all others.
  if (cid == 0) {
    judge_accept(con);
    endpoint_.post_receives(con, 1, static_cast<std::uint32_t>(wire::info_rsp_bytes(depth())));
  }
  endpoint_.post_receives(con, Endpoint::kReceives, con.receive_bytes);
  return con;
}

void Path::judge_accept(const Con& con) {
  const auto parsed = wire::parse_conn_rsp(con.answer, 0);
  require(static_cast<bool>(parsed), "the accept is not a CON_RSP of protocol 2: {}", to_string(parsed.why));
  require(parsed.value.error == 0, "the accept carries errno {}", parsed.value.error);
  limits_ = parsed.value;
}

Con& Path::connect(std::uint16_t cid) {
  Con& con = try_connect(cid);
  if (con.up()) return con;
  if (con.reason == Reason::connect_refused)
    fail("connection {} was refused: is the server running there, is the port right?", cid);
  const bool rejected = con.reason == Reason::rejected;
  const ReasonText& text = text_of(con.reason);
  fail("connection {} failed: {} [{}]{}", cid, text.sentence, text.code,
       rejected ? fmt::format(", errno {}", wire::reject_errno(con.answer)) : fmt::format("; {}", text.hint));
}

Con& Path::con(std::uint16_t cid) const {
  require(cid < cons_.size() && cons_[cid] != nullptr, "connection {} was never made", cid);
  return *cons_[cid];
}

void Path::connect_all() {
  for (std::uint16_t cid = 0; cid < con_num_; ++cid) connect(cid);
}

Message Path::info_request() const {
  Message bytes(wire::kInfoReqBytes);
  if (wire::encode(wire::InfoReq{wire::make_name(identity_.name).value}, bytes) == 0)
    fail("the tester cannot encode this INFO_REQ");
  return bytes;
}

void Path::exchange_info() {
  send_info(info_request());
  require(await_info(), "the path was cut off after INFO_REQ");
}

void Path::send_info(wire::Bytes message) {
  endpoint_.send(con(0), message);
}

bool Path::await_info() {
  Con& service = con(0);
  const bool decided = endpoint_.wait([&] { return !service.inbox.empty() || !whole(); }, deadlines_.answer);
  require(decided, "no INFO_RSP within {} s", deadlines_.answer / seconds(1));
  if (service.inbox.empty()) return false;
  const Arrival arrival = std::move(service.inbox.front());
  service.inbox.pop_front();
  require(arrival.kind == Arrival::Kind::message && !arrival.has_imm,
          "INFO_REQ was answered with something that is not a plain SEND");
  const auto parsed = wire::parse_info_rsp(arrival.bytes, depth(), chunk_size());
  require(static_cast<bool>(parsed), "the INFO_RSP of {} bytes is malformed: {}", arrival.bytes.size(),
          to_string(parsed.why));
  info_ = arrival.bytes;
  chunks_.resize(depth());
  asked_.assign(depth(), {});
  wire::ChunkWalk walk(info_, chunk_size());
  for (wire::Descriptor& one : chunks_) one = walk.next().value;
  return true;
}

void Path::open_within(Nanos limit) {
  const Nanos end = endpoint_.now() + limit;
  for (;;) {
    try {
      return open();
    } catch (const Failed& refused) {
      if (endpoint_.now() >= end)
        fail("not accepted within {} s, last: {}", limit / seconds(1), refused.what());
    }
    disconnect();
    // The next attempt must not use connections of this one.
    std::fill(cons_.begin(), cons_.end(), nullptr);
    ++recon_cnt_;
    endpoint_.wait([] { return false; }, std::min(limit / 20, seconds(2)));
  }
}

Path::Prepared Path::prepare(const Ask& ask) {
  require(!asked_.empty(), "the path is not up");
  require(ask.chunk < depth(), "the server has only {} chunks", depth());
  const bool read = ask.direction == Direction::read;
  Prepared made;
  Outstanding& slot = asked_[ask.chunk];
  slot = {};
  slot.waits = true;
  slot.read = read;
  slot.room = ask.room;
  const bool described = read && ask.room != 0 && ask.descriptor;
  if (described) {
    slot.landing = endpoint_.landing(con(ask.cid), ask.room + kGuard);
    std::fill(slot.landing.bytes.begin(), slot.landing.bytes.end(), kPattern);
    slot.key = slot.landing.key;
  }
  made.payload = read ? Message{} : ask.data;
  made.head = ask.user.size();
  made.payload.insert(made.payload.end(), ask.user.begin(), ask.user.end());
  const std::uint32_t before = read ? ask.room : static_cast<std::uint32_t>(ask.data.size());
  const auto usr_len = static_cast<std::uint16_t>(ask.user.size());
  Message header(wire::kMaxIoHeaderBytes);
  const auto type = read ? wire::MsgType::read : wire::MsgType::write;
  wire::store_le16(header, 0, ask.type.value_or(static_cast<std::uint16_t>(type)));
  wire::store_le16(header, 2, ask.usr_len.value_or(usr_len));
  header.resize(read ? (described || ask.sg_cnt ? wire::kMaxIoHeaderBytes : wire::kReadHeaderBytes)
                     : wire::kWriteHeaderBytes);
  if (read) {
    wire::store_le16(header, 4, ask.flags.value_or(ask.need_inval ? wire::kReadNeedInval : 0));
    wire::store_le16(header, 6, ask.sg_cnt.value_or(described ? 1 : 0));
  }
  if (header.size() == wire::kMaxIoHeaderBytes) {
    wire::store_le64(header, 8, ask.desc_addr.value_or(slot.landing.addr));
    wire::store_le32(header, 16, ask.desc_key.value_or(slot.landing.key));
    wire::store_le32(header, 20, ask.desc_len.value_or(ask.room));
  }
  made.head += header.size();
  made.payload.insert(made.payload.end(), header.begin(), header.end());
  made.imm = wire::encode_io_req(depth(), ask.chunk, ask.off.value_or(before + usr_len));
  made.addr = chunks_[ask.chunk].addr + (read ? ask.room : 0);
  made.key = ask.chunk_key.value_or(chunks_[ask.chunk].key);
  return made;
}

WorkRequest Path::work(const Ask& ask) {
  const Prepared made = prepare(ask);
  return endpoint_.write_work(con(ask.cid), made.imm, made.payload, made.head, made.addr, made.key);
}

void Path::send(const Ask& ask) {
  const WorkRequest one = work(ask);
  endpoint_.post(std::span(&one, 1));
}

void Path::send_all(const std::vector<Ask>& asks) {
  std::vector<WorkRequest> all;
  for (const Ask& ask : asks) all.push_back(work(ask));
  endpoint_.post(all);
}

void Path::take_arrivals() {
  for (Con* one : cons_) {
    if (one == nullptr) continue;
    for (; !one->inbox.empty(); one->inbox.pop_front()) take(*one, one->inbox.front());
  }
}

void Path::take(Con& con, const Arrival& arrival) {
  if (arrival.kind == Arrival::Kind::invalidation) {
    ++invalidations_;
    return;
  }
  require(arrival.has_imm, "a SEND of {} bytes without immediate arrived on connection {}",
          arrival.bytes.size(), con.key.con);
  const wire::ImmType type = wire::imm_type(arrival.imm);
  require(type == wire::ImmType::io_rsp || type == wire::ImmType::io_rsp_w_inv,
          "immediate {:#010x} arrived, which no server sends", arrival.imm);
  const wire::IoRspImm response = wire::decode_io_rsp(arrival.imm);
  require(response.msg_id < depth(), "an answer for chunk {} of {}", response.msg_id, depth());
  const bool by_send = arrival.kind == Arrival::Kind::message;
  const bool keyless = joins_data() && asked_[response.msg_id].read;
  require(by_send || !fresh_keys() || keyless, "the server promised fresh keys and answered without one");
  require(!by_send || fresh_keys(), "the answer came as a SEND, which a client without fresh keys ignores");
  if (by_send) store_key(arrival, response.msg_id);
  complete(con, response);
}

void Path::store_key(const Arrival& arrival, std::uint32_t msg_id) {
  require(arrival.bytes.size() == wire::kRkeyRspBytes, "RKEY_RSP has {} bytes", arrival.bytes.size());
  const auto key = wire::parse_rkey_rsp(arrival.bytes, depth());
  require(static_cast<bool>(key), "RKEY_RSP is malformed: {}", to_string(key.why));
  require(key.value.buf_id == msg_id, "RKEY_RSP names chunk {}, its immediate {}", key.value.buf_id, msg_id);
  chunks_[msg_id].key = key.value.rkey;
}

void Path::complete(Con& con, const wire::IoRspImm& response) {
  Outstanding& slot = asked_[response.msg_id];
  if (!slot.waits) {
    ++surplus_;
    return;
  }
  slot.waits = false;
  Answer answer;
  answer.error = response.error;
  answer.invalidated = response.invalidated;
  answer.cid = con.key.con;
  if (!slot.landing.bytes.empty()) {
    const auto room = slot.landing.bytes.first(slot.room);
    answer.data.assign(room.begin(), room.end());
    const auto guard = slot.landing.bytes.subspan(slot.room);
    const auto last =
        std::find_if(guard.rbegin(), guard.rend(), [](std::byte one) { return one != kPattern; });
    answer.overflow.assign(guard.begin(), last.base());
  }
  slot.answer = std::move(answer);
}

std::optional<Answer> Path::await_answer(std::uint16_t chunk, Nanos limit) {
  require(chunk < asked_.size(), "nothing was asked on chunk {}", chunk);
  Outstanding& slot = asked_[chunk];
  endpoint_.wait(
      [&] {
        take_arrivals();
        return slot.answer.has_value() || !whole();
      },
      limit);
  return std::exchange(slot.answer, std::nullopt);
}

Answer Path::ask(const Ask& ask) {
  send(ask);
  const auto answer = await_answer(ask.chunk, deadlines_.answer);
  if (answer) return *answer;
  if (whole()) fail("a request was not answered within {} s", deadlines_.answer / seconds(1));
  for (const Con* one : cons_) {
    if (one->over()) fail("the path was cut off instead of an answer: {}", to_string(one->reason));
  }
  fail("the path was cut off instead of an answer");
}

Path::Fate Path::fate(std::uint16_t chunk, Answer* answer) {
  const auto got = await_answer(chunk, deadlines_.refusal);
  if (got) {
    if (answer != nullptr) *answer = *got;
    return Fate::answered;
  }
  return whole() ? Fate::neither : Fate::cut_off;
}

bool Path::cut_off_within(Nanos limit) {
  return endpoint_.wait(
      [&] {
        return std::all_of(cons_.begin(), cons_.end(),
                           [](const Con* one) { return one == nullptr || one->over(); });
      },
      limit);
}

void Path::expect_cut_off(const char* because) {
  if (cut_off_within(deadlines_.refusal)) return;
  const auto up = std::count_if(cons_.begin(), cons_.end(),
                                [](const Con* one) { return one != nullptr && !one->over(); });
  fail("{}: {} of {} connections still up after {} s", because, up, cons_.size(),
       deadlines_.refusal / seconds(1));
}

bool Path::whole() const noexcept {
  return std::all_of(cons_.begin(), cons_.end(), [](const Con* one) { return one != nullptr && one->up(); });
}

void Path::disconnect() {
  for (Con* one : cons_)
    if (one != nullptr) endpoint_.disconnect(*one);
}

}  // namespace rtrs::conformance
