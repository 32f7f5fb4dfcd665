// The INFO exchange (protocol.md sections 2.3, 2.4 and 3.3).
#include <functional>

#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace info_checks {
namespace {

void form(ServerTester& tester) {
  const Path& path = tester.opened();
  const std::size_t count = wire::load_le16(path.info(), 2);
  require(path.info().size() == wire::info_rsp_bytes(count), "INFO_RSP of {} descriptors has {} bytes", count,
          path.info().size());
}

void reserved(ServerTester& tester) {
  const Path& path = tester.opened();
  require(wire::load_le32(path.info(), 4) == 0, "bytes 4 to 7 of INFO_RSP are not zero");
}

// Fails unless the server closes a path whose INFO_REQ is corrupted.
void expect_closed(ServerTester& tester, const std::function<void(Message&)>& spoil) {
  Path& path = tester.path();
  path.connect_all();
  Message message = path.info_request();
  spoil(message);
  path.send_info(message);
  path.expect_cut_off("a malformed INFO_REQ closes the path");
}

void too_short(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { m.resize(271); });
}
void much_too_short(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { m.resize(1); });
}
void too_long(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { m.resize(273); });
}
void wrong_type(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { wire::store_le16(m, 0, 9); });
}
void slash(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { m[5] = std::byte{'/'}; });
}
void dot(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { m[5] = std::byte{'.'}; });
}
void no_name(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { std::fill(m.begin() + 2, m.end(), std::byte{0}); });
}
void unterminated(ServerTester& tester) {
  expect_closed(tester, [](Message& m) { std::fill(m.begin() + 2, m.begin() + 257, std::byte{'x'}); });
}

void longest_name(ServerTester& tester) {
  Identity identity = tester.fresh_identity();
  identity.name.resize(wire::kMaxNameBytes, 'n');
  tester.path(identity).open();
}

void reserved_of_request(ServerTester& tester) {
  Path& path = tester.path();
  path.connect_all();
  Message message = path.info_request();
  std::fill(message.begin() + 257, message.end(), std::byte{0xff});
  path.send_info(message);
  require(path.await_info(), "reserved bytes of INFO_REQ were judged: the path was closed");
}

void incomplete(ServerTester& tester) {
  Path& path = tester.path(3);
  path.connect(0);
  path.connect(1);
  path.send_info(path.info_request());
  path.expect_cut_off("INFO_REQ came before all connections existed");
}

void name_taken(ServerTester& tester) {
  Path& owner = tester.opened();
  Identity second = tester.fresh_identity();
  second.name = owner.identity().name;
  Path& thief = tester.path(second);
  thief.connect_all();
  thief.send_info(thief.info_request());
  thief.expect_cut_off("the name belongs to another session");
  exchange_versions(owner);
}

void name_free_again(ServerTester& tester) {
  Path& owner = tester.opened();
  Identity second = tester.fresh_identity();
  second.name = owner.identity().name;
  owner.disconnect();
  tester.path(second).open_within(tester.deadlines().retire);
}

void twice(ServerTester& tester) {
  Path& path = tester.opened();
  path.send_info(path.info_request());
  path.expect_cut_off("a second INFO_REQ");
}

void on_io_connection(ServerTester& tester) {
  if (!tester.endpoint().fabric().capabilities().imm_consumes_receive)
    not_run("on this fabric IO connections have no receives that a SEND could take");
  Path& path = tester.opened();
  tester.endpoint().send(path.con(1), path.info_request());
  path.expect_cut_off("a SEND on an IO connection");
}

// A heartbeat before INFO_REQ consumes the server's only receive. The server must still answer or close the
// path.
void heartbeat_before(ServerTester& tester) {
  Path& path = tester.path();
  path.connect_all();
  tester.endpoint().write_imm(path.con(0), wire::encode_hb(wire::ImmType::hb_msg));
  path.send_info(path.info_request());
  const bool decided = tester.endpoint().wait(
      [&] { return !path.con(0).inbox.empty() || path.con(0).over(); }, tester.deadlines().answer);
  require(decided, "neither INFO_RSP nor an end within {} s", tester.deadlines().answer / seconds(1));
}

void nothing_behind(ServerTester& tester) {
  Path& path = tester.path();
  path.connect_all();
  path.exchange_info();
  // A kernel client posts its other receives only after it has processed INFO_RSP.
  exchange_versions(path);
  require(path.con(0).heartbeats == 0, "a heartbeat came right behind INFO_RSP");
}

constexpr const char* kReq = "protocol.md section 2.3";
constexpr const char* kRsp = "protocol.md section 2.4";
constexpr const char* kNames = "protocol.md section 3.3";

constexpr Case kCases[] = {
    {"C101-info-form", "info: INFO_RSP covers all chunks and is as long as it says", kRsp, Level::must, false,
     form},
    {"C102-info-reserved", "info: reserved bytes of INFO_RSP are zero", kRsp, Level::should, false, reserved},
    {"C103-info-short", "info: an INFO_REQ of 271 bytes closes the path", kReq, Level::must, false,
     too_short},
    {"C104-info-one-byte", "info: an INFO_REQ of one byte closes the path", kReq, Level::must, false,
     much_too_short},
    {"C105-info-long", "info: an INFO_REQ of 273 bytes closes the path", kReq, Level::must, false, too_long},
    {"C106-info-type", "info: another type closes the path", kReq, Level::must, false, wrong_type},
    {"C107-info-slash", "info: a slash in the name closes the path", kNames, Level::must, false, slash},
    {"C108-info-dot", "info: a dot in the name closes the path", kNames, Level::must, false, dot},
    {"C109-info-no-name", "info: an empty name closes the path", kNames, Level::must, false, no_name},
    {"C110-info-unterminated", "info: a name without NUL closes the path", kReq, Level::should, false,
     unterminated},
    {"C111-info-longest-name", "info: a name of 254 characters is accepted", kNames, Level::must, false,
     longest_name},
    {"C112-info-request-reserved", "info: reserved bytes of INFO_REQ are ignored", kReq, Level::should, false,
     reserved_of_request},
    {"C113-info-incomplete", "info: INFO_REQ with a connection missing closes the path (CVE-2024-50062)",
     kReq, Level::must, false, incomplete},
    {"C114-info-name-taken", "info: the name of another session closes the path, its owner continues", kNames,
     Level::must, false, name_taken},
    {"C115-info-name-free", "info: the name is free when its session has ended", kNames, Level::must, false,
     name_free_again},
    {"C116-info-twice", "info: a second INFO_REQ closes the path", kReq, Level::should, false, twice},
    {"C117-info-elsewhere", "info: a SEND on an IO connection closes the path", kReq, Level::should, false,
     on_io_connection},
    {"C118-info-after-heartbeat", "info: a heartbeat before INFO_REQ does not leave the path hanging",
     "protocol.md section 3.1", Level::must, false, heartbeat_before},
    {"C119-info-nothing-behind", "info: nothing follows INFO_RSP at once", "protocol.md section 3.1",
     Level::must, false, nothing_behind},
};

}  // namespace
}  // namespace info_checks

std::span<const Case> info_cases() {
  return info_checks::kCases;
}

}  // namespace rtrs::conformance
