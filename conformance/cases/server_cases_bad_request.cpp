// Requests that no client may send, and invalid immediates (protocol.md sections 2.7 and 2.8).
#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace bad_request_checks {
namespace {

// Fails unless the server closes the path without answering the request.
void expect_closed(Path& path, const Ask& ask, const char* what) {
  path.send(ask);
  require(path.fate(ask.chunk) != Path::Fate::answered, "{} was answered", what);
  path.expect_cut_off(what);
}

void offset_is_size(ServerTester& tester) {
  Path& path = tester.opened();
  if (path.chunk_size() >= std::uint32_t{1} << wire::mem_bits(path.depth()))
    not_run("no immediate can name an offset behind chunks of {} bytes", path.chunk_size());
  Ask ask = sess_info_ask();
  ask.off = path.chunk_size();
  expect_closed(path, ask, "an offset behind the chunk");
}

void offset_max(ServerTester& tester) {
  Path& path = tester.opened();
  const std::uint32_t most = (std::uint32_t{1} << wire::mem_bits(path.depth())) - 1;
  if (most < path.chunk_size()) not_run("no immediate can name an offset behind the chunk");
  Ask ask = sess_info_ask();
  ask.off = most;
  expect_closed(path, ask, "the largest offset an immediate can hold");
}

void chunk_is_depth(ServerTester& tester) {
  Path& path = tester.opened();
  if ((path.depth() & (path.depth() - 1U)) == 0)
    not_run("a depth of {} leaves no number for a chunk that does not exist", path.depth());
  tester.endpoint().write_imm(path.con(1), wire::encode_io_req(path.depth(), path.depth(), 72));
  path.expect_cut_off("a chunk that does not exist");
}

void header_cut_off(ServerTester& tester) {
  Path& path = tester.opened();
  // The header has only two bytes, at the end of the chunk.
  Message type(2);
  wire::store_le16(type, 0, static_cast<std::uint16_t>(wire::MsgType::write));
  const wire::Descriptor& chunk = path.chunk(0);
  const std::uint32_t off = path.chunk_size() - 2;
  tester.endpoint().write_imm(path.con(1), wire::encode_io_req(path.depth(), 0, off), type, 2,
                              chunk.addr + off, chunk.key);
  path.expect_cut_off("a header that does not fit into the chunk");
}

void type_spoiled(ServerTester& tester, std::uint16_t type) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.type = type;
  expect_closed(path, ask, "a request of an invalid type");
}
void unknown_type(ServerTester& tester) {
  type_spoiled(tester, 7);
}
void info_type(ServerTester& tester) {
  type_spoiled(tester, 0);
}
void rkey_type(ServerTester& tester) {
  type_spoiled(tester, 4);
}
void generation(ServerTester& tester) {
  type_spoiled(tester, 0x0103);
}

void user_header_outside(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.usr_len = 36 + 36 + 1;
  ask.off = 36 + 36;
  expect_refused(path, ask, "a user header that begins before the chunk");
}
void user_header_max(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.usr_len = 0xffff;
  ask.off = 36 + 36;
  expect_refused(path, ask, "a user header of 65535 bytes");
}
void two_descriptors(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.sg_cnt = 2;
  expect_refused(path, ask, "a read with two descriptors");
}
void many_descriptors(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.sg_cnt = 0xffff;
  expect_refused(path, ask, "a read with 65535 descriptors");
}
void empty_descriptor(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.desc_len = 0;
  expect_closed(path, ask, "a descriptor of no length");
}
void long_descriptor(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.desc_len = path.chunk_size() + 1;
  expect_closed(path, ask, "a descriptor longer than a chunk");
}
void foreign_descriptor(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.desc_key = 0xdeadbe00U;
  path.send(ask);
  path.expect_cut_off("a descriptor with a key that does not exist");
}

void wrong_key(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.chunk_key = path.chunk(0).key ^ 0x5a5a5a00U;
  path.send(ask);
  require(path.fate(0) != Path::Fate::answered, "a write under a wrong key was carried out");
  path.expect_cut_off("a write under a wrong key");
}
void outside_the_chunks(ServerTester& tester) {
  Path& path = tester.opened();
  std::uint64_t end = 0;
  std::uint32_t key = 0;
  for (std::uint16_t i = 0; i < path.depth(); ++i) {
    if (path.chunk(i).addr < end) continue;
    end = path.chunk(i).addr + path.chunk_size();
    key = path.chunk(i).key;
  }
  tester.endpoint().write(path.con(1), Message(64, std::byte{0x5a}), end - 32, key);
  path.expect_cut_off("a write that ends behind the chunks");
}

