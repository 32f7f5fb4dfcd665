// Tests minimizing traces of block devices from simulated worlds. Below, "this core" is the protocol core of
// this build, and "the other core" is the core that made the recording and behaves differently.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "sim/scenarios/scenario_text.hpp"
#include "sim/world/world.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/minimize/minimize.hpp"
#include "tools/lib/trace/minimize/test_files.hpp"

namespace rtrs::tools::devices_minimize_test {
namespace {

class DevicesMinimizeTest : public ::testing::Test {
 protected:
  // Returns the trace of the first seed whose client or server (`side`) has a device state machine with
  // enough inputs and successful IO. `wanted`: additional condition.
  template <class Devices>
  MachineTrace recorded(const std::string& side, bool (*wanted)(const Devices&) = nullptr) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      sim::WorldOptions options;
      options.seed = seed;
      options.trace = directory + "/run";
      EXPECT_FALSE(sim::run_seed(options).failed);
      file = options.trace + side;
      for (const MachineTrace& machine : load(file).machines)
        if (const auto* one = std::get_if<Devices>(&machine.machine))
          if (machine.size() >= 40 && (wanted == nullptr || wanted(*one))) return machine;
    }
    ADD_FAILURE() << "no seed has such devices";
    return {};
  }
  static bool ten_succeeded(const ClientDevicesInputs& devices) {
    return std::count_if(devices.actions.begin(), devices.actions.end(), [](const auto& action) {
             const auto* judged = event_if<trace::IoJudged>(action);
             return judged != nullptr && judged->disposition == rnbd::Disposition::ok;
           }) >= 10;
  }
  // Returns a trace from a world with two disks and without faults, so that a short run is easy to find.
  // `wanted`: additional condition.
  template <class Devices>
  MachineTrace recorded_without_faults(const std::string& side, bool (*wanted)(const Devices&) = nullptr) {
    sim::Setups setups;
    std::string why;
    const auto directed = sim::parse_scenarios(
        "scenario X\ntitle X\ndisks a b\nopen a\nopen b\n"
        "repeat number=4\nload a number=12\nload b number=12\nend\nover\n",
        setups, why);
    EXPECT_TRUE(directed.has_value()) << why;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      sim::SeededChoice choice(seed);
      const sim::Scenario scenario = sim::world_of(directed->front(), choice);
      sim::WorldOptions options;
      options.seed = seed;
      options.scenario = &scenario;
      options.trace = directory + "/run";
      EXPECT_FALSE(sim::run_seed(options).failed);
      file = options.trace + side;
      for (const MachineTrace& machine : load(file).machines)
        if (const auto* one = std::get_if<Devices>(&machine.machine))
          if (machine.size() >= 40 && (wanted == nullptr || wanted(*one))) return machine;
    }
    ADD_FAILURE() << "no seed has such devices";
    return {};
  }
  // Leaves out inputs in many ways. Each shortened run must replay without a difference.
  void thin_out(const MachineTrace& machine) {
    std::vector<std::uint32_t> all(machine.size());
    std::iota(all.begin(), all.end(), 0U);
    const std::string out = directory + "/thin.rtrc";
    ASSERT_EQ(write_run(machine, all, out).error, 0);
    EXPECT_EQ(replayed(out).verdict, trace::Verdict::identical);
    EXPECT_EQ(replayed(out).inputs, machine.size()) << "nothing is impossible in the whole run";
    std::uint64_t left = 0;
    for (std::uint32_t round = 0; round < 40; ++round) {
      std::vector<std::uint32_t> kept;
      for (const std::uint32_t input : all)
        if ((input * 2654435761U >> 16) % 8 > round % 7 || input % 40 == round) kept.push_back(input);
      const Written written = write_run(machine, kept, out);
      EXPECT_EQ(written.broken, nullptr) << "round " << round;
      const auto replay = replayed(out);
      EXPECT_EQ(replay.verdict, trace::Verdict::identical) << "round " << round;
      left += replay.inputs;
    }
    EXPECT_GT(left, 0U);
  }
  // Minimizes the run up to input `last`, for which another core recorded `actions`.
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
    return minimize(bytes_of(out), options);
  }

  const ScratchFolder folder;
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

TEST_F(DevicesMinimizeTest, AnySubsetOfClientInputsReplaysIdentically) {
  thin_out(recorded<ClientDevicesInputs>(".client1.rtrc"));
}

TEST_F(DevicesMinimizeTest, AnySubsetOfServerInputsReplaysIdentically) {
  thin_out(recorded<ServerDevicesInputs>(".server.rtrc"));
}

// The other core does not report a successful IO.
TEST_F(DevicesMinimizeTest, DifferentIoResultIsMinimizedToOneDeviceAndOneIo) {
  const MachineTrace machine = recorded<ClientDevicesInputs>(".client1.rtrc", ten_succeeded);
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
    EXPECT_EQ(result.failure,
              "recorded: IoJudged, this core: IoJudged; breaks the rule io-disposition: lost for an IO that "
              "was answered "
              "with #");
    EXPECT_EQ(result.inputs, 6U) << "the link, SESS_INFO, the device, OPEN, the IO and its end";
    EXPECT_EQ(replayed(result.file).verdict, trace::Verdict::diverged);
    return;
  }
  FAIL() << "no IO of the trace ended well";
}

