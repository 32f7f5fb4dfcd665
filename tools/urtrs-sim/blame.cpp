#include "tools/urtrs-sim/blame.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "sim/oracles/digest.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/choice_log/forked_runs.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/blame_page.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"

namespace rtrs::sim_tool {

namespace {

using sim::FailurePoint;
using sim::FailureStep;

// Number of rounds that narrow the step down, and of new points in each.
constexpr unsigned kRounds = 6;
constexpr std::size_t kPointsOfRound = 8;
// From the named step on, at least this part of the redraws fails.
constexpr double kInevitable = 0.8;

class Blame {
 public:
  Blame(const BlameCommand& command, const OneRun& run, const tools::IsolatedResult& first)
      : command_(command), run_(run), first_(first), runs_(most_results(command)) {}

  bool works() const noexcept { return runs_.works(); }
  void ask_specification() { runs_.ask_specification(&specification_); }

  // Returns false if a signal stopped the command.
  bool measure() {
    const std::uint64_t draws = first_.choice_log.draws.size();
    end_of_run(draws);
    std::vector<std::uint64_t> fresh = sim::points_between(0, draws, command_.points);
    fresh.insert(fresh.begin(), 0);
    for (unsigned round = 0; round <= kRounds && !fresh.empty(); ++round) {
      if (!redraw(fresh, round == 0)) return false;
      find_step();
      if (!result_.step) break;
      fresh = sim::points_between(result_.step->after, result_.step->before, kPointsOfRound);
    }
    line_.clear();
    return true;
  }

  // With the rates that the step was found by.
  BlameResult result() const {
    BlameResult result = result_;
    if (!result.by_time)
      for (BlamePoint& point : result.points) point.rate.failed += std::exchange(point.failed_later, 0);
    return result;
  }

 private:
  static std::size_t most_results(const BlameCommand& command) {
    return (std::max(command.points + 1, kPointsOfRound) + 1) * command.redraws;
  }
  std::vector<FailurePoint> curve(bool by_time) const {
    std::vector<FailurePoint> points;
    for (const BlamePoint& point : result_.points) {
      points.push_back(point.rate);
      if (!by_time) points.back().failed += point.failed_later;
    }
    return points;
  }

  // Takes the curve with the sharper rise, and there the point from which on nearly every redraw fails. The
  // end of the run is such a point at the latest.
  void find_step() {
    const auto by_time = sim::likely_step(curve(true));
    const auto at_all = sim::likely_step(curve(false));
    result_.by_time = by_time && (!at_all || by_time->gain >= at_all->gain);
    result_.step = sim::inevitable_step(curve(result_.by_time), kInevitable);
    if (result_.step && result_.step->point == 0) result_.step.reset();
  }

  // Adds the end of the failing run as the last point, at which the failure is certain.
  void end_of_run(std::uint64_t draws) {
    tools::ForkedPlan plan;
    plan.world = run_.world;
    plan.choice = run_.choice;
    plan.play_on = true;
    const auto played = runs_.play(plan);
    result_.events = played.empty() ? first_.events : played.back().events;
    result_.draws = draws;
    result_.points.push_back(
        {{draws, result_.events, command_.redraws, command_.redraws}, 0, first_.time, "", true});
  }

  // A failure until this time counts as one at the time of the run's failure.
  Nanos latest() const { return first_.time + first_.time / 50; }

  bool redraw(const std::vector<std::uint64_t>& draws, bool coarse) {
    tools::ForkedPlan plan;
    plan.world = run_.world;
    plan.choice = run_.choice;
    plan.jobs = command_.jobs;
    for (const std::uint64_t draw : draws)
      for (std::size_t redraw = 0; redraw < command_.redraws; ++redraw)
        plan.forks.push_back({draw, sim::mix(sim::mix(run_.world.seed ^ sim::mix(draw)) + redraw)});
    line_.show(std::to_string(result_.runs) + " rests drawn");
    const auto played = runs_.play(plan);
    for (std::size_t at = 0; at < draws.size(); ++at) {
      BlamePoint point;
      point.rate.draw = draws[at];
      point.coarse = coarse;
      for (std::size_t redraw = 0; redraw < command_.redraws; ++redraw) {
        const tools::ForkedResult& one = played[at * command_.redraws + redraw];
        if (!one.reached) continue;
        point.rate.event = one.events_before;
        point.time = one.time_before;
        point.said = one.said;
        ++point.rate.redraws;
        if (one.failed && one.signature != first_.signature.substr(0, one.kMostSignature))
          ++result_.failed_otherwise;
        else if (one.failed)
          ++(one.time <= latest() ? point.rate.failed : point.failed_later);
        result_.redrawn_events += one.events - one.events_before;
        ++result_.runs;
      }
      if (point.rate.redraws != 0) result_.points.push_back(std::move(point));
    }
    std::sort(result_.points.begin(), result_.points.end(),
              [](const BlamePoint& a, const BlamePoint& b) { return a.rate.draw < b.rate.draw; });
    return stopped_by == 0;
  }

