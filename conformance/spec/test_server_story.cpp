#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

constexpr std::uint16_t kDepth = 2;

Settings settings(bool invalidates) {
  Settings settings;
  settings.depth = kDepth;
  settings.send_depth = 8;
  settings.extensions = 3;
  settings.always_invalidate = invalidates;
  settings.handshake_timeout = 30 * kSecond;
  settings.heartbeat_interval = 5 * kSecond;
  settings.heartbeat_missed_max = 5;
  return settings;
}

Uuid uuid_of(std::uint8_t number) {
  Uuid uuid{};
  uuid[0] = number;
  return uuid;
}

void connect(Story& story, std::uint16_t path, std::uint16_t recon, std::uint32_t epoch, std::uint32_t flags,
             bool info = true) {
  for (std::uint16_t con = 0; con < 2; ++con) {
    story.add(Kind::ConnectRequested, on(path, con, epoch + con, [=](Event& e) {
                e.request = epoch + con, e.uuid = uuid_of(static_cast<std::uint8_t>(path + 1)),
                e.address_pair = 100U + path;
                e.cid_num = 2, e.recon_cnt = recon, e.extensions = 3;
              }));
    if (con == 0) story.add(Kind::PathChanged, path_is(path, PathState::connecting));
    story.add(Kind::Accept,
              on(path, con, epoch + con, [=](Event& e) { e.request = epoch + con, e.flags = flags; }));
    if (con == 0) story.add(Kind::PostReceive, on(path, 0, epoch, [](Event& e) { e.count = 1; }));
  }
  if (!info) return;
  story.add(Kind::InfoRequested, on(path, 0, epoch));
  for (std::uint16_t con = 0; con < 2; ++con)
    story.add(Kind::PostReceive, on(path, con, epoch + con, [](Event& e) { e.count = 16; }));
  story.add(Kind::SendInfoRsp, on(path, 0, epoch));
  story.add(Kind::PathChanged, path_is(path, PathState::connected));
}

Story::Change arrival(std::uint16_t path, std::uint32_t epoch, std::uint16_t chunk, bool reads) {
  return on(path, 1, epoch, [=](Event& e) {
    e.chunk = chunk, e.reads = reads, e.data_len = 512, e.usr_len = 32, e.generation = 3;
    e.has_descriptor = e.need_invalidate = reads;
  });
}
Story::Change delivery(std::uint16_t path, std::uint32_t epoch, std::uint16_t chunk, std::uint16_t serial,
                       bool parked = false) {
  return on(path, 1, epoch,
            [=](Event& e) { e.chunk = chunk, e.serial = serial, e.serial16 = serial, e.parked = parked; });
}
Story::Change answer(std::uint16_t chunk, std::uint16_t serial, std::uint16_t error = 0) {
  return [=](Event& e) { e.chunk = chunk, e.serial = serial, e.serial16 = serial, e.error = error; };
}
Story::Change response(std::uint16_t path, std::uint32_t epoch, std::uint16_t chunk, std::uint32_t error,
                       bool reads, bool tags = true) {
  return on(path, 1, epoch, [=](Event& e) {
    const std::uint32_t id = tags ? tagged_id(kDepth, chunk, 3) : chunk;
    e.chunk = chunk, e.imm = (reads ? kIoRspInv : kIoRsp) << 28 | error << 19 | id;
    e.write_data = reads && error == 0, e.send_invalidate = reads;
  });
}
Story::Change heartbeat(std::uint16_t path, std::uint32_t epoch, unsigned type) {
  return on(path, 0, epoch, [=](Event& e) { e.imm = type << 28; });
}

// Reposts the receive that a message consumed.
void repost_receive(Story& story, std::uint16_t path, std::uint16_t con, std::uint32_t epoch) {
  story.add(Kind::PostReceive, on(path, con, epoch, [](Event& e) { e.count = 1; }));
}

void close(Story& story, std::uint16_t path, std::uint32_t epoch) {
  for (std::uint16_t con = 0; con < 2; ++con) story.add(Kind::Disconnect, on(path, con, epoch + con));
  story.add(Kind::PathChanged, path_is(path, PathState::closing));
}
void release(Story& story, std::uint16_t path) {
  story.add(Kind::ReleasePath, [=](Event& e) { e.path = path; });
  story.add(Kind::PathChanged, path_is(path, PathState::absent));
}

}  // namespace

