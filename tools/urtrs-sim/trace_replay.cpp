#include "tools/urtrs-sim/trace_replay.hpp"

#include <ctime>
#include <fstream>
#include <sstream>

#include "tools/lib/trace/choice_log/trace_judge.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::sim_tool {

namespace {

std::uint64_t processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

TraceReplay replay_traces(const std::string& prefix) {
  TraceReplay all;
  for (const std::string& path : tools::traces_of(prefix)) {
    std::ostringstream file;
    file << std::ifstream(path, std::ios::binary).rdbuf();
    const std::string bytes = file.str();
    const std::uint64_t began = processor_time();
    trace::MemorySource source(bytes);
    const trace::ReplayResult result = trace::replay(source, trace::core_machines());
    all.nanoseconds += processor_time() - began;
    ++all.traces;
    all.records += result.records;
    all.hashes += result.state_hashes;
    if (result.verdict == trace::Verdict::identical) continue;
    all.different = path + ": " + to_string(result.verdict) + " at record " +
                    std::to_string(result.divergence.seq) + ", recorded " + result.divergence.recorded +
                    ", re-run " + result.divergence.rerun + result.why;
    break;
  }
  return all;
}

}  // namespace rtrs::sim_tool
