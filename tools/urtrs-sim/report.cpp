#include "tools/urtrs-sim/report.hpp"

#include <cstdio>

namespace rtrs::tools {

namespace {

void print_failure(const sim::World& world, const sim::WorldResult& result, std::uint64_t seed) {
  const sim::Failure& failure = result.failure;
  std::printf("FAIL seed=%llu oracle=%s t=%s event=%llu\n", static_cast<unsigned long long>(seed),
              sim::id_of(failure.oracle), sim::to_seconds(failure.time).c_str(),
              static_cast<unsigned long long>(failure.event));
  std::printf("  rule: %s\n  seen: %s\n  scenario: %s\n", sim::rule_of(failure.oracle), failure.text.c_str(),
              world.scenario().describe().c_str());
  std::printf("last events:\n%s", world.journal().tail(40).c_str());
}

}  // namespace

int run_and_report(std::uint64_t seed, const std::string& trace, bool verbose) {
  sim::SeededChoice choice(seed);
  sim::WorldOptions options;
  options.seed = seed;
  options.trace = trace;
  options.verbose = verbose;
  sim::World world(options, choice);
  if (verbose) std::printf("scenario: %s\n", world.scenario().describe().c_str());
  const sim::WorldResult result = world.run();
  if (!trace.empty()) std::printf("traces: %s.{server,client*}.trace\n", trace.c_str());
  if (!result.failed) {
    std::printf("ok seed=%llu hash=%016llx events=%llu requests=%llu virtual=%s\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(result.hash),
                static_cast<unsigned long long>(result.events),
                static_cast<unsigned long long>(result.requests),
                sim::to_seconds(result.virtual_time).c_str());
    return kOk;
  }
  print_failure(world, result, seed);
  return result.stalled ? kNoProgress : kViolated;
}

void print_catalogue() {
  std::printf("oracles:\n");
  for (unsigned oracle = 0; oracle < sim::kOracles; ++oracle)
    std::printf("  %-4s %s\n", sim::id_of(static_cast<sim::Oracle>(oracle)),
                sim::rule_of(static_cast<sim::Oracle>(oracle)));
  std::printf("faults:\n");
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    std::printf("  %s\n", sim::to_string(static_cast<sim::FaultClass>(fault)));
  std::printf("marks:\n");
  for (unsigned mark = 0; mark < sim::kMarks; ++mark)
    std::printf("  %s\n", sim::text_of(static_cast<sim::Mark>(mark)));
}

}  // namespace rtrs::tools