namespace {

constexpr std::uint32_t kFlags = kFenceFlag | kGenerationFlag;

void begin(Story& story) {
  story.add(Kind::BeginServerSession, [](Event& e) { e.settings = settings(false); });
  connect(story, 0, 1, 10, kFlags);
  story.add(Kind::LinkChanged, [](Event& e) { e.up = true; });
  connect(story, 1, 1, 20, kFlags);
  story.add(Kind::ConnectRequested, on(1, 0, 22, [](Event& e) {
              e.request = 22, e.uuid = uuid_of(2), e.cid_num = 2, e.recon_cnt = 1;
            }));
  story.add(Kind::Reject, [](Event& e) { e.request = 22, e.error = 104; });
  story.add(Kind::RequestArrived, arrival(0, 11, 0, true));
  repost_receive(story, 0, 1, 11);
  story.add(Kind::Deliver, delivery(0, 11, 0, 1));
  story.add(Kind::Responded, answer(0, 1));
  story.add(Kind::PostResponse, response(0, 11, 0, 0, true)).cookie = 3;
  story.add(Kind::SendDone, on(0, 1, 11, [](Event& e) { e.cookie = 3; }));
  story.add(Kind::RequestArrived, arrival(0, 11, 1, false));
  repost_receive(story, 0, 1, 11);
  story.add(Kind::Deliver, delivery(0, 11, 1, 1));
  story.wait(5 * kSecond);
  story.add(Kind::DeadlineReached);
  story.add(Kind::PostImm, heartbeat(0, 10, kHbMsg));
  story.add(Kind::PostImm, heartbeat(1, 20, kHbMsg));
  story.add(Kind::ImmReceived, heartbeat(1, 20, kHbMsg));
  repost_receive(story, 1, 0, 20);
  story.add(Kind::PostImm, heartbeat(1, 20, kHbAck));
}

void fence(Story& story) {
  // The client has lost path 0 and sends a fence to close it; the resent request waits for the chunk.
  story.add(Kind::FenceRequested,
            on(1, 0, 20, [](Event& e) { e.serial = 7, e.recon_cnt = 1, e.uuid = uuid_of(1); }));
  repost_receive(story, 1, 0, 20);
  close(story, 0, 10);
  story.add(Kind::ConnectionClosed, on(0, 0, 10));
  story.add(Kind::ConnectionClosed, on(0, 1, 11));
  story.add(Kind::RequestArrived, arrival(1, 21, 1, false));
  repost_receive(story, 1, 1, 21);
  story.add(Kind::Responded, answer(1, 1));
  release(story, 0);
  story.add(Kind::SendFenceRsp, on(1, 0, 20, [](Event& e) { e.serial = 7, e.uuid = uuid_of(1); }));
  story.add(Kind::Deliver, delivery(1, 21, 1, 2, true));
  story.add(Kind::Responded, answer(1, 2, 600));
  story.add(Kind::PostResponse, response(1, 21, 1, 5, false));
}

}  // namespace

Story server_story() {
  Story story;
  begin(story);
  fence(story);
  connect(story, 0, 2, 30, kFlags, false);
  story.wait(31 * kSecond);
  story.add(Kind::DeadlineReached);
  story.add(Kind::PostImm, heartbeat(1, 20, kHbMsg));
  close(story, 0, 30);
  story.add(Kind::ConnectionClosed, on(0, 0, 30));
  story.add(Kind::ConnectionClosed, on(0, 1, 31));
  release(story, 0);
  story.add(Kind::ConnectionLost, on(1, 1, 21));
  close(story, 1, 20);
  story.add(Kind::LinkChanged, [](Event& e) { e.up = false; });
  story.add(Kind::ConnectionClosed, on(1, 0, 20));
  story.add(Kind::ConnectionClosed, on(1, 1, 21));
  release(story, 1);
  story.add(Kind::EndSession);
  return story;
}

Story keyed_server_story() {
  Story story;
  story.add(Kind::BeginServerSession, [](Event& e) { e.settings = settings(true); });
  connect(story, 0, 1, 10, kNewRkeyFlag | kFenceFlag | kGenerationFlag);
  story.add(Kind::LinkChanged, [](Event& e) { e.up = true; });
  story.add(Kind::RequestArrived, arrival(0, 11, 0, true));
  repost_receive(story, 0, 1, 11);
  story.add(Kind::InvalidateChunk, on(0, 1, 11));
  story.add(Kind::ChunkInvalidated, on(0, 1, 11, [](Event& e) { e.ok = true; }));
  story.add(Kind::Deliver, delivery(0, 11, 0, 1));
  story.add(Kind::Responded, answer(0, 1));
  story.add(Kind::PostResponse, response(0, 11, 0, 0, true)).fresh_key = true;
  return story;
}

