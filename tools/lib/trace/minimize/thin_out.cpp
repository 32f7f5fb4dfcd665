#include "tools/lib/trace/minimize/thin_out.hpp"

#include <set>

namespace rtrs::tools {

namespace {

using Numbers = std::vector<std::uint32_t>;

bool keep_if_failing(Numbers& kept, const Numbers& candidate, const Thinning& how) {
  if (candidate.size() == kept.size()) return false;
  auto failing = how.trial(candidate);
  if (failing) kept = std::move(*failing);
  return failing.has_value();
}

bool drop_groups(Numbers& kept, const Thinning::Grouping& group_of, const Thinning& how) {
  std::set<std::uint32_t> groups;
  for (const std::uint32_t number : kept) groups.insert(group_of(number));
  groups.erase(Thinning::kNoGroup);
  bool any = false;
  for (const std::uint32_t group : groups) {
    if (how.over()) break;
    Numbers candidate = kept;
    std::erase_if(candidate, [&](std::uint32_t number) { return group_of(number) == group; });
    any = keep_if_failing(kept, candidate, how) || any;
  }
  return any;
}

// Tries to remove each group of `step` consecutive items, starting at the end.
bool drop_runs(Numbers& kept, std::size_t step, const Thinning& how) {
  bool any = false;
  for (std::size_t end = kept.size(); end > 0 && !how.over();) {
    const std::size_t begin = end > step ? end - step : 0;
    Numbers candidate = kept;
    candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(begin),
                    candidate.begin() + static_cast<std::ptrdiff_t>(end));
    any = keep_if_failing(kept, candidate, how) || any;
    end = std::min(begin, kept.size());
  }
  return any;
}

}  // namespace

bool thin_out(Numbers& kept, const Thinning& how) {
  for (bool again = true; again && !how.over();) {
    again = false;
    for (const Thinning::Grouping& grouping : how.groupings)
      again = drop_groups(kept, grouping, how) || again;
    for (std::size_t step = kept.size() / 2; step != 0 && !how.over(); step /= 2)
      again = drop_runs(kept, step, how) || again;
  }
  return !how.over();
}

}  // namespace rtrs::tools
