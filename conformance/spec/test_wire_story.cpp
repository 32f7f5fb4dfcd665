#include <array>
#include <deque>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

constexpr std::uint32_t kDepth = 2, kChunk = 8192, kMaxHdr = 4096;
constexpr std::uint64_t kPool = 0x10000;
constexpr std::uint32_t kPoolKey = 40;

// Stores bytes permanently, because events do not own them.
std::string_view keep(std::string bytes) {
  static std::deque<std::string> kept;
  return kept.emplace_back(std::move(bytes));
}

void put(std::string& bytes, std::size_t at, std::uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}
// Overwrites a number in the event's bytes.
void rewrite(Event& event, std::size_t at, std::uint64_t value, unsigned width) {
  std::string bytes(event.bytes);
  put(bytes, at, value, width);
  event.bytes = keep(std::move(bytes));
}

std::string con_req(std::uint16_t path, std::uint16_t con, std::uint16_t recon) {
  std::string bytes(kConReqBytes, '\0');
  put(bytes, 2, 0x1bbd, 2);
  put(bytes, 4, 0x200, 2);
  put(bytes, 6, con, 2);
  put(bytes, 8, 2, 2);
  put(bytes, 10, recon, 2);
  put(bytes, 12, path + 1U, 2);
  put(bytes, 28, 99, 2);
  put(bytes, 44, 1, 1);
  put(bytes, 45, 3, 1);
  return bytes;
}
std::string con_rsp(std::uint32_t flags) {
  std::string bytes(kConRspBytes, '\0');
  put(bytes, 0, 0x1bbd, 2);
  put(bytes, 2, 0x200, 2);
  put(bytes, 6, kDepth, 2);
  put(bytes, 8, kChunk - kMaxHdr, 4);
  put(bytes, 12, kMaxHdr, 4);
  put(bytes, 16, flags, 4);
  return bytes;
}
std::string info_req() {
  std::string bytes(kInfoReqBytes, '\0');
  bytes[2] = 's';
  return bytes;
}
std::string info_rsp() {
  std::string bytes(kInfoRspHeader + kDescriptorBytes, '\0');
  put(bytes, 0, kInfoRsp, 2);
  put(bytes, 2, 1, 2);
  put(bytes, 8, kPool, 8);
  put(bytes, 16, kPoolKey, 4);
  put(bytes, 20, kDepth * kChunk, 4);
  return bytes;
}
std::string fence(std::uint16_t type) {
  std::string bytes(kFenceBytes, '\0');
  put(bytes, 0, type, 2);
  put(bytes, 4, 7, 4);
  put(bytes, 8, 1, 2);  // sess_uuid of path 0
  return bytes;
}

void message(Story& story, bool to_server, Key key, WireOp op, std::string bytes, std::uint32_t length,
             std::uint32_t imm = 0) {
  story.add(to_server ? Kind::WireSent : Kind::WireReceived, [&](Event& e) {
    e.key = key, e.op = op, e.bytes = keep(std::move(bytes)), e.length = length, e.imm = imm;
    e.has_imm = op == WireOp::write_imm || op == WireOp::send_imm;
  });
}
void cm(Story& story, Key key, CmKind kind, bool sent, std::string bytes = {}) {
  story.add(Kind::WireCm,
            [&](Event& e) { e.key = key, e.cm = kind, e.sent = sent, e.bytes = keep(std::move(bytes)); });
}

void connect(Story& story, std::uint16_t path, std::uint16_t attempt, std::uint32_t flags) {
  for (std::uint16_t con = 0; con < 2; ++con) {
    const Key key{path, con, attempt};
    cm(story, key, CmKind::req, true, con_req(path, con, attempt));
    cm(story, key, CmKind::rep, false, con_rsp(flags));
  }
  message(story, true, Key{path, 0, attempt}, WireOp::send, info_req(), kInfoReqBytes);
  message(story, false, Key{path, 0, attempt}, WireOp::send, info_rsp(), kInfoRspHeader + kDescriptorBytes);
}