Story registry_story() {
  Story story;
  const auto sought = [](std::uint8_t uuid, bool first) {
    return [=](Event& e) { e.uuid = uuid_of(uuid), e.first_conn = first; };
  };
  const auto claimed = [](std::uint16_t session, std::uint64_t name) {
    return [=](Event& e) { e.session = session, e.digest_low = name; };
  };
  story.add(Kind::BeginServerRegistry);
  story.add(Kind::SessionSought, sought(1, true));
  story.add(Kind::AdmitSession, [](Event& e) { e.create = true; });
  story.add(Kind::SessionSought, sought(1, true));
  story.add(Kind::AdmitSession);
  story.add(Kind::SessionSought, sought(2, false));
  story.add(Kind::Reject, [](Event& e) { e.error = 6; });
  story.add(Kind::SessionSought, sought(2, true));
  story.add(Kind::AdmitSession, [](Event& e) { e.create = true, e.session = 1; });
  story.add(Kind::NameClaimed, claimed(0, 5));
  story.add(Kind::AnswerName);
  story.add(Kind::NameClaimed, claimed(1, 5));
  story.add(Kind::AnswerName, [](Event& e) { e.session = 1, e.error = 1; });
  story.add(Kind::SessionSought, sought(1, false));
  story.add(Kind::AdmitSession);
  story.add(Kind::SessionSought, sought(2, false));
  story.add(Kind::Reject, [](Event& e) { e.error = 6; });
  const auto made_by = [](std::uint64_t identity) {
    return [=](Event& e) { e.uuid = uuid_of(3), e.first_conn = true, e.identity[0] = identity; };
  };
  story.add(Kind::SessionSought, made_by(7));
  story.add(Kind::AdmitSession, [](Event& e) { e.create = true, e.session = 2; });
  story.add(Kind::SessionSought, made_by(8));
  story.add(Kind::Reject, [](Event& e) { e.error = 1; });
  story.add(Kind::SessionSought, made_by(7));
  story.add(Kind::AdmitSession, [](Event& e) { e.session = 2; });
  return story;
}

