// Every trace beside this file is a run that once failed, recorded by a core in which that is mended: it must
// be replayed without a difference. A difference is either the bug again or a change of behaviour that was
// meant; README.md says how to record a trace anew.
#include <gtest/gtest.h>

#include <set>

#include "conformance/traces/replayed.hpp"

namespace rtrs::trace::test {
namespace {

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(URTRS_TRACES)) {
    if (entry.path().extension() == ".rtrc") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Corpus, EveryTraceReplays) {
  std::uint64_t inputs = 0;
  for (const std::filesystem::path& path : corpus()) {
    const ReplayResult result = replayed(path);
    EXPECT_EQ(result.verdict, Verdict::identical) << path << ": " << story_of(result);
    EXPECT_FALSE(result.counts_only);
    EXPECT_GT(result.inputs, 10U) << path;
    inputs += result.inputs;
  }
  EXPECT_GT(inputs, 5'000U);
}

// seed-N-... is the run of seed N.
TEST(Corpus, EverySeedThatFailedHasItsTraces) {
  std::set<std::string> seeds;
  for (const std::filesystem::path& path : corpus()) {
    const std::string name = path.filename();
    if (name.starts_with("seed-")) seeds.insert(name.substr(5, name.find_first_not_of("0123456789", 5) - 5));
  }
  std::ifstream list(URTRS_SEEDS);
  ASSERT_TRUE(list);
  for (std::string line; std::getline(list, line);) {
    std::string seed;
    if (line.empty() || line[0] == '#' || !(std::istringstream(line) >> seed)) continue;
    EXPECT_TRUE(seeds.contains(seed)) << "no trace of seed " << seed << "; README.md says how to record it";
  }
}

}  // namespace
}  // namespace rtrs::trace::test
