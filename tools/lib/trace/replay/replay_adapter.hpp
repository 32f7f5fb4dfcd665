// Adapts a state machine class to ReplayMachine. The class needs `void on(const Input&, Actions&)` for each
// alternative of the input variant, and `fingerprint()`.
#pragma once
#include <array>
#include <utility>
#include <variant>

#include "core/record/invariants.hpp"
#include "tools/lib/trace/replay/replay.hpp"

namespace rtrs::trace {

// Loads the state of a snapshot. Returns nullptr, or why the state is invalid.
template <class Machine>
const char* load_state(Machine& machine, std::string_view bytes, std::uint64_t layout) {
  if constexpr (Reflected<Machine>) {
    if (layout != state_layout(machine)) return "the state has other fields than in this version";
    const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
    const std::uint8_t* const end = at + bytes.size();
    if (state::load(at, end, machine) != end) return "the state is malformed";
    return broken_rule(machine);
  } else {
    return "the machine has no state to load";
  }
}

template <class Machine>
std::string save_state(const Machine& machine, std::uint64_t& layout) {
  if constexpr (Reflected<Machine>) {
    std::string bytes(state::bound(machine), '\0');
    auto* const begin = reinterpret_cast<std::uint8_t*>(bytes.data());
    bytes.resize(static_cast<std::size_t>(state::save(begin, machine) - begin));
    layout = state_layout(machine);
    return bytes;
  }
  return {};
}

template <class Machine, class Inputs, class Actions>
class ReplayAdapter;

template <class Machine, class... Inputs, class Actions>
class ReplayAdapter<Machine, std::variant<Inputs...>, Actions> final : public ReplayMachine {
 public:
  template <class... Arguments>
  explicit ReplayAdapter(Arguments&&... arguments) : machine_(std::forward<Arguments>(arguments)...) {}

  bool feed(const Record& input, const FieldMap& map, Effects& effects) override {
    static constexpr Table kTable = make_table();
    const KindId kind = input.event->id;
    if (kind >= kKindLimit || kTable[kind] == nullptr) return false;
    actions_.clear();
    kTable[kind](machine_, input, map, actions_);
    for (const auto& action : actions_) effects.add(action);
    return true;
  }
  std::uint64_t fingerprint() const override { return machine_.fingerprint(); }
  const char* broken_invariant() const override { return broken_rule(machine_); }
  const char* load(std::string_view bytes, std::uint64_t layout) override {
    return load_state(machine_, bytes, layout);
  }
  std::string save(std::uint64_t& layout) const override { return save_state(machine_, layout); }
  StateText text() const override {
    if constexpr (Reflected<Machine>) return state_text(machine_);
    return {};
  }

 private:
  using Step = void (*)(Machine&, const Record&, const FieldMap&, Actions&);
  using Table = std::array<Step, kKindLimit>;
  template <class Input>
  static void step(Machine& machine, const Record& record, const FieldMap& map, Actions& actions) {
    machine.on(get_struct<Input>(record, map), actions);
  }
  static constexpr Table make_table() {
    Table table{};
    ((table[kKindOf<Inputs>] = &step<Inputs>), ...);
    return table;
  }

  Machine machine_;
  Actions actions_;
};

}  // namespace rtrs::trace
