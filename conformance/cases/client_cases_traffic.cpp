// Requests of a client, and unsolicited responses to it (protocol.md sections 2.5 to 2.8, 5 and 7).
#include <algorithm>

#include "conformance/cases/case.hpp"
#include "conformance/cases/client_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace client_traffic_checks {
namespace {

using wire::ImmType;

void well_formed(ClientTester& tester) {
  const ClientRequest request = tester.take_request();
  tester.answer(request, 0);
  Attempt& attempt = *request.attempt;
  tester.wait([&] { return attempt.io >= 50 || !attempt.up(); }, tester.deadlines().answer);
  require(attempt.breaches.empty(), "{} breaches, first: {}", attempt.breaches.size(),
          attempt.breaches.empty() ? "" : attempt.breaches.front());
}

void messages_in_order(ClientTester& tester) {
  Attempt& old = tester.healthy();
  tester.drop(old);
  const Attempt& attempt = tester.healthy();
  const auto has = [&attempt](const char* name) {
    const auto& seen = attempt.user_messages;
    return std::find(seen.begin(), seen.end(), name) != seen.end();
  };
  const bool came = tester.wait([&] { return has("open") && has("sess_info"); }, tester.deadlines().answer);
  require(came, "no SESS_INFO or no OPEN after a reconnect");
}

void heartbeat(ClientTester& tester) {
  tester.expect_alive(tester.healthy(), "a heartbeat");
}
void heartbeat_burst(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  for (unsigned i = 0; i < 16; ++i)
    tester.endpoint().write_imm(*attempt.cons[0], wire::encode_hb(ImmType::hb_msg));
  tester.expect_alive(attempt, "16 heartbeats at once");
}
void unsolicited_ack(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  tester.endpoint().write_imm(*attempt.cons[0], wire::encode_hb(ImmType::hb_ack));
  tester.expect_alive(attempt, "an unsolicited HB_ACK");
}
void sends_heartbeats(ClientTester& tester) {
  const Attempt& attempt = tester.healthy();
  const bool came = tester.wait([&] { return attempt.cons[0]->heartbeats > 0 || !attempt.up(); },
                                3 * tester.deadlines().heartbeat);
  require(came && attempt.up(), "no HB_MSG within three intervals");
}

// From now on the tester sends nothing, neither responses nor heartbeats.
void silent_server(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  for (Con* one : attempt.cons) one->mute = true;
  tester.hold_requests = true;
  const Nanos since = tester.now();
  const Nanos upper = tester.deadlines().silence_upper() + tester.deadlines().refusal;
  tester.expect_given_up(attempt, upper, "the server was silent");
  const Nanos took = attempt.cons[0]->lost_at - since;
  require(took >= tester.deadlines().silence_lower(), "declared dead already after {:.1f} s",
          static_cast<double>(took) / 1e9);
  tester.stop_misbehaving();
  tester.healthy();
}

void acks_keep_path_up(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  tester.hold_requests = true;
  tester.wait([&] { return !attempt.up(); },
              tester.deadlines().silence_upper() + 2 * tester.deadlines().heartbeat);
  require(attempt.up(), "a server that answers every heartbeat was declared dead");
  tester.stop_misbehaving();
}

// Returns a chunk without an outstanding request.
std::uint32_t idle_chunk() {
  return ClientTester::kDepth - 1;
}

void idle_answer(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  tester.endpoint().write_imm(*attempt.cons.back(), wire::encode_io_rsp(ImmType::io_rsp, idle_chunk(), 0));
  tester.expect_alive(attempt, "an unsolicited answer");
}

void answer_twice(ClientTester& tester) {
  const ClientRequest request = tester.take_request();
  const auto type = wire::rnbd::message_type(request.user);
  if (!type || type.value != wire::rnbd::MsgType::io) {
    tester.answer(request, 0);
    not_run("the request was not an IO: let the client do IO all the time");
  }
  Attempt& attempt = *request.attempt;
  tester.hold_requests = true;
  // Both responses are posted before the client can reuse the chunk.
  const std::uint32_t imm = wire::encode_io_rsp(ImmType::io_rsp, request.io.buf_id, 5);
  tester.answer_with({imm, imm}, request);
  tester.expect_alive(attempt, "a second answer to one request");
  tester.stop_misbehaving();
}

// The client must ignore the immediate, or close the path and reconnect.
void ignored_or_again(ClientTester& tester, std::uint32_t imm) {
  Attempt& attempt = tester.healthy();
  tester.endpoint().write_imm(*attempt.cons.back(), imm);
  tester.wait([&] { return attempt.over(); }, tester.deadlines().heartbeat);
  tester.healthy();
}
void answer_beyond(ClientTester& tester) {
  ignored_or_again(tester, wire::encode_io_rsp(ImmType::io_rsp, ClientTester::kDepth, 0));
}
void answer_max(ClientTester& tester) {
  ignored_or_again(tester, wire::encode_io_rsp(ImmType::io_rsp, wire::kMsgIdMask, 0));
}
void immediate_unknown(ClientTester& tester) {
  ignored_or_again(tester, 0x70000000U);
}
void immediate_request(ClientTester& tester) {
  ignored_or_again(tester, wire::encode_io_req(ClientTester::kDepth, 1, 64));
}

void unsolicited_message(ClientTester& tester) {
  Attempt& attempt = tester.healthy();
  tester.endpoint().send(*attempt.cons[0], Message(24, std::byte{0x5a}));
  tester.wait([&] { return attempt.over(); }, tester.deadlines().heartbeat);
  tester.healthy();
}

void error_answer(ClientTester& tester) {
  const ClientRequest request = tester.take_request();
  const auto type = wire::rnbd::message_type(request.user);
  // The failed request must be IO: a client may close its device if OPEN fails, but an IO error goes to the
  // application.
  if (!type || type.value != wire::rnbd::MsgType::io) {
    tester.answer(request, 0);
    not_run("the request was not an IO: let the client do IO all the time");
  }
  tester.answer(request, 5);
  tester.expect_alive(*request.attempt, "a request that failed with EIO");
}

void never_answered(ClientTester& tester) {
  const ClientRequest request = tester.take_request();
  tester.drop(*request.attempt);
  const Attempt& next = tester.healthy();
  const bool went_on = tester.wait([&] { return next.io > 0; }, tester.deadlines().answer);
  require(went_on, "after a request that was never answered the client sends none");
}

void fresh_keys(ClientTester& tester) {
  Attempt& old = tester.healthy();
  tester.flags = wire::kConnRspNewRkey;
  tester.runs = ClientTester::kDepth;
  tester.drop(old);
  Attempt& attempt = tester.healthy();
  const bool went_on = tester.wait([&] { return attempt.io >= 3 * ClientTester::kDepth || !attempt.up(); },
                                   3 * tester.deadlines().answer);
  require(attempt.up(), "the path was lost: an invalidated key was used, or the fresh key was not used");
  if (!went_on && attempt.io < 3) not_run("the client sent too few requests: let it do IO all the time");
  require(attempt.breaches.empty(), "{}", attempt.breaches.empty() ? "" : attempt.breaches.front());
  tester.stop_misbehaving();
  tester.drop(attempt);
  tester.healthy();
}

// The response of a READ carries its data in the same RDMA write. OPEN is answered in the same way, so a
// client that cannot handle such responses gets no device.
void data_with_answer(ClientTester& tester, std::uint32_t flags) {
  Attempt& old = tester.healthy();
  tester.flags = flags;
  if (flags != 0) tester.runs = ClientTester::kDepth;
  tester.grants_data_with_answer = true;
  tester.drop(old);
  Attempt& attempt = tester.healthy();
  if (!attempt.joins_data) not_run("the client does not request it");
  const auto opened = [&attempt] {
    const auto& seen = attempt.user_messages;
    return attempt.joined >= 2 && std::find(seen.begin(), seen.end(), "io") != seen.end();
  };
  const bool went_on = tester.wait([&] { return (opened() && attempt.joined >= 20) || !attempt.up(); },
                                   3 * tester.deadlines().answer);
  require(attempt.up(), "the path was lost after {} reads whose answer carried their data", attempt.joined);
  if (!went_on && !opened()) not_run("the client sent too few requests: let it do IO all the time");
  require(attempt.breaches.empty(), "{}", attempt.breaches.empty() ? "" : attempt.breaches.front());
  tester.stop_misbehaving();
  tester.drop(attempt);
  tester.healthy();
}
void data_with_answer_plain(ClientTester& tester) {
  data_with_answer(tester, 0);
}
// A response that carries data keeps the chunk's key; every other response renews the key.
void data_with_answer_and_keys(ClientTester& tester) {
  data_with_answer(tester, wire::kConnRspNewRkey);
}

constexpr const char* kHeartbeat = "protocol.md section 7";
constexpr const char* kAnswers = "protocol.md section 5.6";
constexpr const char* kImmediates = "protocol.md section 2.8";

constexpr Case client(const char* id, const char* title, const char* source, Level level, bool slow,
                      void (*run)(ClientTester&)) {
  return Case{id, title, source, level, slow, nullptr, run};
}

constexpr Case kCases[] = {
    client("C550-client-requests", "client request: all are well-formed, one at a time on a chunk",
           "protocol.md section 5.3", Level::must, false, well_formed),
    client("C551-client-messages", "client rnbd: SESS_INFO and OPEN are sent again after a reconnect",
           "protocol.md section 9.5", Level::should, false, messages_in_order),
    client("C552-client-error", "client request: a failed request does not close the path", kAnswers,
           Level::must, false, error_answer),
    client("C553-client-unanswered",
           "client request: a request that is lost with its path does not stop the others",
           "protocol.md section 6.2", Level::must, false, never_answered),
    client("C554-client-fresh-keys", "client request: it uses the key of the last answer",
           "protocol.md section 2.5", Level::must, false, fresh_keys),
    client("C555-client-read-with-answer", "client read: its data may come with the answer, in one write",
           "protocol.md section 12", Level::must, false, data_with_answer_plain),
    client("C556-client-read-keeps-key",
           "client read: an answer that carries data leaves the key of its chunk as it is",
           "protocol.md section 12", Level::must, false, data_with_answer_and_keys),
    client("C560-client-heartbeat", "client heartbeat: HB_MSG is answered", kHeartbeat, Level::must, false,
           heartbeat),
    client("C561-client-heartbeat-burst", "client heartbeat: 16 at once do no harm", kHeartbeat, Level::must,
           false, heartbeat_burst),
    client("C562-client-heartbeat-unasked", "client heartbeat: an unsolicited HB_ACK does no harm",
           kHeartbeat, Level::must, false, unsolicited_ack),
    client("C563-client-heartbeat-own", "client heartbeat: it sends its own", kHeartbeat, Level::should, true,
           sends_heartbeats),
    client("C564-client-silence",
           "client heartbeat: a silent server is declared dead within the bound, not before", kHeartbeat,
           Level::must, true, silent_server),
    client("C565-client-acks", "client heartbeat: a server that only acknowledges is kept", kHeartbeat,
           Level::must, true, acks_keep_path_up),
    client("C570-client-idle-answer", "client answer: an unsolicited answer is ignored", kAnswers,
           Level::must, false, idle_answer),
    client("C571-client-answer-twice", "client answer: a second answer to a request is ignored", kAnswers,
           Level::must, false, answer_twice),
    client("C572-client-answer-beyond", "client answer: a chunk equal to the depth does no harm", kImmediates,
           Level::must, false, answer_beyond),
    client("C573-client-answer-max", "client answer: the largest chunk number does no harm", kImmediates,
           Level::must, false, answer_max),
    client("C574-client-imm-unknown", "client immediate: type 7 is ignored or closes the path", kImmediates,
           Level::must, false, immediate_unknown),
    client("C575-client-imm-request", "client immediate: IO_REQ from a server is ignored or closes the path",
           kImmediates, Level::must, false, immediate_request),
    client("C576-client-stray", "client: a SEND out of place is ignored or closes the path", kImmediates,
           Level::must, false, unsolicited_message),
};

}  // namespace
}  // namespace client_traffic_checks

std::span<const Case> client_traffic_cases() {
  return client_traffic_checks::kCases;
}

}  // namespace rtrs::conformance
