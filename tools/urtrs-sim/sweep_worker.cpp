#include "tools/urtrs-sim/sweep_worker.hpp"

#include <cstdio>

#include "sim/oracles/digest.hpp"
#include "sim/scenarios/directed.hpp"
#include "sim/scenarios/stream_play.hpp"
#include "tools/lib/trace/choice_log/live_judge.hpp"
#include "tools/urtrs-sim/histories.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/trace_replay.hpp"

namespace rtrs::sim_tool {

Counter& failed_of(Worker& worker) {
  if (worker.at == ExtraWorld::nothing) return worker.failed;
  return worker.at == ExtraWorld::blocks ? worker.blocks_failed : worker.streams_failed;
}

namespace {

void add(Worker& worker, std::uint64_t seed, const sim::WorldResult& result) {
  worker.seeds += 1;
  worker.events += result.events;
  worker.requests += result.requests;
  worker.virtual_ms += result.virtual_time / milliseconds(1);
  worker.hash += sim::mix(seed ^ result.hash);
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault) worker.faults[fault] += result.faults[fault];
  for (unsigned mark = 0; mark < sim::kMarks; ++mark) worker.marks[mark] += result.marks[mark] ? 1 : 0;
  for (unsigned client = 0; client < sim::kPathStates; ++client)
    for (unsigned server = 0; server < sim::kPathStates; ++server)
      worker.pairs[client][server] += result.pairs[client][server] ? 1 : 0;
}

bool same_again(Worker& worker, const std::string& prefix) {
  const TraceReplay replay = replay_traces(prefix);
  worker.traces += replay.traces;
  worker.records += replay.records;
  worker.state_hashes += replay.hashes;
  worker.replay_ns += replay.nanoseconds;
  if (!replay.different.empty()) std::printf("%s\n", replay.different.c_str());
  std::fflush(stdout);
  return replay.different.empty() && replay.traces != 0;
}

// Runs the seed again with traces. Checks that the run is identical, that the traces conform to the
// specification, and optionally that their replay is identical.
bool second_run(Shared& shared, Worker& worker, sim::WorldOptions world, std::uint64_t hash, bool honest,
                const SweepOptions& options) {
  worker.rerun += 1;
  const tools::TraceScratch scratch;
  world.listeners = nullptr;
  world.trace = scratch.prefix();
  Counter* wrong = nullptr;
  if (sim::run_seed(world).hash != hash)
    wrong = &worker.nondeterministic;
  else if (honest && tools::judge_traces(world.trace))
    wrong = &failed_of(worker);
  else if (options.replay && worker.at != ExtraWorld::streams && !same_again(worker, world.trace))
    wrong = &worker.differs;
  if (wrong == nullptr) return true;
  *wrong = world.seed;
  shared.stop = true;
  return false;
}

// Writes the history of the world that has just run. Returns false if the file cannot be written.
bool keep_history(Shared& shared, Worker& worker, const std::string& text, const sim::WorldResult& result,
                  const SweepOptions& options) {
  if (!result.judgeable) {
    worker.not_judgeable += 1;
    return true;
  }
  const std::string scenario = worker.at == ExtraWorld::blocks ? std::string(sim::kRandomBlocks) : "";
  const int error = write_history(history_file(options.histories, worker.current, scenario), text);
  if (error == 0) {
    worker.histories += 1;
    return true;
  }
  shared.history_errno = error;
  shared.stop = true;
  return false;
}

// Runs one seed, and some seeds again to compare the two runs. Returns false after a failure, which ends the
// sweep.
bool play(Shared& shared, Worker& worker, tools::LiveJudge& specification, sim::WorldOptions world,
          const SweepOptions& options) {
  if (options.specification) world.listeners = &specification;
  std::string history;
  const bool keeps_history = !options.histories.empty() && worker.at != ExtraWorld::streams;
  if (keeps_history) world.history = &history;
  const sim::WorldResult result = sim::run_seed(world);
  world.history = nullptr;
  if (keeps_history && !keep_history(shared, worker, history, result, options)) return false;
  if (worker.at == ExtraWorld::blocks)
    worker.block_worlds += 1, worker.block_ios += result.requests;
  else if (worker.at == ExtraWorld::nothing)
    add(worker, world.seed, result);
  const bool broken = specification.verdict().has_value() && result.honest;
  if (result.failed || broken) {
    failed_of(worker) = world.seed;
    shared.stop = true;
    return false;
  }
  // The first seed is always run twice. Otherwise the percentage could select none if there are only a few
  // seeds.
  const bool first = world.seed == options.seeds.first && options.determinism_percent != 0;
  const bool twice = first || sim::mix(world.seed) % 100 < options.determinism_percent;
  return !twice || second_run(shared, worker, world, result.hash, result.honest, options);
}

// Runs the additional world for the worker's current seed.
bool play_extra_world(ExtraWorld which, Shared& shared, Worker& worker, tools::LiveJudge& specification,
                      const SweepOptions& options) {
  sim::SeededChoice shape(~worker.current.load());  // another seed than that of the run's choices
  const sim::Scenario scenario = sim::make_directed(
      *sim::find_directed(which == ExtraWorld::blocks ? sim::kRandomBlocks : sim::kRandomStreams), shape);
  sim::WorldOptions world;
  world.seed = worker.current;
  world.scenario = &scenario;
  world.over_tcp = options.over_tcp;
  world.make_net = options.make_net;
  world.excused = options.excused;
  worker.at = which;
  const bool good = play(shared, worker, specification, world, options);
  if (good) worker.at = ExtraWorld::nothing;
  return good;
}

}  // namespace

void work(Shared& shared, Worker& worker, const SweepOptions& options) {
  tools::LiveJudge specification;
  while (!shared.stop) {
    const std::uint64_t at = shared.next.fetch_add(1);
    if (at >= options.seeds.size()) {
      worker.done_below = options.seeds.end;
      return;
    }
    const std::uint64_t seed = options.seeds.first + at;
    worker.done_below = seed;
    worker.current = seed;
    sim::WorldOptions world;
    world.seed = seed;
    world.filter = options.filter;
    world.over_tcp = options.over_tcp;
    world.make_net = options.make_net;
    world.excused = options.excused;
    if (!play(shared, worker, specification, world, options)) return;
    if (options.block_devices && seed % kBlockWorldEvery == 0 &&
        !play_extra_world(ExtraWorld::blocks, shared, worker, specification, options))
      return;
    if (options.over_tcp && options.filter == nullptr &&
        !play_extra_world(ExtraWorld::streams, shared, worker, specification, options))
      return;
    worker.done_below = seed + 1;
  }
}

}  // namespace rtrs::sim_tool
