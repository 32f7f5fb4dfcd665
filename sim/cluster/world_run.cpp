// A run as a whole: its traces, its hash and its result.
#include "core/base/assert_hook.hpp"
#include "sim/cluster/world.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

void World::fold_final_state() {
  hash_ = fold(hash_, network_.hash());
  hash_ = fold(hash_, judge_.events());
  hash_ = fold(hash_, now());
  if (server_.up) hash_ = fold(hash_, server_.driver->transport().fingerprint());
  for (const auto& client : clients_)
    if (client->up) hash_ = fold(hash_, client->driver->session().fingerprint());
}

void World::check_laws() {
  if (network_.violations().empty()) return;
  const Violation& violation = network_.violations().front();
  if (violation.law == kLawOfAdapters) return judge_.fail(Oracle::adapters, violation.time, violation.text);
  judge_.fail(Oracle::laws, violation.time, "A" + std::to_string(violation.law) + ": " + violation.text);
}

// Where what is left of a process shows. The others go with the world.
void World::end_processes() {
  if (!scenario_.over_adapters) return;
  const auto end = [](Node& node) {
    node.up = false;
    node.fabric.reset();
    node.keyed.reset();
    node.gate.reset();
    node.preflushes.reset();
    node.lies.reset();
    node.sim.reset();
  };
  server_.driver.reset();
  end(server_);
  for (const auto& client : clients_) {
    client->driver.reset();
    end(*client);
  }
  check_laws();
}

void World::save_traces() noexcept {
  if (server_.recorder) server_.recorder->close_file();
  for (const auto& client : clients_)
    if (client->recorder) client->recorder->close_file();
}

void World::complete_traces() {
  if (options_.trace.empty()) return;
  if (server_.recorder) note_trace(server_.recorder->close_file(), trace_path("server"));
  for (const auto& client : clients_)
    if (client->recorder)
      note_trace(client->recorder->close_file(), trace_path("client" + std::to_string(client->id)));
}

WorldResult World::run() {
  set_assert_hook([](void* world) noexcept { static_cast<World*>(world)->save_traces(); }, this);
  play();
  set_assert_hook(nullptr, nullptr);
  if (!judge_.failed())
    if (const auto broken = book_.check(scenario_.storage.sectors, !scenario_.fenced, spoiled_))
      judge_.fail(Oracle::history, now(), *broken);
  fold_final_state();
  complete_traces();
  WorldResult result;
  counted_marks();
  end_processes();
  result.trace_file = trace_file_;
  result.trace_errno = trace_errno_;
  result.failed = judge_.failed();
  result.failure = judge_.failure();
  result.honest = scenario_.liar == kNone && !judge_.marks()[static_cast<unsigned>(Mark::same_identity)];
  result.stalled = stalled_;
  result.exhausted = exhausted_;
  result.script_stuck = script_stuck_;
  result.hash = hash_;
  result.events = judge_.events() + network_.stats().events;
  result.virtual_time = now();
  result.requests = book_.count();
  for (const auto& client : clients_)
    if (client->disks) result.requests += client->disks->ios();
  for (unsigned fault = 0; fault < kFaultClasses; ++fault)
    result.faults[fault] = faults_.struck(static_cast<FaultClass>(fault));
  result.marks = judge_.marks();
  result.pairs = pairs_;
  return result;
}

WorldResult run_seed(const WorldOptions& options) {
  SeededChoice seeded(options.seed);
  if (options.filter == nullptr) return World(options, seeded).run();
  CalmedChoice choice(seeded, options.filter->calm);
  return World(options, choice).run();
}

}  // namespace rtrs::sim
