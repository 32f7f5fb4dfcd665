// Breaks each rule by hand in an otherwise correct sequence of events; the checker must report that rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <set>
#include <string>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/rules.hpp"
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec::spec_test {
namespace {

struct Suite {
  const char* name;
  Story (*story)();
  const std::vector<Spoiled>& (*cases)();
};
const Suite kSuites[] = {
    {"client", client_story, client_cases},
    {"keyed client", keyed_client_story, keyed_client_cases},
    {"challenged client", challenged_client_story, challenged_client_cases},
    {"server", server_story, server_cases},
    {"keyed server", keyed_server_story, keyed_server_cases},
    {"registry", registry_story, registry_cases},
    {"wire", wire_story, wire_cases},
    {"keyed wire", keyed_wire_story, keyed_wire_cases},
    {"failover at a server", failover_wire_story, failover_wire_cases},
    {"restarted server", restarted_wire_story, restarted_wire_cases},
    {"rnbd", rnbd_story, rnbd_cases},
    {"server with data in answers", joined_server_story, joined_server_cases},
    {"wire with data in answers", joined_wire_story, joined_wire_cases},
    {"client with many connections", wide_client_story, wide_client_cases},
    {"server with many connections", wide_server_story, wide_server_cases},
    {"inputs of a server", told_story, told_cases},
    {"inputs of a client", told_client_story, told_client_cases},
    {"messages of a client", sent_story, sent_cases},
    {"identity on the wire", wire_story, identity_wire_cases},
};

std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings.kept())
    text += "\n  event " + std::to_string(finding.seq) + " " + std::string(info_of(finding.rule).id) + ": " +
            finding.seen + "; allowed: " + finding.allowed;
  return text;
}

TEST(Spec, CorrectStoriesHaveNoFindings) {
  for (const Suite& suite : kSuites) {
    const Findings findings = suite.story().check();
    EXPECT_EQ(findings.count(), 0U) << suite.name << text_of(findings);
  }
}

bool is_capture(Story& story) {
  return class_of(story.events().front().kind) == EventClass::wire;
}
// The order of messages that are close together in a capture proves nothing.
void spread(Story& story) {
  Time later = 0;
  for (Event& event : story.events()) event.now += later += 200'000'000;
}

TEST(Spec, EveryBreachIsReported) {
  for (const Suite& suite : kSuites)
    for (const Spoiled& spoiled : suite.cases()) {
      Story story = suite.story();
      spoiled.spoil(story);
      if (is_capture(story)) spread(story);
      const Findings findings = story.check();
      const bool named = std::any_of(findings.kept().begin(), findings.kept().end(),
                                     [&](const Finding& finding) { return finding.rule == spoiled.rule; });
      EXPECT_TRUE(named) << suite.name << ": " << info_of(spoiled.rule).id << ", " << spoiled.how
                         << text_of(findings);
      for (const Finding& finding : findings.kept())
        EXPECT_FALSE(finding.seen.empty() || finding.allowed.empty());
    }
}

TEST(Spec, MessagesOfACaptureThatAreCloseTogetherMayBeInAnotherOrder) {
  Story story = wire_story();
  const auto response = [](const Event& one) { return one.kind == Kind::WireReceived && one.has_imm; };
  auto& events = story.events();
  const auto at = std::find_if(events.begin(), events.end(), response);
  ASSERT_EQ(std::prev(at)->kind, Kind::WireSent);
  std::iter_swap(std::prev(at), at);
  std::swap(std::prev(at)->now, at->now);
  EXPECT_EQ(story.check().count(), 0U) << text_of(story.check());
  spread(story);
  EXPECT_NE(story.check().count(), 0U);
}

TEST(Spec, CaptureThatBeginsWithALaterAttemptMayHaveFencesOfPathsThatItDoesNotShow) {
  constexpr std::size_t kReconCnt = 10, kPathOfFence = 8, kBytesOfFence = 24;
  Story story = wire_story();
  std::deque<std::string> kept;
  for (Event& event : story.events()) {
    const bool asks = event.kind == Kind::WireCm && event.cm == CmKind::req;
    const bool fence = event.kind == Kind::WireSent && event.bytes.size() == kBytesOfFence && !event.has_imm;
    if (!asks && !fence) continue;
    std::string& bytes = kept.emplace_back(event.bytes);
    bytes[asks ? kReconCnt : kPathOfFence] = static_cast<char>(asks ? bytes[kReconCnt] + 1 : 9);
    event.bytes = bytes;
  }
  EXPECT_EQ(story.check().count(), 0U) << text_of(story.check());
}

