#include "tools/urtrs-sim/sweep_summary.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/lib/text/help_text.hpp"
#include "tools/urtrs-sim/answer.hpp"

namespace rtrs::sim_tool {

namespace {

// States that a server path can have; a server path is never `waiting`.
constexpr PathState kServerStates[] = {PathState::absent, PathState::connecting, PathState::connected,
                                       PathState::closing};

// Totals over the workers.
class Totals {
 public:
  Totals(const Shared& shared, const SweepOptions& options) : shared_(shared), jobs_(options.jobs) {}

  template <class Get>
  std::uint64_t sum(Get get) const {
    std::uint64_t sum = 0;
    for (unsigned job = 0; job < jobs_; ++job) sum += get(shared_.workers[job]);
    return sum;
  }
  std::uint64_t operator[](Counter Worker::*counter) const {
    return sum([counter](const Worker& worker) { return (worker.*counter).load(); });
  }
  std::uint64_t fault(unsigned fault) const {
    return sum([fault](const Worker& worker) { return worker.faults[fault].load(); });
  }
  // `seeds` and `first`: the counters of one mark or pair in a worker.
  template <class Seeds, class First>
  Reached reached(std::string name, Seeds seeds, First first) const {
    Reached reached{std::move(name), 0, Reached::kNever};
    for (unsigned job = 0; job < jobs_; ++job) {
      const std::uint64_t count = seeds(shared_.workers[job]);
      reached.seeds += count;
      if (count != 0) reached.first = std::min(reached.first, first(shared_.workers[job]));
    }
    return reached;
  }
  Reached mark(unsigned mark) const {
    return reached(
        sim::name_of(static_cast<sim::Mark>(mark)),
        [mark](const Worker& worker) { return worker.marks[mark].load(); },
        [mark](const Worker& worker) { return worker.first_marks[mark].load(); });
  }
  Reached pair(unsigned client, PathState server_state) const {
    const auto server = static_cast<unsigned>(server_state);
    return reached(
        std::string(to_string(static_cast<PathState>(client))) + "/" + to_string(server_state),
        [client, server](const Worker& worker) { return worker.pairs[client][server].load(); },
        [client, server](const Worker& worker) { return worker.first_pairs[client][server].load(); });
  }

 private:
  const Shared& shared_;
  unsigned jobs_;
};

// Fills answer() with the same content as print_totals() prints.
void fill_sweep(const Totals& total, double seconds) {
  auto& all = answer();
  all = {{"command", "sweep"},
         {"seeds", total[&Worker::seeds]},
         {"run_twice", total[&Worker::rerun]},
         {"seconds", seconds},
         {"events", total[&Worker::events]},
         {"requests", total[&Worker::requests]},
         {"virtual_s", static_cast<double>(total[&Worker::virtual_ms]) / 1e3},
         {"block_requests", total[&Worker::block_ios]},
         {"traces_replayed", total[&Worker::traces]},
         {"histories", total[&Worker::histories]},
         {"histories_left_out", total[&Worker::not_judgeable]},
         {"faults", nlohmann::ordered_json::object()},
         {"marks", nlohmann::ordered_json::array()}};
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    all["faults"][sim::to_string(static_cast<sim::FaultClass>(fault))] = total.fault(fault);
  for (unsigned mark = 0; mark < sim::kMarks; ++mark)
    all["marks"].push_back({{"mark", sim::name_of(static_cast<sim::Mark>(mark))},
                            {"text", sim::text_of(static_cast<sim::Mark>(mark))},
                            {"seeds", total.mark(mark).seeds}});
}

void print_totals(const Totals& total, const SweepOptions& options, double seconds) {
  const auto u = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  const auto d = [&total](Counter Worker::*counter) { return static_cast<double>(total[counter]); };
  std::printf("%llu seeds in %.1f s, %.0f seeds/s, %llu run twice\n", u(total[&Worker::seeds]), seconds,
              d(&Worker::seeds) / seconds, u(total[&Worker::rerun]));
  if (options.specification) std::printf("all judged by the specification\n");
  std::printf("%llu events (%.2f M/s), %llu requests, %.1f h of virtual time\n", u(total[&Worker::events]),
              d(&Worker::events) / seconds / 1e6, u(total[&Worker::requests]),
              d(&Worker::virtual_ms) / 3.6e6);
  if (options.block_devices)
    std::printf("block devices: %llu worlds, %llu requests\n", u(total[&Worker::block_worlds]),
                u(total[&Worker::block_ios]));
  if (!options.histories.empty())
    std::printf(
        "histories: %llu in %s; %llu worlds left out, without a fence or with a peer that breaks the "
        "protocol\n",
        u(total[&Worker::histories]), options.histories.c_str(), u(total[&Worker::not_judgeable]));
  if (options.replay)
    std::printf("%llu traces replayed, %llu states compared\n%llu records, %.2f M/s a core\n",
                u(total[&Worker::traces]), u(total[&Worker::state_hashes]), u(total[&Worker::records]),
                d(&Worker::records) * 1e3 / std::max(d(&Worker::replay_ns), 1.0));
  std::string faults = "faults:";
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    if (const std::uint64_t sum = total.fault(fault))
      faults +=
          std::string(" ") + sim::to_string(static_cast<sim::FaultClass>(fault)) + "=" + std::to_string(sum);
  std::printf("%s\n", tools::wrapped(faults).c_str());
  std::printf("marks (seeds that passed through):\n");
  for (unsigned mark = 0; mark < sim::kMarks; ++mark)
    std::printf("  %8llu  %s\n", u(total.mark(mark).seeds), sim::text_of(static_cast<sim::Mark>(mark)));
}

}  // namespace

void print_summary(const Shared& shared, const SweepOptions& options, double seconds) {
  const Totals total(shared, options);
  fill_sweep(total, seconds);
  print_totals(total, options, std::max(seconds, 1e-9));
}

void add_totals(const Shared& shared, const SweepOptions& options, SweepResult& result) {
  const Totals total(shared, options);
  result.hash += total[&Worker::hash];
  const std::pair<const char*, Counter Worker::*> counts[] = {
      {"seeds", &Worker::seeds},
      {"events", &Worker::events},
      {"requests", &Worker::requests},
      {"virtual_ms", &Worker::virtual_ms},
      {"run_twice", &Worker::rerun},
      {"block_worlds", &Worker::block_worlds},
      {"block_requests", &Worker::block_ios},
      {"traces_replayed", &Worker::traces},
      {"states_compared", &Worker::state_hashes},
  };
  for (const auto& [name, counter] : counts) result.counts.emplace_back(name, total[counter]);
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    result.faults.emplace_back(sim::to_string(static_cast<sim::FaultClass>(fault)), total.fault(fault));
  for (unsigned mark = 0; mark < sim::kMarks; ++mark) result.marks.push_back(total.mark(mark));
  for (unsigned client = 0; client < sim::kPathStates; ++client)
    for (const PathState server : kServerStates) result.pairs.push_back(total.pair(client, server));
}

}  // namespace rtrs::sim_tool
