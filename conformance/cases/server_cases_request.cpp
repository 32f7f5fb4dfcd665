// Valid requests, and the form of their responses (protocol.md sections 2.5 to 2.8, 5.3 and 5.5).
#include <algorithm>

#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace request_checks {
namespace {

void same_connection(ServerTester& tester) {
  Path& path = tester.opened(3);
  for (const std::uint16_t cid : std::initializer_list<std::uint16_t>{0, 2, 1}) {
    Ask ask = sess_info_ask();
    ask.cid = cid;
    const Answer answer = path.ask(ask);
    require(answer.error == 0, "a request on connection {} was answered with errno {}", cid, answer.error);
    require(answer.cid == cid, "asked on connection {}, answered on {}", cid, answer.cid);
  }
}

void every_chunk(ServerTester& tester) {
  Path& path = tester.opened();
  for (const unsigned chunk : {0U, 1U, path.depth() / 2U, path.depth() - 1U}) {
    Ask ask = sess_info_ask();
    ask.chunk = static_cast<std::uint16_t>(chunk);
    expect_errno(path, ask, 0, "a request on another chunk");
  }
}

void chunk_on_any_connection(ServerTester& tester) {
  Path& path = tester.opened(3);
  for (unsigned round = 0; round < 6; ++round) {
    Ask ask = sess_info_ask();
    ask.chunk = static_cast<std::uint16_t>(path.depth() - 1);
    ask.cid = static_cast<std::uint16_t>(round % 3);
    expect_errno(path, ask, 0, "a busy chunk on another connection");
  }
}

void data_is_there(ServerTester& tester) {
  Path& path = tester.opened();
  const Answer answer = path.ask(sess_info_ask());
  require(answer.error == 0, "errno {}", answer.error);
  require(wire::load_u8(answer.data, 4) == wire::rnbd::kProtoMajor,
          "the answer was not in place when its immediate arrived");
  require(answer.overflow.empty(), "{} bytes were written behind the room", answer.overflow.size());
}

void full_queue(ServerTester& tester) {
  Path& path = tester.opened(3);
  const std::uint16_t count = std::min<std::uint16_t>(path.depth(), 32);
  std::vector<Ask> asks;
  for (std::uint16_t chunk = 0; chunk < count; ++chunk) {
    asks.push_back(sess_info_ask());
    asks.back().chunk = chunk;
    asks.back().cid = static_cast<std::uint16_t>(chunk % 3);
  }
  path.send_all(asks);
  for (std::uint16_t chunk = 0; chunk < count; ++chunk) {
    const auto answer = path.await_answer(chunk, tester.deadlines().answer);
    require(answer.has_value(), "{} requests at once: that on chunk {} was not answered", count, chunk);
    require(answer->error == 0, "{} requests at once: errno {}", count, answer->error);
  }
  exchange_versions(path);
  require(path.surplus_answers() == 0, "{} answers too many", path.surplus_answers());
}

// Sends more requests than either side has receives, and more than the 8-bit part of a key can count.
void many_rounds(ServerTester& tester) {
  Path& path = tester.opened();
  const unsigned rounds = std::min(2U * path.depth() + 16U, 1200U);
  for (unsigned round = 0; round < rounds; ++round) {
    Ask ask = sess_info_ask();
    ask.cid = 1;
    expect_errno(path, ask, 0, "one of many requests in a row");
  }
}

void old_key_is_dead(ServerTester& tester) {
  Path& path = tester.opened();
  if (!path.fresh_keys()) not_run("the server does not invalidate keys");
  const std::uint32_t old = path.chunk(0).key;
  exchange_versions(path);
  require(path.chunk(0).key != old, "the fresh key is the old one");
  Ask ask = sess_info_ask();
  ask.chunk_key = old;
  path.send(ask);
  require(path.fate(0) != Path::Fate::answered, "a request under the old key was carried out");
  path.expect_cut_off("the old key was used");
}

void short_room(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.desc_len = 8;
  path.send(ask);
  Answer answer;
  if (path.fate(0, &answer) != Path::Fate::answered) return;
  for (std::size_t at = 8; at < answer.data.size(); ++at) {
    require(answer.data[at] == std::byte{0xa5}, "byte {} was written, the descriptor allows 8", at);
  }
}

void long_room(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.desc_len = wire::rnbd::kSessInfoRspBytes + 64;
  const Answer answer = path.ask(ask);
  require(answer.overflow.empty(), "{} bytes more than the answer were sent: what others left in the chunk",
          answer.overflow.size());
}

void unknown_flags(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.flags = 0xfffe;
  expect_errno(path, ask, 0, "a read with unknown flags");
}

void inval_without_descriptor(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.descriptor = false;
  ask.need_inval = true;
  path.send(ask);
  Answer answer;
  require(path.fate(0, &answer) == Path::Fate::answered, "it was not answered");
  require(!answer.invalidated && path.invalidations() == 0, "it invalidated a key that was not sent");
}

void inval(ServerTester& tester) {
  Path& path = tester.opened();
  Endpoint& endpoint = tester.endpoint();
  Fabric& fabric = endpoint.fabric();
  if (!fabric.capabilities().per_io_keys) not_run("this fabric has no keys for single requests");
  const auto region = fabric.allocate(4096);
  require(region.has_value(), "the tester has no memory");
  const auto offered = fabric.make_request_key(path.con(1).key, region->id, 0, 4096);
  Path::Fate fate = Path::Fate::neither;
  Answer answer;
  if (offered) {
    std::fill(region->bytes.begin(), region->bytes.end(), std::byte{0xa5});
    Ask ask = sess_info_ask();
    ask.cid = 1;
    ask.need_inval = true;
    ask.desc_key = offered->rkey;
    ask.desc_addr = offered->remote_addr;
    path.send(ask);
    fate = path.fate(0, &answer);
  }
  const unsigned killed = path.invalidations();
  const bool arrived = region->bytes[0] != std::byte{0xa5};
  // The key is released only after the connections are closed.
  path.disconnect();
  endpoint.wait([&] { return path.con(0).closed && path.con(1).closed; }, tester.deadlines().connect);
  if (offered) fabric.release_key(offered->id);
  fabric.release(region->id);
  require(offered.has_value(), "the tester cannot offer a key");
  require(fate == Path::Fate::answered, "it was not answered");
  require(arrived, "it was answered without the data");
  require(answer.invalidated == (killed != 0), "the answer says {}, {} keys were invalidated",
          answer.invalidated ? "invalidated" : "not invalidated", killed);
}

void without_descriptor(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.descriptor = false;
  path.send(ask);
  require(path.fate(0) == Path::Fate::answered, "a read without a descriptor was not answered");
}

void long_user_header(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.user.resize(256);
  expect_errno(path, ask, 0, "a user header of 256 bytes");
}

void empty_user_header(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.user.clear();
  expect_refused(path, ask, "a request without a user header");
}

constexpr const char* kRules = "protocol.md section 5.5";
constexpr const char* kRead = "protocol.md section 2.6";

constexpr Case kCases[] = {
    {"C201-request-connection", "request: the answer comes on the connection of the request", kRules,
     Level::must, false, same_connection},
    {"C202-request-chunks", "request: every chunk can be used", "protocol.md section 2.4", Level::must, false,
     every_chunk},
    {"C203-request-any-cid", "request: a chunk can be used on every connection", "protocol.md section 1.1",
     Level::must, false, chunk_on_any_connection},
    {"C204-request-data", "request: the data of a read arrives before its answer", kRules, Level::must, false,
     data_is_there},
    {"C205-request-full-queue", "request: many at once are each answered once", "protocol.md section 5.1",
     Level::must, false, full_queue},
    {"C206-request-many", "request: receives and keys do not run out", "protocol.md section 5.6", Level::must,
     false, many_rounds},
    {"C207-request-old-key", "request: the key of the request before is dead", kRules, Level::must, false,
     old_key_is_dead},
    {"C208-request-short-room", "request: no more is written than the descriptor allows", kRead, Level::must,
     false, short_room},
    {"C209-request-long-room", "request: no more is written than the answer has", kRead, Level::should, false,
     long_room},
    {"C210-request-flags", "request: unknown flags of a read are ignored", kRead, Level::should, false,
     unknown_flags},
    {"C211-request-inval-nothing", "request: NEED_INVAL without a descriptor is ignored", kRules, Level::must,
     false, inval_without_descriptor},
    {"C212-request-inval", "request: the answer says whether the key was invalidated", kRules, Level::must,
     false, inval},
    {"C213-request-no-descriptor", "request: a read without descriptor is answered", kRead, Level::must,
     false, without_descriptor},
    {"C214-request-long-header", "request: a longer user header than needed is accepted", kRead,
     Level::should, false, long_user_header},
    {"C215-request-no-header", "request: one without a user header is refused", kRead, Level::must, false,
     empty_user_header},
};

}  // namespace
}  // namespace request_checks

std::span<const Case> request_cases() {
  return request_checks::kCases;
}

}  // namespace rtrs::conformance
