#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

constexpr std::uint16_t kDepth = 2;

Settings settings() {
  Settings settings;
  settings.con_num = 2;
  settings.depth = kDepth;
  settings.send_depth = 8;
  settings.extensions = 7;
  settings.policy = Policy::min_inflight;
  settings.queue_timeout = 60 * kSecond;
  settings.heartbeat_interval = 5 * kSecond;
  settings.heartbeat_missed_max = 5;
  return settings;
}

void connect(Story& story, std::uint16_t path, std::uint32_t epoch, std::uint32_t flags, bool first) {
  const auto attempt = [&](std::uint16_t con) {
    return on(path, con, epoch, [=](Event& e) {
      e.cid_num = 2, e.recon_cnt = static_cast<std::uint16_t>(epoch), e.first_conn = first || con > 0;
    });
  };
  story.add(Kind::Connect, attempt(0));
  story.add(Kind::PathChanged, path_is(path, PathState::connecting));
  for (std::uint16_t con = 0; con < 2; ++con) {
    story.add(Kind::Connected, on(path, con, epoch, [=](Event& e) {
                e.queue_depth = kDepth, e.max_io_size = 4096, e.max_hdr_size = 4096, e.flags = flags;
              }));
    if (con == 0) story.add(Kind::Connect, attempt(1));
  }
  story.add(Kind::PostReceive, on(path, 0, epoch, [](Event& e) { e.count = 1; }));
  story.add(Kind::SendInfoReq, on(path, 0, epoch));
  story.add(Kind::InfoAccepted, on(path, 0, epoch));
  for (std::uint16_t con = 0; con < 2; ++con)
    story.add(Kind::PostReceive, on(path, con, epoch, [](Event& e) { e.count = 16; }));
  story.add(Kind::PathChanged, path_is(path, PathState::connected));
}

// Reposts the receive that a message consumed.
void repost_receive(Story& story, std::uint16_t path, std::uint16_t con) {
  story.add(Kind::PostReceive, on(path, con, 1, [](Event& e) { e.count = 1; }));
}

void submit(Story& story, std::uint16_t permit, bool reads) {
  story.add(Kind::Submitted, [=](Event& e) {
    e.permit = permit, e.reads = reads, e.data_len = 512, e.usr_len = 32, e.offers_invalidation = reads;
  });
}
Story::Change request(std::uint16_t path, std::uint32_t epoch, std::uint16_t permit,
                      std::uint8_t generation) {
  return on(path, 1, epoch, [=](Event& e) {
    e.permit = permit, e.generation = generation, e.imm = request_imm(kDepth, permit, 544);
  });
}
Story::Change response(std::uint16_t path, std::uint32_t epoch, std::uint16_t permit, std::uint8_t generation,
                       std::uint32_t error = 0) {
  return on(path, 1, epoch,
            [=](Event& e) { e.imm = kIoRsp << 28 | error << 19 | tagged_id(kDepth, permit, generation); });
}
Story::Change complete(std::uint16_t permit, Result result = Result::ok, std::uint16_t error = 0) {
  return [=](Event& e) { e.permit = permit, e.result = result, e.error = error; };
}
Story::Change heartbeat(std::uint16_t path, std::uint32_t epoch, unsigned type) {
  return on(path, 0, epoch, [=](Event& e) { e.imm = type << 28; });
}

void lose(Story& story, std::uint16_t path, std::uint32_t epoch, PathState state) {
  for (std::uint16_t con = 0; con < 2; ++con) story.add(Kind::Disconnect, on(path, con, epoch));
  story.add(Kind::PathChanged, path_is(path, state));
}

void end(Story& story) {
  story.add(Kind::CloseRequested);
  lose(story, 0, 2, PathState::closing);
  story.add(Kind::Continued);
  lose(story, 1, 1, PathState::closing);
  story.add(Kind::LinkChanged, [](Event& e) { e.up = false; });
  for (std::uint16_t path = 0; path < 2; ++path) {
    for (std::uint16_t con = 0; con < 2; ++con)
      story.add(Kind::ConnectionClosed, on(path, con, path == 0 ? 2 : 1));
    story.add(Kind::ReleasePath, [=](Event& e) { e.path = path; });
    story.add(Kind::PathChanged, path_is(path, PathState::closed));
  }
  story.add(Kind::EndSession);
}

}  // namespace