const std::vector<Spoiled> kServerCases = {
    {Rule::connect_answered, "no answer", [](Story& s) { s.drop(Kind::Reject); }},
    {Rule::connect_answered, "two answers", [](Story& s) { s.repeat(Kind::Reject); }},
    {Rule::accept_attempt, "into a path of another attempt",
     [](Story& s) { s.at(Kind::ConnectRequested, 1).recon_cnt = 2; }},
    {Rule::accept_attempt, "into a connected path",
     [](Story& s) {
       s.at(Kind::Reject).kind = Kind::Accept;
       s.at(Kind::Accept, 4).key = Key{1, 0, 22};
     }},
    {Rule::accept_cid, "a cid twice",
     [](Story& s) {
       s.at(Kind::ConnectRequested, 1).key.con = 0;
       s.at(Kind::Accept, 1).key.con = 0;
     }},
    {Rule::accept_cid, "another cid_num", [](Story& s) { s.at(Kind::ConnectRequested, 1).cid_num = 3; }},
    {Rule::accept_address, "the addresses of the other path",
     [](Story& s) { s.at(Kind::ConnectRequested, 2).address_pair = 100; }},
    {Rule::accept_flags, "an extension that nobody asked for",
     [](Story& s) { s.at(Kind::ConnectRequested).extensions = 0; }},
    {Rule::accept_flags, "NEW_RKEY without meaning it",
     [](Story& s) { s.at(Kind::Accept).flags |= kNewRkeyFlag; }},
    {Rule::reject_errno, "errno 0", [](Story& s) { s.at(Kind::Reject).error = 0; }},
    {Rule::info_answer, "with one of two connections",
     [](Story& s) {
       s.drop(Kind::ConnectRequested, 1);
       s.drop(Kind::Accept, 1);
     }},
    {Rule::info_answer, "a refused name", [](Story& s) { s.at(Kind::InfoRequested).error = 1; }},
    {Rule::info_answer, "twice", [](Story& s) { s.repeat(Kind::SendInfoRsp); }},
    {Rule::path_transition, "connecting to absent",
     [](Story& s) { s.at(Kind::PathChanged, 1).state = PathState::absent; }},
    {Rule::path_transition, "a path out of nothing",
     [](Story& s) {
       s.drop(Kind::ConnectRequested);
       s.drop(Kind::Accept);
     }},
    {Rule::half_open, "a half-open path is kept",
     [](Story& s) {
       s.end_after(Kind::DeadlineReached, 1);
       s.wait(kSecond);
       s.add(Kind::Continued);
     }},
    {Rule::deliver_arrived, "handed over twice",
     [](Story& s) {
       s.repeat(Kind::Deliver, 2);
       s.drop(Kind::Responded, 2);
       s.drop(Kind::RequestArrived);
     }},
    {Rule::deliver_arrived, "what never arrived", [](Story& s) { s.drop(Kind::RequestArrived); }},
    {Rule::chunk_exclusive, "the replay is handed over while storage has the first copy",
     [](Story& s) { s.insert_after(Kind::RequestArrived, 2, Kind::Deliver, delivery(1, 21, 1, 2)); }},
    {Rule::deliver_due, "an arrival is forgotten", [](Story& s) { s.drop(Kind::Deliver, 1); }},
    {Rule::respond_once, "answered twice", [](Story& s) { s.repeat(Kind::Responded); }},
    {Rule::respond_once, "another serial", [](Story& s) { s.at(Kind::Responded).serial16 = 9; }},
    {Rule::response_once, "a response twice", [](Story& s) { s.repeat(Kind::PostResponse); }},
    {Rule::response_once, "before the upper layer", [](Story& s) { s.drop(Kind::Responded); }},
    {Rule::response_due, "a response is forgotten", [](Story& s) { s.drop(Kind::PostResponse); }},
    {Rule::response_connection, "over another connection",
     [](Story& s) {
       s.at(Kind::PostResponse).key = Key{0, 0, 10};
     }},
    {Rule::response_imm, "the next chunk's id", [](Story& s) { ++s.at(Kind::PostResponse).imm; }},
    {Rule::response_imm, "another generation", [](Story& s) { s.at(Kind::PostResponse).imm ^= 2; }},
    {Rule::response_status, "an errno that does not fit becomes a success",
     [](Story& s) { s.at(Kind::PostResponse, 1).imm &= ~(0x1ffU << 19); }},
    {Rule::response_data, "data with an error",
     [](Story& s) { s.at(Kind::PostResponse, 1).write_data = true; }},
    {Rule::response_data, "a READ without its data",
     [](Story& s) { s.at(Kind::PostResponse).write_data = false; }},
    {Rule::response_data, "in an answer that the client did not ask to carry it",
     [](Story& s) { s.at(Kind::PostResponse).data_with_answer = true; }},
    {Rule::response_invalidate, "type 2 without an invalidation",
     [](Story& s) { s.at(Kind::PostResponse).send_invalidate = false; }},
    {Rule::response_key, "a fresh key that was not agreed",
     [](Story& s) { s.at(Kind::PostResponse).fresh_key = true; }},
    {Rule::busy_chunk, "a second request in a busy chunk is borne",
     [](Story& s) {
       s.repeat(Kind::RequestArrived, 1);
       s.swap(Kind::RequestArrived, Kind::Deliver, 2, 1);
     }},
    {Rule::fence_proof, "answered before the path is released",
     [](Story& s) { s.swap(Kind::SendFenceRsp, Kind::PathChanged, 0, 5); }},
    {Rule::fence_proof, "answered twice", [](Story& s) { s.repeat(Kind::SendFenceRsp); }},
    {Rule::fence_obeyed, "the incarnation goes on",
     [](Story& s) {
       s.end_after(Kind::FenceRequested);
       s.add(Kind::Continued);
     }},
    {Rule::release_drained, "released while storage has a request of it",
     [](Story& s) { s.swap(Kind::Responded, Kind::ReleasePath, 1, 0); }},
    {Rule::release_drained, "released before a connection is closed",
     [](Story& s) { s.drop(Kind::ConnectionClosed, 1); }},
    {Rule::path_teardown, "one connection is not ended", [](Story& s) { s.drop(Kind::Disconnect); }},
    {Rule::peer_violation, "an immediate of unknown type is borne",
     [](Story& s) { s.at(Kind::ImmReceived).imm = 5U << 28; }},
    {Rule::peer_violation, "a request before INFO is borne",
     [](Story& s) { s.insert_after(Kind::Accept, 1, Kind::RequestArrived, arrival(0, 11, 0, false)); }},
    {Rule::probe_delivery, "where completions prove nothing",
     [](Story& s) {
       s.insert_after(Kind::Deliver, 0, Kind::ProbeDelivery, on(0, 1, 11, [](Event& e) { e.cookie = 1; }));
     }},
    {Rule::probe_dead_early, "a connection on which work completed",
     [](Story& s) {
       s.at(Kind::BeginServerSession).settings.probe_deliveries = true;
       s.at(Kind::PathChanged, 4).reason = Reason::connection_silent;
     }},
    {Rule::hb_dead_early, "dead after one interval",
     [](Story& s) { s.at(Kind::PathChanged, 4).reason = Reason::heartbeat_lost; }},
    {Rule::link_events, "nobody told", [](Story& s) { s.drop(Kind::LinkChanged); }},
    {Rule::receive_room, "no receives",
     [](Story& s) {
       s.at(Kind::PostReceive, 2).count = 0;
       s.drop(Kind::PostReceive, 6);
     }},
    {Rule::receive_balance, "what a request took is not posted again",
     [](Story& s) { s.drop(Kind::PostReceive, 6); }},
    {Rule::receive_balance, "less than the depth", [](Story& s) { s.at(Kind::PostReceive, 2).count = 1; }},
    {Rule::end_clean, "a path is left", [](Story& s) { s.drop(Kind::PathChanged, -1); }},
};

