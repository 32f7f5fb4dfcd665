// Runs the program and checks its output and exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/proto/client_session.hpp"
#include "core/record/format.hpp"
#include "core/record/recorder.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::replay_tool::tool_test {
namespace {

struct Outcome {
  int code = -1;
  std::string text;  // combined stdout and stderr
};

class ToolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(folder_.path().empty());
    record();
  }

  // Runs the program in the folder of the traces. `arguments` may contain shell redirections.
  Outcome run(const std::string& arguments) const {
    return shell(std::string(URTRS_REPLAY) + ' ' + arguments);
  }
  Outcome shell(const std::string& command) const {
    Outcome outcome;
    const std::string whole = "cd '" + folder_.path().string() + "' && { " + command + "; } 2>&1";
    std::FILE* pipe = ::popen(whole.c_str(), "r");
    char buffer[4096];
    for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) != 0;)
      outcome.text.append(buffer, got);
    const int status = ::pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }
  std::string path(const char* name) const { return folder_ / name; }

 private:
  // Writes two traces. good.rtrc: a path fails to connect several times. ring.rtrc: contains only the last
  // records of this run.
  void record() {
    ClientConfig config;
    config.seed = 5;
    Recorder recorder(16);
    ASSERT_EQ(recorder.open_file(path("good.rtrc").c_str(), {"tool_test", "client", "none", 5, {"paths=1"}}),
              0);
    recorder.begin(0, 1, MachineKind::client_session, config);
    ClientSession session(config);
    ClientActions actions;
    const auto feed = [&](const auto& in) {
      recorder.input(1, in);
      actions.clear();
      session.on(in, actions);
      recorder.actions(1, actions);
    };
    feed(PathAdded{10, 0});
    for (int i = 0; i < 30; ++i) {
      recorder.state(1, session.fingerprint());
      feed(DeadlineReached{session.next_deadline() == kNever ? 1000 : session.next_deadline()});
    }
    ASSERT_EQ(recorder.close_file(), 0);
    ASSERT_EQ(recorder.dump_ring(path("ring.rtrc").c_str(), {}), 0);
  }
  const tools::ScratchFolder folder_;
};

bool has(const Outcome& outcome, const std::string& text) {
  return outcome.text.find(text) != std::string::npos;
}

TEST_F(ToolTest, ReplayOfAGoodTraceIsIdentical) {
  const Outcome outcome = run("replay good.rtrc");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome, "identical: ")) << outcome.text;
  EXPECT_TRUE(has(run("replay good.rtrc --json"), "\"verdict\":\"identical\""));
  EXPECT_EQ(run("replay - < good.rtrc").code, 0);
}

TEST_F(ToolTest, CatShowsEvents) {
  const Outcome outcome = run("cat good.rtrc");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome,
                  "# trace 1.3, times: seconds since the start of the run, tool tool_test, role client, "
                  "backend none, seed 5, paths=1\n"));
  EXPECT_TRUE(has(outcome, "         0.000000010  #1   > PathAdded                path=0\n")) << outcome.text;
  EXPECT_TRUE(has(outcome, "< Connect ")) << outcome.text;
  EXPECT_EQ(shell(std::string(URTRS_REPLAY) + " cat good.rtrc --last 3 | wc -l").text, "4\n");
  EXPECT_EQ(shell(std::string(URTRS_REPLAY) + " cat good.rtrc --instance 2 --json | wc -l").text, "0\n");
}

TEST_F(ToolTest, JsonRoundTrip) {
  EXPECT_EQ(run("cat good.rtrc --json > good.jsonl").code, 0);
  const Outcome outcome = run("from-json good.jsonl again.rtrc");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(shell("cmp good.rtrc again.rtrc").code, 0);
}

TEST_F(ToolTest, DivergenceIsShown) {
  EXPECT_EQ(run("cat good.rtrc --json | sed 's/\"cid_num\":3/\"cid_num\":4/; /\"end\"/d' > other.jsonl").code,
            0);
  EXPECT_EQ(run("from-json other.jsonl other.rtrc").code, 0);
  const Outcome outcome = run("replay other.rtrc");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome, "first divergence: record 2, 0.000000010 s, instance 1, in answer to record 1\n"))
      << outcome.text;
  EXPECT_TRUE(has(outcome, "recorded: Connect key.path=0 key.con=0 key.epoch=1 cid_num=4 ")) << outcome.text;
  EXPECT_TRUE(has(outcome, "re-run:   Connect key.path=0 key.con=0 key.epoch=1 cid_num=3 ")) << outcome.text;
  EXPECT_TRUE(has(outcome, "before it:\n  0 "));
}