// Adds a request: a WRITE of 512 bytes, or a READ of 512 bytes into the buffer at 0x5000.
void request(Story& story, Key key, std::uint32_t buf_id, bool reads, std::uint8_t generation,
             std::uint32_t rkey = kPoolKey) {
  const std::uint32_t header = reads ? kReadHeader + kDescriptorBytes : kWriteHeader;
  std::string head(32 + header, '\0');
  put(head, 32, (reads ? kRead : kWrite) | generation << 8, 2);
  put(head, 34, 32, 2);
  if (reads) {
    put(head, 36, 1, 2);
    put(head, 38, 1, 2);
    put(head, 40, 0x5000, 8);
    put(head, 48, 60, 4);
    put(head, 52, 512, 4);
  }
  const auto length = static_cast<std::uint32_t>(head.size() + (reads ? 0 : 512));
  message(story, true, key, WireOp::write_imm, head, length, request_imm(kDepth, buf_id, 544));
  Event& event = story.events().back();
  event.rkey = rkey;
  event.remote_addr = kPool + buf_id * kChunk + (reads ? 512 : 0);
}
void data(Story& story, Key key) {
  message(story, false, key, WireOp::write, {}, 512);
  story.events().back().rkey = 60;
  story.events().back().remote_addr = 0x5000;
}
void invalidate(Story& story, Key key) {
  message(story, false, key, WireOp::send_inv, {}, 0);
  story.events().back().rkey = 60;
}
std::uint32_t response_imm(unsigned type, std::uint32_t buf_id, std::uint8_t generation,
                           std::uint32_t error = 0) {
  return type << 28 | error << 19 | tagged_id(kDepth, buf_id, generation);
}
void heartbeat(Story& story, Key key, bool sent, unsigned type) {
  message(story, sent, key, WireOp::write_imm, {}, 0, type << 28);
}

}  // namespace

Story wire_story() {
  Story story;
  const std::uint32_t flags = kFenceFlag | kGenerationFlag;
  const Key io{0, 1, 1}, service{0, 0, 1};
  connect(story, 0, 1, flags);
  request(story, io, 0, false, 1);
  message(story, false, io, WireOp::write_imm, {}, 0, response_imm(kIoRsp, 0, 1));
  request(story, io, 1, true, 1);
  data(story, io);
  invalidate(story, io);
  message(story, false, io, WireOp::write_imm, {}, 0, response_imm(kIoRspInv, 1, 1));
  story.wait(5 * kSecond);
  heartbeat(story, service, true, kHbMsg);
  heartbeat(story, service, false, kHbAck);
  heartbeat(story, service, false, kHbMsg);
  heartbeat(story, service, true, kHbAck);
  message(story, true, service, WireOp::send, fence(kFenceReq), kFenceBytes);
  message(story, false, service, WireOp::send, fence(kFenceRsp), kFenceBytes);
  for (const Key& key : {service, io}) {
    cm(story, key, CmKind::dreq, true);
    cm(story, key, CmKind::closed, false);
  }
  connect(story, 0, 2, flags);
  cm(story, Key{1, 0, 1}, CmKind::req, true, con_req(1, 0, 1));
  std::string no = con_rsp(0);
  put(no, 4, 0xff98, 2);
  cm(story, Key{1, 0, 1}, CmKind::rej, false, no);
  return story;
}

Story keyed_wire_story() {
  Story story;
  const Key io{0, 1, 1};
  connect(story, 0, 1, kNewRkeyFlag);
  for (std::uint32_t use = 0; use < 2; ++use) {
    request(story, io, 1, false, 0, kPoolKey + use);
    std::string key(kRkeyRspBytes, '\0');
    put(key, 0, kRkeyRsp, 2);
    put(key, 2, 1, 2);
    put(key, 4, kPoolKey + use + 1, 4);
    message(story, false, io, WireOp::send_imm, key, kRkeyRspBytes, kIoRsp << 28 | 1);
  }
  return story;
}

Story failover_wire_story() {
  Story story;
  const std::uint32_t flags = kFenceFlag | kGenerationFlag;
  const Key lost{0, 1, 1}, living{1, 1, 1};
  connect(story, 0, 1, flags);
  connect(story, 1, 1, flags);
  request(story, lost, 0, false, 1);
  request(story, living, 0, false, 1);
  message(story, false, lost, WireOp::write_imm, {}, 0, response_imm(kIoRsp, 0, 1));
  message(story, false, living, WireOp::write_imm, {}, 0, response_imm(kIoRsp, 0, 1));
  for (Event& event : story.events()) {
    event.sent = !event.sent;
    if (event.kind == Kind::WireSent)
      event.kind = Kind::WireReceived;
    else if (event.kind == Kind::WireReceived)
      event.kind = Kind::WireSent;
  }
  return story;
}

