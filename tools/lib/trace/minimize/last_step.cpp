#include "tools/lib/trace/minimize/last_step.hpp"

#include <algorithm>

#include "core/record/codec.hpp"
#include "tools/lib/trace/minimize/players.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::tools {

namespace {

using Leaves = std::vector<std::uint64_t>;

template <class AnyAction>
std::size_t kind_of(const AnyAction& action) {
  return visit_event(
      [](const auto& one) -> std::size_t { return trace::kKindOf<std::remove_cvref_t<decltype(one)>>; },
      action);
}

// Calls visit() for each number in the fields, in order. Skips uuids, because they come from inputs and do
// not change. Visits all elements of a byte array up to its capacity, so that all actions of one kind have
// equally many numbers.
template <class One, class Visit>
void visit_numbers(One& action, Visit visit) {
  trace::visit_leaves(action, [&visit](auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (requires { field.units; }) {
      visit(field.length);
      for (auto& unit : field.units) visit(unit);
    } else if constexpr (!std::is_same_v<Field, wire::Uuid>) {
      visit(field);
    }
  });
}

template <class AnyAction>
Leaves leaves_of(const AnyAction& action) {
  Leaves leaves;
  visit_event(
      [&leaves](const auto& one) {
        visit_numbers(one,
                      [&leaves](const auto& field) { leaves.push_back(static_cast<std::uint64_t>(field)); });
      },
      action);
  return leaves;
}

template <class AnyAction>
void set_leaves(AnyAction& action, const Leaves& leaves) {
  std::size_t next = 0;
  visit_event(
      [&](auto& one) {
        visit_numbers(one, [&](auto& field) {
          field = static_cast<std::remove_cvref_t<decltype(field)>>(leaves[next++]);
        });
      },
      action);
}

template <class AnyAction>
std::string words(const AnyAction& action) {
  return visit_event(
      [](const auto& one) {
        constexpr trace::KindId kind = trace::kKindOf<std::remove_cvref_t<decltype(one)>>;
        std::uint8_t bytes[trace::kMaxBuiltinRecord];
        const std::uint8_t* const end = trace::put_fields(bytes, one);
        const trace::EventInfo& event = *trace::builtin_schema().find(kind);
        std::vector<trace::Value> values(event.fields.size());
        trace::get_values(bytes, end, event, values.data());
        return event.name + ' ' + trace::fields_text(event, values, trace::builtin_schema());
      },
      action);
}

// First difference between two steps, independent of identifiers.
struct StepDifference {
  std::size_t at = 0;                                 // index of the first action that differs
  std::size_t recorded = kNothing, rerun = kNothing;  // kinds of that action; kNothing: no such action
  std::size_t field = kNothing;                       // first different field, if the kinds are equal
  static constexpr std::size_t kNothing = ~std::size_t{0};
  bool looks_like(const StepDifference& other) const {
    return recorded == other.recorded && rerun == other.rerun && field == other.field;
  }
};

template <class Actions>
std::optional<StepDifference> step_difference(const Actions& recorded, const Actions& rerun) {
  for (std::size_t at = 0; at < std::max(recorded.size(), rerun.size()); ++at) {
    StepDifference parting;
    parting.at = at;
    if (at < recorded.size()) parting.recorded = kind_of(recorded[at]);
    if (at < rerun.size()) parting.rerun = kind_of(rerun[at]);
    if (parting.recorded == parting.rerun) {
      const Leaves a = leaves_of(recorded[at]), b = leaves_of(rerun[at]);
      const auto differs = std::mismatch(a.begin(), a.end(), b.begin()).first;
      if (differs == a.end()) continue;
      parting.field = static_cast<std::size_t>(differs - a.begin());
    }
    return parting;
  }
  return std::nullopt;
}

// Returns the n-th action of the kind, counted from 0; nullptr if there are fewer.
template <class Actions>
const auto* counterpart(const Actions& all, std::size_t kind, std::size_t n) {
  const typename Actions::value_type* none = nullptr;
  for (const auto& action : all)
    if (kind_of(action) == kind && n-- == 0) return &action;
  return none;
}

// Pairs each recorded action with an action of the rerun, given by its number among the actions of its kind.
// Equal actions are paired first, then the remaining ones in order. kNone: no action is left.
constexpr std::size_t kNone = ~std::size_t{0};
template <class Actions>
std::vector<std::size_t> paired(const Actions& recorded, const Actions& rerun) {
  std::vector<std::size_t> pairs(recorded.size(), kNone);
  std::vector<bool> taken(rerun.size());
  for (const bool equal : {true, false}) {
    for (std::size_t one = 0; one < recorded.size(); ++one) {
      std::size_t number = 0;
      for (std::size_t other = 0; other < rerun.size() && pairs[one] == kNone; ++other) {
        if (kind_of(rerun[other]) != kind_of(recorded[one])) continue;
        const std::size_t n = number++;
        if (taken[other] || (equal && leaves_of(rerun[other]) != leaves_of(recorded[one]))) continue;
        taken[other] = true;
        pairs[one] = n;
      }
    }
  }
  return pairs;
}

// Returns an action that differs from `after` in the same way as `recorded` differs from `before`.
template <class AnyAction>
AnyAction moved(const AnyAction& recorded, const AnyAction& before, const AnyAction& after) {
  Leaves leaves = leaves_of(recorded);
  const Leaves from = leaves_of(before), to = leaves_of(after);
  for (std::size_t at = 0; at < leaves.size(); ++at) leaves[at] = leaves[at] - from[at] + to[at];
  AnyAction result = recorded;
  set_leaves(result, leaves);
  return result;
}

template <class Machine>
auto recorded_actions(const Machine& trace, std::size_t input) {
  using Actions = std::remove_cvref_t<decltype(trace.actions)>;
  const std::size_t begin = trace.metas[input].first_action;
  const std::size_t end =
      input + 1 < trace.metas.size() ? trace.metas[input + 1].first_action : trace.actions.size();
  return Actions(trace.actions.begin() + static_cast<std::ptrdiff_t>(begin),
                 trace.actions.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

struct LastStep::Search {
  virtual ~Search() = default;
  virtual std::optional<Candidate> attempt(const Inputs&, const MachineTrace& as) const = 0;
  std::optional<StepDifference> parting;
  std::optional<std::uint64_t> hidden_since;
  std::uint32_t last = 0;              // index of the first input with different actions
  std::optional<std::uint32_t> cause;  // index of the first input with a different state
  std::string recorded, rerun;         // first different action as text; empty: no action
  bool out_of_time = false;
};

// Number of inputs between two reads of the clock.
constexpr std::uint32_t kInputsPerTimeCheck = 256;

namespace {

template <class Base, class Machine>
class SearchIn final : public Base {
 public:
  // Makes two passes: the first finds the difference, the second stops before it. Copying the player at each
  // input instead would be slow, because a player stores all requests so far.
  SearchIn(const Machine& trace, const std::function<bool()>& over) : before_(player_of(trace)) {
    find_parting(trace, over);
    if (!this->parting) return;
    typename Player::Actions list;
    for (std::uint32_t number = 0; number <= this->last; ++number) {
      const auto fed = before_.prepare(trace.inputs[number], number, trace.metas[number]);
      if (number == this->last) return;
      list.clear();
      before_.step(*fed, list);
    }
  }

  std::optional<LastStep::Candidate> attempt(const Inputs& kept, const MachineTrace& as) const override {
    if (kept.empty() || kept.back() != this->last) return std::nullopt;
    if (this->cause && !std::binary_search(kept.begin(), kept.end(), *this->cause)) return std::nullopt;
    const Machine& trace = std::get<Machine>(as.machine);
    auto player = player_of(trace);
    LastStep::Candidate candidate;
    typename Player::Actions list;
    for (const std::uint32_t number : kept) {
      const auto fed = player.prepare(trace.inputs[number], number, trace.metas[number]);
      if (!fed && (number == this->last || number == this->cause)) return std::nullopt;
      if (!fed) continue;
      candidate.inputs.push_back(number);
      if (number == this->last) return differs_alike(trace, player, *fed, candidate);
      list.clear();
      player.step(*fed, list);
    }
    return std::nullopt;
  }

 private:
  using Player = decltype(player_of(std::declval<const Machine&>()));

  void find_parting(const Machine& trace, const std::function<bool()>& over) {
    Player player = player_of(trace);
    typename Player::Actions list;
    for (std::uint32_t number = 0; number < trace.inputs.size(); ++number) {
      this->out_of_time = over && number % kInputsPerTimeCheck == kInputsPerTimeCheck - 1 && over();
      if (this->out_of_time) return;
      const InputMeta& meta = trace.metas[number];
      const auto fed = player.prepare(trace.inputs[number], number, meta);
      if (!fed) return;  // the rest of the trace cannot be replayed
      list.clear();
      player.step(*fed, list);
      rerun_.assign(list.begin(), list.end());
      recorded_ = recorded_actions(trace, number);
      this->parting = step_difference(recorded_, rerun_);
      if (this->parting) {
        const std::size_t at = this->parting->at;
        if (at < recorded_.size()) this->recorded = words(recorded_[at]);
        if (at < rerun_.size()) this->rerun = words(rerun_[at]);
        this->last = number;
        return;
      }
      if (meta.state && *meta.state != player.fingerprint() && !this->cause) {
        this->cause = number;
        this->hidden_since = meta.record;
      }
    }
  }

  // Returns true if the action is for a connection that the configuration does not have.
  template <class AnyAction>
  static bool is_beyond([[maybe_unused]] const AnyAction& action, [[maybe_unused]] const Machine& trace) {
    bool beyond = false;
    if constexpr (std::is_same_v<Machine, ClientInputs>) {
      visit_event(
          [&](const auto& one) {
            if constexpr (requires { one.key; }) beyond = one.key.con >= trace.config.con_num;
          },
          action);
    }
    return beyond;
  }

  std::optional<LastStep::Candidate> differs_alike(const Machine& trace, const Player& before,
                                                   const typename Player::Input& fed,
                                                   LastStep::Candidate& candidate) const {
    Player player = before;
    typename Player::Actions list;
    player.step(fed, list);
    const Actions here(list.begin(), list.end());
    Actions actions;
    const std::vector<std::size_t> pairs = paired(recorded_, rerun_);
    for (std::size_t at = 0; at < recorded_.size(); ++at) {
      const auto& action = recorded_[at];
      std::optional<std::remove_cvref_t<decltype(action)>> named;
      if (pairs[at] == kNone) {
        named = before.renamed(action, before_);
        // The action refers to something that does not exist in the shorter run.
        if (!named && at != this->parting->at) continue;
      } else {
        const auto* now = counterpart(here, kind_of(action), pairs[at]);
        if (now == nullptr && is_beyond(action, trace)) continue;
        if (now != nullptr) named = moved(action, *counterpart(rerun_, kind_of(action), pairs[at]), *now);
      }
      if (!named) return std::nullopt;
      actions.push_back(*named);
    }
    const auto parted = step_difference(actions, here);
    if (!parted || !parted->looks_like(*this->parting)) return std::nullopt;
    candidate.actions = std::move(actions);
    return std::move(candidate);
  }

  using Actions = std::remove_cvref_t<decltype(std::declval<const Machine&>().actions)>;

  Player before_;             // player state before the different step
  Actions recorded_, rerun_;  // actions of the different step: as recorded, and as rerun
};

}  // namespace

LastStep::LastStep(const MachineTrace& machine, const std::function<bool()>& over) {
  std::visit(
      [this, &over](const auto& trace) {
        search_ = std::make_unique<SearchIn<Search, std::remove_cvref_t<decltype(trace)>>>(trace, over);
      },
      machine.machine);
}
LastStep::~LastStep() = default;

bool LastStep::differs() const {
  return search_->parting.has_value();
}
bool LastStep::out_of_time() const {
  return search_->out_of_time;
}
std::optional<std::uint64_t> LastStep::hidden_since() const {
  return search_->parting ? std::nullopt : search_->hidden_since;
}
std::size_t LastStep::inputs() const {
  return search_->last + 1;
}
std::optional<LastStep::Candidate> LastStep::attempt(const Inputs& kept, const MachineTrace& as) const {
  return search_->attempt(kept, as);
}

std::string LastStep::failure() const {
  const auto first_word = [](const std::string& text) {
    return text.empty() ? std::string("nothing") : text.substr(0, text.find(' '));
  };
  return "recorded: " + first_word(search_->recorded) + ", this core: " + first_word(search_->rerun);
}

std::string LastStep::seen() const {
  const auto text = [](const std::string& action) { return action.empty() ? "no further action" : action; };
  return "recorded: " + text(search_->recorded) + "; this core: " + text(search_->rerun);
}

}  // namespace rtrs::tools
