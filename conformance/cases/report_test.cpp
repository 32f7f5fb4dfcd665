#include "conformance/cases/report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace rtrs::conformance::report_test {
namespace {

constexpr Case kMust{"C001-a-must", "a: holds", "protocol.md section 1", Level::must, false,
                     nullptr,       nullptr};
constexpr Case kQuirk{
    "C002-a-quirk", "b: <odd> & \"so\"", "protocol.md section 2", Level::quirk, true, nullptr, nullptr};

std::vector<Result> results() {
  return {{&kMust, Outcome::passed, "", milliseconds(30)},
          {&kMust, Outcome::failed, "it said \"no\"", seconds(2)},
          {&kQuirk, Outcome::failed, "it is <odd>", 0},
          {&kMust, Outcome::not_run, "no device", 0}};
}

class BaselineTest : public testing::Test {
 protected:
  ~BaselineTest() override { std::remove(file.c_str()); }
  std::string file = testing::TempDir() + "baseline-" + std::to_string(::getpid()) + ".json";
};

TEST(ReportTest, LinesLookLikeBlktests) {
  const std::string line = text_line(results()[0], nullptr);
  EXPECT_EQ(line.substr(0, 15), "C001 (a: holds)");
  EXPECT_NE(line.find(" [passed]  0.03s\n"), std::string::npos);
  const std::string failed = text_line(results()[1], nullptr);
  EXPECT_NE(failed.find("[failed]  2.00s\n     it said \"no\" (must, protocol.md section 1)\n"),
            std::string::npos);
  EXPECT_NE(text_line(results()[3], nullptr).find("[not run]\n     no device\n"), std::string::npos);
}

TEST(ReportTest, QuirksAndKnownDeviationsAreNotFailures) {
  Baseline baseline;
  baseline.seen["C001-a-must"] = "it says no";
  EXPECT_EQ(judge(results()[1], nullptr), Verdict::failed);
  EXPECT_EQ(judge(results()[1], &baseline), Verdict::deviates);
  EXPECT_EQ(judge(results()[0], &baseline), Verdict::mended);
  EXPECT_EQ(judge(results()[2], nullptr), Verdict::differs);
  EXPECT_EQ(exit_code(results(), nullptr), kSomeFailed);
  EXPECT_EQ(exit_code(results(), &baseline), kAllPassed);
  EXPECT_EQ(exit_code({results()[3]}, nullptr), kNothingRun);
}

TEST(ReportTest, TapCountsAndExplains) {
  const std::string text = tap({}, results());
  EXPECT_EQ(text.rfind("TAP version 13\n1..4\nok 1 - C001 a: holds\nnot ok 2 - C001 a: holds\n", 0), 0U);
  EXPECT_NE(text.find("message: \"it said \\\"no\\\"\""), std::string::npos);
  EXPECT_NE(text.find("not ok 3 - C002 b: <odd> & \"so\" # TO"
                      "DO a quirk"),
            std::string::npos);
  EXPECT_NE(text.find("ok 4 - C001 a: holds # SKIP no device"), std::string::npos);
}

TEST(ReportTest, JUnitEscapes) {
  const std::string text = junit({}, results());
  EXPECT_NE(text.find("tests=\"4\" failures=\"1\" skipped=\"2\""), std::string::npos);
  EXPECT_NE(text.find("it said &quot;no&quot;"), std::string::npos);
  EXPECT_EQ(text.find("<odd>"), std::string::npos);
}

TEST(ReportTest, JsonContainsEverything) {
  const auto parsed = nlohmann::json::parse(json({}, results()));
  EXPECT_EQ(parsed.at("summary").at("failed"), 1);
  EXPECT_EQ(parsed.at("cases").at(2).at("verdict"), "differs");
  EXPECT_EQ(parsed.at("cases").at(1).at("source"), "protocol.md section 1");
  EXPECT_EQ(nlohmann::json::parse(list_json({}))["cases"].size(), 0U);
}

TEST(ReportTest, MarkdownListsFailuresAndEscapesText) {
  conformance::Run run;
  run.target = "10.0.0.1|x";
  const std::string text = markdown(run, results());
  EXPECT_EQ(text.rfind("# Conformance of server 10.0.0.1\\|x\n", 0), 0U) << text;
  EXPECT_NE(text.find("\n## What did not pass\n"), std::string::npos);
  EXPECT_NE(text.find("| C001 | a: holds | must | failed | it said \"no\" | protocol.md section 1 |\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| b: \\<odd\\> & \"so\" | quirk | differs |"), std::string::npos) << text;
  EXPECT_NE(text.find("| C001 | a: holds | must | passed | 0.03 |\n"), std::string::npos);
  EXPECT_EQ(markdown(run, {results()[0]}).find("What did not pass"), std::string::npos);
}

TEST(ReportTest, ListedCasesAreWrapped) {
  Case wide = kMust;
  const std::string title = "a: " + std::string(60, 'x') + " " + std::string(20, 'y');
  wide.title = title.c_str();
  wide.slow = true;
  const std::string text = list_text({&kMust, &wide});
  const std::string below(51, ' ');
  EXPECT_NE(text.find("a: holds [protocol.md section 1]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("xx\n" + below + "yyyyyyyyyyyyyyyyyyyy [protocol.md section 1] slow\n"),
            std::string::npos)
      << text;
}

TEST_F(BaselineTest, IsWrittenReadAndRenewed) {
  Baseline first = make_baseline("someone", results(), nullptr);
  first.hazards.insert("C002-a-quirk");
  EXPECT_EQ(first.seen.size(), 2U);
  ASSERT_EQ(save_baseline(file, first), 0);
  const auto read = load_baseline(file);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->peer, "someone");
  EXPECT_EQ(read->seen, first.seen);
  EXPECT_EQ(read->hazards, first.hazards);
  const Baseline next = make_baseline("", {results()[0]}, &*read);
  EXPECT_EQ(next.peer, "someone");
  EXPECT_EQ(next.seen.size(), 1U);
}

TEST_F(BaselineTest, ErrorsNameTheFile) {
  EXPECT_NE(load_baseline("/nonexistent").error().find("/nonexistent: No such file"), std::string::npos);
  for (const char* text : {"{", "{}", "{\"schema_version\": 2}", "{\"schema_version\": 1, \"peer\": 3}"}) {
    std::ofstream(file) << text;
    const auto read = load_baseline(file);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().rfind(file + ": ", 0), 0U) << read.error();
  }
}

}  // namespace
}  // namespace rtrs::conformance::report_test
