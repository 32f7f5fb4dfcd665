#include "tools/urtrs-sim/sweep_worker.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <new>

#include "sim/oracles/digest.hpp"
#include "sim/scenarios/directed.hpp"
#include "sim/scenarios/stream_play.hpp"
#include "tools/lib/trace/choice_log/live_judge.hpp"
#include "tools/urtrs-sim/failure_pipe.hpp"
#include "tools/urtrs-sim/histories.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/trace_replay.hpp"

namespace rtrs::sim_tool {

SharedMemory::SharedMemory() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared_ = memory == MAP_FAILED ? nullptr : new (memory) Shared;
}

SharedMemory::~SharedMemory() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
}

Counter& failed_of(Worker& worker) {
  if (worker.at == ExtraWorld::nothing) return worker.failed;
  return worker.at == ExtraWorld::blocks ? worker.blocks_failed : worker.streams_failed;
}

std::string world_of(ExtraWorld which) {
  if (which == ExtraWorld::nothing) return "";
  return std::string(which == ExtraWorld::blocks ? sim::kRandomBlocks : sim::kRandomStreams);
}

namespace {

void count_seed(Counter& seeds, Counter& first, std::uint64_t seed) {
  if (seeds.fetch_add(1) == 0) first = seed;
}

void add(Worker& worker, std::uint64_t seed, const sim::WorldResult& result) {
  worker.seeds += 1;
  worker.events += result.events;
  worker.requests += result.requests;
  worker.virtual_ms += result.virtual_time / milliseconds(1);
  worker.hash += sim::mix(seed ^ result.hash);
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault) worker.faults[fault] += result.faults[fault];
  for (unsigned mark = 0; mark < sim::kMarks; ++mark)
    if (result.marks[mark]) count_seed(worker.marks[mark], worker.first_marks[mark], seed);
  for (unsigned client = 0; client < sim::kPathStates; ++client)
    for (unsigned server = 0; server < sim::kPathStates; ++server)
      if (result.pairs[client][server])
        count_seed(worker.pairs[client][server], worker.first_pairs[client][server], seed);
}

// Sends the failure of the current seed to the parent, or ends the sweep. Returns false.
bool fail(Shared& shared, Worker& worker, Counter& failed, const SweepOptions& options,
          const std::string& rule, const std::string& seen) {
  const std::uint64_t seed = worker.current;
  if (options.failures != nullptr) {
    options.failures->send({seed, world_of(worker.at), rule, seen});
    return false;
  }
  failed = seed;
  shared.stop = true;
  return false;
}

// Oracle of a failed run, with the same marks as the signature of a choice log.
std::string rule_of_run(const sim::WorldResult& result) {
  return std::string(sim::id_of(result.failure.oracle)) + (result.exhausted ? " (events)" : "") +
         (result.script_stuck ? " (not played)" : "");
}

bool fail_specification(Shared& shared, Worker& worker, const SweepOptions& options,
                        const tools::TraceViolation& violation) {
  return fail(shared, worker, failed_of(worker), options, violation.oracle + " " + violation.id,
              violation.seen);
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
  if (sim::run_seed(world).hash != hash)
    return fail(shared, worker, worker.nondeterministic, options, sim::id_of(sim::Oracle::determinism),
                "the second run has another hash");
  if (honest)
    if (const auto violation = tools::judge_traces(world.trace))
      return fail_specification(shared, worker, options, *violation);
  if (!options.replay || worker.at == ExtraWorld::streams || same_again(worker, world.trace)) return true;
  return fail(shared, worker, worker.differs, options, kReplayRule,
              "replaying its traces gives another result");
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

// Runs one world, and some worlds again to compare the two runs. Returns false after a failure.
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
  const auto violation = specification.verdict();
  if (result.failed)
    return fail(shared, worker, failed_of(worker), options, rule_of_run(result), result.failure.text);
  if (violation && result.honest) return fail_specification(shared, worker, options, *violation);
  // The first seed is always run twice. Otherwise the percentage could select none if there are only a few
  // seeds. A result must not depend on how a range is divided, so there the percentage alone decides.
  const bool first =
      world.seed == options.seeds.first && options.determinism_percent != 0 && options.failures == nullptr;
  const bool twice = first || sim::mix(world.seed) % 100 < options.determinism_percent;
  return !twice || second_run(shared, worker, world, result.hash, result.honest, options);
}

// Runs the additional world for the worker's current seed.
bool play_extra_world(ExtraWorld which, Shared& shared, Worker& worker, tools::LiveJudge& specification,
                      const SweepOptions& options) {
  sim::SeededChoice shape(~worker.current.load());  // another seed than that of the run's choices
  const sim::Scenario scenario = sim::make_directed(*sim::find_directed(world_of(which)), shape);
  sim::WorldOptions world;
  world.seed = worker.current;
  world.scenario = &scenario;
  world.over_tcp = options.over_tcp;
  world.make_net = options.make_net;
  world.excused = options.excused;
  worker.at = which;
  return play(shared, worker, specification, world, options);
}

// Runs all worlds of the worker's current seed until one fails. Returns false after a failure.
bool play_seed(Shared& shared, Worker& worker, tools::LiveJudge& specification, const SweepOptions& options) {
  sim::WorldOptions world;
  world.seed = worker.current;
  world.excused = options.excused;
  world.filter = options.filter;
  world.over_tcp = options.over_tcp;
  world.make_net = options.make_net;
  if (!play(shared, worker, specification, world, options)) return false;
  if (options.block_devices && world.seed % kBlockWorldEvery == 0 &&
      !play_extra_world(ExtraWorld::blocks, shared, worker, specification, options))
    return false;
  return !options.over_tcp || options.filter != nullptr ||
         play_extra_world(ExtraWorld::streams, shared, worker, specification, options);
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
    worker.at = ExtraWorld::nothing;
    worker.current = seed;
    if (!play_seed(shared, worker, specification, options) && options.failures == nullptr) return;
    worker.done_below = seed + 1;
  }
}

}  // namespace rtrs::sim_tool
