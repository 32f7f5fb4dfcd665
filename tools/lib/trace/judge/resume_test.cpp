// Traces that begin in the middle of a run, with snapshots.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/replay/test_cut.hpp"

namespace rtrs::trace::resume_test {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TraceCheck check(std::string_view bytes) {
  MemorySource source(bytes);
  return check_trace(source);
}

std::string words(const TraceCheck& result) {
  std::string text;
  for (const spec::Finding& finding : result.findings)
    text += "record " + std::to_string(finding.seq) + ' ' + std::string(spec::info_of(finding.rule).id) +
            ": " + finding.seen + "; allowed: " + finding.allowed + '\n';
  for (const std::string& doubt : result.doubts) text += doubt + '\n';
  return text;
}

std::vector<std::filesystem::path> traces() {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(URTRS_TRACES))
    if (entry.path().extension() == ".rtrc") all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

// A run that conforms from its beginning conforms from every snapshot on.
TEST(Resume, NoSnapshotMakesAConformingRunViolateARule) {
  std::uint64_t cuts = 0, judged = 0;
  for (const std::filesystem::path& path : traces()) {
    const std::string whole = content(path);
    const TraceCheck all = check(whole);
    if (all.violations != 0 || all.coverage.machines == 0) continue;
    constexpr std::uint64_t kCuts = 64;
    for (std::uint64_t cut = 1; cut < kCuts; ++cut) {
      const std::uint64_t from = all.records * cut / kCuts;
      const std::string rest = test::Cut(whole, from, false).run();
      if (rest.empty()) continue;
      const TraceCheck result = check(rest);
      EXPECT_EQ(result.violations, 0U) << path << " from record " << from << '\n' << words(result);
      EXPECT_EQ(result.wire.unplaced, 0U) << path << " from record " << from;
      ++cuts;
      judged += result.coverage.resumed;
    }
  }
  EXPECT_GT(cuts, 500U);
  EXPECT_GT(judged, 500U);
}

TEST(Resume, DumpIsJudgedByTheActionsOfThisCore) {
  std::uint64_t dumps = 0;
  for (const std::filesystem::path& path : traces()) {
    const std::string whole = content(path);
    const TraceCheck all = check(whole);
    if (all.violations != 0 || all.coverage.machines == 0) continue;
    const std::string dump = test::Cut(whole, all.records / 2, true).run();
    if (dump.empty()) continue;
    const TraceCheck result = check(dump);
    EXPECT_EQ(result.violations, 0U) << path << '\n' << words(result);
    EXPECT_EQ(result.difference, "") << path;
    if (result.coverage.events != 0) ++dumps;
  }
  EXPECT_GT(dumps, 10U);
}

}  // namespace
}  // namespace rtrs::trace::resume_test
