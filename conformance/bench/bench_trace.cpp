// Cost of recording, per input: off, to the ring only, as a hash, to a file.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/record/recorder.hpp"

namespace rtrs::bench {
namespace {

ImmReceived make_input(std::uint64_t i) {
  return {i * 100, {1, 2, 3}, static_cast<std::uint32_t>(i & 0x3ff)};
}

void ring(benchmark::State& state) {
  Recorder recorder;
  std::uint64_t i = 0;
  for (auto _ : state) {
    recorder.input(1, make_input(i++));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ring)->Name("recorder_input_ring");

void ring_with_actions(benchmark::State& state) {
  Recorder recorder;
  ClientActions actions;
  actions.push(Complete{});
  std::uint64_t i = 0;
  for (auto _ : state) {
    recorder.input(1, make_input(i++));
    recorder.actions(1, actions);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ring_with_actions)->Name("recorder_step_ring");

void record_steps(benchmark::State& state, Recorder& recorder) {
  ClientActions actions;
  actions.push(Complete{});
  std::uint64_t i = 0;
  for (auto _ : state) {
    recorder.input(1, make_input(i++));
    recorder.actions(1, actions);
  }
  state.SetItemsProcessed(state.iterations());
  const RecorderCounters counters = recorder.counters();
  state.counters["B/record"] =
      static_cast<double>(counters.file_bytes) / static_cast<double>(counters.file_records + 1);
}

void hash(benchmark::State& state) {
  Recorder recorder;
  if (recorder.open_hash({}) != 0) return state.SkipWithError("cannot start");
  record_steps(state, recorder);
}
BENCHMARK(hash)->Name("recorder_step_hash");

void file(benchmark::State& state) {
  Recorder recorder;
  const char* folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/urtrs-bench-trace.rtrc";
  if (recorder.open_file(path.c_str(), {}) != 0) return state.SkipWithError("cannot create the file");
  record_steps(state, recorder);
  recorder.close_file();
  std::remove(path.c_str());
}
BENCHMARK(file)->Name("recorder_step_file");

}  // namespace
}  // namespace rtrs::bench
