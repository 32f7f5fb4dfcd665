// Connect handshake of a client, and its reaction to malformed responses (protocol.md sections 2.1 to 2.4 and
// 3).
#include <algorithm>

#include "conformance/cases/case.hpp"
#include "conformance/cases/client_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace client_handshake_checks {
namespace {

void request_form(ClientTester& tester) {
  const Attempt& attempt = tester.healthy();
  for (const wire::ConnReq& one : attempt.parsed) {
    require(one.cid_num >= 2, "cid_num {}: no connection for IO", one.cid_num);
    require(one.recon_cnt != 0, "recon_cnt 0: the first attempt is 1");
  }
  for (const Message& one : attempt.requests)
    require(wire::load_le16(one, 4) == wire::kVersion, "version {:#06x}", wire::load_le16(one, 4));
}

void in_order(ClientTester& tester) {
  const Attempt& attempt = tester.healthy();
  for (std::size_t i = 0; i < attempt.parsed.size(); ++i)
    require(attempt.parsed[i].cid == i, "connection {} came as number {}", attempt.parsed[i].cid, i);
}

void one_identity(ClientTester& tester) {
  const Attempt& attempt = tester.healthy();
  const wire::ConnReq& first = attempt.parsed.front();
  for (const wire::ConnReq& one : attempt.parsed) {
    require(one.sess_uuid == first.sess_uuid && one.paths_uuid == first.paths_uuid,
            "connection {} has other uuids", one.cid);
    require(one.recon_cnt == first.recon_cnt && one.cid_num == first.cid_num,
            "connection {} has another recon_cnt or cid_num", one.cid);
  }
}

void reserved(ClientTester& tester) {
  for (const Message& one : tester.healthy().requests) {
    // Byte 45 is not checked, because a urtrs client offers extensions in this byte.
    require((std::to_integer<unsigned>(one[44]) & 0xfeU) == 0, "reserved bits of byte 44 are set");
    for (std::size_t at = 46; at < wire::kConnReqBytes; ++at)
      require(one[at] == std::byte{0}, "byte {} of CON_REQ is not zero", at);
  }
}

void first_conn(ClientTester& tester) {
  const Attempt& attempt = tester.healthy();
  for (const wire::ConnReq& one : attempt.parsed)
    require(one.cid == 0 || one.first_conn, "connection {} says that it is not the first", one.cid);
}

void info_form(ClientTester& tester) {
  const Message info = tester.healthy().info.value_or(Message{});
  require(info.size() == wire::kInfoReqBytes, "INFO_REQ has {} bytes", info.size());
  const auto parsed = wire::parse_info_req(info);
  require(static_cast<bool>(parsed), "INFO_REQ is malformed: {}", to_string(parsed.why));
}

void info_reserved(ClientTester& tester) {
  const Message info = tester.healthy().info.value_or(Message{});
  require(info.size() == wire::kInfoReqBytes, "INFO_REQ has {} bytes", info.size());
  require(std::all_of(info.begin() + 257, info.end(), [](std::byte one) { return one == std::byte{0}; }),
          "reserved bytes of INFO_REQ are not zero");
}

void reconnects(ClientTester& tester) {
  Attempt& old = tester.healthy();
  const wire::ConnReq before = old.parsed.front();
  const std::size_t seen = tester.attempts();
  tester.drop(old);
  const wire::ConnReq after = tester.next_attempt(seen).parsed.front();
  require(after.sess_uuid == before.sess_uuid && after.paths_uuid == before.paths_uuid,
          "it reconnected with other uuids");
  require(static_cast<std::uint16_t>(after.recon_cnt - before.recon_cnt) == 1, "recon_cnt was {} and is {}",
          before.recon_cnt, after.recon_cnt);
  require(after.first_conn, "a path that was up once says that it is not the first connection");
  tester.healthy();
}

void lost_connection_ends_path(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  tester.endpoint().disconnect(*attempt.cons.back());
  tester.expect_given_up(attempt, tester.deadlines().refusal, "one of its connections was lost");
  tester.healthy();
}

// Corrupts the next accept; the client must abandon the attempt and reconnect.
void expect_again(ClientTester& tester, const std::function<void(Message&)>& spoil) {
  Attempt& old = tester.healthy();
  const std::size_t seen = tester.attempts();
  tester.spoil_accept = [&spoil](std::uint16_t cid, Message& bytes) {
    if (cid == 0) spoil(bytes);
  };
  tester.drop(old);
  const Attempt& spoiled = tester.next_attempt(seen);
  tester.expect_given_up(spoiled, tester.deadlines().connect + tester.deadlines().refusal,
                         "the accept was spoiled");
  require(!spoiled.info.has_value(), "it continued to INFO_REQ");
  tester.stop_misbehaving();
  tester.healthy();
}
void accept_magic(ClientTester& tester) {
  expect_again(tester, [](Message& m) { wire::store_le16(m, 0, 0); });
}
void accept_version(ClientTester& tester) {
  expect_again(tester, [](Message& m) { wire::store_le16(m, 2, 0x0100); });
}
void accept_errno(ClientTester& tester) {
  expect_again(tester, [](Message& m) { wire::store_le16(m, 4, 0xff98); });
}
void accept_unknown_flags(ClientTester& tester) {
  Attempt& old = tester.healthy();
  tester.flags = 0x80000010U;
  tester.drop(old);
  tester.healthy();
}

void rejected(ClientTester& tester, int error) {
  Attempt& old = tester.healthy();
  const std::size_t seen = tester.attempts();
  tester.reject_with = [error](std::uint16_t) { return error; };
  tester.drop(old);
  tester.next_attempt(seen);
  tester.stop_misbehaving();
  tester.healthy();
}
void rejected_reset(ClientTester& tester) {
  rejected(tester, 104);
}
void rejected_exists(ClientTester& tester) {
  rejected(tester, 17);
}
void rejected_zero(ClientTester& tester) {
  rejected(tester, 0);
}

// Corrupts the next INFO_RSP; the client must abandon the attempt and reconnect.
void expect_info_again(ClientTester& tester, const std::function<bool(Message&)>& spoil,
                       bool patient = false) {
  Attempt& old = tester.healthy();
  const std::size_t seen = tester.attempts();
  tester.spoil_info = spoil;
  tester.drop(old);
  const Attempt& spoiled = tester.next_attempt(seen);
  const bool answered =
      tester.wait([&spoiled] { return spoiled.answered || spoiled.over(); }, tester.deadlines().connect);
  require(answered && spoiled.answered, "it did not get as far as INFO_REQ");
  const Nanos limit = tester.deadlines().refusal + (patient ? tester.deadlines().connect : 0);
  tester.expect_given_up(spoiled, limit, "INFO_RSP was spoiled");
  require(spoiled.io == 0, "it sent requests after a spoiled INFO_RSP");
  tester.stop_misbehaving();
  tester.healthy();
}
void info_type(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) { return wire::store_le16(m, 0, 7), true; });
}
void info_short(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) { return m.resize(9), true; });
}
void info_no_runs(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) { return wire::store_le16(m, 2, 0), true; });
}
void info_more_runs(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) { return wire::store_le16(m, 2, 2), true; });
}
void info_run_short(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) {
    return wire::store_le32(m, 20, (ClientTester::kDepth - 1) * ClientTester::kChunk), true;
  });
}
void info_run_uneven(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) {
    return wire::store_le32(m, 20, ClientTester::kDepth * ClientTester::kChunk - 1), true;
  });
}
void info_run_empty(ClientTester& tester) {
  expect_info_again(tester, [](Message& m) { return wire::store_le32(m, 20, 0), true; });
}
void info_missing(ClientTester& tester) {
  expect_info_again(
      tester, [](Message&) { return false; }, true);
}