// The server must close the path or ignore the immediate. A response is wrong, and the path must not hang.
void unknown_immediate(ServerTester& tester, std::uint32_t imm) {
  Path& path = tester.opened();
  tester.endpoint().write_imm(path.con(1), imm);
  Ask ask = sess_info_ask();
  ask.cid = 1;
  path.send(ask);
  const Path::Fate fate = path.fate(0);
  require(fate != Path::Fate::neither, "the path neither works nor is it closed");
  require(path.surplus_answers() == 0, "it was answered");
}
void immediate_7(ServerTester& tester) {
  unknown_immediate(tester, 0x70000000U);
}
void immediate_15(ServerTester& tester) {
  unknown_immediate(tester, 0xffffffffU);
}
void immediate_io_rsp(ServerTester& tester) {
  unknown_immediate(tester, wire::encode_io_rsp(wire::ImmType::io_rsp, 0, 0));
}
void immediate_io_rsp_w_inv(ServerTester& tester) {
  unknown_immediate(tester, wire::encode_io_rsp(wire::ImmType::io_rsp_w_inv, 1, 5));
}

void busy_chunk(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.cid = 1;
  path.send_all({ask, ask});
  const Path::Fate fate = path.fate(0);
  require(fate != Path::Fate::neither, "neither answered nor closed");
  if (fate == Path::Fate::cut_off) return;
  tester.endpoint().wait([&] { return !path.whole() || path.surplus_answers() > 0; },
                         tester.deadlines().answer);
  require(!path.whole() || path.surplus_answers() <= 1, "two requests, {} answers",
          path.surplus_answers() + 1);
}

void invalidation(ServerTester& tester) {
  Path& path = tester.opened();
  if (!tester.endpoint().fabric().capabilities().send_invalidate) not_run("this fabric has no SEND_WITH_INV");
  tester.endpoint().send_inv(path.con(1), 0x12345600U);
  path.expect_cut_off("a SEND_WITH_INV from a client");
}

constexpr const char* kChecks = "protocol.md section 2.7";
constexpr const char* kImmediates = "protocol.md section 2.8";
constexpr const char* kKeys = "protocol.md section 10.3";

constexpr Case kCases[] = {
    {"C220-bad-offset", "bad request: an offset behind the chunk closes the path", kChecks, Level::must,
     false, offset_is_size},
    {"C221-bad-offset-max", "bad request: the largest offset closes the path", kChecks, Level::must, false,
     offset_max},
    {"C222-bad-chunk", "bad request: a chunk that does not exist closes the path", kChecks, Level::must,
     false, chunk_is_depth},
    {"C223-bad-header-cut", "bad request: a header that does not fit closes the path", kChecks, Level::must,
     false, header_cut_off},
    {"C224-bad-type", "bad request: an unknown type closes the path", kChecks, Level::must, false,
     unknown_type},
    {"C225-bad-type-info", "bad request: the type of INFO_REQ closes the path", kChecks, Level::must, false,
     info_type},
    {"C226-bad-type-rkey", "bad request: the type of RKEY_RSP closes the path", kChecks, Level::must, false,
     rkey_type},
    {"C227-bad-generation", "bad request: a generation that was not agreed on closes the path", kChecks,
     Level::must, false, generation},
    {"C228-bad-user-outside", "bad request: a user header longer than its offset is refused (CVE-2026-97413)",
     kChecks, Level::must, false, user_header_outside},
    {"C229-bad-user-max", "bad request: a user header of 65535 bytes is refused (CVE-2026-97413)", kChecks,
     Level::must, false, user_header_max},
    {"C230-bad-two-descriptors", "bad request: two descriptors are refused", kChecks, Level::must, false,
     two_descriptors},
    {"C231-bad-many-descriptors", "bad request: 65535 descriptors are refused", kChecks, Level::must, false,
     many_descriptors},
    {"C232-bad-empty-descriptor", "bad request: an empty descriptor closes the path", kChecks, Level::must,
     false, empty_descriptor},
    {"C233-bad-long-descriptor",
     "bad request: a descriptor longer than a chunk closes the path (CVE-2026-64269)", kChecks, Level::must,
     false, long_descriptor},
    {"C234-bad-foreign-key", "bad request: a descriptor with a wrong key closes only its own path", kKeys,
     Level::must, false, foreign_descriptor},
    {"C235-bad-key", "bad request: a wrong key closes the path", kKeys, Level::must, false, wrong_key},
    {"C236-bad-address", "bad request: memory behind the chunks cannot be written", kKeys, Level::must, false,
     outside_the_chunks},
    {"C240-bad-imm-7", "immediate: type 7 is ignored or closes the path", kImmediates, Level::must, false,
     immediate_7},
    {"C241-bad-imm-15", "immediate: type 15 is ignored or closes the path", kImmediates, Level::must, false,
     immediate_15},
    {"C242-bad-imm-io-rsp", "immediate: IO_RSP from a client is ignored or closes the path", kImmediates,
     Level::must, false, immediate_io_rsp},
    {"C243-bad-imm-w-inv", "immediate: IO_RSP_W_INV from a client is ignored or closes the path", kImmediates,
     Level::must, false, immediate_io_rsp_w_inv},
    {"C244-bad-busy-chunk", "bad request: a second request on a busy chunk does not hang",
     "protocol.md section 5.1", Level::must, false, busy_chunk},
    {"C245-bad-invalidation", "bad request: SEND_WITH_INV from a client closes the path", kImmediates,
     Level::should, false, invalidation},
};

}  // namespace
}  // namespace bad_request_checks

std::span<const Case> bad_request_cases() {
  return bad_request_checks::kCases;
}

}  // namespace rtrs::conformance
