#include "sim/choices/shrink.hpp"

#include <algorithm>
#include <array>

namespace rtrs::sim {

namespace {

bool is_removable(Label label) noexcept {
  return label == Label::fault_span || label == Label::request || label == Label::admin ||
         label == Label::planned || label == Label::recover;
}
bool is_all_zero(const ChoiceLog& choice_log, const ChoiceGroup& group) {
  return std::all_of(choice_log.draws.begin() + static_cast<std::ptrdiff_t>(group.begin),
                     choice_log.draws.begin() + static_cast<std::ptrdiff_t>(group.end),
                     [](const Draw& draw) { return draw.value == 0; });
}

// Marks all draws of groups that the shrinker edits as a whole.
std::vector<bool> covered_draws(const ChoiceLog& choice_log) {
  std::vector<bool> covered(choice_log.draws.size());
  for (const ChoiceGroup& group : choice_log.groups)
    if (is_removable(group.label) || group.label == Label::option)
      std::fill(covered.begin() + static_cast<std::ptrdiff_t>(group.begin),
                covered.begin() + static_cast<std::ptrdiff_t>(group.end), true);
  return covered;
}

constexpr auto kLabels = static_cast<unsigned>(Label::planned) + 1;

class Shrinker {
 public:
  Shrinker(const LogTrial& trial, const ShrinkOptions& options) : trial_(trial), options_(options) {}

  ShrinkResult run(const ChoiceLog& failing) {
    ShrinkResult result;
    result.before = size_of(failing);
    result.choice_log = best_ = failing;
    // The recorded choice log must fail before any change.
    if (attempt(failing)) {
      while (!over() && round()) {
      }
      result.complete = !over();
    }
    result.choice_log = best_;
    result.after = size_of(best_);
    result.runs = runs_;
    return result;
  }

 private:
  using Ids = std::vector<std::size_t>;
  using Edit = void (Shrinker::*)(ChoiceLog&, std::size_t) const;

  bool over() const { return runs_ >= options_.max_runs || (options_.out_of_time && options_.out_of_time()); }

  // Cost of a choice log, most important part first; lower is better.
  static std::array<std::uint64_t, 4> cost(const ChoiceLog& choice_log) {
    const LogSize size = size_of(choice_log);
    std::uint64_t sum = 0;
    for (const Draw& draw : choice_log.draws) sum += draw.value;
    return {size.faults + size.operations + size.requests, size.groups(), choice_log.draws.size(), sum};
  }

  bool attempt(const ChoiceLog& candidate) {
    if (over()) return false;
    ++runs_;
    std::optional<ChoiceLog> drawn = trial_(candidate);
    if (!drawn) return false;
    if (runs_ > 1 && cost(*drawn) >= cost(best_)) return false;
    best_ = std::move(*drawn);
    if (options_.better) options_.better(best_);
    return true;
  }

  void mark_left_out(ChoiceLog& choice_log, std::size_t group) const {
    choice_log.groups[group].left_out = true;
  }
  void make_calm(ChoiceLog& choice_log, std::size_t group) const {
    for (std::size_t at = choice_log.groups[group].begin; at < choice_log.groups[group].end; ++at)
      choice_log.draws[at].value = 0;
  }
  void zero(ChoiceLog& choice_log, std::size_t draw) const { choice_log.draws[draw].value = 0; }

  // Edits as many of the items from `list` as possible: tries all, then halves, quarters, and so on down to
  // single items. A success renumbers the items, so the search continues at the same position, from the end
  // of the run to its beginning.
  template <class List>
  bool thin_out(List list, Edit edit) {
    bool any = false;
    std::size_t left = list(best_).size();
    for (std::size_t step = left; step != 0 && !over(); step = step == 1 ? 0 : (step + 1) / 2) {
      std::size_t kept = 0;  // number of items at the end that cannot be edited
      while (!over()) {
        const Ids items = list(best_);
        if (kept >= items.size()) break;
        const std::size_t end = items.size() - kept;
        const std::size_t begin = end > step ? end - step : 0;
        ChoiceLog candidate = best_;
        for (std::size_t at = begin; at < end; ++at) (this->*edit)(candidate, items[at]);
        if (attempt(candidate)) {
          any = true;
          // The edited items are no longer in the list.
          continue;
        }
        kept += end - begin;
      }
      left = list(best_).size();
      step = std::min(step, std::max<std::size_t>(left, 1));
    }
    return any;
  }

  static Ids optional_spans(const ChoiceLog& choice_log, std::initializer_list<Label> labels) {
    Ids ids;
    for (std::size_t at = 0; at < choice_log.groups.size(); ++at)
      if (!choice_log.groups[at].left_out &&
          std::find(labels.begin(), labels.end(), choice_log.groups[at].label) != labels.end())
        ids.push_back(at);
    return ids;
  }
  static Ids options_of(const ChoiceLog& choice_log) {
    Ids ids;
    for (std::size_t at = 0; at < choice_log.groups.size(); ++at)
      if (choice_log.groups[at].label == Label::option && !is_all_zero(choice_log, choice_log.groups[at]))
        ids.push_back(at);
    return ids;
  }
  static Ids fired(const ChoiceLog& choice_log) {
    Ids ids;
    for (std::size_t at = 0; at < choice_log.draws.size(); ++at)
      if (is_fault(choice_log.draws[at])) ids.push_back(at);
    return ids;
  }
  template <class Chosen>
  static Ids uncovered(const ChoiceLog& choice_log, Chosen chosen) {
    const std::vector<bool> covered = covered_draws(choice_log);
    Ids ids;
    for (std::size_t at = 0; at < choice_log.draws.size(); ++at)
      if (choice_log.draws[at].value != 0 && !covered[at] && chosen(choice_log.draws[at])) ids.push_back(at);
    return ids;
  }