void many_runs(ClientTester& tester) {
  Attempt& old = tester.healthy();
  tester.runs = ClientTester::kDepth;
  tester.drop(old);
  tester.healthy();
}

constexpr const char* kReq = "protocol.md section 2.1";
constexpr const char* kRsp = "protocol.md section 2.2";
constexpr const char* kInfoReq = "protocol.md section 2.3";
constexpr const char* kInfoRsp = "protocol.md section 2.4";

constexpr Case client(const char* id, const char* title, const char* source, Level level, bool slow,
                      void (*run)(ClientTester&)) {
  return Case{id, title, source, level, slow, nullptr, run};
}

constexpr Case kCases[] = {
    client("C501-client-request", "client connect: its requests are well-formed", kReq, Level::must, false,
           request_form),
    client("C502-client-order", "client connect: it opens its connections one by one, cid 0 first",
           "protocol.md section 3.1", Level::should, false, in_order),
    client("C503-client-identity", "client connect: all connections of an attempt have the same uuids", kReq,
           Level::must, false, one_identity),
    client("C504-client-reserved", "client connect: reserved bytes are zero", kReq, Level::should, false,
           reserved),
    client("C505-client-first", "client connect: only cid 0 may have first_conn unset",
           "protocol.md section 3.4", Level::must, false, first_conn),
    client("C506-client-info", "client info: INFO_REQ is well-formed", kInfoReq, Level::must, false,
           info_form),
    client("C507-client-info-reserved", "client info: reserved bytes are zero", kInfoReq, Level::should,
           false, info_reserved),
    client("C510-client-back", "client: it reconnects as the same path, one attempt later",
           "protocol.md section 3.5", Level::must, false, reconnects),
    client("C511-client-one-lost", "client: it ends a path with the first of its connections",
           "protocol.md section 3.6", Level::must, false, lost_connection_ends_path),
    client("C520-client-accept-magic", "client connect: an accept with a wrong magic is tried again", kRsp,
           Level::must, false, accept_magic),
    client("C521-client-accept-version", "client connect: an accept of major version 1 is tried again", kRsp,
           Level::must, false, accept_version),
    client("C522-client-accept-errno", "client connect: an accept with an errno is tried again", kRsp,
           Level::must, false, accept_errno),
    client("C523-client-accept-flags", "client connect: unknown flags of an accept are ignored", kRsp,
           Level::must, false, accept_unknown_flags),
    client("C524-client-reject", "client connect: a reject with ECONNRESET is tried again",
           "protocol.md section 3.2", Level::must, false, rejected_reset),
    client("C525-client-reject-exists", "client connect: a reject with EEXIST is tried again",
           "protocol.md section 3.2", Level::must, false, rejected_exists),
    client("C526-client-reject-zero", "client connect: a reject with errno 0 is tried again", kRsp,
           Level::must, false, rejected_zero),
    client("C530-client-info-type", "client info: an answer of another type is tried again", kInfoRsp,
           Level::must, false, info_type),
    client("C531-client-info-short", "client info: an answer that is cut off is tried again", kInfoRsp,
           Level::must, false, info_short),
    client("C532-client-info-none", "client info: an answer without descriptors is tried again", kInfoRsp,
           Level::must, false, info_no_runs),
    client("C533-client-info-more", "client info: more descriptors than were sent are tried again", kInfoRsp,
           Level::must, false, info_more_runs),
    client("C534-client-info-run-short", "client info: too few chunks are tried again", kInfoRsp, Level::must,
           false, info_run_short),
    client("C535-client-info-uneven", "client info: part of a chunk is tried again", kInfoRsp, Level::must,
           false, info_run_uneven),
    client("C536-client-info-empty", "client info: an empty descriptor is tried again", kInfoRsp, Level::must,
           false, info_run_empty),
    client("C537-client-info-missing", "client info: no answer at all is tried again",
           "protocol.md section 3.1", Level::must, true, info_missing),
    client("C538-client-info-many", "client info: a descriptor for each chunk is accepted", kInfoRsp,
           Level::must, false, many_runs),
};

}  // namespace
}  // namespace client_handshake_checks

std::span<const Case> client_handshake_cases() {
  return client_handshake_checks::kCases;
}

}  // namespace rtrs::conformance
