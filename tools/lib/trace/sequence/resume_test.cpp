// Diagrams of traces that begin in the middle of a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/replay/test_cut.hpp"
#include "tools/lib/trace/sequence/build.hpp"

namespace rtrs::tools::sequence::resume_test {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Story story_of(const std::string& bytes) {
  const ScratchFolder folder;
  const std::string path = folder / "cut.rtrc";
  std::ofstream(path, std::ios::binary) << bytes;
  int code = 0;
  Story story = build_story({path}, {}, code);
  EXPECT_EQ(code, 0);
  return story;
}

std::size_t in_flight(const Story& story) {
  return static_cast<std::size_t>(std::count_if(story.requests.begin(), story.requests.end(),
                                                [](const Request& one) { return one.last == kNone; }));
}

std::size_t completed(const Story& story) {
  return static_cast<std::size_t>(std::count_if(story.steps.begin(), story.steps.end(), [](const Step& step) {
    return step.event == "Complete" && step.io != kNone;
  }));
}

constexpr const char* kClient = URTRS_TRACES "/seed-767-client1.rtrc";
constexpr const char* kServer = URTRS_TRACES "/seed-767-server.rtrc";

TEST(SequenceResume, SnapshotGivesDepthAndRequestsInFlight) {
  int code = 0;
  for (const char* path : {kClient, kServer}) {
    const Story whole = build_story({path}, {}, code);
    const std::uint64_t records = whole.files.front().records;
    std::size_t carried = 0;
    for (std::uint64_t from = records / 16; from < records; from += records / 16) {
      const std::string rest = trace::test::Cut(content(path), from, false).run();
      if (rest.empty()) continue;  // no input follows
      const Story story = story_of(rest);
      for (const Machine& machine : story.machines) {
        carried += machine.carried.size();
        const auto like =
            std::find_if(whole.machines.begin(), whole.machines.end(),
                         [&machine](const auto& one) { return one.instance == machine.instance; });
        if (!machine.begun || like == whole.machines.end()) continue;
        EXPECT_EQ(machine.depth, like->depth);
      }
      EXPECT_EQ(in_flight(story), in_flight(whole)) << path << " from record " << from;
    }
    EXPECT_GT(carried, 0U) << path;
  }
}

TEST(SequenceResume, RequestsOfADumpEnd) {
  int code = 0;
  const Story whole = build_story({kClient}, {}, code);
  const std::uint64_t half = whole.files.front().records / 2;
  const Story file = story_of(trace::test::Cut(content(kClient), half, false).run());
  const Story dump = story_of(trace::test::Cut(content(kClient), half, true).run());
  EXPECT_EQ(in_flight(dump), in_flight(whole));
  EXPECT_EQ(completed(dump), completed(file));
}

}  // namespace
}  // namespace rtrs::tools::sequence::resume_test
