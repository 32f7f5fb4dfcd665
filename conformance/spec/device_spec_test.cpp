// Breaks each rule of block devices by hand in an otherwise correct sequence of events; the checker must
// report that rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/test_device_story.hpp"
#include "conformance/spec/test_handed_story.hpp"

namespace rtrs::spec::device_spec_test {
namespace {

struct Suite {
  const char* name;
  DeviceStory (*story)();
  const std::vector<DeviceSpoiled>& (*cases)();
};
const Suite kSuites[] = {{"requests of a server", server_device_story, server_request_cases},
                         {"devices of a server", server_device_story, server_device_cases},
                         {"limits of a server", server_edges_story, server_edges_cases},
                         {"messages of a client", client_device_story, client_message_cases},
                         {"devices of a client", client_device_story, client_device_cases},
                         {"limits of a client", client_edges_story, client_edges_cases}};

std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings.kept())
    text += "\n  event " + std::to_string(finding.seq) + " " + std::string(info_of(finding.rule).id) + ": " +
            finding.seen + "; allowed: " + finding.allowed;
  return text;
}

TEST(DeviceSpec, CorrectStoriesHaveNoFindings) {
  for (const Suite& suite : kSuites) {
    const Findings findings = suite.story().check();
    EXPECT_EQ(findings.count(), 0U) << suite.name << text_of(findings);
  }
}

TEST(DeviceSpec, EveryBreachIsReported) {
  for (const Suite& suite : kSuites)
    for (const DeviceSpoiled& spoiled : suite.cases()) {
      DeviceStory story = suite.story();
      spoiled.spoil(story);
      const Findings findings = story.check();
      const bool named = std::any_of(findings.kept().begin(), findings.kept().end(),
                                     [&](const Finding& finding) { return finding.rule == spoiled.rule; });
      EXPECT_TRUE(named) << suite.name << ": " << info_of(spoiled.rule).id << ", " << spoiled.how
                         << text_of(findings);
    }
}

// A machine and its session hand over what the other one is given. The rules of each machine alone are broken
// here too, because the stories contain only what is handed over.
std::vector<Rule> handed_rules_of(const HandedStory& story) {
  std::vector<Rule> rules;
  const Findings findings = story.check();
  for (const Finding& finding : findings.kept())
    if (finding.rule == Rule::device_handed || finding.rule == Rule::io_handed) rules.push_back(finding.rule);
  return rules;
}

TEST(DeviceSpec, WhatIsHandedOverIsCompared) {
  EXPECT_TRUE(handed_rules_of(handed_server_story()).empty()) << text_of(handed_server_story().check());
  EXPECT_TRUE(handed_rules_of(handed_client_story()).empty()) << text_of(handed_client_story().check());
  for (const auto& [story, cases] : {std::pair(&handed_server_story, &handed_server_cases),
                                     std::pair(&handed_client_story, &handed_client_cases)})
    for (const HandedSpoiled& spoiled : cases()) {
      HandedStory broken = story();
      spoiled.spoil(broken);
      EXPECT_FALSE(handed_rules_of(broken).empty()) << spoiled.how << text_of(broken.check());
    }
}

// With detail `payload` a trace has the data of a write, which stands before the headers.
TEST(DeviceSpec, TheDataOfAWriteIsNotTakenForItsHeader) {
  for (const std::uint32_t id : {kId, kSecondId}) {
    HandedStory story = handed_client_story();
    for (const DeviceKind kind : {DeviceKind::IoBegun, DeviceKind::IoStarted, DeviceKind::IoDone})
      story.at(kind).io.changes = true;
    story.at(Kind::Submitted, 1).reads = false;
    const std::string bytes = std::string(512, '\7') + io_message({Opcode::write, 8, 512, 0, id}) +
                              little_endian(kWrite, 2) + little_endian(32, 2);
    story.at(Kind::WireSent, 1).length = static_cast<std::uint32_t>(bytes.size());
    story.at(Kind::WireSent, 1).bytes = bytes;
    EXPECT_EQ(handed_rules_of(story).empty(), id == kId) << text_of(story.check());
  }
}

TEST(DeviceSpec, EveryRuleHasABreach) {
  std::set<Rule> broken{Rule::device_handed, Rule::io_handed};  // WhatIsHandedOverIsCompared
  for (const Suite& suite : kSuites)
    for (const DeviceSpoiled& spoiled : suite.cases()) broken.insert(spoiled.rule);
  for (unsigned rule = static_cast<unsigned>(kFirstDeviceRule); rule < kRules; ++rule)
    EXPECT_EQ(broken.count(static_cast<Rule>(rule)), 1U) << info_of(static_cast<Rule>(rule)).id;
}

// A checker that starts in the middle of a correct sequence must report nothing.
TEST(DeviceSpec, AnyTailOfACorrectStoryHasNoFindings) {
  for (const Suite& suite : kSuites) {
    const std::size_t size = suite.story().events().size();
    for (std::size_t cut = 1; cut < size; ++cut) {
      DeviceStory tail = suite.story();
      tail.events().erase(tail.events().begin(), tail.events().begin() + static_cast<std::ptrdiff_t>(cut));
      const Findings findings = tail.check();
      EXPECT_EQ(findings.count(), 0U) << suite.name << " from event " << cut << text_of(findings);
    }
  }
}

// The devices answer one request, and `told` says whether the driver passes the answer to the session.
// Returns true if there are findings.
bool owes_an_answer(bool told, Time later) {
  Checker checker(true);
  Event event;
  event.kind = Kind::BeginServerSession;
  event.session = 3;
  checker.on(4, event);
  DeviceEvent answer;
  answer.kind = DeviceKind::Respond;
  answer.request = std::uint64_t{3} << 32 | 5 << 16 | 7;
  checker.on(1028, answer);
  event = {};
  event.kind = Kind::Responded;
  event.chunk = 5;
  event.serial16 = 7;
  if (told) checker.on(4, event);
  event.kind = Kind::DeadlineReached;
  event.now = later;
  checker.on(4, event);
  checker.finish();
  const auto& found = checker.findings().kept();
  return std::any_of(found.begin(), found.end(),
                     [](const Finding& finding) { return finding.rule == Rule::response_due; });
}

TEST(DeviceSpec, SessionIsToldOfEachAnswer) {
  EXPECT_TRUE(owes_an_answer(false, 2'000'000'000));
  EXPECT_FALSE(owes_an_answer(true, 2'000'000'000));
  EXPECT_FALSE(owes_an_answer(false, 1000)) << "the driver has not come to it";
}

}  // namespace
}  // namespace rtrs::spec::device_spec_test
