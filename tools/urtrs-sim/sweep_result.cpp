#include "tools/urtrs-sim/sweep_result.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/lib/files/read_bounded.hpp"
#include "tools/lib/text/json_depth.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/urtrs-sim/result_fields.hpp"

namespace rtrs::sim_tool {

namespace {

using nlohmann::ordered_json;

constexpr const char* kResultKind = "urtrs-sim result";
constexpr const char* kTimesKind = "urtrs-sim times";
constexpr std::size_t kMostMiB = 4;
constexpr int kMostDepth = 8;

std::string hex_of(std::uint64_t hash) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

ordered_json json_of(const std::vector<Reached>& all) {
  auto list = ordered_json::array();
  for (const Reached& one : all) {
    list.push_back({{"name", one.name}, {"seeds", one.seeds}});
    if (one.seeds != 0) list.back()["first"] = one.first;
  }
  return list;
}

ordered_json json_of(const SweepResult::Counts& counts) {
  auto all = ordered_json::object();
  for (const auto& [name, count] : counts) all[name] = count;
  return all;
}

bool add_number(std::uint64_t& sum, std::uint64_t more) {
  if (more > std::numeric_limits<std::uint64_t>::max() - sum) return false;
  sum += more;
  return true;
}

bool add_counts(SweepResult::Counts& sum, const SweepResult::Counts& more) {
  if (sum.size() != more.size()) return false;
  for (std::size_t at = 0; at < sum.size(); ++at)
    if (sum[at].first != more[at].first || !add_number(sum[at].second, more[at].second)) return false;
  return true;
}

bool add_reached(std::vector<Reached>& sum, const std::vector<Reached>& more) {
  if (sum.size() != more.size()) return false;
  for (std::size_t at = 0; at < sum.size(); ++at) {
    if (sum[at].name != more[at].name || !add_number(sum[at].seeds, more[at].seeds)) return false;
    sum[at].first = std::min(sum[at].first, more[at].first);
  }
  return true;
}

}  // namespace

std::uint64_t SweepResult::count(const std::string& name) const {
  for (const auto& [other, number] : counts)
    if (other == name) return number;
  return 0;
}

std::string to_text(const SweepResult& result) {
  const ordered_json all{{"schema_version", 1},
                         {"kind", kResultKind},
                         {"version", result.version},
                         {"command", result.command},
                         {"worlds", result.worlds},
                         {"checks", result.checks},
                         {"seeds", text_of(result.seeds)},
                         {"hash", hex_of(result.hash)},
                         {"counts", json_of(result.counts)},
                         {"failures", result.failures.json()},
                         {"faults", json_of(result.faults)},
                         {"marks", json_of(result.marks)},
                         {"pairs", json_of(result.pairs)}};
  return tools::json_text(all, 1) + "\n";
}

tl::expected<SweepResult, std::string> parse_result(const std::string& text) {
  const auto wrong =
      tl::make_unexpected("it is not a result of urtrs-sim; `urtrs-sim sweep --result` writes one");
  if (tools::is_nested_deeper(text, kMostDepth)) return wrong;
  const ordered_json found = ordered_json::parse(text, nullptr, false);
  if (!found.is_object()) return wrong;
  Fields fields(found);
  if (fields.text("kind") != kResultKind) return wrong;
  if (fields["schema_version"] != 1)
    return tl::make_unexpected("it has another format than this version of urtrs-sim; write it again");
  SweepResult read;
  read.version = fields.words("version");
  if (found.contains("command")) read.command = fields.word("command");
  if (read.command != "sweep" && read.command != "scenarios") return wrong;
  read.worlds = fields.worlds("worlds");
  read.checks = fields.words("checks");
  const auto seeds = parse_seed_range(fields.text("seeds"));
  if (!fields.good || !seeds || text_of(*seeds) != fields.text("seeds")) return wrong;
  read.seeds = *seeds;
  read.hash = fields.hash("hash");
  fields.counts("counts", read.counts);
  fields.counts("faults", read.faults);
  fields.reached("marks", read.seeds, read.marks);
  fields.reached("pairs", read.seeds, read.pairs);
  if (!fields.good || !read.failures.read(fields["failures"], read.seeds.first, read.seeds.end)) return wrong;
  return read;
}

tl::expected<SweepResult, std::string> read_result(const std::string& file) {
  const auto text = tools::read_bounded(file, kMostMiB);
  if (!text) return tl::make_unexpected(text.error());
  return parse_result(*text);
}

bool add_result(SweepResult& sum, const SweepResult& more) {
  sum.hash += more.hash;
  return add_counts(sum.counts, more.counts) && add_counts(sum.faults, more.faults) &&
         add_reached(sum.marks, more.marks) && add_reached(sum.pairs, more.pairs) &&
         sum.failures.add(more.failures);
}

std::string to_text(const SweepTimes& times) {
  const ordered_json all{{"schema_version", 1},
                         {"kind", kTimesKind},
                         {"seeds", times.seeds},
                         {"process_s", times.process_s},
                         {"seeds_per_process_s", times.rate()}};
  return tools::json_text(all, 1) + "\n";
}

tl::expected<SweepTimes, std::string> read_times(const std::string& file) {
  const std::string name = file + kTimesEnding;
  if (::access(name.c_str(), F_OK) != 0 && errno == ENOENT) return SweepTimes{};
  const auto text = tools::read_bounded(name, 1);
  if (!text) return tl::make_unexpected(name + ": " + text.error());
  const bool deep = tools::is_nested_deeper(*text, kMostDepth);
  const ordered_json found = deep ? ordered_json() : ordered_json::parse(*text, nullptr, false);
  const auto wrong = tl::make_unexpected(name + ": it has no times of a result; remove it");
  if (!found.is_object() || Fields(found).text("kind") != kTimesKind || !found.contains("seeds") ||
      !found["seeds"].is_number_unsigned() || !found.contains("process_s") || !found["process_s"].is_number())
    return wrong;
  const SweepTimes times{found["seeds"].get<std::uint64_t>(), found["process_s"].get<double>()};
  if (!(times.process_s >= 0)) return wrong;
  return times;
}

}  // namespace rtrs::sim_tool
