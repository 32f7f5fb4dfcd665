// Duplicate, stale and half-open paths, and reconnects (protocol.md sections 3.2 to 3.6).
#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {
namespace reconnect_checks {
namespace {

using wire::linux_errno::kEconnreset;
using wire::linux_errno::kEexist;
using wire::linux_errno::kEnxio;

void expect_rejected(const Con& con, int error, const char* what) {
  require(!con.up(), "{} was accepted", what);
  // With shared keys, the repeated request carries the same proof, but a proof is valid only once.
  if (con.reason == Reason::key_refused) return;
  const int got = wire::reject_errno(con.answer);
  require(con.reason == Reason::rejected && got == error, "{} was refused with {}, errno {} instead of {}",
          what, to_string(con.reason), got, error);
}

// Requests one more connection; the path keeps its existing connections.
Con& side_request(ServerTester& tester, const Path& path, std::uint16_t cid, const wire::ConnReq& request) {
  Con& con = tester.endpoint().connect(99, cid, tester.setup().targets[0], Path::encoded(request));
  const bool decided =
      tester.endpoint().wait([&] { return con.state != Con::State::connecting; }, path.deadlines().connect);
  require(decided, "neither accepted nor rejected");
  return con;
}

void same_cid_twice(ServerTester& tester) {
  Path& path = tester.path();
  path.connect(0);
  expect_rejected(side_request(tester, path, 0, path.request(0)), kEconnreset, "a second connection 0");
  path.connect(1);
  path.exchange_info();
  exchange_versions(path);
}

void other_cid_num(ServerTester& tester) {
  Path& path = tester.path();
  path.connect(0);
  wire::ConnReq request = path.request(1);
  request.cid_num = 3;
  expect_rejected(side_request(tester, path, 1, request), kEconnreset, "another cid_num");
  path.connect(1);
  path.exchange_info();
  exchange_versions(path);
}

void connection_of_connected_path(ServerTester& tester) {
  Path& path = tester.opened();
  for (std::uint16_t cid = 0; cid < 2; ++cid) {
    expect_rejected(side_request(tester, path, cid, path.request(cid)), kEconnreset,
                    "a connection of a connected path");
  }
  exchange_versions(path);
}

void stale_attempt(ServerTester& tester) {
  Path& path = tester.path();
  path.set_recon_cnt(7);
  path.open();
  wire::ConnReq request = path.request(0);
  request.recon_cnt = 3;
  expect_rejected(side_request(tester, path, 0, request), kEconnreset, "an older attempt");
  exchange_versions(path);
}

void same_addresses(ServerTester& tester) {
  Path& path = tester.opened();
  Identity second = path.identity();
  second.path = tester.fresh_uuid();
  Path& other = tester.path(second);
  other.set_first(false);
  expect_rejected(other.try_connect(0), kEexist, "a second path with the same address pair");
  exchange_versions(path);
}

void second_path(ServerTester& tester) {
  Path& path = tester.opened();
  Identity second = path.identity();
  second.path = tester.fresh_uuid();
  Path& other = tester.path(second, 2, 1);
  other.set_first(false);
  other.open();
  exchange_versions(other);
  other.disconnect();
  exchange_versions(path);
}

// The old incarnation has disconnected, so the next one must be accepted soon.
void reconnect_after_disconnect(ServerTester& tester) {
  Path& path = tester.opened();
  const std::uint16_t depth = path.depth();
  Path& next = tester.path(path.identity());
  path.disconnect();
  next.set_recon_cnt(2);
  next.open_within(tester.deadlines().retire);
  require(next.depth() == depth, "the depth was {} and is now {}", depth, next.depth());
  exchange_versions(next);
}

// The old incarnation is silent and does not disconnect, as after a pulled cable.
void reconnect_after_silence(ServerTester& tester) {
  Path& path = tester.opened();
  for (std::uint16_t cid = 0; cid < 2; ++cid) path.con(cid).mute = true;
  Path& next = tester.path(path.identity());
  next.set_recon_cnt(2);
  next.open_within(tester.deadlines().silence_upper() + tester.deadlines().retire);
  exchange_versions(next);
}

void half_open_is_reaped(ServerTester& tester) {
  Path& path = tester.path();
  path.connect(0);
  const bool gone = path.cut_off_within(tester.deadlines().half_open);
  require(gone, "a path without INFO_REQ was kept for {} s, with the memory of a session",
          tester.deadlines().half_open / seconds(1));
}

void half_open_path_is_replaced(ServerTester& tester) {
  Path& path = tester.path();
  path.connect(0);
  Path& next = tester.path(path.identity());
  path.disconnect();
  next.set_recon_cnt(2);
  next.open_within(tester.deadlines().retire);
}

void lost_connection_ends_path(ServerTester& tester) {
  Path& path = tester.opened(3);
  tester.endpoint().disconnect(path.con(2));
  path.expect_cut_off("one connection ended, and with it the path");
}

void last_path_ends_session(ServerTester& tester) {
  Path& path = tester.opened();
  path.disconnect();
  const Nanos end = tester.now() + tester.deadlines().retire;
  for (;;) {
    Path& late = tester.path(path.identity());
    late.set_first(false);
    const Con& con = late.try_connect(0);
    if (!con.up() && wire::reject_errno(con.answer) == kEnxio) return;
    require(tester.now() < end, "the session outlived its last path for {} s",
            tester.deadlines().retire / seconds(1));
    late.disconnect();
    tester.endpoint().wait([] { return false; }, tester.deadlines().retire / 50);
  }
}

void disconnect_with_requests_in_flight(ServerTester& tester) {
  Path& path = tester.opened();
  std::vector<Ask> asks;
  for (std::uint16_t chunk = 0; chunk < std::min<std::uint16_t>(path.depth(), 8); ++chunk) {
    asks.push_back(sess_info_ask());
    asks.back().chunk = chunk;
  }
  path.send_all(asks);
  path.disconnect();
  Path& next = tester.path(path.identity());
  next.set_recon_cnt(2);
  next.open_within(tester.deadlines().retire);
  exchange_versions(next);
}

void many_sessions(ServerTester& tester) {
  for (unsigned i = 0; i < 8; ++i) {
    Path& path = tester.opened();
    exchange_versions(path);
    path.disconnect();
  }
}

constexpr const char* kChecks = "protocol.md section 3.2";

constexpr Case kCases[] = {
    {"C030-path-same-cid", "path: a cid that is connected is refused, the path stays up", kChecks,
     Level::must, false, same_cid_twice},
    {"C031-path-other-cid-num", "path: another cid_num is refused, the path stays up", kChecks, Level::must,
     false, other_cid_num},
    {"C032-path-connected-again", "path: connections of a connected path are refused", kChecks, Level::must,
     false, connection_of_connected_path},
    {"C033-path-stale-attempt", "path: an attempt older than the current one is refused",
     "protocol.md section 3.5", Level::must, false, stale_attempt},
    {"C034-path-same-addresses", "path: two paths with the same address pair are refused with EEXIST",
     kChecks, Level::must, false, same_addresses},
    {"C035-path-second", "path: a second path joins its session and leaves it", "protocol.md section 3.3",
     Level::must, false, second_path},
    {"C036-path-back-goodbye", "path: it reconnects after a goodbye, with the same depth", kChecks,
     Level::must, false, reconnect_after_disconnect},
    {"C037-path-back-silence", "path: it reconnects after a cut without a goodbye", kChecks, Level::must,
     true, reconnect_after_silence},
    {"C038-path-half-open", "path: an incomplete path is closed in the end", kChecks, Level::must, true,
     half_open_is_reaped},
    {"C039-path-half-open-goodbye", "path: an incomplete path does not block the next attempt", kChecks,
     Level::must, false, half_open_path_is_replaced},
    {"C040-path-one-lost", "path: it ends with the first of its connections", "protocol.md section 3.6",
     Level::must, false, lost_connection_ends_path},
    {"C041-path-last", "path: the session ends with its last path", "protocol.md section 3.3", Level::must,
     false, last_path_ends_session},
    {"C042-path-in-flight", "path: requests in flight do not prevent its reconnect",
     "protocol.md section 5.8", Level::must, false, disconnect_with_requests_in_flight},
    {"C043-path-many", "path: after eight sessions in a row a ninth is accepted", "protocol.md section 3.3",
     Level::must, false, many_sessions},
};

}  // namespace
}  // namespace reconnect_checks

std::span<const Case> reconnect_cases() {
  return reconnect_checks::kCases;
}

}  // namespace rtrs::conformance