  const BlameCommand& command_;
  const OneRun& run_;
  const tools::IsolatedResult& first_;
  tools::LiveJudge specification_;
  tools::ForkedRuns runs_;
  tools::ProgressLine line_;
  BlameResult result_;
};

nlohmann::ordered_json as_json(const BlamePoint& point) {
  return {{"draw", point.rate.draw},
          {"event", point.rate.event},
          {"time_s", static_cast<double>(point.time) / 1e9},
          {"redraws", point.rate.redraws},
          {"failed", point.rate.failed}};
}

std::string percent(double rate) {
  return std::to_string(static_cast<int>(rate * 100 + 0.5)) + " %";
}

// A bar of up to 20 characters.
std::string bar(double rate) {
  constexpr double kWidth = 20;
  return std::string(static_cast<std::size_t>(rate * kWidth + 0.5), '#');
}

// Prints the points of the first round, and the two beside the step.
void print_curve(const BlameResult& result) {
  std::printf("     event  time            redraws that fail in this way%s\n",
              result.by_time ? " until the time of the failure" : "");
  for (std::size_t at = 0; at < result.points.size(); ++at) {
    const BlamePoint& point = result.points[at];
    const bool beside = result.step && (at == result.step->point || at + 1 == result.step->point);
    if (!point.coarse && !beside) continue;
    std::printf("%s %8llu  %-15s %5s  %s\n", result.step && at == result.step->point ? "->" : "  ",
                static_cast<unsigned long long>(point.rate.event), sim::to_seconds(point.time).c_str(),
                percent(point.rate.rate()).c_str(), bar(point.rate.rate()).c_str());
  }
}

void print_step(const BlameResult& result, const sim::ChoiceLog& log) {
  if (!result.step) {
    std::printf("no step: the failure was as likely at the beginning of the run as at its end\n");
    return;
  }
  const BlamePoint& point = result.points[result.step->point];
  std::printf("%s\n", step_text(result).c_str());
  auto& step = answer()["step"] = as_json(point);
  step["after_draw"] = result.step->after;
  step["rate_before"] = result.step->rate_before;
  step["rate_after"] = result.step->rate_after;
  step["journal"] = point.said;
  if (result.step->before != result.step->after + 1 || result.step->after >= log.draws.size()) return;
  const sim::Draw& draw = log.draws[result.step->after];
  std::printf("  choice %llu: %s, %u of 0 to %u\n", static_cast<unsigned long long>(result.step->after),
              to_string(draw.label), draw.value, draw.n - 1);
  step["choice"] = {{"label", to_string(draw.label)}, {"value", draw.value}, {"range", draw.n}};
}

}  // namespace

std::string step_text(const BlameResult& result) {
  if (!result.step) return "";
  const BlamePoint& point = result.points[result.step->point];
  return "step: event " + std::to_string(point.rate.event) + " of " + std::to_string(result.events) + ", " +
         sim::to_seconds(point.time) + ": before it " + percent(result.step->rate_before) +
         " of the redraws fail in this way, after it " + percent(result.step->rate_after) + "\n  " +
         point.said;
}

int blame_and_report(const BlameCommand& command) {
  OneRun run;
  if (!run.open(command)) return kUsage;
  tools::IsolatedRunner runner;
  const StopSignals signals;
  bool specification = false;
  if (!runner.works()) return complain("no memory to share with the runs"), kUsage;
  const tools::IsolatedResult first = play_judged(runner, run, specification);
  if (stopped_by != 0) return report_stopped("before a rule was broken");
  const auto seed = static_cast<unsigned long long>(run.world.seed);
  answer() = {{"command", "blame"}, {"seed", run.world.seed}};
  if (!first.failed) {
    std::printf("ok seed=%llu: every rule held, nothing to blame\n", seed);
    return kOk;
  }
  Blame blame(command, run, first);
  if (!blame.works()) return complain("no memory to share with the runs"), kUsage;
  if (specification) blame.ask_specification();
  const bool whole = blame.measure();
  const BlameResult result = blame.result();
  std::printf("FAIL seed=%llu %s t=%s, %llu events\n  seen: %s\n", seed, first.signature.c_str(),
              sim::to_seconds(first.time).c_str(), static_cast<unsigned long long>(result.events),
              first.seen.c_str());
  answer().update({{"signature", first.signature},
                   {"seen", first.seen},
                   {"events", result.events},
                   {"draws", result.draws},
                   {"redraws", result.runs},
                   {"failed_otherwise", result.failed_otherwise},
                   {"by_time", result.by_time},
                   {"points", nlohmann::ordered_json::array()}});
  for (const BlamePoint& point : result.points) answer()["points"].push_back(as_json(point));
  print_curve(result);
  print_step(result, first.choice_log);
  std::printf("%llu redraws, %llu events; %llu redraws failed in another way\n",
              static_cast<unsigned long long>(result.runs),
              static_cast<unsigned long long>(result.redrawn_events),
              static_cast<unsigned long long>(result.failed_otherwise));
  if (!whole) return report_stopped("after " + std::to_string(result.runs) + " redraws");
  if (!command.page.empty()) {
    if (const std::string why = write_blame_page(command.page, runner, run, first, result); !why.empty()) {
      complain(why);
      return kUsage;
    }
    std::printf("page: %s\n", command.page.c_str());
    answer()["page"] = command.page;
  }
  return first.stalled ? kNoProgress : kViolated;
}

}  // namespace rtrs::sim_tool