  // Makes all delays and orders of a kind calm at once.
  template <class Chosen>
  bool zero_noise(Chosen chosen) {
    const Ids ids = uncovered(best_, chosen);
    if (ids.empty()) return false;
    ChoiceLog candidate = best_;
    for (const std::size_t at : ids) candidate.draws[at].value = 0;
    return attempt(candidate);
  }

  // Lowers each value separately as far as possible.
  bool lower_values() {
    bool any = false;
    for (std::size_t at = 0; at < best_.draws.size() && !over(); ++at) {
      const std::uint32_t value = best_.draws[at].value;
      if (value == 0 || best_.draws[at].n == ChoiceSource::kMillion) continue;
      std::uint32_t low = 0;
      std::uint32_t high = value;  // known to fail in the same way
      while (low < high && !over()) {
        const std::uint32_t middle = low == 0 && high == value ? 0 : low + (high - low) / 2;
        ChoiceLog candidate = best_;
        candidate.draws[at].value = middle;
        if (attempt(candidate)) {
          any = true;
          if (at >= best_.draws.size() || best_.draws[at].value != middle) break;
          high = middle;
        } else {
          low = middle + 1;
          // Stops within 1/16 of the value.
          if (high - low < high / 16 + 1) break;
        }
      }
    }
    return any;
  }

  bool round() {
    bool any = zero_noise([](const Draw&) { return true; });
    for (unsigned label = 0; label < kLabels && !over(); ++label)
      any = zero_noise([&](const Draw& draw) { return draw.label == static_cast<Label>(label); }) || any;
    any =
        thin_out([](const ChoiceLog& choice_log) { return optional_spans(choice_log, {Label::fault_span}); },
                 &Shrinker::mark_left_out) ||
        any;
    any = thin_out(fired, &Shrinker::zero) || any;
    any = thin_out(
              [](const ChoiceLog& choice_log) {
                return optional_spans(choice_log, {Label::admin, Label::planned, Label::recover});
              },
              &Shrinker::mark_left_out) ||
          any;
    any = thin_out([](const ChoiceLog& choice_log) { return optional_spans(choice_log, {Label::request}); },
                   &Shrinker::mark_left_out) ||
          any;
    any = thin_out(options_of, &Shrinker::make_calm) || any;
    any = thin_out(
              [](const ChoiceLog& choice_log) {
                return uncovered(choice_log, [](const Draw&) { return true; });
              },
              &Shrinker::zero) ||
          any;
    any = lower_values() || any;
    return any;
  }

  const LogTrial& trial_;
  const ShrinkOptions& options_;
  ChoiceLog best_;
  std::uint64_t runs_ = 0;
};

}  // namespace

bool is_fault(const Draw& draw) noexcept {
  if (draw.value == 0 || draw.n != ChoiceSource::kMillion) return false;
  switch (draw.label) {
    case Label::torn_write:
    case Label::rnr_placement:
    case Label::source_read:
    case Label::ghost_delay:
    case Label::drain_delay:
    case Label::late_placement:
    case Label::qp_error:
    case Label::cm_lost:
    case Label::cm_late:
    case Label::info_cut:
    case Label::storage_error:
    case Label::storage_order:
      return true;
    default:
      return false;
  }
}

LogSize size_of(const ChoiceLog& choice_log) {
  LogSize size;
  for (std::size_t at = 0; at < choice_log.groups.size(); ++at) {
    const ChoiceGroup& group = choice_log.groups[at];
    if (group.left_out) continue;
    size.faults += group.label == Label::fault_span ? 1 : 0;
    size.requests += group.label == Label::request ? 1 : 0;
    size.operations += group.label == Label::admin || group.label == Label::planned ? 1 : 0;
    // Counts only the innermost of nested groups.
    const bool innermost =
        at + 1 == choice_log.groups.size() || choice_log.groups[at + 1].depth <= group.depth;
    size.options += group.label == Label::option && innermost && !is_all_zero(choice_log, group) ? 1 : 0;
  }
  const std::vector<bool> covered = covered_draws(choice_log);
  for (std::size_t at = 0; at < choice_log.draws.size(); ++at) {
    if (is_fault(choice_log.draws[at])) {
      ++size.faults;
    } else if (choice_log.draws[at].value != 0 && !covered[at]) {
      ++size.others;
    }
  }
  return size;
}

std::string to_text(const LogSize& size) {
  return std::to_string(size.faults) + " faults, " + std::to_string(size.requests) + " requests, " +
         std::to_string(size.operations) + " operations, " + std::to_string(size.options) + " options, " +
         std::to_string(size.others) + " delays and orders";
}

ShrinkResult shrink(const ChoiceLog& failing, const LogTrial& trial, const ShrinkOptions& options) {
  return Shrinker(trial, options).run(failing);
}

}  // namespace rtrs::sim
