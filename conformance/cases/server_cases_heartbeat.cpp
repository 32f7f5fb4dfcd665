// Heartbeats (protocol.md section 7). The tester stops sending; the network loses nothing.
#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace heartbeat_checks {
namespace {

void send_heartbeat(Path& path, std::uint16_t cid = 0, std::uint32_t payload = 0) {
  path.endpoint().write_imm(path.con(cid), wire::encode_hb(wire::ImmType::hb_msg) | payload);
}

void await_ack(Path& path, unsigned before) {
  const bool came = path.endpoint().wait([&] { return path.con(0).heartbeat_acks > before || !path.whole(); },
                                         path.deadlines().answer);
  require(path.whole(), "the path was cut off instead");
  require(came, "no HB_ACK within {} s", path.deadlines().answer / seconds(1));
}

void answered(ServerTester& tester) {
  Path& path = tester.opened();
  send_heartbeat(path);
  await_ack(path, 0);
}

void payload_ignored(ServerTester& tester) {
  Path& path = tester.opened();
  send_heartbeat(path, 0, 0x0abcdefU);
  await_ack(path, 0);
}

void on_io_connection(ServerTester& tester) {
  Path& path = tester.opened();
  send_heartbeat(path, 1);
  exchange_versions(path);
}

void unsolicited_ack(ServerTester& tester) {
  Path& path = tester.opened();
  tester.endpoint().write_imm(path.con(0), wire::encode_hb(wire::ImmType::hb_ack));
  exchange_versions(path);
}

void burst(ServerTester& tester) {
  Path& path = tester.opened();
  for (unsigned i = 0; i < 64; ++i) send_heartbeat(path);
  await_ack(path, 0);
  exchange_versions(path);
}

void sends_heartbeats(ServerTester& tester) {
  Path& path = tester.opened();
  const bool came = tester.endpoint().wait([&] { return path.con(0).heartbeats > 0 || !path.whole(); },
                                           3 * tester.deadlines().heartbeat);
  require(path.whole(), "the path was cut off");
  require(came, "no HB_MSG within three intervals");
}

// The server must detect the silent client, but not before the protocol's lower bound.
void silent_client(ServerTester& tester) {
  Path& path = tester.opened();
  for (std::uint16_t cid = 0; cid < 2; ++cid) path.con(cid).mute = true;
  const Nanos since = tester.now();
  const Nanos upper = tester.deadlines().silence_upper() + tester.deadlines().refusal;
  require(path.cut_off_within(upper), "a silent client was kept for {:.1f} s",
          static_cast<double>(upper) / 1e9);
  const Nanos took = path.con(0).lost_at - since;
  require(took >= tester.deadlines().silence_lower(), "declared dead after {:.1f} s, before {:.1f} s",
          static_cast<double>(took) / 1e9, static_cast<double>(tester.deadlines().silence_lower()) / 1e9);
}

void acks_keep_path_up(ServerTester& tester) {
  Path& path = tester.opened();
  const Nanos bound = tester.deadlines().silence_upper() + 2 * tester.deadlines().heartbeat;
  tester.endpoint().wait([&] { return !path.whole(); }, bound);
  require(path.whole(), "a client that answered every heartbeat was declared dead: {}",
          to_string(path.con(0).reason));
  exchange_versions(path);
}

// The client sends requests but does not answer heartbeats; the path must stay up.
void traffic_keeps_path_up(ServerTester& tester) {
  Path& path = tester.opened();
  path.con(0).mute = true;
  const Nanos end = tester.now() + tester.deadlines().silence_upper() + 2 * tester.deadlines().heartbeat;
  while (tester.now() < end) {
    Ask ask = sess_info_ask();
    ask.cid = 1;
    expect_errno(path, ask, 0, "a request of a client that answers no heartbeat");
    tester.endpoint().wait([] { return false; }, tester.deadlines().heartbeat);
  }
}

constexpr const char* kSource = "protocol.md section 7";

constexpr Case kCases[] = {
    {"C301-heartbeat-answered", "heartbeat: HB_MSG is answered with HB_ACK", kSource, Level::must, false,
     answered},
    {"C302-heartbeat-payload", "heartbeat: its payload is ignored", "protocol.md section 1.3", Level::must,
     false, payload_ignored},
    {"C303-heartbeat-io", "heartbeat: HB_MSG on an IO connection does no harm", kSource, Level::should, false,
     on_io_connection},
    {"C304-heartbeat-unasked", "heartbeat: an unsolicited HB_ACK does no harm", kSource, Level::must, false,
     unsolicited_ack},
    {"C305-heartbeat-burst", "heartbeat: 64 at once do no harm", kSource, Level::must, false, burst},
    {"C306-heartbeat-own", "heartbeat: the server sends its own to a quiet client", kSource, Level::should,
     true, sends_heartbeats},
    {"C307-heartbeat-silent", "heartbeat: a silent client is declared dead within the bound, not before",
     kSource, Level::must, true, silent_client},
    {"C308-heartbeat-acks", "heartbeat: a client that only acknowledges is kept", kSource, Level::must, true,
     acks_keep_path_up},
    {"C309-heartbeat-traffic", "heartbeat: a client whose requests arrive is kept", kSource, Level::must,
     true, traffic_keeps_path_up},
};

}  // namespace
}  // namespace heartbeat_checks

std::span<const Case> heartbeat_cases() {
  return heartbeat_checks::kCases;
}

}  // namespace rtrs::conformance
