#include "sim/world/world.hpp"

#include "core/base/assert_hook.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

World::World(const WorldOptions& options, ChoiceSource& choice)
    : cluster_(options, choice),
      books_(cluster_),
      watch_(cluster_, books_),
      crowd_(cluster_),
      load_(cluster_, books_, watch_),
      client_host_(cluster_, watch_, load_),
      server_host_(cluster_, books_, watch_),
      processes_(cluster_, books_, crowd_),
      operator_(cluster_, processes_),
      script_(cluster_, books_, watch_, processes_, operator_),
      parts_{watch_, crowd_, load_, client_host_, server_host_, processes_, operator_, script_},
      timeline_(cluster_, parts_),
      phases_(cluster_, books_, parts_, timeline_) {}

void World::fold_final_state() {
  cluster_.hash = fold(cluster_.hash, cluster_.network.hash());
  cluster_.hash = fold(cluster_.hash, cluster_.judge.events());
  cluster_.hash = fold(cluster_.hash, now());
  if (cluster_.server.up)
    cluster_.hash = fold(cluster_.hash, cluster_.server.driver->transport().fingerprint());
  for (const auto& client : cluster_.clients)
    if (client->up) cluster_.hash = fold(cluster_.hash, client->driver->session().fingerprint());
}

WorldResult World::run() {
  set_assert_hook([](void* cluster) noexcept { static_cast<Cluster*>(cluster)->save_traces(); }, &cluster_);
  if (cluster_.scenario.play.run)
    cluster_.scenario.play.run(*this);
  else
    phases_.play();
  set_assert_hook(nullptr, nullptr);
  if (!cluster_.judge.failed())
    if (const auto broken =
            books_.book.check(cluster_.scenario.storage.sectors, !cluster_.scenario.fenced, books_.spoiled))
      cluster_.judge.fail(Oracle::history, now(), *broken);
  fold_final_state();
  cluster_.complete_traces();
  WorldResult result;
  watch_.counted_marks();
  processes_.end_all();
  result.trace_file = cluster_.trace_file;
  result.trace_errno = cluster_.trace_errno;
  result.failed = cluster_.judge.failed();
  result.failure = cluster_.judge.failure();
  result.honest =
      cluster_.scenario.liar == kNone && !cluster_.judge.marks()[static_cast<unsigned>(Mark::same_identity)];
  result.judgeable = result.honest && cluster_.scenario.fenced;
  result.stalled = cluster_.has_stalled;
  result.exhausted = timeline_.out_of_events();
  result.script_stuck = phases_.script_stuck();
  result.hash = cluster_.hash;
  result.events = events();
  result.virtual_time = now();
  result.requests = books_.book.count();
  for (const auto& client : cluster_.clients)
    if (client->disks) result.requests += client->disks->ios();
  for (unsigned fault = 0; fault < kFaultClasses; ++fault)
    result.faults[fault] = cluster_.faults.struck(static_cast<FaultClass>(fault));
  result.marks = cluster_.judge.marks();
  result.pairs = watch_.pairs();
  return result;
}

WorldResult run_seed(const WorldOptions& options) {
  SeededChoice seeded(options.seed);
  if (options.filter == nullptr) return World(options, seeded).run();
  PartlyZeroChoice choice(seeded, options.filter->calm);
  return World(options, choice).run();
}

}  // namespace rtrs::sim