// Adds a request with this user header, and its response.
void rnbd(Story& story, Key key, std::uint32_t chunk, bool reads, std::string user, std::uint32_t data_len) {
  const auto usr_len = static_cast<std::uint32_t>(user.size());
  const std::uint32_t off = data_len + usr_len;
  std::string header(reads ? kReadHeader + kDescriptorBytes : kWriteHeader, '\0');
  put(header, 0, reads ? kRead : kWrite, 2);
  put(header, 2, usr_len, 2);
  if (reads) {
    put(header, 6, 1, 2);
    put(header, 8, 0x5000, 8);
    put(header, 16, 60, 4);
    put(header, 20, data_len, 4);
  }
  const auto size = static_cast<std::uint32_t>(header.size());
  message(story, true, key, WireOp::write_imm, user + header, usr_len + size + (reads ? 0 : data_len),
          request_imm(kDepth, chunk, off));
  Event& event = story.events().back();
  event.rkey = kPoolKey;
  event.remote_addr = kPool + chunk * kChunk + (reads ? data_len : 0);
  if (reads) {
    message(story, false, key, WireOp::write, {}, data_len);
    story.events().back().rkey = 60;
    story.events().back().remote_addr = 0x5000;
  }
  message(story, false, key, WireOp::write_imm, {}, 0, kIoRsp << 28 | chunk);
}

Story rnbd_story() {
  Story story;
  const Key service{0, 0, 1}, io{0, 1, 1};
  connect(story, 0, 1, 0);
  std::string sess_info(36, '\0'), open(264, '\0'), write(32, '\0'), close(8, '\0');
  put(sess_info, 4, 2, 1);
  put(open, 0, 2, 2);
  put(open, 4, 1, 1);
  put(open, 6, 'd', 1);
  put(write, 0, 4, 2);
  put(write, 8, 16, 8);
  put(write, 16, 1, 4);
  put(write, 20, 512, 4);
  put(close, 0, 5, 2);
  rnbd(story, service, 0, true, sess_info, 36);
  rnbd(story, service, 1, true, open, 56);
  rnbd(story, io, 0, false, write, 512);
  rnbd(story, service, 1, false, close, 0);
  return story;
}

const std::vector<Spoiled> kRnbdCases = {
    {Rule::rnbd_form, "OPEN over an IO connection", [](Story& s) { s.at(Kind::WireSent, 2).key.con = 1; }},
    {Rule::rnbd_form, "an unknown operation", [](Story& s) { rewrite(s.at(Kind::WireSent, 3), 16, 6, 4); }},
    {Rule::rnbd_form, "a READ that travels as WRITE",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 3), 16, 0, 4); }},
    {Rule::rnbd_form, "another size than that of the data",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 3), 20, 1024, 4); }},
    {Rule::rnbd_form, "beyond the last sector",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 3), 8, std::uint64_t{1} << 54, 8); }},
    {Rule::rnbd_form, "an access mode that there is not",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 2), 4, 3, 1); }},
    {Rule::rnbd_order, "OPEN before the answer to SESS_INFO",
     [](Story& s) { s.swap(Kind::WireReceived, Kind::WireSent, 2, 2); }},
    {Rule::rnbd_order, "a device that no OPEN gave",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 4), 4, 7, 4); }},
    {Rule::rnbd_order, "IO after CLOSE",
     [](Story& s) {
       const Event io = s.at(Kind::WireSent, 3);
       s.events().push_back(io);
     }},
};

const std::vector<Spoiled>& rnbd_cases() {
  return kRnbdCases;
}