Story client_story() {
  Story story;
  story.add(Kind::BeginClient, [](Event& e) { e.settings = settings(); });
  story.add(Kind::PathAdded);
  connect(story, 0, 1, kFenceFlag | kGenerationFlag | kProbeFlag, true);
  story.add(Kind::LinkChanged, [](Event& e) { e.up = true; });
  story.add(Kind::PathAdded, [](Event& e) { e.path = 1; });
  connect(story, 1, 1, kFenceFlag | kGenerationFlag, false);
  submit(story, 0, false);
  story.add(Kind::PostRequest, request(0, 1, 0, 1));
  story.add(Kind::ImmReceived, response(0, 1, 0, 1));
  repost_receive(story, 0, 1);
  story.add(Kind::Complete, complete(0));
  submit(story, 1, true);
  story.add(Kind::PostRequest, request(0, 1, 1, 1)).cookie = 2;
  story.add(Kind::SendDone, on(0, 1, 1, [](Event& e) { e.cookie = 2; }));
  story.wait(5 * kSecond);
  const Time tick = story.now();
  for (std::uint16_t path = 0; path < 2; ++path) {
    story.add(Kind::DeadlineReached, [=](Event& e) { e.now = tick; });
    story.add(Kind::PostImm, heartbeat(path, 1, kHbMsg)).now = tick;
  }
  story.add(Kind::PostImm, on(0, 1, 1, [](Event& e) { e.imm = kHbMsg << 28; })).now = tick;
  story.add(Kind::ImmReceived, heartbeat(1, 1, kHbAck));
  repost_receive(story, 1, 0);
  story.add(Kind::ImmReceived, heartbeat(1, 1, kHbMsg));
  repost_receive(story, 1, 0);
  story.add(Kind::PostImm, heartbeat(1, 1, kHbAck));
  story.add(Kind::ConnectionLost, on(0, 1, 1));
  lose(story, 0, 1, PathState::draining);
  for (std::uint16_t con = 0; con < 2; ++con) story.add(Kind::ConnectionClosed, on(0, con, 1));
  story.add(Kind::ReleasePath);
  story.add(Kind::PathChanged, path_is(0, PathState::waiting));
  story.add(Kind::SendFenceReq, on(1, 0, 1, [](Event& e) { e.serial = 7, e.path = 0, e.recon_cnt = 1; }));
  story.add(Kind::FenceAnswered, on(1, 0, 1, [](Event& e) { e.serial = 7; }));
  repost_receive(story, 1, 0);
  story.add(Kind::FailedOver, [](Event& e) { e.permit = 1, e.from = 0, e.to = 1, e.fenced = true; });
  story.add(Kind::PostRequest, request(1, 1, 1, 2));
  story.add(Kind::DeadlineReached);
  connect(story, 0, 2, kFenceFlag | kGenerationFlag, true);
  story.add(Kind::ImmReceived, response(1, 1, 1, 2, 5));
  repost_receive(story, 1, 1);
  story.add(Kind::Complete, complete(1, Result::peer_error, 5));
  end(story);
  return story;
}

Story keyed_client_story() {
  Story story;
  story.add(Kind::BeginClient, [](Event& e) { e.settings = settings(); });
  story.add(Kind::PathAdded);
  connect(story, 0, 1, kNewRkeyFlag, true);
  story.add(Kind::LinkChanged, [](Event& e) { e.up = true; });
  submit(story, 1, true);
  story.add(Kind::PostRequest, request(0, 1, 1, 0));
  story.add(Kind::KeyInvalidated, on(0, 1, 1, [](Event& e) { e.permit = 1; }));
  repost_receive(story, 0, 1);
  story.add(Kind::KeyedResponseReceived,
            on(0, 1, 1, [](Event& e) { e.imm = kIoRspInv << 28 | 1, e.chunk = 1, e.rkey = 77; }));
  repost_receive(story, 0, 1);
  story.add(Kind::StoreKey, [](Event& e) { e.chunk = 1, e.rkey = 77; });
  story.add(Kind::Complete, complete(1));
  return story;
}

