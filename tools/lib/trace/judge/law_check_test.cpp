// Tests the law check with handmade traces of both ends of a connection. A received message must be reported
// if the traces prove that it was never sent.
#include "tools/lib/trace/judge/law_check.hpp"

#include <gtest/gtest.h>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::trace::law_check_test {
namespace {

constexpr spec::Key kKey{0, 1, 1};

void connect(LawCollector& laws, bool client) {
  const std::string request(spec::kConReqBytes, '\0');
  spec::Event event;
  event.kind = spec::Kind::WireCm;
  event.cm = spec::CmKind::req;
  event.key = kKey;
  event.sent = client;
  event.bytes = request;
  laws.on(0, event);
}
void note(LawCollector& laws, spec::Kind kind, std::uint32_t number) {
  spec::Event event;
  event.kind = kind;
  event.key = kKey;
  event.op = spec::WireOp::write_imm;
  event.has_imm = true;
  event.imm = number;
  event.length = 8;
  laws.on(0, event);
}

struct Traces {
  std::vector<std::uint32_t> sent, received;
  bool sender_whole = true, receiver_whole = true;
};

LawCheck judged(const Traces& traces, std::size_t in_memory = LawCollector::kInMemory) {
  LawCollector laws(in_memory);
  laws.begin_trace();
  connect(laws, true);
  for (const std::uint32_t number : traces.sent) note(laws, spec::Kind::WireSent, number);
  laws.end_trace(traces.sender_whole);
  laws.begin_trace();
  connect(laws, false);
  for (const std::uint32_t number : traces.received) note(laws, spec::Kind::WireReceived, number);
  laws.end_trace(traces.receiver_whole);
  return laws.judge();
}

TEST(LawCheck, AcceptsAPrefix) {
  const LawCheck check = judged({{1, 2, 3, 4}, {1, 2, 3}});
  EXPECT_EQ(check.pairs, 1U);
  EXPECT_EQ(check.messages, 3U);
  EXPECT_EQ(check.violations, 0U);
}

TEST(LawCheck, LossDuplicateInventionAndReorderingAreViolations) {
  EXPECT_NE(judged({{1, 2, 3}, {1, 3}}).violations, 0U) << "a loss in the middle";
  EXPECT_NE(judged({{1, 2}, {1, 2, 2}}).violations, 0U) << "duplicated";
  EXPECT_NE(judged({{1, 2}, {1, 2, 3}}).violations, 0U) << "never sent";
  EXPECT_NE(judged({{1, 2}, {2, 1}}).violations, 0U) << "out of order";
}

TEST(LawCheck, TruncatedSenderTraceExcusesUnrecordedMessages) {
  EXPECT_EQ(judged({{1, 2}, {1, 2, 3}, false}).violations, 0U);
  EXPECT_EQ(judged({{1, 2}, {1, 2, 2, 1}, false}).violations, 0U) << "the same numbers again";
  EXPECT_NE(judged({{1, 2, 3}, {1, 3}, false}).violations, 0U) << "recorded messages must match";
}

TEST(LawCheck, TruncatedReceiverTraceExcusesNoExtraMessages) {
  EXPECT_EQ(judged({{1, 2, 3}, {1}, true, false}).violations, 0U);
  EXPECT_NE(judged({{1, 2}, {1, 2, 3}, true, false}).violations, 0U);
}

TEST(LawCheck, MessagesInAFileAreJudgedAsThoseInMemory) {
  Traces traces;
  for (std::uint32_t number = 0; number < 1000; ++number) traces.sent.push_back(number);
  traces.received = traces.sent;
  for (const std::size_t in_memory : {0U, 100U}) {
    EXPECT_EQ(judged(traces, in_memory).messages, 1000U);
    EXPECT_EQ(judged(traces, in_memory).violations, 0U);
  }
  std::swap(traces.received[500], traces.received[501]);
  const LawCheck held = judged(traces), written = judged(traces, 0);
  ASSERT_FALSE(held.findings.empty());
  ASSERT_EQ(written.findings.size(), held.findings.size());
  EXPECT_EQ(written.findings[0].text, held.findings[0].text);
}

// A client that writes to the chunks of its server over several paths, each with one connection.
class Writes : public ::testing::Test {
 protected:
  void connect(bool client, std::uint16_t path, unsigned run = 0) {
    std::string request(spec::kConReqBytes, '\0');
    request[12] = static_cast<char>(path);
    request[28] = static_cast<char>(run);
    spec::Event event;
    event.kind = spec::Kind::WireCm;
    event.cm = spec::CmKind::req;
    event.key = {path, 1, 1};
    event.sent = client;
    event.bytes = request;
    laws_.on(0, event);
    std::string answer(spec::kConRspBytes, '\0');
    answer[6] = 4;  // queue depth
    event.cm = spec::CmKind::rep;
    event.sent = !client;
    event.bytes = answer;
    laws_.on(0, event);
  }
  void note(spec::Kind kind, std::uint16_t path, std::uint32_t imm, std::uint64_t digest) {
    spec::Event event;
    event.kind = kind;
    event.key = {path, 1, 1};
    event.op = spec::WireOp::write_imm;
    event.has_imm = true;
    event.imm = imm;
    event.length = digest == 0 ? 0 : 8;
    event.digest = digest;
    laws_.on(0, event);
  }
  void sent(std::uint16_t path, std::uint32_t chunk, std::uint64_t digest) {
    note(spec::Kind::WireSent, path, chunk << 26, digest);
  }
  void arrived(std::uint16_t path, std::uint32_t chunk, std::uint64_t digest) {
    note(spec::Kind::WireReceived, path, chunk << 26, digest);
  }
  void answer(spec::Kind kind, std::uint16_t path, std::uint32_t chunk) {
    note(kind, path, spec::kIoRsp << 28 | chunk, 0);
  }
  // The data of a READ: a server sends it before its answer, and a client records it after the answer.
  void data(spec::Kind kind, std::uint64_t digest) {
    spec::Event event;
    event.kind = kind;
    event.key = {0, 1, 1};
    event.op = spec::WireOp::write;
    event.rkey = kind == spec::Kind::WireSent ? 9 : 0;
    event.length = 512;
    event.digest = digest;
    laws_.on(0, event);
  }
  void begin(bool client, std::uint16_t paths, unsigned run = 0, bool capture = false) {
    if (laws_open_) laws_.end_trace(true);
    laws_open_ = true;
    laws_.begin_trace(capture);
    for (std::uint16_t path = 0; path < paths; ++path) connect(client, path, run);
  }
  LawCheck judged() {
    laws_.end_trace(true);
    return laws_.judge();
  }
  void reset() {
    laws_ = LawCollector();
    laws_open_ = false;
  }