const std::vector<Spoiled>& server_cases() {
  return kServerCases;
}

const std::vector<Spoiled> kKeyedServerCases = {
    {Rule::deliver_invalidated, "handed over with the key alive",
     [](Story& s) { s.drop(Kind::ChunkInvalidated); }},
    {Rule::deliver_invalidated, "handed over although the key could not be killed",
     [](Story& s) { s.at(Kind::ChunkInvalidated).ok = false; }},
    {Rule::deliver_invalidated, "no key is killed",
     [](Story& s) {
       s.drop(Kind::InvalidateChunk);
       s.drop(Kind::ChunkInvalidated);
     }},
    {Rule::response_key, "no fresh key", [](Story& s) { s.at(Kind::PostResponse).fresh_key = false; }},
};

const std::vector<Spoiled>& keyed_server_cases() {
  return kKeyedServerCases;
}

const std::vector<Spoiled> kRegistryCases = {
    {Rule::session_admission, "a session is made for a further path",
     [](Story& s) { s.at(Kind::SessionSought, 3).first_conn = false; }},
    {Rule::session_admission, "a second session for one client",
     [](Story& s) {
       s.at(Kind::AdmitSession, 1).create = true;
       s.at(Kind::AdmitSession, 1).session = 3;
     }},
    {Rule::session_admission, "another client's session",
     [](Story& s) {
       s.at(Kind::AdmitSession, 2).create = false;
       s.at(Kind::AdmitSession, 2).session = 0;
     }},
    {Rule::session_admission, "a living session's path is refused",
     [](Story& s) { s.at(Kind::AdmitSession, 1).kind = Kind::Reject; }},
    {Rule::session_admission, "a further path of a session that was opened is refused",
     [](Story& s) { s.at(Kind::AdmitSession, 3).kind = Kind::Reject; }},
    {Rule::session_admission, "a further path joins a session that was never opened",
     [](Story& s) {
       s.at(Kind::Reject, 1).kind = Kind::AdmitSession;
       s.at(Kind::AdmitSession, 4).session = 1;
     }},
    {Rule::session_admission, "no answer", [](Story& s) { s.drop(Kind::Reject); }},
    {Rule::session_admission, "a session with a name gives way",
     [](Story& s) {
       s.add(Kind::SessionSought, [](Event& e) { e.first_conn = true; });
       s.add(Kind::CrowdOut);
       s.add(Kind::Reject, [](Event& e) { e.error = 16; });
     }},
    {Rule::session_identity, "a stranger joins",
     [](Story& s) { s.at(Kind::SessionSought, 4).identity[1] = 8; }},
    {Rule::session_identity, "a stranger opens the session again",
     [](Story& s) { s.at(Kind::SessionSought, 1).identity[0] = 8; }},
    {Rule::session_admission, "who made it is refused as a stranger",
     [](Story& s) { s.at(Kind::AdmitSession, 5).kind = Kind::Reject; }},
    {Rule::name_owner, "one name for two", [](Story& s) { s.at(Kind::AnswerName, 1).error = 0; }},
};

const std::vector<Spoiled>& registry_cases() {
  return kRegistryCases;
}

}  // namespace rtrs::spec
