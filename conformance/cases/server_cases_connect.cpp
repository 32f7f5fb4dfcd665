// Connect requests: which are accepted or refused, and the response (protocol.md sections 2.1 to 3.2).
#include <functional>

#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {
namespace connecting_checks {
namespace {

using wire::linux_errno::kEconnreset;
using wire::linux_errno::kEnxio;

// Sends a corrupted connect request for a new session; returns the connection when accepted or refused.
Con& outcome(ServerTester& tester, const std::function<void(Message&)>& spoil) {
  Path& path = tester.path();
  Message request = Path::encoded(path.request(0));
  spoil(request);
  return path.try_connect(0, request);
}

void expect_rejected(ServerTester& tester, int error, const std::function<void(Message&)>& spoil) {
  const Con& con = outcome(tester, spoil);
  require(!con.up(), "it was accepted");
  require(con.reason == Reason::rejected, "refused without a reject: {}", to_string(con.reason));
  const int got = wire::reject_errno(con.answer);
  require(got == error, "rejected with errno {} instead of {}", got, error);
}

void expect_accepted(ServerTester& tester, const std::function<void(Message&)>& spoil) {
  const Con& con = outcome(tester, spoil);
  require(con.up(), "refused: {}, errno {}", to_string(con.reason), wire::reject_errno(con.answer));
}

void honest(ServerTester& tester) {
  Path& path = tester.opened();
  exchange_versions(path);
}

void limits(ServerTester& tester) {
  Path& path = tester.path();
  path.connect(0);
  const wire::ConnRsp& rsp = path.limits();
  require(rsp.queue_depth >= 2, "a queue depth of {}: kernel clients need two permits", rsp.queue_depth);
  require(rsp.max_hdr_size >= 2088, "max_hdr_size {}: a kernel client's longest read header takes 2088",
          rsp.max_hdr_size);
  require(rsp.max_io_size >= 4096, "max_io_size {}: kernel clients need a page", rsp.max_io_size);
}

void reserved_of_accept(ServerTester& tester) {
  Path& path = tester.path();
  const Con& con = path.connect(0);
  for (std::size_t at = 20; at < wire::kConnRspBytes; ++at) {
    require(con.answer[at] == std::byte{0}, "byte {} of the accept is {:#04x}", at,
            std::to_integer<unsigned>(con.answer[at]));
  }
}

void flags_of_accept(ServerTester& tester) {
  Path& path = tester.path();
  path.connect(0);
  const std::uint32_t unknown = path.limits().flags & ~wire::kConnRspNewRkey;
  require(unknown == 0, "flags {:#x} were granted to a client that requested none", unknown);
}

void same_limits_on_all(ServerTester& tester) {
  Path& path = tester.path(3);
  path.connect(0);
  const wire::ConnRsp first = path.limits();
  for (std::uint16_t cid = 1; cid < 3; ++cid) {
    const Con& con = path.connect(cid);
    const auto parsed = wire::parse_conn_rsp(con.answer, 1);
    require(static_cast<bool>(parsed), "the accept of connection {} is malformed: {}", cid,
            to_string(parsed.why));
    require(parsed.value.error == 0 && parsed.value.queue_depth == first.queue_depth,
            "connection {} announces depth {}, connection 0 {}", cid, parsed.value.queue_depth,
            first.queue_depth);
  }
}

void no_private_data(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { m.clear(); });
}

void cut_private_data(ServerTester& tester) {
  // InfiniBand pads private data with zeroes. The truncated request therefore asks to join an existing
  // session, which the server does not know.
  const Con& con = outcome(tester, [](Message& m) { m.resize(20); });
  require(!con.up(), "it was accepted");
  const int got = wire::reject_errno(con.answer);
  require(con.reason == Reason::rejected && (got == kEconnreset || got == kEnxio),
          "refused with {}, errno {}", to_string(con.reason), got);
}

void bad_magic(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 2, 0x1bbe); });
}
void older_major(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 4, 0x0100); });
}
void newer_major(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 4, 0x0300); });
}
void newer_minor(ServerTester& tester) {
  expect_accepted(tester, [](Message& m) { wire::store_le16(m, 4, 0x0207); });
}
void cid_is_cid_num(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 6, 2); });
}
void cid_max(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 6, 0xffff); });
}
void no_cids(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 8, 0); });
}
void too_many_cids(ServerTester& tester) {
  expect_rejected(tester, kEconnreset, [](Message& m) { wire::store_le16(m, 8, 4097); });
}
void not_first(ServerTester& tester) {
  const auto spoil = [](Message& m) { m[44] = std::byte{0}; };
  expect_rejected(tester, kEnxio, spoil);
  expect_rejected(tester, kEnxio, spoil);
}
void reserved_of_request(ServerTester& tester) {
  expect_accepted(tester, [](Message& m) {
    m[44] = std::byte{0xff};
    m[45] = std::byte{0xc0};  // the six lowest bits, which request urtrs extensions, stay clear
    for (std::size_t at = 46; at < wire::kConnReqBytes; ++at) m[at] = std::byte{0xff};
  });
}
void recon_cnt_any(ServerTester& tester) {
  for (const std::uint16_t count : std::initializer_list<std::uint16_t>{0, 1, 0x8000, 0xffff}) {
    expect_accepted(tester, [count](Message& m) { wire::store_le16(m, 10, count); });
  }
}
// A server may accept or reject all-zero UUIDs. The kernel's server accepts them. urtrsd rejects them,
// because clients without a UUID would share one session; messages_test checks that.
void zero_uuids(ServerTester& tester) {
  const Con& con =
      outcome(tester, [](Message& m) { std::fill(m.begin() + 12, m.begin() + 44, std::byte{0}); });
  if (con.up()) return;
  require(con.reason == Reason::rejected && wire::reject_errno(con.answer) != 0, "refused with {}",
          to_string(con.reason));
}

