// Tests minimizing handwritten runs. "This core" is the protocol core of this build.
#include "tools/lib/trace/minimize/minimize.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>

#include "core/proto/client_session.hpp"
#include "core/record/recorder.hpp"
#include "core/wire/imm.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/minimize/last_step.hpp"
#include "tools/lib/trace/minimize/test_files.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::tools::minimize_test {
namespace {

class MinimizeTest : public ::testing::Test {
 protected:
  const ScratchFolder folder;
  const std::string directory = folder.path().string();
};

// A recorded client with two paths and several requests.
class Conversation {
 public:
  explicit Conversation(const std::string& file) : machine_(config()) {
    recorder_.open_file(file.c_str(), {"test", "client", "none", 0, {}});
    recorder_.begin(1, 1, MachineKind::client_session, config());
  }
  ~Conversation() { recorder_.close_file(); }

  static ClientConfig config() {
    ClientConfig config;
    config.con_num = 2;
    return config;
  }
  template <class Input>
  void feed(Input input) {
    step(input);
    recorder_.actions(1, actions_);
  }
  // Records the input as the other core would record it. The other core takes no Complete actions.
  template <class Input>
  void feed_without_completions(Input input) {
    step(input);
    ClientActions other;
    for (const ClientAction& action : actions_)
      if (!std::holds_alternative<Complete>(action)) other.push(action);
    recorder_.actions(1, other);
  }
  void connect(std::uint16_t path, std::uint32_t epoch) {
    for (std::uint16_t con = 0; con < 2; ++con) feed(Connected{0, {path, con, epoch}, 126976, 4096, 0, 8});
    feed(InfoAccepted{0, {path, 0, epoch}});
  }
  void request(std::uint16_t path, std::uint32_t epoch) { feed(submitted(path, epoch)); }
  // Submits a request and returns its response.
  ImmReceived submitted(std::uint16_t path, std::uint32_t epoch) {
    const std::uint16_t permit = machine_.next_permit();
    feed(Submitted{0, permit, Direction::write, false, false, 0, 512, 0});
    return ImmReceived{0, {path, 1, epoch}, wire::encode_io_rsp(wire::ImmType::io_rsp, permit, 0)};
  }

 private:
  template <class Input>
  void step(Input& input) {
    input.now = ++now_;
    recorder_.input(1, input);
    actions_.clear();
    machine_.on(input, actions_);
  }

  Recorder recorder_;
  ClientSession machine_;
  ClientActions actions_;
  Nanos now_ = 1;
};

void converse(Conversation& talk) {
  talk.feed(PathAdded{0, 0});
  talk.connect(0, 1);
  for (int i = 0; i < 20; ++i) talk.request(0, 1);
  talk.feed(ConnectionLost{0, {0, 1, 1}, Reason::transport_error});
  for (std::uint16_t con = 0; con < 2; ++con) talk.feed(ConnectionClosed{0, {0, con, 1}});
  talk.feed(PathReconnectRequested{0, 0});
  talk.connect(0, 2);
  for (int i = 0; i < 3; ++i) talk.request(0, 2);
}

void record(const std::string& file) {
  Conversation talk(file);
  converse(talk);
}

TEST_F(MinimizeTest, CompleteRunIsWrittenUnchanged) {
  record(directory + "/a.rtrc");
  const LoadedTrace trace = load(directory + "/a.rtrc");
  ASSERT_EQ(trace.machines.size(), 1u);
  std::vector<std::uint32_t> all(trace.machines[0].size());
  std::iota(all.begin(), all.end(), 0U);
  const Written written = write_run(trace.machines[0], all, directory + "/b.rtrc");
  EXPECT_EQ(written.error, 0);
  EXPECT_EQ(written.broken, nullptr);
  const auto first = replayed(directory + "/a.rtrc");
  const auto second = replayed(directory + "/b.rtrc");
  EXPECT_EQ(second.verdict, trace::Verdict::identical);
  EXPECT_EQ(second.inputs, first.inputs);
  EXPECT_EQ(second.actions, first.actions);
}

// If the first incarnation is left out, the second connection attempt becomes the first one, and its requests
// must still be possible.
TEST_F(MinimizeTest, IdentifiersAreAdaptedWhenInputsAreRemoved) {
  record(directory + "/a.rtrc");
  const LoadedTrace trace = load(directory + "/a.rtrc");
  const MachineTrace& machine = trace.machines.at(0);
  const auto total = static_cast<std::uint32_t>(machine.size());
  std::vector<std::uint32_t> kept{0};
  for (std::uint32_t input = total - 9; input < total; ++input) kept.push_back(input);  // connect, 3 requests
  const Written written = write_run(machine, kept, directory + "/b.rtrc");
  EXPECT_EQ(written.error, 0);
  const auto result = replayed(directory + "/b.rtrc");
  EXPECT_EQ(result.verdict, trace::Verdict::identical);
  EXPECT_EQ(result.inputs, 10u) << "nothing became impossible";
}

TEST_F(MinimizeTest, InputsThatBecomeImpossibleAreRemoved) {
  record(directory + "/a.rtrc");
  const LoadedTrace trace = load(directory + "/a.rtrc");
  const MachineTrace& machine = trace.machines.at(0);
  std::vector<std::uint32_t> kept(machine.size() - 1);
  std::iota(kept.begin(), kept.end(), 1U);  // leaves out PathAdded, which is input 0
  write_run(machine, kept, directory + "/b.rtrc");
  const auto result = replayed(directory + "/b.rtrc");
  EXPECT_EQ(result.verdict, trace::Verdict::identical);
  EXPECT_EQ(result.inputs, 1u) << "only the operator's path request is still possible";
}

TEST_F(MinimizeTest, PassingRunIsNotMinimized) {
  record(directory + "/a.rtrc");
  MinimizeOptions options;
  options.directory = directory;
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  EXPECT_FALSE(result.fails);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.runs, 2u) << "run again, and its records judged";
}