const std::vector<Spoiled> kWireCases = {
    {Rule::con_req_layout, "magic", [](Story& s) { rewrite(s.at(Kind::WireCm), 2, 1, 2); }},
    {Rule::con_req_layout, "short",
     [](Story& s) { s.at(Kind::WireCm).bytes = s.at(Kind::WireCm).bytes.substr(0, 40); }},
    {Rule::con_req_layout, "cid beyond cid_num", [](Story& s) { rewrite(s.at(Kind::WireCm), 6, 2, 2); }},
    {Rule::con_req_attempt, "another session on cid 1",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 2), 28, 98, 2); }},
    {Rule::con_req_attempt, "another cid_num on cid 1",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 2), 8, 3, 2); }},
    {Rule::con_req_order, "cid 1 first", [](Story& s) { rewrite(s.at(Kind::WireCm), 6, 1, 2); }},
    {Rule::con_req_recon, "the counter goes back",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 8), 10, 65000, 2); }},
    {Rule::con_rsp_layout, "an accept with an errno",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 1), 4, 5, 2); }},
    {Rule::con_rsp_layout, "a rejection with errno 0",
     [](Story& s) { rewrite(s.at(Kind::WireCm, -1), 4, 0, 2); }},
    {Rule::con_rsp_geometry, "depth 0", [](Story& s) { rewrite(s.at(Kind::WireCm, 1), 6, 0, 2); }},
    {Rule::con_rsp_geometry, "more than 28 bits",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 1), 8, 1U << 28, 4); }},
    {Rule::con_rsp_depth, "another depth after the reconnect",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 9), 6, 4, 2); }},
    {Rule::cm_once, "a second answer", [](Story& s) { s.repeat(Kind::WireCm, 1); }},
    {Rule::cm_once, "a message after the end",
     [](Story& s) {
       heartbeat(s, Key{0, 0, 1}, true, kHbMsg);
     }},
    {Rule::info_req_wire, "before cid 1", [](Story& s) { s.swap(Kind::WireCm, Kind::WireSent, 3, 0); }},
    {Rule::info_req_wire, "271 bytes", [](Story& s) { --s.at(Kind::WireSent).length; }},
    {Rule::info_req_wire, "no name", [](Story& s) { rewrite(s.at(Kind::WireSent), 2, 0, 1); }},
    {Rule::info_rsp_wire, "one chunk is missing",
     [](Story& s) { rewrite(s.at(Kind::WireReceived), 20, kChunk, 4); }},
    {Rule::info_rsp_wire, "without INFO_REQ", [](Story& s) { s.drop(Kind::WireSent); }},
    {Rule::wire_before_info, "a request before INFO_RSP",
     [](Story& s) { s.swap(Kind::WireReceived, Kind::WireSent, 0, 1); }},
    {Rule::wire_form, "a client's bare WRITE", [](Story& s) { s.at(Kind::WireSent, 1).op = WireOp::write; }},
    {Rule::wire_form, "INFO over an IO connection", [](Story& s) { s.at(Kind::WireSent).key.con = 1; }},
    {Rule::wire_form, "an immediate of unknown type",
     [](Story& s) { s.at(Kind::WireReceived, 1).imm = 5U << 28; }},
    {Rule::io_req_target, "the neighbouring chunk",
     [](Story& s) { s.at(Kind::WireSent, 1).remote_addr += kChunk; }},
    {Rule::io_req_target, "a chunk that does not exist",
     [](Story& s) { s.at(Kind::WireSent, 1).imm = request_imm(kDepth, 1, 1U << 26); }},
    {Rule::io_req_key, "another key", [](Story& s) { s.at(Kind::WireSent, 1).rkey = 41; }},
    {Rule::io_req_header, "neither READ nor WRITE",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 1), 32, 7, 1); }},
    {Rule::io_req_header, "a user header longer than the offset",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 1), 34, 600, 2); }},
    {Rule::io_req_header, "two descriptors", [](Story& s) { rewrite(s.at(Kind::WireSent, 2), 38, 2, 2); }},
    {Rule::io_req_descriptor, "length 0", [](Story& s) { rewrite(s.at(Kind::WireSent, 2), 52, 0, 4); }},
    {Rule::io_req_descriptor, "longer than a chunk",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 2), 52, kChunk + 1, 4); }},
    {Rule::io_req_slot, "a second request before the response",
     [](Story& s) { s.repeat(Kind::WireSent, 1); }},
    {Rule::io_rsp_known, "a second response", [](Story& s) { s.repeat(Kind::WireReceived, 1); }},
    {Rule::io_rsp_connection, "over cid 0", [](Story& s) { s.at(Kind::WireReceived, 1).key.con = 0; }},
    {Rule::io_rsp_form, "with a payload", [](Story& s) { s.at(Kind::WireReceived, 1).length = 8; }},
    {Rule::io_rsp_form, "with a key that was not agreed",
     [](Story& s) { s.at(Kind::WireReceived, 1).op = WireOp::send_imm; }},
    {Rule::io_rsp_id, "another generation", [](Story& s) { s.at(Kind::WireReceived, 1).imm ^= 2; }},
    {Rule::io_rsp_data, "to another address", [](Story& s) { ++s.at(Kind::WireReceived, 2).remote_addr; }},
    {Rule::io_rsp_data, "more than was offered", [](Story& s) { ++s.at(Kind::WireReceived, 2).length; }},
    {Rule::io_rsp_data, "data with an error", [](Story& s) { s.at(Kind::WireReceived, 4).imm |= 5U << 19; }},
    {Rule::io_rsp_data, "after the response",
     [](Story& s) { s.swap(Kind::WireReceived, Kind::WireReceived, 2, 4); }},
    {Rule::io_rsp_invalidate, "type 2 and nothing invalidated",
     [](Story& s) { s.drop(Kind::WireReceived, 3); }},
    {Rule::io_rsp_invalidate, "type 1 after an invalidation",
     [](Story& s) { s.at(Kind::WireReceived, 4).imm = response_imm(kIoRsp, 1, 1); }},
    {Rule::io_rsp_key_left, "neither invalidated nor agreed on",
     [](Story& s) {
       s.at(Kind::WireReceived, 4).imm = response_imm(kIoRsp, 1, 1);
       s.drop(Kind::WireReceived, 3);
     }},
    {Rule::io_rsp_invalidate, "a key that nobody offered",
     [](Story& s) { s.at(Kind::WireReceived, 3).rkey = 61; }},
    {Rule::hb_wire, "over an IO connection", [](Story& s) { s.at(Kind::WireSent, 3).key.con = 1; }},
    {Rule::hb_wire, "with a payload", [](Story& s) { s.at(Kind::WireSent, 3).length = 1; }},
    {Rule::hb_wire_ack, "an acknowledgement of nothing", [](Story& s) { s.repeat(Kind::WireReceived, 5); }},
    {Rule::hb_wire_period, "three in one interval",
     [](Story& s) {
       s.repeat(Kind::WireSent, 3);
       s.repeat(Kind::WireSent, 3);
     }},
    {Rule::fence_wire, "without an agreement",
     [](Story& s) { rewrite(s.at(Kind::WireCm, 1), 16, kGenerationFlag, 4); }},
    {Rule::fence_wire, "of a path that the client does not have",
     [](Story& s) { rewrite(s.at(Kind::WireSent, 5), 8, 9, 2); }},
    {Rule::fence_wire, "an answer to no question",
     [](Story& s) { rewrite(s.at(Kind::WireReceived, 7), 4, 8, 4); }},
};

