// Cost of one request, both sides together, and speed of the simulation.
#include <benchmark/benchmark.h>

#include "conformance/bench/pair.hpp"
#include "sim/world/world.hpp"

namespace {

using namespace rtrs;

// Arguments of the benchmark: number of paths, recorder off or on (0 or 1).
void one_request(benchmark::State& state, Direction direction) {
  const auto paths = static_cast<unsigned>(state.range(0));
  bench::Pair pair(paths, state.range(1) != 0);
  if (!pair.ready(paths)) state.SkipWithError("the paths did not connect");
  for (auto _ : state)
    if (!pair.one(direction, 64)) {
      state.SkipWithError("a request failed");
      break;
    }
  state.SetItemsProcessed(state.iterations());
}
void write_request(benchmark::State& state) {
  one_request(state, Direction::write);
}
void read_request(benchmark::State& state) {
  one_request(state, Direction::read);
}

void seeds(benchmark::State& state) {
  std::uint64_t seed = 0;
  std::uint64_t events = 0;
  for (auto _ : state) {
    sim::WorldOptions options;
    options.seed = seed++;
    const sim::WorldResult result = sim::run_seed(options);
    if (result.failed) {
      state.SkipWithError("a seed failed");
      break;
    }
    events += result.events;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"paths", "recorder"});
  for (const int paths : {1, 4})
    for (const int recorder : {0, 1}) benchmark->Args({paths, recorder});
}

}  // namespace

BENCHMARK(write_request)->Apply(shapes);
BENCHMARK(read_request)->Apply(shapes);
BENCHMARK(seeds)->Iterations(1000)->Unit(benchmark::kMillisecond);
