// Shorter runs of block devices: out of traces of simulated worlds, against this core.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "sim/cluster/world.hpp"
#include "tools/lib/minimize/minimize.hpp"
#include "tools/lib/testing/scratch_folder.hpp"
#include "tools/lib/trace/replay.hpp"
#include "tools/lib/trace/replay_machines.hpp"

namespace rtrs::tools {
namespace {

std::string whole(const std::string& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

trace::ReplayResult replay_of(const std::string& file) {
  FILE* opened = std::fopen(file.c_str(), "rb");
  trace::FdSource source(fileno(opened));
  auto result = trace::replay(source, trace::core_machines());
  std::fclose(opened);
  return result;
}

class DevicesMinimizeTest : public ::testing::Test {
 protected:
  // Of the first seed whose client or server (`side`) has devices with a run long enough to be thinned out.
  template <class Devices>
  MachineTrace recorded(const std::string& side) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      sim::WorldOptions options;
      options.seed = seed;
      options.trace = directory + "/run";
      EXPECT_FALSE(sim::run_seed(options).failed);
      file = options.trace + side;
      FILE* opened = std::fopen(file.c_str(), "rb");
      trace::FdSource source(fileno(opened));
      auto loaded = load_machines(source);
      std::fclose(opened);
      if (!loaded) continue;
      for (const MachineTrace& machine : loaded->machines)
        if (std::holds_alternative<Devices>(machine.machine) && machine.size() >= 40) return machine;
    }
    ADD_FAILURE() << "no seed has such devices";
    return {};
  }
  // Leaves inputs out in many ways: what is left has to be a run of this core.
  void thin_out(const MachineTrace& machine) {
    std::vector<std::uint32_t> all(machine.size());
    std::iota(all.begin(), all.end(), 0U);
    const std::string out = directory + "/thin.rtrc";
    ASSERT_EQ(write_run(machine, all, out).error, 0);
    EXPECT_EQ(replay_of(out).verdict, trace::Verdict::identical);
    EXPECT_EQ(replay_of(out).inputs, machine.size()) << "nothing is impossible in the whole run";
    std::uint64_t left = 0;
    for (std::uint32_t round = 0; round < 40; ++round) {
      std::vector<std::uint32_t> kept;
      for (const std::uint32_t input : all)
        if ((input * 2654435761U >> 16) % 8 > round % 7 || input % 40 == round) kept.push_back(input);
      const Written written = write_run(machine, kept, out);
      EXPECT_EQ(written.broken, nullptr) << "round " << round;
      const auto replay = replay_of(out);
      EXPECT_EQ(replay.verdict, trace::Verdict::identical) << "round " << round;
      left += replay.inputs;
    }
    EXPECT_GT(left, 0U);
  }
  // The run up to `last`, whose actions another core answered with `actions`.
  Minimized minimised(const MachineTrace& machine, std::uint32_t last, const RecordedActions& actions) {
    std::vector<std::uint32_t> kept(last + 1);
    std::iota(kept.begin(), kept.end(), 0U);
    RunOptions run;
    run.last_actions = &actions;
    const std::string out = directory + "/other.rtrc";
    EXPECT_EQ(write_run(machine, kept, out, run).error, 0);
    MinimizeOptions options;
    options.directory = directory;
    options.looks = MinimizeOptions::Looks::replay;
    return minimize(whole(out), options);
  }

  const trace::ScratchFolder folder;
  const std::string directory = folder.path().string();
  std::string file;
};

template <class Inputs>
auto actions_of(const Inputs& trace, std::uint32_t input) {
  const std::size_t begin = trace.metas[input].first_action;
  const std::size_t end =
      input + 1 < trace.metas.size() ? trace.metas[input + 1].first_action : trace.actions.size();
  using Actions = std::remove_cvref_t<decltype(trace.actions)>;
  return Actions(trace.actions.begin() + static_cast<std::ptrdiff_t>(begin),
                 trace.actions.begin() + static_cast<std::ptrdiff_t>(end));
}

TEST_F(DevicesMinimizeTest, AnyPartOfAClientsRunIsARunOfItsDevices) {
  thin_out(recorded<ClientDevicesInputs>(".client1.rtrc"));
}

TEST_F(DevicesMinimizeTest, AnyPartOfAServersRunIsARunOfItsDevices) {
  thin_out(recorded<ServerDevicesInputs>(".server.rtrc"));
}

// A client that loses an IO which ended well.
TEST_F(DevicesMinimizeTest, AnIoOfAClientThatAnotherCoreJudgedNeedsItsDeviceOnly) {
  const MachineTrace machine = recorded<ClientDevicesInputs>(".client1.rtrc");
  const auto& trace = std::get<ClientDevicesInputs>(machine.machine);
  for (auto last = static_cast<std::uint32_t>(trace.inputs.size()); last-- > 30;) {
    auto actions = actions_of(trace, last);
    if (actions.size() != 1 || event_if<trace::IoJudged>(actions[0]) == nullptr) continue;
    if (event_if<trace::IoJudged>(actions[0])->disposition != rnbd::Disposition::ok) continue;
    actions[0] = trace::IoJudged{rnbd::Disposition::lost};
    const Minimized result = minimised(machine, last, actions);
    ASSERT_TRUE(result.fails) << result.error;
    EXPECT_TRUE(result.recorded);
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(result.failure, "recorded: IoJudged, this core: IoJudged");
    EXPECT_EQ(result.inputs, 6U) << "the link, SESS_INFO, the device, OPEN, the IO and its end";
    EXPECT_EQ(replay_of(result.file).verdict, trace::Verdict::diverged);
    return;
  }
  FAIL() << "no IO of the trace ended well";
}

// A server that answers another request than the one whose storage is done.
TEST_F(DevicesMinimizeTest, AnAnswerOfAServerThatIsMissingNeedsItsRequestsOnly) {
  const MachineTrace machine = recorded<ServerDevicesInputs>(".server.rtrc");
  const auto& trace = std::get<ServerDevicesInputs>(machine.machine);
  for (auto last = static_cast<std::uint32_t>(trace.inputs.size()); last-- > 30;) {
    auto actions = actions_of(trace, last);
    if (event_if<trace::StorageDone>(trace.inputs[last]) == nullptr || actions.size() != 1 ||
        event_if<trace::Respond>(actions[0]) == nullptr)
      continue;
    actions.clear();
    const Minimized result = minimised(machine, last, actions);
    ASSERT_TRUE(result.fails) << result.error;
    EXPECT_TRUE(result.recorded);
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(result.failure, "recorded: nothing, this core: Respond");
    EXPECT_LE(result.inputs, 5U) << "SESS_INFO, OPEN, the export, the IO and its end";
    EXPECT_GE(result.inputs, 4U);
    EXPECT_EQ(replay_of(result.file).verdict, trace::Verdict::diverged);
    return;
  }
  FAIL() << "no IO of the trace was answered";
}

// Marks are looked for in the trace of the devices, too.
TEST_F(DevicesMinimizeTest, MarksOfDevicesAreKeptInTheirOrder) {
  recorded<ClientDevicesInputs>(".client1.rtrc");
  MinimizeOptions options;
  options.directory = directory;
  options.judge = judge_by_marks({"SendMessage kind=open", "IoJudged disposition=ok"});
  const Minimized result = minimize(whole(file), options);
  ASSERT_TRUE(result.fails) << result.error;
  EXPECT_EQ(replay_of(result.file).verdict, trace::Verdict::identical);
  EXPECT_EQ(result.inputs, 6U) << "the link, SESS_INFO, the device, OPEN, the IO and its end";
}

}  // namespace
}  // namespace rtrs::tools