const std::vector<Spoiled>& wire_cases() {
  return kWireCases;
}

const std::vector<Spoiled> kKeyedWireCases = {
    {Rule::io_req_key, "the key before the fresh one",
     [](Story& s) { s.at(Kind::WireSent, 2).rkey = kPoolKey; }},
    {Rule::io_rsp_form, "a response without a key",
     [](Story& s) { s.at(Kind::WireReceived, 1).op = WireOp::write_imm; }},
    {Rule::io_rsp_id, "a key for another chunk",
     [](Story& s) { rewrite(s.at(Kind::WireReceived, 1), 2, 0, 2); }},
};

const std::vector<Spoiled>& keyed_wire_cases() {
  return kKeyedWireCases;
}

const std::vector<Spoiled> kFailoverWireCases = {
    {Rule::io_rsp_known, "two responses over the lost path",
     [](Story& s) {
       s.at(Kind::WireSent, -1).key = s.at(Kind::WireSent, -2).key;
       // Adds a message at the end. Otherwise the request might be missing only because the capture ended.
       s.events().push_back(s.at(Kind::WireReceived, -2));
     }},
    {Rule::io_req_slot, "two requests over the living path",
     [](Story& s) { s.repeat(Kind::WireReceived, -1); }},
};

const std::vector<Spoiled>& failover_wire_cases() {
  return kFailoverWireCases;
}

}  // namespace rtrs::spec