void reject_is_conn_rsp(ServerTester& tester) {
  const Con& con = outcome(tester, [](Message& m) { wire::store_le16(m, 2, 0); });
  require(!con.up() && con.answer.size() >= wire::kConnRspBytes, "the reject carries {} bytes",
          con.answer.size());
  require(wire::load_le16(con.answer, 0) == wire::kMagic, "the reject's magic is {:#06x}",
          wire::load_le16(con.answer, 0));
  require(wire::load_le16(con.answer, 2) >> 8 == wire::kVersionMajor, "the reject's version is {:#06x}",
          wire::load_le16(con.answer, 2));
  const auto error = static_cast<std::int16_t>(wire::load_le16(con.answer, 4));
  require(error < 0, "the reject's errno is {}: a kernel client would wait for 30 s", error);
}

void reject_is_otherwise_zero(ServerTester& tester) {
  const Con& con = outcome(tester, [](Message& m) { wire::store_le16(m, 2, 0); });
  require(!con.up() && con.answer.size() >= wire::kConnRspBytes, "the reject carries {} bytes",
          con.answer.size());
  for (std::size_t at = 6; at < wire::kConnRspBytes; ++at) {
    require(con.answer[at] == std::byte{0}, "byte {} of the reject is not zero", at);
  }
}

void any_order(ServerTester& tester) {
  Path& path = tester.path(3);
  for (const std::uint16_t cid : std::initializer_list<std::uint16_t>{2, 0, 1}) path.connect(cid);
  path.exchange_info();
  exchange_versions(path);
}

void one_connection(ServerTester& tester) {
  Path& path = tester.opened(1);
  exchange_versions(path);
}

void many_connections(ServerTester& tester) {
  Path& path = tester.opened(17);
  for (const std::uint16_t cid : std::initializer_list<std::uint16_t>{0, 1, 16}) {
    Ask ask = sess_info_ask();
    ask.cid = cid;
    expect_errno(path, ask, 0, "a request");
  }
}

constexpr const char* kReq = "protocol.md section 2.1";
constexpr const char* kRsp = "protocol.md section 2.2";
constexpr const char* kChecks = "protocol.md section 3.2";

constexpr Case kCases[] = {
    {"C001-connect-honest", "connect: an honest session is served", "protocol.md section 3.1", Level::must,
     false, honest},
    {"C002-connect-limits", "connect: the accept announces limits a kernel client can use", kRsp, Level::must,
     false, limits},
    {"C003-connect-answer-reserved", "connect: reserved bytes of the accept are zero", kRsp, Level::should,
     false, reserved_of_accept},
    {"C004-connect-answer-flags", "connect: only requested flags are granted", kRsp, Level::must, false,
     flags_of_accept},
    {"C005-connect-same-limits", "connect: all connections of a path announce the same depth", kRsp,
     Level::should, false, same_limits_on_all},
    {"C010-connect-no-data", "connect: no private data is refused", kReq, Level::must, false,
     no_private_data},
    {"C011-connect-cut-data", "connect: private data that is cut off is refused", kReq, Level::must, false,
     cut_private_data},
    {"C012-connect-bad-magic", "connect: wrong magic is refused", kReq, Level::must, false, bad_magic},
    {"C013-connect-older-major", "connect: major version 1 is refused", kReq, Level::must, false,
     older_major},
    {"C014-connect-newer-major", "connect: major version 3 is refused", kReq, Level::must, false,
     newer_major},
    {"C015-connect-newer-minor", "connect: the minor version does not matter", kReq, Level::must, false,
     newer_minor},
    {"C016-connect-cid-is-count", "connect: a cid equal to cid_num is refused", kReq, Level::must, false,
     cid_is_cid_num},
    {"C017-connect-cid-max", "connect: cid 65535 is refused", kReq, Level::must, false, cid_max},
    {"C018-connect-no-cids", "connect: cid_num 0 is refused", kReq, Level::must, false, no_cids},
    {"C019-connect-too-many-cids", "connect: cid_num 4097 is refused", kReq, Level::must, false,
     too_many_cids},
    {"C020-connect-not-first",
     "connect: an unknown session without first_conn is refused and creates nothing", kChecks, Level::must,
     false, not_first},
    {"C021-connect-reserved", "connect: reserved bits of the request are ignored", kReq, Level::should, false,
     reserved_of_request},
    {"C022-connect-recon-cnt", "connect: a new path may start at any recon_cnt", "protocol.md section 3.5",
     Level::must, false, recon_cnt_any},
    {"C023-connect-zero-uuids",
     "connect: uuids of zeroes are accepted, as by the kernel, or rejected with an errno", kReq, Level::quirk,
     false, zero_uuids},
    {"C024-connect-reject-form", "connect: a reject is a CON_RSP with a negative errno", kRsp, Level::must,
     false, reject_is_conn_rsp},
    {"C025-connect-reject-zeroes", "connect: a reject announces nothing", kRsp, Level::should, false,
     reject_is_otherwise_zero},
    {"C026-connect-any-order", "connect: connections may come in any order", "protocol.md section 3.1",
     Level::must, false, any_order},
    {"C027-connect-one", "connect: the service connection alone makes a path", "protocol.md section 1.1",
     Level::quirk, false, one_connection},
    {"C028-connect-many", "connect: seventeen connections make a path", "protocol.md section 1.1",
     Level::must, false, many_connections},
};

}  // namespace
}  // namespace connecting_checks

std::span<const Case> connect_cases() {
  return connecting_checks::kCases;
}

}  // namespace rtrs::conformance