const std::vector<Spoiled> kClientCases = {
    {Rule::connect_order, "the second connection before the first is up",
     [](Story& s) { s.drop(Kind::Connected); }},
    {Rule::connect_attempt, "another counter on the second connection",
     [](Story& s) { s.at(Kind::Connect, 1).recon_cnt = 9; }},
    {Rule::connect_attempt, "a new attempt with the old counter",
     [](Story& s) { s.at(Kind::Connect, 4).recon_cnt = 1; }},
    {Rule::first_conn, "first_conn clear on cid 1",
     [](Story& s) { s.at(Kind::Connect, 3).first_conn = false; }},
    {Rule::first_conn, "first_conn clear in a later attempt",
     [](Story& s) { s.at(Kind::Connect, 4).first_conn = false; }},
    {Rule::connection_events, "closed twice", [](Story& s) { s.repeat(Kind::ConnectionClosed); }},
    {Rule::connection_events, "closed without Disconnect",
     [](Story& s) { s.insert_after(Kind::Connected, 1, Kind::ConnectionClosed, on(0, 1, 1)); }},
    {Rule::connection_events, "answered twice", [](Story& s) { s.repeat(Kind::Connected, 0); }},
    {Rule::post_on_live, "a request on a connection that was asked to end",
     [](Story& s) { s.insert_after(Kind::Disconnect, 1, Kind::PostImm, heartbeat(0, 1, kHbMsg)); }},
    {Rule::info_full_set, "INFO_REQ with one of two connections",
     [](Story& s) { s.insert_after(Kind::Connected, 0, Kind::SendInfoReq, on(0, 0, 1)); }},
    {Rule::info_full_set, "INFO_REQ twice", [](Story& s) { s.repeat(Kind::SendInfoReq); }},
    {Rule::path_transition, "draining to connected",
     [](Story& s) { s.at(Kind::PathChanged, 5).state = PathState::connected; }},
    {Rule::path_connected, "connected without INFO_RSP", [](Story& s) { s.drop(Kind::InfoAccepted); }},
    {Rule::path_connected, "INFO_RSP without becoming connected",
     [](Story& s) {
       s.drop(Kind::PathChanged, 1);
       s.end_after(Kind::PathAdded, 1);
     }},
    {Rule::path_teardown, "one connection is not ended", [](Story& s) { s.drop(Kind::Disconnect); }},
    {Rule::path_teardown, "ended twice", [](Story& s) { s.repeat(Kind::Disconnect); }},
    {Rule::path_teardown, "a lost connection is ignored",
     [](Story& s) {
       s.end_after(Kind::ConnectionLost);
       s.add(Kind::Continued);
     }},
    {Rule::release_drained, "released before a connection is closed",
     [](Story& s) { s.drop(Kind::ConnectionClosed, 1); }},
    {Rule::depth_fixed, "another depth is taken", [](Story& s) { s.at(Kind::Connected, 4).queue_depth = 4; }},
    {Rule::permit_free, "a permit that is in use", [](Story& s) { s.at(Kind::Submitted, 0).permit = 1; }},
    {Rule::permit_free, "a permit beyond the depth", [](Story& s) { s.at(Kind::Submitted, 0).permit = 2; }},
    {Rule::request_once, "posted twice", [](Story& s) { s.repeat(Kind::PostRequest); }},
    {Rule::request_path, "over a path that is not connected",
     [](Story& s) {
       s.at(Kind::PostRequest, 2).key = Key{0, 1, 1};
     }},
    {Rule::request_choice, "the second of two idle paths",
     [](Story& s) {
       s.at(Kind::PostRequest).key = Key{1, 1, 1};
     }},
    {Rule::request_choice, "the same path twice, where they take turns",
     [](Story& s) { s.at(Kind::BeginClient).settings.policy = Policy::round_robin; }},
    {Rule::request_choice, "a path whose heartbeat was never answered",
     [](Story& s) {
       s.at(Kind::BeginClient).settings.policy = Policy::min_latency;
       s.end_after(Kind::ImmReceived, 1);
       repost_receive(s, 1, 0);
       submit(s, 0, false);
       s.add(Kind::PostRequest, request(0, 1, 0, 2));
     }},
    {Rule::request_choice, "another policy was set meanwhile",
     [](Story& s) {
       s.insert_after(Kind::Complete, 0, Kind::PolicyChanged,
                      [](Event& e) { e.policy = Policy::round_robin; });
       s.at(Kind::PostRequest, 1).key.path = 1;
     }},
    {Rule::request_affinity, "an affinity over the connection of another",
     [](Story& s) { s.at(Kind::PostRequest).key.con = 2; }},
    {Rule::request_order, "the later request first",
     [](Story& s) {
       s.end_after(Kind::Complete);
       submit(s, 0, false);
       submit(s, 1, false);
       s.add(Kind::PostRequest, request(0, 1, 1, 1));
       s.add(Kind::PostRequest, request(0, 1, 0, 2));
     }},
    {Rule::request_imm, "the offset is off by one", [](Story& s) { ++s.at(Kind::PostRequest).imm; }},
    {Rule::request_imm, "the next permit's bits",
     [](Story& s) { s.at(Kind::PostRequest).imm = request_imm(2, 1, 544); }},
    {Rule::request_generation, "a replay with the generation of the first",
     [](Story& s) { s.at(Kind::PostRequest, 2).generation = 1; }},
    {Rule::service_connection, "IO over cid 0", [](Story& s) { s.at(Kind::PostRequest).key.con = 0; }},
    {Rule::replay_drained, "sent again before the path is released",
     [](Story& s) { s.drop(Kind::ReleasePath); }},
    {Rule::replay_bound, "sent again after both timeouts together",
     [](Story& s) {
       s.at(Kind::BeginClient).settings.request_timeout = 2 * kSecond;
       s.at(Kind::BeginClient).settings.queue_timeout = 2 * kSecond;
     }},
    {Rule::replay_proof, "sent again before the fence is answered",
     [](Story& s) { s.drop(Kind::FenceAnswered); }},
    {Rule::replay_proof, "the fence was refused", [](Story& s) { s.at(Kind::FenceAnswered).error = 16; }},
    {Rule::replay_proof, "without proof where that is not configured",
     [](Story& s) { s.at(Kind::FailedOver).fenced = false; }},
    {Rule::complete_once, "completed twice", [](Story& s) { s.repeat(Kind::Complete); }},
    {Rule::complete_result, "ok without a response", [](Story& s) { s.drop(Kind::ImmReceived); }},
    {Rule::complete_result, "an errno as a success",
     [](Story& s) { s.at(Kind::Complete, 1).result = Result::ok; }},
    {Rule::complete_result, "another errno", [](Story& s) { s.at(Kind::Complete, 1).error = 6; }},
    {Rule::complete_at_response, "a response that completes nothing",
     [](Story& s) { s.drop(Kind::Complete); }},
    {Rule::no_path_early, "no path, while one is connected",
     [](Story& s) {
       s.at(Kind::PostRequest).kind = Kind::Complete;
       s.at(Kind::Complete).result = Result::no_path;
     }},
    {Rule::fence_request, "for the attempt that is connected",
     [](Story& s) { s.at(Kind::SendFenceReq).path = 1; }},
    {Rule::fence_request, "for an attempt that never was",
     [](Story& s) { s.at(Kind::SendFenceReq).recon_cnt = 5; }},
    {Rule::peer_violation, "a response over another connection",
     [](Story& s) { s.at(Kind::ImmReceived).key.con = 0; }},
    {Rule::peer_violation, "an immediate of unknown type",
     [](Story& s) { s.at(Kind::ImmReceived).imm = 5U << 28; }},
    {Rule::peer_violation, "what does not parse is borne",
     [](Story& s) { s.insert_after(Kind::Complete, 0, Kind::PeerBroke, on(0, 1, 1)); }},
    {Rule::end_clean, "an action after the end", [](Story& s) { s.add(Kind::Complete, complete(0)); }},
    {Rule::end_clean, "a path is not closed", [](Story& s) { s.drop(Kind::PathChanged, -1); }},
    {Rule::end_clean, "a request is open",
     [](Story& s) {
       s.drop(Kind::ImmReceived, -1);
       s.drop(Kind::Complete, -1);
     }},
    {Rule::link_events, "up twice", [](Story& s) { s.repeat(Kind::LinkChanged); }},
    {Rule::link_events, "down with a path left",
     [](Story& s) {
       s.insert_after(Kind::PathChanged, 4, Kind::LinkChanged, [](Event& e) { e.up = false; });
     }},
    {Rule::link_events, "nobody told", [](Story& s) { s.drop(Kind::LinkChanged); }},
    {Rule::receive_room, "no receives", [](Story& s) { s.at(Kind::PostReceive, 2).count = 0; }},
    {Rule::receive_room, "none for INFO_RSP", [](Story& s) { s.drop(Kind::PostReceive); }},
    {Rule::receive_balance, "what a response took is not posted again",
     [](Story& s) { s.drop(Kind::PostReceive, 6); }},
    {Rule::receive_balance, "more than was taken", [](Story& s) { s.at(Kind::PostReceive, 6).count = 2; }},
    {Rule::receive_balance, "less than the depth", [](Story& s) { s.at(Kind::PostReceive, 2).count = 1; }},
    {Rule::send_room, "more than the queue",
     [](Story& s) {
       for (int i = 0; i < 9; ++i) s.repeat(Kind::PostImm, -1);
     }},
    {Rule::send_signal, "a cookie that counts too much",
     [](Story& s) {
       s.at(Kind::PostRequest, 1).cookie = 3;
       s.at(Kind::SendDone).cookie = 3;
     }},
    {Rule::send_order, "completed twice", [](Story& s) { s.repeat(Kind::SendDone); }},
    {Rule::send_order, "another cookie", [](Story& s) { s.at(Kind::SendDone).cookie = 1; }},
    {Rule::hb_connection, "over an IO connection", [](Story& s) { s.at(Kind::PostImm, 1).key.con = 1; }},
    {Rule::hb_connection, "with a payload", [](Story& s) { s.at(Kind::PostImm).imm |= 1; }},
    {Rule::hb_period, "before its time",
     [](Story& s) { s.insert_after(Kind::Complete, 0, Kind::PostImm, heartbeat(0, 1, kHbMsg)); }},
    {Rule::hb_period, "a tick sends none",
     [](Story& s) {
       s.drop(Kind::PostImm);
       s.drop(Kind::PostImm);
       s.end_after(Kind::DeadlineReached, 1);
       s.add(Kind::Continued);
     }},
    {Rule::hb_ack, "an acknowledgement of nothing", [](Story& s) { s.repeat(Kind::PostImm, 3); }},
    {Rule::hb_ack_due, "no acknowledgement", [](Story& s) { s.drop(Kind::PostImm, 3); }},
    {Rule::probe_due, "nothing is outstanding",
     [](Story& s) {
       s.insert_after(Kind::Complete, 0, Kind::PostImm, on(0, 1, 1, [](Event& e) { e.imm = kHbMsg << 28; }));
     }},
    {Rule::probe_due, "the last one has no answer yet", [](Story& s) { s.repeat(Kind::PostImm, 2); }},
    {Rule::probe_delivery, "where the probe is agreed",
     [](Story& s) {
       s.at(Kind::BeginClient).settings.probe_deliveries = true;
       s.insert_after(Kind::PostRequest, 0, Kind::ProbeDelivery, on(0, 1, 1, [](Event& e) { e.cookie = 2; }));
     }},
    {Rule::probe_dead_early, "dead after one interval",
     [](Story& s) { s.at(Kind::PathChanged, 4).reason = Reason::connection_silent; }},
    {Rule::hb_dead_early, "dead after one interval",
     [](Story& s) { s.at(Kind::PathChanged, 4).reason = Reason::heartbeat_lost; }},
    {Rule::hb_dead_late, "silence for eight intervals",
     [](Story& s) {
       s.end_after(Kind::PostImm, 1);
       for (int tick = 0; tick < 8; ++tick) {
         s.wait(5 * kSecond);
         s.add(Kind::DeadlineReached);
         s.add(Kind::DeadlineReached).now = s.events()[s.events().size() - 2].now;
         s.add(Kind::Continued).now += kSecond;
       }
     }},
};

