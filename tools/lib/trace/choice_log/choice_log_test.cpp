#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "sim/choices/grouped_choice.hpp"
#include "sim/scenarios/directed.hpp"
#include "tools/lib/trace/choice_log/choice_log_file.hpp"
#include "tools/lib/trace/choice_log/isolated_run.hpp"
#include "tools/lib/trace/choice_log/live_judge.hpp"
#include "tools/lib/trace/choice_log/shrink_run.hpp"
#include "tools/lib/trace/choice_log/step_limit.hpp"

namespace rtrs::tools::choice_log_test {
namespace {

IsolatedResult play(IsolatedRunner& runner, std::uint64_t seed) {
  sim::WorldOptions world;
  world.seed = seed;
  return runner.run(world, [seed] { return std::make_unique<sim::SeededChoice>(seed); });
}

TEST(IsolatedRun, ReplayOfTheChoiceLogRepeatsTheRun) {
  IsolatedRunner runner;
  ASSERT_TRUE(runner.works());
  const IsolatedResult one = play(runner, 11);
  EXPECT_FALSE(one.failed) << one.seen;
  sim::SeededChoice choice(11);
  choice.record(true);
  sim::WorldOptions world;
  world.seed = 11;
  EXPECT_EQ(sim::World(world, choice).run().hash, one.hash);
  EXPECT_EQ(one.choice_log, choice.choice_log());
  const IsolatedResult again = runner.run(
      world, [&one] { return std::make_unique<sim::GroupedChoice>(sim::trimmed(one.choice_log)); });
  EXPECT_EQ(again.hash, one.hash) << "a trimmed choice log plays the same run";
}

// Aborts the process after 40 draws.
class Crash final : public sim::ChoiceSource {
 protected:
  std::uint32_t choose(std::uint32_t, sim::Label) override {
    if (drawn() == 40) std::abort();
    return 0;
  }
};

TEST(IsolatedRun, CrashIsReportedWithItsChoiceLog) {
  IsolatedRunner runner;
  const IsolatedResult result = runner.run({}, [] { return std::make_unique<Crash>(); });
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.signature.substr(0, 8), "signal 6");
  EXPECT_EQ(result.choice_log.draws.size(), 40u);
}

std::uint64_t draws_so_far = 0;
std::uint64_t no_progress(const void*) {
  return 0;
}
std::uint64_t progress(const void*) {
  return ++draws_so_far;
}
void work_for_3_seconds() {
  const std::clock_t begin = std::clock();
  while (std::clock() - begin < 3 * CLOCKS_PER_SEC) {
  }
}

TEST(StepLimit, EndsAProcessWhoseStepDoesNotEnd) {
  EXPECT_EXIT(
      {
        const StepLimit limit(&no_progress, nullptr, 1);
        for (;;) {
        }
      },
      ::testing::KilledBySignal(StepLimit::kSignal), "");
}

TEST(StepLimit, SparesALongRunWhoseStepsEnd) {
  EXPECT_EXIT(
      {
        {
          const StepLimit limit(&progress, nullptr, 1);
          work_for_3_seconds();
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(StepLimit, CountsNoTimeThatTheProcessDidNotRun) {
  EXPECT_EXIT(
      {
        {
          const StepLimit limit(&no_progress, nullptr, 1);
          ::sleep(2);
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

// Includes scenarios in which a node violates the protocol, so that violations are found.
TEST(LiveJudge, VerdictEqualsThatOfTheTraceFiles) {
  LiveJudge live;
  unsigned found = 0;
  for (const sim::Directed& one : sim::directed_scenarios()) {
    sim::SeededChoice shape(0);
    const sim::Scenario scenario = sim::make_directed(one, shape);
    const TraceScratch scratch;
    sim::WorldOptions world;
    world.scenario = &scenario;
    world.listeners = &live;
    const sim::WorldResult heard = sim::run_seed(world);
    const auto verdict = live.verdict();
    world.listeners = nullptr;
    world.trace = scratch.prefix();
    const sim::WorldResult written = sim::run_seed(world);
    const auto judged = judge_traces(world.trace);
    ASSERT_EQ(heard.hash, written.hash) << one.id;
    ASSERT_EQ(verdict.has_value(), judged.has_value()) << one.id << (verdict ? verdict->seen : judged->seen);
    if (!verdict) continue;
    ++found;
    EXPECT_EQ(verdict->seen, judged->seen) << one.id;
    EXPECT_EQ(verdict->time, judged->time) << one.id;
  }
  EXPECT_GT(found, 5u);
}

TEST(ShrinkRun, PassingRunIsNotShrunk) {
  IsolatedRunner runner;
  sim::WorldOptions world;
  world.seed = 11;
  const ShrunkRun run = shrink_run(runner, world, [] { return std::make_unique<sim::SeededChoice>(11); }, {});
  EXPECT_FALSE(run.first.failed);
  EXPECT_EQ(run.shrunk.runs, 0u);
}

RC_GTEST_PROP(ChoiceLogFile, WrittenLogIsReadBackUnchanged, (std::uint64_t seed)) {
  sim::SeededChoice choice(seed);
  choice.record(true);
  for (std::uint64_t i = 0; i < 1 + seed % 30; ++i) {
    const sim::ScopedGroup outer(choice, sim::Label::fault_span);
    choice.draw(1 + static_cast<std::uint32_t>(seed % 7), sim::Label::fault_pick);
    if (choice.draw(2, sim::Label::fault_hold) == 1) {
      const sim::ScopedGroup inner(choice, sim::Label::option);
      choice.fires(500'000, sim::Label::cm_lost);
    }
  }
  ChoiceLogFile file{seed, "O9", "not every \"path\"\n is connected", sim::trimmed(choice.choice_log()), {}};
  if (!file.choice_log.groups.empty())
    file.choice_log.groups.push_back(
        {sim::Label::request, 0, file.choice_log.draws.size(), file.choice_log.draws.size(), true});
  file.choice_log = sim::trimmed(file.choice_log);
  const auto again = parse_choice_log(to_json(file));
  RC_ASSERT(again.has_value());
  RC_ASSERT(again->seed == file.seed);
  RC_ASSERT(again->oracle == file.oracle);
  RC_ASSERT(again->seen == file.seen);
  RC_ASSERT(again->choice_log == file.choice_log);
}

TEST(ChoiceLogFile, InvalidChoiceLogIsRefusedWithAReason) {
  const auto why = [](const std::string& text) {
    const auto file = parse_choice_log(text);
    return file ? std::string("accepted") : file.error();
  };
  const std::string head = R"({"urtrs_choices":1,"seed":3,"choices":[)";
  EXPECT_EQ(why(head + R"("test 4 3 x2"]})"), "accepted");
  EXPECT_EQ(why(R"({"urtrs_tape":1,"seed":3,"tape":["test 4 3 x2"]})"), "accepted") << "the older names";
  EXPECT_EQ(why("no json"), "this is not a choice log of urtrs-sim");
  EXPECT_EQ(why("[1]"), "this is not a choice log of urtrs-sim");
  EXPECT_EQ(why(R"({"urtrs_choices":2})"), "this choice log belongs to another version");
  EXPECT_EQ(why(R"({"urtrs_choices":1,"seed":-1})"), "\"seed\" must be a number");
  EXPECT_EQ(why(R"({"urtrs_choices":1,"seed":3})"), "\"choices\" must be a list of lines");
  EXPECT_EQ(why(head + R"(7]})"), "line 1 of the choice log: not a text");
  EXPECT_EQ(why(head + "\"test 4 3\",\")\"]}"), "line 2 of the choice log: no group is open");
  EXPECT_EQ(why(head + "\"(\"]}"), "line 1 of the choice log: a group needs a label");
  EXPECT_EQ(why(head + R"("tset 4 3"]})"), "line 1 of the choice log: unknown label");
  EXPECT_EQ(why(head + R"("test 4 4"]})"), "line 1 of the choice log: a value must be below its range");
  EXPECT_EQ(why(head + R"("test 4 3 2"]})"), "line 1 of the choice log: a repeat looks like x12");
  EXPECT_EQ(why(head + R"("test 4 3 x999999999999"]})"), "line 1 of the choice log: a repeat looks like x12");
  EXPECT_EQ(why(head + R"("test 4 3 x9999999","test 4 3 x2"]})"),
            "line 2 of the choice log: a choice log has at most 10,000,000 values");
}

// Each file has one error: a step for a path that the world does not have, a script line that is not text, or
// block device options that contradict each other.
TEST(ChoiceLogFile, UnplayableScenarioIsRefused) {
  const auto refusal = [](const std::string& scenario) {
    const auto file =
        parse_choice_log(R"({"urtrs_choices": 1, "seed": 1, "choices": [], "scenario": )" + scenario + "}");
    return file ? std::string("accepted") : file.error();
  };
  const auto with_script = [&](const std::string& line) {
    return refusal(
        R"({"paths": 2, "server": {"queue_depth": 8, "chunk_size": 8192}, "storage": {"sectors": 24},)"
        R"( "script": [)" +
        line + "]}");
  };
  EXPECT_EQ(with_script(R"("cut path=1")"), "accepted");
  EXPECT_EQ(with_script(R"("cut path=2")"),
            "line 1 of the script: 'cut path=2' is none of the paths 0 to 1 (set paths=)");
  EXPECT_EQ(with_script("7"), "line 1 of the script: not a text");
  EXPECT_EQ(refusal(R"({"server": {"queue_depth": 8, "chunk_size": 8192}, "storage": {"sectors": 24},)"
                    R"( "workload": {"own_disks": true}})"),
            "\"own_disks\" of the scenario must be true in scenarios of block devices, and only there");
}

}  // namespace
}  // namespace rtrs::tools::choice_log_test