// device_spec_test breaks the rules of block devices.
TEST(Spec, EveryRuleHasABreach) {
  std::set<Rule> broken;
  for (const Suite& suite : kSuites)
    for (const Spoiled& spoiled : suite.cases()) broken.insert(spoiled.rule);
  for (unsigned rule = 0; rule < static_cast<unsigned>(kFirstDeviceRule); ++rule)
    EXPECT_EQ(broken.count(static_cast<Rule>(rule)), 1U) << info_of(static_cast<Rule>(rule)).id;
}

TEST(Spec, IdsAreUnique) {
  std::set<std::string_view> ids;
  for (unsigned rule = 0; rule < kRules; ++rule)
    EXPECT_TRUE(ids.insert(info_of(static_cast<Rule>(rule)).id).second);
}

// A checker that starts in the middle of a correct sequence must report nothing.
TEST(Spec, AnyTailOfACorrectStoryHasNoFindings) {
  for (const Suite& suite : kSuites) {
    const Story whole = suite.story();
    const std::size_t size = suite.story().events().size();
    for (std::size_t cut = 1; cut < size; ++cut) {
      Story tail = whole;
      tail.events().erase(tail.events().begin(), tail.events().begin() + static_cast<std::ptrdiff_t>(cut));
      const Findings findings = tail.check();
      EXPECT_EQ(findings.count(), 0U) << suite.name << " from event " << cut << text_of(findings);
    }
  }
}

TEST(Spec, FewStatesArePossibleAtATime) {
  for (const Suite& suite : kSuites) EXPECT_LE(suite.story().check().most_states(), 4U) << suite.name;
}

TEST(Spec, DocumentedExamplesAreRules) {
  std::ifstream file(URTRS_CONFORMANCE_DOC);
  std::string line;
  while (std::getline(file, line) && line != "$ urtrs-replay check --rules") {
  }
  const std::string rules = rules_markdown();
  unsigned examples = 0;
  for (; std::getline(file, line) && line != "..."; ++examples)
    EXPECT_NE(rules.find(line + "\n"), std::string::npos)
        << "not a line of `urtrs-replay check --rules`: " << line;
  EXPECT_GT(examples, 0U) << "docs/conformance.md does not show `urtrs-replay check --rules`";
}

// Sessions of one trace may have different depths, and inputs of other machines or connections may follow a
// message.
TEST(Spec, AnInputIsComparedOnlyWithTheMessageOfItsConnection) {
  Findings findings;
  ToldSpec told(findings);
  std::string header(kWriteHeader, '\0');
  header[0] = static_cast<char>(kWrite);
  for (const unsigned machine : {1, 2}) {
    Event begin;
    begin.kind = Kind::BeginServerSession;
    begin.settings.depth = static_cast<std::uint16_t>(8 * machine);
    told.on(machine, begin);
  }
  const auto receive = [&](unsigned from, unsigned to, const Key& key, std::uint16_t chunk) {
    Event note, input;
    note.kind = Kind::WireReceived, note.op = WireOp::write_imm, note.key = {0, 1, 7}, note.has_imm = true;
    note.imm = request_imm(8 * from, 5, 0), note.bytes = header, note.length = kWriteHeader;
    input.kind = Kind::RequestArrived, input.key = key, input.chunk = chunk;
    told.on(from, note);
    told.on(to, input);
    return std::count_if(findings.kept().begin(), findings.kept().end(), [](const Finding& finding) {
      return finding.seen.find("other values") != std::string::npos;
    });
  };
  EXPECT_EQ(receive(1, 1, {0, 1, 7}, 5), 0);
  EXPECT_EQ(receive(2, 2, {0, 1, 7}, 5), 0);
  EXPECT_EQ(receive(1, 2, {0, 1, 7}, 6), 0);
  EXPECT_EQ(receive(1, 1, {0, 2, 7}, 6), 0);
  EXPECT_EQ(receive(2, 2, {0, 1, 7}, 6), 1) << text_of(findings);
}

}  // namespace
}  // namespace rtrs::spec::spec_test