const std::vector<Spoiled>& client_cases() {
  return kClientCases;
}

const std::vector<Spoiled> kKeyedClientCases = {
    {Rule::key_stored, "not stored", [](Story& s) { s.drop(Kind::StoreKey); }},
    {Rule::key_stored, "for another chunk", [](Story& s) { s.at(Kind::StoreKey).chunk = 0; }},
    {Rule::key_stored, "after the permit is free", [](Story& s) { s.swap(Kind::StoreKey, Kind::Complete); }},
    {Rule::peer_violation, "a claim to have invalidated is believed",
     [](Story& s) {
       s.drop(Kind::KeyInvalidated);
       s.add(Kind::Continued);
     }},
    {Rule::peer_violation, "a response without a key is taken",
     [](Story& s) {
       s.at(Kind::KeyedResponseReceived).kind = Kind::ImmReceived;
       s.drop(Kind::StoreKey);
       s.add(Kind::Continued);
     }},
    {Rule::peer_violation, "a response for an id beyond the depth is borne",
     [](Story& s) {
       s.at(Kind::KeyedResponseReceived).imm += 2;
       s.at(Kind::KeyedResponseReceived).chunk += 2;
       s.drop(Kind::StoreKey);
       s.drop(Kind::Complete);
       s.add(Kind::Continued);
     }},
    {Rule::peer_violation, "a key for another chunk",
     [](Story& s) {
       s.at(Kind::KeyedResponseReceived).chunk = 0;
       s.drop(Kind::StoreKey);
       s.drop(Kind::Complete);
       s.add(Kind::Continued);
     }},
};

const std::vector<Spoiled>& keyed_client_cases() {
  return kKeyedClientCases;
}

}  // namespace rtrs::spec
