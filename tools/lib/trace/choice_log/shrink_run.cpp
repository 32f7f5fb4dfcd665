#include "tools/lib/trace/choice_log/shrink_run.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "sim/choices/grouped_choice.hpp"

namespace rtrs::tools {

ShrunkRun shrink_run(IsolatedRunner& runner, const sim::WorldOptions& world, const MakeChoice& choice,
                     const ShrinkRunOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto elapsed = [began] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  ShrunkRun result;
  result.first = runner.run(world, choice);
  result.last = result.first;
  if (!result.first.failed) return result;

  sim::WorldOptions bounded = world;
  // A candidate should have fewer log entries than the smallest failing run so far. One that has many more
  // will probably not fail in the same way, so it is stopped.
  const auto bound = [&runner](const IsolatedResult& smallest) {
    constexpr std::uint64_t kSlack = 2'000;
    runner.set_longest_log(2 * smallest.log_entries + kSlack);
  };
  bound(result.first);
  bounded.max_events = std::min(world.max_events, 4 * result.first.events + 20'000);
  if (result.first.events == 0) bounded.max_events = world.max_events;  // unknown, because the run crashed
  std::uint64_t runs = 0;
  std::optional<IsolatedResult> tried;
  const sim::LogTrial trial = [&](const sim::ChoiceLog& candidate) -> std::optional<sim::ChoiceLog> {
    ++runs;
    tried = runner.run(bounded, [&candidate] { return std::make_unique<sim::GroupedChoice>(candidate); });
    if (!tried->failed || tried->signature != result.first.signature) return std::nullopt;
    if (options.accepts && !options.accepts(*tried)) return std::nullopt;
    return tried->choice_log;
  };
  sim::ShrinkOptions how;
  how.out_of_time = [&] { return elapsed() > options.seconds || (options.stopped && options.stopped()); };
  how.better = [&](const sim::ChoiceLog& choice_log) {
    result.last = *tried;
    bound(*tried);
    if (options.progress) options.progress(sim::size_of(choice_log), runs);
  };
  result.shrunk = sim::shrink(result.first.choice_log, trial, how);
  runner.set_longest_log(~std::uint64_t{0});
  result.seconds = elapsed();
  return result;
}

}  // namespace rtrs::tools
