// Connect requests, their answers, and the INFO exchange.
#include <algorithm>
#include <cstdio>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/immediate.hpp"
#include "conformance/spec/wire.hpp"

namespace rtrs::spec {

namespace {

constexpr std::uint16_t kMagic = 0x1bbd;
constexpr std::uint8_t kMajor = 2;
constexpr std::uint16_t kNoSuchSession = 6;  // ENXIO

bool has(const std::vector<std::uint16_t>& list, std::uint16_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// "" if the magic at `at` and the version after it are right.
std::string magic_and_version(std::string_view bytes, std::size_t at) {
  char text[64] = "";
  if (u16_at(bytes, at) != kMagic)
    std::snprintf(text, sizeof text, " with magic 0x%04x", static_cast<unsigned>(u16_at(bytes, at)));
  else if (static_cast<std::uint8_t>(bytes[at + 3]) != kMajor)
    std::snprintf(text, sizeof text, " with version %u", static_cast<unsigned>(bytes[at + 3]) & 0xff);
  return text;
}

std::string con_rsp_text(std::string_view bytes) {
  if (bytes.size() < kConRspBytes) return "CON_RSP of " + std::to_string(bytes.size()) + " bytes";
  return "CON_RSP" + magic_and_version(bytes, 0) + " and errno " +
         std::to_string(static_cast<std::int16_t>(u16_at(bytes, 4)));
}

}  // namespace

void WireSpec::cm() {
  if (event_->cm == CmKind::req) return requested();
  const auto found = of_->connections.find(event_->key);
  if (event_->cm == CmKind::rej) rejected(found == of_->connections.end() ? nullptr : &found->second);
  if (found == of_->connections.end()) {
    ++of_->counts.early;
    return;
  }
  Connection& con = found->second;
  if (event_->cm == CmKind::closed) return ended(con);
  if (event_->cm == CmKind::dreq) {
    con.closed_locally = con.closed_locally || event_->sent;
    // This side disconnected while INFO_RSP was sent, for example for lack of memory. The path was never
    // established.
    Path& path = of_->paths[con.path];
    if (event_->sent && path.up == event_->now) path.was_up = false;
    path.left = path.left || event_->sent;
    return;
  }
  context().check(!con.answered && !con.closed, Rule::cm_once, "a second answer to a connect request",
                  "one answer");
  con.answered = true;
  if (event_->cm == CmKind::rep) accepted(con);
}

void WireSpec::requested() {
  if (!of_->side_known) {
    of_->side_known = true;
    of_->client = event_->sent;
  }
  const std::string_view bytes = event_->bytes;
  const bool readable = bytes.size() >= kConReqBytes && u16_at(bytes, 2) == kMagic &&
                        static_cast<std::uint8_t>(bytes[5]) == kMajor;
  const bool whole = bytes.size() >= kConReqBytes;
  const std::uint16_t cid = whole ? u16_at(bytes, 6) : 0;
  const std::uint16_t cid_num = whole ? u16_at(bytes, 8) : 0;
  const RuleContext at = context();
  at.check(
      readable && cid_num >= 1 && cid_num <= 4096 && cid < cid_num, Rule::con_req_layout,
      [&] {
        std::string text = "CON_REQ of " + std::to_string(bytes.size()) + " bytes";
        if (!whole) return text;
        return text + magic_and_version(bytes, 2) + ", cid " + std::to_string(cid) + " of " +
               std::to_string(cid_num);
      },
      [] { return std::string("56 bytes, magic 0x1bbd, version 2.x, cid below cid_num"); });
  // A request that led to no connection has no key.
  if (!readable || event_->key.epoch == 0) return;
  const bool again = of_->connections.count(event_->key) != 0;
  at.check(!again, Rule::cm_once, "a second connect request of one connection", "one request");
  if (again) return;
  const std::uint16_t recon_cnt = u16_at(bytes, 10);
  const Uuid uuid = uuid_at(bytes, 12);
  Path& path = attempt(uuid, uuid_at(bytes, 28), recon_cnt, cid_num, cid);
  if (cid == 0) path.extensions = static_cast<std::uint8_t>(bytes[45]);
  at.check(
      !has(path.asked, cid) && (!of_->client || cid == 0 || path.partial || has(path.asked, 0)),
      Rule::con_req_order, [&] { return "a request for cid " + std::to_string(cid); },
      [] { return std::string("cid 0 first, each cid once"); });
  path.asked.push_back(cid);
  if (of_->client || !of_->machine) same_session(path);
  Connection con;
  con.key = event_->key;
  con.path = path.number;
  con.first_conn = (bytes[44] & 1) != 0;
  of_->connections.emplace(event_->key, con);
  ++of_->counts.connections;
}

// A client has one session. Captures have a recording for each client.
void WireSpec::same_session(const Path& path) {
  if (of_->session == Uuid{}) of_->session = path.session;
  context().check(path.session == of_->session, Rule::con_req_session,
                  "a path with another paths_uuid than the first path of its client",
                  "one paths_uuid for all paths of a client");
}

// A connect request of a client tells the UUIDs that a snapshot did not have. Returns the attempt in which
// the trace begins, if the request belongs to it.
WireSpec::Path* WireSpec::resumed_attempt(const Uuid& uuid, const Uuid& session) {
  if (of_->paths.empty() || !of_->paths.front().resumed) return nullptr;
  if (of_->paths.front().session == Uuid{}) {
    for (Session& one : of_->sessions) one.uuid = session;
    for (Path& path : of_->paths) path.session = session;
  }
  const auto first = of_->connections.find(Key{event_->key.path, 0, event_->key.epoch});
  if (!of_->client || first == of_->connections.end()) return nullptr;
  Path& path = of_->paths[first->second.path];
  if (!path.resumed) return nullptr;
  path.uuid = uuid;
  return &path;
}

// In a capture, a client process may begin again with the uuids of the one before it. The first attempt of a
// process has the number 0 (kernel) or 1.
bool WireSpec::may_be_restart(std::uint16_t recon_cnt) const noexcept {
  return !of_->machine && recon_cnt <= 1;
}

// The requests of the former process end without a message.
void WireSpec::client_restarted(const Uuid& session) {
  ++of_->counts.restarts;
  for (Session& one : of_->sessions) {
    if (one.uuid != session) continue;
    forget_slots(one);
    one.name.clear();
    one.rnbd = Rnbd{};
  }
}

// Finds or creates the attempt with this path UUID and reconnect counter. Searches all attempts, because
// requests of older attempts may arrive late.
WireSpec::Path& WireSpec::attempt(const Uuid& uuid, const Uuid& session, std::uint16_t recon_cnt,
                                  std::uint16_t cid_num, std::uint16_t cid) {
  const RuleContext at = context();
  if (Path* resumed = resumed_attempt(uuid, session)) return *resumed;
  for (std::size_t back = of_->paths.size(); back-- > 0;) {
    Path& path = of_->paths[back];
    if (path.uuid != uuid || path.recon_cnt != recon_cnt) continue;
    // After a restart of the server, a client may repeat its request with the same counter. A client process
    // that restarts with the uuids of the one before it does so too. Both are new attempts.
    const bool restarted = cid == 0 && (!of_->client || may_be_restart(recon_cnt));
    if (has(path.asked, cid) && (path.over || restarted)) break;
    at.check(path.session == session && path.cid_num == cid_num, Rule::con_req_attempt,
             "a connection with other numbers than the attempt it belongs to",
             "the uuids and cid_num of the attempt");
    return path;
  }
  const auto last = of_->last_recon.find(uuid);
  if (of_->client && last != of_->last_recon.end() && !newer(recon_cnt, last->second)) {
    if (may_be_restart(recon_cnt))
      client_restarted(session);
    else
      at.check(
          false, Rule::con_req_recon,
          [&] { return "recon_cnt " + std::to_string(recon_cnt) + " after " + std::to_string(last->second); },
          [] { return std::string("a higher one"); });
  }
  if (!of_->machine && recon_cnt > 1)
    of_->earlier = of_->earlier || last == of_->last_recon.end() || recon_cnt - last->second != 1;
  of_->last_recon[uuid] = recon_cnt;
  Path& path = of_->paths.emplace_back();
  path.number = static_cast<std::uint32_t>(of_->paths.size() - 1);
  path.uuid = uuid;
  path.session = session;
  path.recon_cnt = recon_cnt;
  path.cid_num = cid_num;
  if (of_->client && cid != 0 && !of_->machine) incomplete(path);
  return path;
}

void WireSpec::accepted(Connection& con) {
  const std::string_view bytes = event_->bytes;
  const bool readable = bytes.size() >= kConRspBytes && u16_at(bytes, 0) == kMagic &&
                        static_cast<std::uint8_t>(bytes[3]) == kMajor;
  const RuleContext at = context();
  at.check(
      readable && u16_at(bytes, 4) == 0, Rule::con_rsp_layout,
      [&] { return con_rsp_text(bytes) + " as an accept"; },
      [] { return std::string("56 bytes, magic 0x1bbd, version 2.x, errno 0"); });
  Path& path = of_->paths[con.path];
  // In a capture, answers before INFO_REQ may be missing. Only an accept after INFO_REQ proves that INFO_REQ
  // came too early.
  if (!of_->machine)
    at.check(!path.info_asked, Rule::info_req_wire, "a connection is accepted after INFO_REQ",
             "all of them before");
  path.accepted.push_back(con.key.con);
  if (!readable || con.key.con != 0) return;
  const std::uint32_t depth = u16_at(bytes, 6);
  const std::uint32_t max_io = u32_at(bytes, 8);
  const std::uint32_t max_hdr = u32_at(bytes, 12);
  path.flags = u32_at(bytes, 16);
  path.chunk_size = max_io + max_hdr;
  const bool fits = depth >= 1 && path.chunk_size != 0 && log2up(depth) + log2up(path.chunk_size) <= 28;
  at.check(
      fits, Rule::con_rsp_geometry,
      [&] { return "depth " + std::to_string(depth) + ", chunks of " + std::to_string(path.chunk_size); },
      [] { return std::string("both in 28 bits"); });
  if (!fits) return;
  path.depth = depth;
  Session& session = session_of(path);
  path.foreign_depth = limits_are_held(path) && (session.depth != depth || session.max_io_size != max_io ||
                                                 session.max_hdr_size != max_hdr);
  if (path.foreign_depth) return;
  session.depth = depth;
  session.max_io_size = max_io;
  session.max_hdr_size = max_hdr;
}

// The limits of a session are fixed once a path was established, and before that while an accepted attempt is
// in progress. Between two such attempts the server may have restarted with other limits.
bool WireSpec::limits_are_held(const Path& path) {
  if (session_of(path).depth == 0) return false;
  return std::any_of(of_->paths.begin(), of_->paths.end(), [&path](const Path& other) {
    const bool holds = other.was_up || (!other.over && !other.left && !other.accepted.empty());
    return other.number != path.number && other.session == path.session && holds;
  });
}

// `con`: connection of the request, if it is known.
void WireSpec::rejected(const Connection* con) {
  const std::string_view bytes = event_->bytes;
  // If the fabric itself rejects, there is no CON_RSP.
  if (bytes.size() < kConRspBytes) return;
  const bool fine = u16_at(bytes, 0) == kMagic && static_cast<std::uint8_t>(bytes[3]) == kMajor &&
                    (u16_at(bytes, 4) & 0x8000) != 0;
  context().check(
      fine, Rule::con_rsp_layout, [&] { return con_rsp_text(bytes) + " as a rejection"; },
      [] { return std::string("magic 0x1bbd, version 2.x, a negative errno"); });
  const bool unknown = static_cast<std::uint16_t>(-u16_at(bytes, 4)) == kNoSuchSession;
  context().check(!unknown || con == nullptr || !con->first_conn, Rule::con_rsp_unknown,
                  "a connect request with first_conn is refused with -6 (ENXIO)",
                  "a session, or another errno: only a request without first_conn needs a session");
}

void WireSpec::ended(Connection& con) {
  con.closed = true;
  Path& path = of_->paths[con.path];
  path.over = true;
  // The connection has no outstanding requests any more; the requests may be resent on another path.
  for (PossibleStates<Slot>& slot : session_of(path).slots)
    slot.step([&](Slot state, auto& next) {
      if (state.phase == Phase::under_way && state.key == con.key) state = Slot{};
      next.push_back(state);
    });
}

void WireSpec::info_request(Path& path) {
  const std::string_view bytes = event_->bytes;
  const bool named = bytes.size() >= kInfoReqBytes &&
                     bytes.substr(2, 255).find('\0') != std::string_view::npos && bytes[2] != '\0';
  const RuleContext at = context();
  const bool complete = path.accepted.size() == path.cid_num;
  at.check(
      event_->length == kInfoReqBytes && named && (!path.info_asked || path.open) &&
          (complete || path.resumed || !of_->machine),
      Rule::info_req_wire,
      [&] {
        return "INFO_REQ of " + std::to_string(event_->length) + " bytes with " +
               std::to_string(path.accepted.size()) + " of " + std::to_string(path.cid_num) + " connections";
      },
      [] { return std::string("272 bytes with a name, once, when all connections are accepted"); });
  if (of_->client)
    at.check(!path.foreign_depth, Rule::con_rsp_depth,
             "INFO_REQ on a path with another depth or size than the session", "the end of the path");
  if (!complete && !of_->machine) incomplete(path);
  if (named) same_name(path, bytes.substr(2, 255));
  path.info_asked = true;
}

void WireSpec::same_name(const Path& path, std::string_view field) {
  Session& session = session_of(path);
  const std::string_view name = field.substr(0, field.find('\0'));
  if (session.name.empty()) session.name = name;
  context().check(
      session.name == name, Rule::info_req_name,
      [&] { return "the name " + std::string(name) + " in INFO_REQ"; },
      [&] { return session.name + ", as on the first path of the session"; });
}

void WireSpec::info_response(Path& path) {
  path.chunks.clear();
  if (event_->bytes.size() == event_->length) read_chunks(path);
  const bool covers =
      event_->bytes.size() != event_->length || path.depth == 0 || path.chunks.size() == path.depth;
  context().check(
      ((path.info_asked && !path.info_answered) || path.open) && event_->key.con == 0 && covers,
      Rule::info_rsp_wire,
      [&] {
        return "INFO_RSP of " + std::to_string(event_->length) + " bytes for " +
               std::to_string(path.chunks.size()) + " chunks";
      },
      [&] { return "one answer to INFO_REQ with runs for " + std::to_string(path.depth) + " chunks"; });
  path.info_answered = path.was_up = true;
  path.up = event_->now;
}

// Parses the chunk descriptors of INFO_RSP. Leaves the chunks unknown if the descriptors are malformed.
void WireSpec::read_chunks(Path& path) {
  const std::string_view bytes = event_->bytes;
  if (bytes.size() < kInfoRspHeader || path.chunk_size == 0) return;
  const std::size_t runs = u16_at(bytes, 2);
  if (runs == 0 || bytes.size() < kInfoRspHeader + runs * kDescriptorBytes || path.depth % runs != 0) return;
  std::vector<Buffer> chunks;
  for (std::size_t run = 0; run < runs; ++run) {
    const std::size_t from = kInfoRspHeader + run * kDescriptorBytes;
    const std::uint32_t len = u32_at(bytes, from + 12);
    if (len == 0 || len % path.chunk_size != 0 || chunks.size() + len / path.chunk_size > path.depth) return;
    for (std::uint32_t at = 0; at < len; at += path.chunk_size)
      chunks.push_back({number_at(bytes, from, 8) + at, u32_at(bytes, from + 8), path.chunk_size});
  }
  path.chunks = std::move(chunks);
}

}  // namespace rtrs::spec
