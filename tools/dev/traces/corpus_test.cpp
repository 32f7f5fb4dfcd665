// Replays every trace in this folder. Each trace covers a former bug and was recorded with the fixed core, so
// the replay must not differ. If it differs, the bug is back, or the behaviour was changed on purpose.
// README.md says how to record a trace again.
#include <gtest/gtest.h>

#include <set>

#include "tools/dev/traces/replayed.hpp"

namespace rtrs::trace_corpus::corpus_test {
namespace {

std::vector<std::filesystem::path> traces_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".rtrc") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}
std::vector<std::filesystem::path> corpus() {
  return traces_in(URTRS_TRACES);
}

TEST(Corpus, EveryTraceReplays) {
  EXPECT_GE(corpus().size(), 9U);
  for (const std::filesystem::path& path : corpus()) {
    const trace::ReplayResult result = replayed(path);
    EXPECT_EQ(result.verdict, trace::Verdict::identical) << path << ": " << story_of(result);
    EXPECT_FALSE(result.counts_only);
    EXPECT_GT(result.inputs, 0U) << path;
    EXPECT_EQ(result.state_hashes, result.inputs) << path << ": the state after every input";
  }
}

TEST(Corpus, EveryWholeRunReplays) {
  std::uint64_t inputs = 0;
  for (const std::filesystem::path& path : traces_in(URTRS_TRACES "/whole")) {
    const trace::ReplayResult result = replayed(path);
    EXPECT_EQ(result.verdict, trace::Verdict::identical) << path << ": " << story_of(result);
    inputs += result.inputs;
  }
  EXPECT_GT(inputs, 3'000U);
}

TEST(Corpus, EveryTraceIsInTheReadme) {
  std::ostringstream readme;
  readme << std::ifstream(std::string(URTRS_TRACES) + "/README.md").rdbuf();
  for (const std::filesystem::path& path : corpus())
    EXPECT_NE(readme.str().find(path.filename().string()), std::string::npos) << path;
}

// A file seed-N-... must exist for each seed N that once failed.
TEST(Corpus, EveryFormerlyFailingSeedHasATrace) {
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
}  // namespace rtrs::trace_corpus::corpus_test