 private:
  LawCollector laws_;
  bool laws_open_ = false;
};

TEST_F(Writes, ContentThatDiffersFromTheSentOneIsAViolation) {
  begin(true, 1);
  sent(0, 1, 5), answer(spec::Kind::WireReceived, 0, 1), sent(0, 1, 6);
  begin(false, 1);
  arrived(0, 1, 5), answer(spec::Kind::WireSent, 0, 1), arrived(0, 1, 7);
  const LawCheck check = judged();
  EXPECT_EQ(check.contents, 2U);
  EXPECT_EQ(check.violations, 1U);
  EXPECT_EQ(check.unproven, 0U);
}

TEST_F(Writes, DataOfAReadIsComparedWithWhatTheServerSent) {
  for (const std::uint64_t arrives : {5, 6}) {
    begin(true, 1);
    sent(0, 1, 4), answer(spec::Kind::WireReceived, 0, 1), data(spec::Kind::WireReceived, arrives);
    begin(false, 1);
    arrived(0, 1, 4), data(spec::Kind::WireSent, 5), answer(spec::Kind::WireSent, 0, 1);
    const LawCheck check = judged();
    EXPECT_EQ(check.contents, 2U);
    EXPECT_EQ(check.violations, arrives == 5 ? 0U : 1U);
    reset();
  }
}

TEST_F(Writes, ACaptureIsNotComparedBesideTheTraceOfItsClient) {
  begin(true, 1);
  sent(0, 1, 5);
  begin(true, 1, 0, true);
  sent(0, 1, 6);
  begin(false, 1);
  arrived(0, 1, 5);
  const LawCheck check = judged();
  EXPECT_EQ(check.pairs, 1U);
  EXPECT_EQ(check.violations, 0U);
  EXPECT_EQ(check.shadowed, std::vector<unsigned>{1});
}

TEST_F(Writes, ACaptureMayEndBeforeTheRun) {
  for (const bool capture : {true, false}) {
    reset();
    begin(true, 1, 0, capture);
    sent(0, 1, 5);
    begin(false, 1);
    arrived(0, 1, 5), arrived(0, 2, 6);
    EXPECT_EQ(judged().violations == 0, capture);
  }
}

TEST_F(Writes, ContentThatAnUnansweredCopyMayHaveOverwrittenIsUnproven) {
  begin(true, 2);
  sent(0, 1, 5), sent(1, 1, 5), answer(spec::Kind::WireReceived, 1, 1), sent(1, 1, 6);
  begin(false, 2);
  arrived(1, 1, 5), answer(spec::Kind::WireSent, 1, 1), arrived(1, 1, 5);
  const LawCheck check = judged();
  EXPECT_EQ(check.violations, 0U);
  EXPECT_EQ(check.unproven, 1U);
}

TEST_F(Writes, WriteToAnotherChunkExcusesNoDifference) {
  begin(true, 2);
  sent(0, 2, 5), sent(1, 1, 6);
  begin(false, 2);
  arrived(1, 1, 5);
  EXPECT_EQ(judged().violations, 1U);
}

TEST_F(Writes, TraceOfAnotherRunIsAStranger) {
  begin(true, 1);
  sent(0, 1, 5), answer(spec::Kind::WireReceived, 0, 1);
  begin(true, 1, 1);
  sent(0, 1, 5), answer(spec::Kind::WireReceived, 0, 1);
  const LawCheck clients = judged();
  EXPECT_TRUE(clients.one_sided);
  EXPECT_TRUE(clients.strangers.empty());
  begin(false, 1, 1);
  arrived(0, 1, 5);
  const LawCheck check = judged();
  EXPECT_FALSE(check.one_sided);
  EXPECT_EQ(check.strangers, std::vector<unsigned>{0});
}

}  // namespace
}  // namespace rtrs::trace::law_check_test
