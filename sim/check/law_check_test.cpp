// Traces of both ends, made by hand: what was sent must be what arrived, as far as the traces go.
#include "sim/check/law_check.hpp"

#include <gtest/gtest.h>

#include "conformance/spec/bytes.hpp"

namespace rtrs::sim {
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

LawCheck judged(const Traces& traces) {
  LawCollector laws;
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

TEST(LawCheck, FindsWhatAReliableConnectionCannotDo) {
  EXPECT_NE(judged({{1, 2, 3}, {1, 3}}).violations, 0U) << "a loss in the middle";
  EXPECT_NE(judged({{1, 2}, {1, 2, 2}}).violations, 0U) << "twice";
  EXPECT_NE(judged({{1, 2}, {1, 2, 3}}).violations, 0U) << "from nothing";
  EXPECT_NE(judged({{1, 2}, {2, 1}}).violations, 0U) << "out of order";
}

TEST(LawCheck, BlamesNobodyForWhatAKilledSenderCouldNotRecord) {
  EXPECT_EQ(judged({{1, 2}, {1, 2, 3}, false}).violations, 0U);
  EXPECT_EQ(judged({{1, 2}, {1, 2, 2, 1}, false}).violations, 0U) << "the same numbers again";
  EXPECT_NE(judged({{1, 2, 3}, {1, 3}, false}).violations, 0U) << "what is recorded must agree";
}

TEST(LawCheck, DemandsTheSameOfAReceiverThatWasKilled) {
  EXPECT_EQ(judged({{1, 2, 3}, {1}, true, false}).violations, 0U);
  EXPECT_NE(judged({{1, 2}, {1, 2, 3}, true, false}).violations, 0U);
}

}  // namespace
}  // namespace rtrs::sim
