// Stories that hold only some steps, as those of long traces do.
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/page.hpp"

namespace rtrs::tools::sequence::part_test {
namespace {

const std::vector<std::string> kFiles = {URTRS_TRACES "/seed-767-client1.rtrc",
                                         URTRS_TRACES "/seed-767-client2.rtrc",
                                         URTRS_TRACES "/seed-767-server.rtrc"};

TEST(SequencePart, PageOfSomeStepsEqualsPageOfAll) {
  int code = 0;
  trace::RunSummary summary;
  const StoryReader reader(kFiles, {{2, 8, "too late"}}, code, &summary);
  ASSERT_EQ(code, 0);
  const Story whole = reader.read({true, {}});
  const std::size_t all = reader.steps();
  ASSERT_EQ(whole.steps.held(), all);
  PageContent content;
  content.facts.summary = &summary;
  for (std::size_t part = 2; part < 7; ++part) {
    content.ranges = {{all / part, all / part + 20}, {all - all / part, all - all / part + 50}};
    const Story some = reader.read(steps_of_page(content.ranges, whole));
    EXPECT_LT(some.steps.held(), 80U);
    EXPECT_LT(some.requests.size(), 120U);
    ASSERT_EQ(story_json(some, content), story_json(whole, content)) << part;
  }
}

TEST(SequencePart, OrderIsTheSameWithAndWithoutDetails) {
  int code = 0;
  const StoryReader reader(kFiles, {}, code);
  const Story whole = reader.read({true, {}});
  std::size_t steps = 0;
  reader.order([&](const Step& step, std::size_t number) {
    EXPECT_EQ(number, steps++);
    EXPECT_EQ(step.file, whole.steps[number].file);
    EXPECT_EQ(step.record, whole.steps[number].record);
    EXPECT_EQ(step.at, whole.steps[number].at);
    return true;
  });
  EXPECT_EQ(steps, whole.steps.size());
}

// Between the survey and the next pass, another program replaces the server's trace, or writes into it.
TEST(SequencePart, FileThatIsReplacedMeanwhileIsReadAsItWas) {
  const ScratchFolder folder;
  const std::string server = folder / "server";
  std::filesystem::copy_file(kFiles[2], server);
  int code = 0;
  const StoryReader reader({kFiles[0], server}, {}, code);
  std::filesystem::copy_file(kFiles[1], folder / "other");
  std::filesystem::rename(folder / "other", server);
  EXPECT_EQ(reader.read({true, {}}).steps.held(), reader.steps());
}

TEST(SequencePart, FileThatIsOverwrittenMeanwhileDoesNoHarm) {
  const ScratchFolder folder;
  const std::string client = folder / "client";
  std::filesystem::copy_file(kFiles[0], client);
  int code = 0;
  const StoryReader reader({client}, {}, code);
  std::filesystem::copy_file(kFiles[2], client, std::filesystem::copy_options::overwrite_existing);
  EXPECT_LE(reader.read({true, {}}).steps.held(), reader.steps() * 4);
}

}  // namespace
}  // namespace rtrs::tools::sequence::part_test
