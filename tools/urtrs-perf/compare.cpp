#include "tools/urtrs-perf/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/lib/text/usage/json_error.hpp"
#include "tools/urtrs-perf/interrupt.hpp"
#include "tools/urtrs-perf/pair.hpp"
#include "tools/urtrs-perf/report.hpp"

namespace rtrs::perf {
namespace {

constexpr double kAnchorSpread = 0.15;
constexpr unsigned kDeepQueue = 32;

struct Metric {
  const char* name;
  const char* unit;
  unsigned iodepth;
  double PairResult::*value;
  std::vector<Round> rounds;
};

// Runs bare, urtrs, bare, urtrs ... bare, so that each urtrs run is between two bare runs. Returns "" or an
// error text.
std::string measure(const Options& options, Metric& metric) {
  const auto bare = [&] { return run_pair(options, true, metric.iodepth); };
  auto before = bare();
  for (unsigned i = 0; i < options.rounds; ++i) {
    const auto ours = run_pair(options, false, metric.iodepth);
    auto after = bare();
    for (const auto* one : {&std::as_const(before), &ours, &std::as_const(after)})
      if (!*one) return one->error();
    const Round round{(*before).*metric.value, (*ours).*metric.value, (*after).*metric.value};
    metric.rounds.push_back(round);
    if (!options.json || !options.json_file.empty()) {
      fmt::print("  QD{:<3} {:<5} round {}: raw {:.2f} and {:.2f}, urtrs {:.2f} {}: ratio {:.3f}{}\n",
                 metric.iodepth, metric.name, i + 1, round.before, round.after, round.ours, metric.unit,
                 round.ratio(), round.noisy() ? "  (too noisy: the raw runs differ by more than 15 %)" : "");
      std::fflush(stdout);
    }
    before = std::move(after);
  }
  return {};
}

std::string sentence(const Metric& metric) {
  const Verdict verdict = judge(metric.rounds);
  const std::string what = fmt::format("QD{} {} urtrs / raw libfabric", metric.iodepth, metric.name);
  if (verdict.valid == 0) return what + ": no verdict, every round was too noisy\n";
  return fmt::format("{}: median {:.3f} [{:.3f} - {:.3f}], {} of {} rounds\n", what, verdict.median,
                     verdict.least, verdict.most, verdict.valid, metric.rounds.size());
}

nlohmann::ordered_json json_of(const Metric& metric) {
  const Verdict verdict = judge(metric.rounds);
  nlohmann::ordered_json json{{"metric", metric.name},
                              {"unit", metric.unit},
                              {"iodepth", metric.iodepth},
                              {"valid_rounds", verdict.valid},
                              {"rounds", nlohmann::ordered_json::array()}};
  if (verdict.valid != 0)
    json["ratio"] = {{"median", verdict.median}, {"min", verdict.least}, {"max", verdict.most}};
  for (const Round& round : metric.rounds) {
    json["rounds"].push_back({{"raw_before", round.before},
                              {"urtrs", round.ours},
                              {"raw_after", round.after},
                              {"ratio", round.ratio()},
                              {"noisy", round.noisy()}});
  }
  return json;
}

// Reports on standard error the metrics that have no valid round. Returns the exit code.
int code_of(const std::vector<Metric>& metrics) {
  std::vector<Verdict> verdicts;
  for (const Metric& metric : metrics) {
    verdicts.push_back(judge(metric.rounds));
    if (verdicts.back().valid != 0) continue;
    fmt::print(stderr,
               "urtrs-perf: no verdict on QD{} {}: in each of the {} rounds the two raw runs differ by more "
               "than 15 %; measure on an idle machine, or with more --rounds or a longer --runtime\n",
               metric.iodepth, metric.name, metric.rounds.size());
  }
  return comparison_code(verdicts);
}

int publish(const Options& options, const std::vector<Metric>& metrics) {
  nlohmann::ordered_json json{{"schema_version", 1},
                              {"tool", "urtrs-perf"},
                              {"version", URTRS_VERSION},
                              {"kind", "compare-raw"},
                              {"provider", options.provider},
                              {"rw", to_string(options.rw)},
                              {"bytes", options.block_size},
                              {"wait", to_string(options.wait)},
                              {"metrics", nlohmann::ordered_json::array()}};
  for (const Metric& metric : metrics) json["metrics"].push_back(json_of(metric));
  const std::string text = json.dump(2) + "\n";
  if (options.json_file.empty()) {
    fmt::print("{}", text);
    return kOk;
  }
  const int error = write_whole(options.json_file, text);
  if (error == 0) return kOk;
  return report_unwritable(options.json_file, error);
}

}  // namespace

bool Round::noisy() const noexcept {
  return std::max(before, after) > std::min(before, after) * (1 + kAnchorSpread);
}

Verdict judge(const std::vector<Round>& rounds) {
  std::vector<double> ratios;
  for (const Round& round : rounds)
    if (!round.noisy()) ratios.push_back(round.ratio());
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const std::size_t middle = ratios.size() / 2;
  const double median = ratios.size() % 2 != 0 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
  return {median, ratios.front(), ratios.back(), static_cast<unsigned>(ratios.size())};
}

int comparison_code(const std::vector<Verdict>& verdicts) {
  const auto counts = [](const Verdict& verdict) { return verdict.valid != 0; };
  return std::all_of(verdicts.begin(), verdicts.end(), counts) ? kOk : kNoVerdict;
}

int run_comparison(const Options& options) {
  const bool table = !options.json || !options.json_file.empty();
  std::vector<Metric> metrics{
      {"p50", "usec", 1, &PairResult::p50, {}},
      {"IOPS", "IO/s", options.iodepth == 1 ? kDeepQueue : options.iodepth, &PairResult::iops, {}}};
  if (table)
    fmt::print("{} of {} bytes, provider {}, {}\n", to_string(options.rw), options.block_size,
               options.provider, to_string(options.wait));
  for (Metric& metric : metrics) {
    const std::string failure = measure(options, metric);
    if (const int number = caught_signal(); number != 0) {
      if (table) fmt::print("interrupted\n{}", sentence(metric));
      return kSignalBase + number;
    }
    if (failure.empty()) continue;
    fmt::print(stderr, "urtrs-perf: {}\n", failure);
    if (options.json && options.json_file.empty()) fmt::print("{}", tools::json_error(kFailed, failure));
    return kFailed;
  }
  if (table)
    for (const Metric& metric : metrics) fmt::print("{}", sentence(metric));
  const int published = options.json ? publish(options, metrics) : kOk;
  return published != kOk ? published : code_of(metrics);
}

}  // namespace rtrs::perf