TEST_F(ToolTest, DamagedTracesExitWithFive) {
  ASSERT_EQ(shell("head -c -7 good.rtrc > cut.rtrc").code, 0);
  for (const char* command : {"cat", "stat", "replay"}) {
    const Outcome outcome = run(std::string(command) + " cut.rtrc");
    EXPECT_EQ(outcome.code, 5);
    EXPECT_TRUE(has(outcome, "cut.rtrc, byte ")) << outcome.text;
    EXPECT_TRUE(has(outcome, "the file ends inside the trailer")) << outcome.text;
  }
}

TEST_F(ToolTest, UnreplayableTracesExitWithThree) {
  const Outcome ring = run("replay ring.rtrc");
  EXPECT_EQ(ring.code, 3);
  EXPECT_TRUE(has(ring, "begins in the middle of a run")) << ring.text;
  EXPECT_EQ(run("cat ring.rtrc").code, 0);
  ASSERT_EQ(shell("echo hello, world > text").code, 0);
  for (const char* command : {"cat", "stat", "replay"}) {
    const Outcome outcome = run(std::string(command) + " text");
    EXPECT_EQ(outcome.code, 3);
    EXPECT_TRUE(has(outcome, "the file is not a trace")) << outcome.text;
  }
  ASSERT_EQ(shell("{ head -c 8 good.rtrc; printf '\\011'; tail -c +10 good.rtrc; } > later.rtrc").code, 0);
  const Outcome later = run("cat later.rtrc");
  EXPECT_EQ(later.code, 3);
  const std::string words = "the format is version 9." + std::to_string(trace::kMinor);
  EXPECT_TRUE(has(later, words + ", this program reads version 1")) << later.text;
}

TEST_F(ToolTest, StatCountsEvents) {
  const Outcome outcome = run("stat good.rtrc");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome, "end             complete\n")) << outcome.text;
  EXPECT_TRUE(has(outcome, "            30  DeadlineReached\n")) << outcome.text;
  EXPECT_TRUE(has(run("stat good.rtrc --json"), "\"DeadlineReached\":30"));
  EXPECT_TRUE(has(run("stat ring.rtrc"), "beginning       missing\n"));
}

TEST_F(ToolTest, UsageErrorsExitWithTwo) {
  const Outcome typo = run("replai good.rtrc");
  EXPECT_EQ(typo.code, 2);
  EXPECT_TRUE(has(typo, "unknown command 'replai'; did you mean 'replay'?")) << typo.text;
  EXPECT_TRUE(has(run("frobnicate"), "the commands are cat, "));
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("cat").code, 2);
  EXPECT_EQ(run("cat good.rtrc --last x").code, 2);
  EXPECT_EQ(run("cat good.rtrc --nonsense").code, 2);
  const Outcome missing = run("cat missing.rtrc");
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(has(missing, "cannot open missing.rtrc: No such file or directory")) << missing.text;
}

TEST_F(ToolTest, HelpOfEachCommandHasExamples) {
  for (const char* command : {"", "cat ", "replay ", "stat ", "from-json "}) {
    const Outcome outcome = run(std::string(command) + "--help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(has(outcome, "Example")) << outcome.text;
    EXPECT_TRUE(has(outcome, "urtrs-replay ")) << outcome.text;
  }
}

TEST_F(ToolTest, ReaderThatExitsIsNoError) {
  // The output is large enough to fill the pipe when the reader exits after one line.
  const Outcome outcome = shell("for i in 1 2 3 4 5 6 7 8 9; do " + std::string(URTRS_REPLAY) +
                                " cat good.rtrc --json || echo failed; done | head -n 1 | cut -c 1-9");
  EXPECT_EQ(outcome.text, "{\"trace\":\n");
}

TEST_F(ToolTest, FullOutputIsAnError) {
  const Outcome outcome = run("cat good.rtrc > /dev/full");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome, "cannot write to standard output: No space left on device")) << outcome.text;
}

}  // namespace
}  // namespace rtrs::replay_tool::tool_test