TEST_F(MinimizeTest, DifferentStepIsKeptAsRecorded) {
  {
    Conversation talk(directory + "/a.rtrc");
    converse(talk);
    const ImmReceived response = talk.submitted(0, 2);
    talk.feed_without_completions(response);
  }
  MinimizeOptions options;
  options.directory = directory;
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  ASSERT_TRUE(result.fails) << result.error;
  EXPECT_TRUE(result.recorded);
  EXPECT_TRUE(result.complete);
  EXPECT_NE(result.failure.find("this core: Complete"), std::string::npos) << result.failure;
  EXPECT_NE(result.failure.find("complete-at-response"), std::string::npos) << result.failure;
  EXPECT_EQ(result.inputs, 6u) << "add, connect twice, INFO, submit, response";
  const auto replay = replayed(result.file);
  EXPECT_EQ(replay.verdict, trace::Verdict::diverged);
  EXPECT_EQ(replay.divergence.rerun.substr(0, 8), "Complete");
}

TEST_F(MinimizeTest, FailureIsWrittenUnshortenedWhenTimeRunsOut) {
  {
    Conversation talk(directory + "/a.rtrc");
    converse(talk);
    const ImmReceived response = talk.submitted(0, 2);
    talk.feed_without_completions(response);
  }
  MinimizeOptions options;
  options.directory = directory;
  options.looks = MinimizeOptions::Looks::replay;
  options.seconds = 0;
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  ASSERT_TRUE(result.fails) << result.error;
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.runs, 0u) << "no time to try removing inputs";
  EXPECT_EQ(result.inputs, result.inputs_before);
  EXPECT_EQ(replayed(result.file).verdict, trace::Verdict::diverged);
}

TEST_F(MinimizeTest, SearchForTheDifferentStepEndsWhenTimeRunsOut) {
  {
    Conversation talk(directory + "/a.rtrc");
    talk.feed(PathAdded{0, 0});
    talk.connect(0, 1);
    for (int i = 0; i < 200; ++i) {
      const ImmReceived response = talk.submitted(0, 1);
      talk.feed(response);
    }
  }
  const MachineTrace machine = load(directory + "/a.rtrc").machines.at(0);
  EXPECT_FALSE(LastStep(machine).out_of_time());
  unsigned looks = 0;
  EXPECT_TRUE(LastStep(machine, [&looks] { return ++looks == 1; }).out_of_time());
  EXPECT_EQ(looks, 1u);
  MinimizeOptions options;
  options.directory = directory;
  options.looks = MinimizeOptions::Looks::replay;
  options.seconds = 0;
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  EXPECT_FALSE(result.fails);
  EXPECT_NE(result.error.find("time ran out"), std::string::npos) << result.error;
}

TEST_F(MinimizeTest, MarksAreKeptInOrder) {
  record(directory + "/a.rtrc");
  MinimizeOptions options;
  options.directory = directory;
  options.hashes = true;
  options.judge = judge_by_marks({"ConnectionLost reason=transport_error", "Complete result=ok"});
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  ASSERT_TRUE(result.fails) << result.error;
  EXPECT_FALSE(result.recorded);
  const auto replay = replayed(result.file);
  EXPECT_EQ(replay.verdict, trace::Verdict::identical);
  EXPECT_EQ(replay.state_hashes, replay.inputs);
  // The first incarnation is lost and the request is sent over the second one. The minimized run does not
  // need the drain.
  EXPECT_LE(result.inputs, 13u);
  EXPECT_GE(result.inputs, 11u);
}

TEST_F(MinimizeTest, MissingMarkIsNoFailure) {
  record(directory + "/a.rtrc");
  MinimizeOptions options;
  options.directory = directory;
  options.judge = judge_by_marks({"FailedOver"});
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  EXPECT_FALSE(result.fails);
  EXPECT_EQ(result.runs, 1u);
}

// The fake reference build always reports the same difference at the same place.
TEST_F(MinimizeTest, InputsUnrelatedToTheDifferenceAreRemoved) {
  record(directory + "/a.rtrc");
  const std::string script = directory + "/reference";
  FILE* file = std::fopen(script.c_str(), "w");
  // The reported difference is a request on the second incarnation: a PostRequest with epoch 2.
  std::fputs(
      "#!/bin/sh\n"
      "n=$(" URTRS_REPLAY
      " cat --json \"$3\" | grep -n '\"PostRequest\"' | grep '\"key.epoch\":2\\|epoch.:2' | "
      "head -1 | cut -d: -f1)\n"
      "if [ -n \"$n\" ]; then echo '{\"verdict\":\"diverged\",\"divergence\":{\"input_record\":'$((n-3))',"
      "\"recorded\":\"PostRequest x\",\"rerun\":\"nothing\"}}'; else echo '{\"verdict\":\"identical\"}'; "
      "fi\n",
      file);
  std::fclose(file);
  MinimizeOptions options;
  options.directory = directory;
  options.judge = judge_by_reference("sh " + script);
  const Minimized result = minimize(bytes_of(directory + "/a.rtrc"), options);
  ASSERT_TRUE(result.fails) << result.error;
  EXPECT_EQ(result.failure, "this core: PostRequest, the reference: nothing");
  // Expected inputs: add, connect, lose, close, reconnect, connect, submit.
  EXPECT_LE(result.inputs, 12u);
  EXPECT_GE(result.inputs, 9u);
}

}  // namespace
}  // namespace rtrs::tools::minimize_test