// The other core, with which the trace is compared, does not answer a request whose storage operation has
// completed.
TEST_F(DevicesMinimizeTest, MissingResponseIsMinimizedToItsRequests) {
  const MachineTrace machine = recorded_without_faults<ServerDevicesInputs>(".server.rtrc");
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
    EXPECT_EQ(result.failure,
              "recorded: nothing, this core: Respond; breaks the rule device-answer: nothing is done for a "
              "request that is "
              "to be answered with #");
    EXPECT_LE(result.inputs, 5U) << "SESS_INFO, OPEN, the export, the IO and its end";
    EXPECT_GE(result.inputs, 4U);
    EXPECT_EQ(replayed(result.file).verdict, trace::Verdict::diverged);
    return;
  }
  FAIL() << "no IO of the trace was answered";
}

// The other core reports a device change twice. The extra action must have the handle of the shorter run.
TEST_F(DevicesMinimizeTest, ExtraActionHasTheDeviceHandleOfTheShorterRun) {
  constexpr auto kUsesAnotherDevice = [](const ClientDevicesInputs& devices) {
    return ten_succeeded(devices) &&
           std::any_of(devices.inputs.begin(), devices.inputs.end(), [](const auto& input) {
             const auto* io = event_if<trace::IoBegun>(input);
             return io != nullptr && io->device != 0;
           });
  };
  const MachineTrace machine = recorded<ClientDevicesInputs>(".client1.rtrc", kUsesAnotherDevice);
  const auto& trace = std::get<ClientDevicesInputs>(machine.machine);
  for (auto last = static_cast<std::uint32_t>(trace.inputs.size()); last-- > 1;) {
    const auto* io = event_if<trace::IoBegun>(trace.inputs[last]);
    if (io == nullptr || io->device == 0) continue;
    auto actions = actions_of(trace, last);
    trace::DeviceChanged again;
    again.device = io->device;
    actions.insert(actions.begin(), ClientDevicesAction(again));
    const Minimized result = minimised(machine, last, actions);
    ASSERT_TRUE(result.fails) << result.error;
    EXPECT_EQ(result.failure,
              "recorded: DeviceChanged, this core: IoStarted; breaks the rule device-state: a device becomes "
              "init from open "
              "with errno #");
    EXPECT_EQ(result.inputs, 5U) << "the device, the link, SESS_INFO, OPEN, the IO";
    const std::string recorded = replayed(result.file).divergence.recorded;
    EXPECT_EQ(recorded.substr(0, 23), "DeviceChanged device=0 ") << recorded << ", mapped first";
    return;
  }
  FAIL() << "no IO of a device that was not mapped first";
}

// A core with a bug starts an operation twice. After minimising, the second start has the operation number
// that it has in the shorter run.
TEST_F(DevicesMinimizeTest, ExtraOperationHasTheNumberOfTheShorterRun) {
  static constexpr auto kEndsBesideAnother = [](const ServerDevicesInput& input) {
    const auto* done = event_if<trace::StorageDone>(input);
    return done != nullptr && done->operation != 0;
  };
  const MachineTrace machine =
      recorded_without_faults<ServerDevicesInputs>(".server.rtrc", [](const ServerDevicesInputs& devices) {
        return std::any_of(devices.inputs.begin(), devices.inputs.end(), kEndsBesideAnother);
      });
  const auto& trace = std::get<ServerDevicesInputs>(machine.machine);
  for (auto last = static_cast<std::uint32_t>(trace.inputs.size()); last-- > 1;) {
    auto actions = actions_of(trace, last);
    const trace::Storage* const begun = actions.empty() ? nullptr : event_if<trace::Storage>(actions[0]);
    if (!kEndsBesideAnother(trace.inputs[last]) || begun != nullptr) continue;
    trace::Storage again;
    again.operation = event_if<trace::StorageDone>(trace.inputs[last])->operation;
    again.request = 1;
    actions.insert(actions.begin(), ServerDevicesAction(again));
    const Minimized result = minimised(machine, last, actions);
    ASSERT_TRUE(result.fails) << result.error;
    EXPECT_LE(result.inputs, 5U) << "SESS_INFO, OPEN, the export, the IO and its end";
    const std::string recorded = replayed(result.file).divergence.recorded;
    EXPECT_NE(recorded.find(" operation=0 "), std::string::npos) << recorded;
    return;
  }
  FAIL() << "no operation beside another one";
}

// Marks can also be events of device machines.
TEST_F(DevicesMinimizeTest, DeviceMarksAreKeptInOrder) {
  recorded<ClientDevicesInputs>(".client1.rtrc");
  MinimizeOptions options;
  options.directory = directory;
  options.judge = judge_by_marks({"SendMessage kind=open", "IoJudged disposition=ok"});
  const Minimized result = minimize(bytes_of(file), options);
  ASSERT_TRUE(result.fails) << result.error;
  EXPECT_EQ(replayed(result.file).verdict, trace::Verdict::identical);
  EXPECT_EQ(result.inputs, 6U) << "the link, SESS_INFO, the device, OPEN, the IO and its end";
}

}  // namespace
}  // namespace rtrs::tools::devices_minimize_test
