#include "tools/urtrs-sim/failure_groups.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "sim/oracles/judge.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/trace/choice_log/without_numbers.hpp"
#include "tools/urtrs-sim/result_fields.hpp"

namespace rtrs::sim_tool {

namespace {

using nlohmann::ordered_json;

bool add_to(std::uint64_t& sum, std::uint64_t more) {
  if (more > std::numeric_limits<std::uint64_t>::max() - sum) return false;
  sum += more;
  return true;
}

}  // namespace

bool FailureGroups::put(const Key& key, const Group& group) {
  Group& kept = groups_[key];
  if (!add_to(kept.failures, group.failures)) return false;
  if (kept.seeds.empty() || group.seeds.front() < kept.seeds.front()) kept.seen = group.seen;
  std::vector<std::uint64_t> seeds;
  std::set_union(kept.seeds.begin(), kept.seeds.end(), group.seeds.begin(), group.seeds.end(),
                 std::back_inserter(seeds));
  seeds.resize(std::min(seeds.size(), kMostSeeds));
  kept.seeds = std::move(seeds);
  if (groups_.size() > kMostGroups) groups_.erase(std::prev(groups_.end()));
  return true;
}

void FailureGroups::add(const FoundFailure& failure) {
  // The file holds valid UTF-8 only; other bytes would sort differently before and after reading it.
  const std::string seen = tools::shortened(tools::printable(failure.seen), kMostText);
  total_ += 1;
  put({failure.rule, tools::without_numbers(seen), failure.world}, {1, {failure.seed}, seen});
}

bool FailureGroups::add(const FailureGroups& other) {
  if (!add_to(total_, other.total_)) return false;
  return std::all_of(other.groups_.begin(), other.groups_.end(),
                     [this](const auto& one) { return put(one.first, one.second); });
}

ordered_json FailureGroups::json() const {
  ordered_json all{{"total", total_}, {"groups", ordered_json::array()}};
  for (const auto& [key, group] : groups_)
    all["groups"].push_back({{"rule", key.rule},
                             {"place", key.place},
                             {"world", key.world},
                             {"failures", group.failures},
                             {"seeds", group.seeds},
                             {"seen", group.seen}});
  return all;
}

bool FailureGroups::read(const ordered_json& from, std::uint64_t first, std::uint64_t end) {
  if (!from.is_object()) return false;
  Fields all(from);
  total_ = all.number("total");
  if (!all.good || !all["groups"].is_array() || all["groups"].size() > kMostGroups) return false;
  std::uint64_t listed = 0;
  for (const ordered_json& one : all["groups"]) {
    if (!one.is_object()) return false;
    Fields fields(one);
    Group group{fields.number("failures"), {}, fields.text("seen")};
    const Key key{fields.words("rule"), fields.text("place"), fields.word("world")};
    if (!fields.good || !fields["seeds"].is_array()) return false;
    for (const ordered_json& seed : fields["seeds"]) {
      if (!seed.is_number_unsigned() || seed < first || seed >= end) return false;
      if (!group.seeds.empty() && seed <= group.seeds.back()) return false;
      group.seeds.push_back(seed.get<std::uint64_t>());
    }
    if (group.seeds.empty() || group.seeds.size() != std::min<std::uint64_t>(group.failures, kMostSeeds))
      return false;
    if (key.rule.empty() || groups_.count(key) != 0 || !add_to(listed, group.failures)) return false;
    put(key, group);
  }
  return listed == total_ || (listed < total_ && groups_.size() == kMostGroups);
}

std::string run_command(const std::string& rule, const std::string& world, std::uint64_t seed,
                        const std::string& options) {
  const std::string number = std::to_string(seed);
  if (rule == sim::id_of(sim::Oracle::determinism) || rule == kReplayRule)
    return "urtrs-sim sweep --seeds " + number + options + " --check-determinism 100" +
           (rule == kReplayRule ? " --replay-check" : "");
  return "urtrs-sim run " + (world.empty() ? "" : "--scenario " + world + " ") + "--seed " + number + options;
}

void FailureGroups::print(const std::string& options, const std::string& comment) const {
  for (const auto& [key, group] : groups_) {
    std::string seeds;
    for (const std::uint64_t seed : group.seeds) seeds += " " + std::to_string(seed);
    if (group.failures > group.seeds.size()) seeds += " ...";
    std::printf("FAIL %s %llu time%s, seeds%s\n  seen: %s\n  reproduce: %s  %s\n",
                tools::printable(key.rule).c_str(), static_cast<unsigned long long>(group.failures),
                group.failures == 1 ? "" : "s", seeds.c_str(), tools::printable(group.seen).c_str(),
                tools::printable(run_command(key.rule, key.world, group.seeds.front(), options)).c_str(),
                comment.c_str());
  }
}

}  // namespace rtrs::sim_tool
