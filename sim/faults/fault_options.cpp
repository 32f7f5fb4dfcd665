// Draws which fault classes are on in a run. Defines the names of the classes.
#include <algorithm>
#include <span>

#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

constexpr auto kFirstRare = static_cast<unsigned>(FaultClass::black_hole);
constexpr auto kFirstDrawnAlone = static_cast<unsigned>(FaultClass::crowd);
constexpr auto kFirstLate = static_cast<unsigned>(FaultClass::blackout) + 1;

}  // namespace

const char* to_string(FaultClass c) noexcept {
  static constexpr auto kNames = std::to_array<const char*>({
#define RTRS_SIM_FAULT(name, text) #name,
      RTRS_SIM_FAULTS(RTRS_SIM_FAULT)
#undef RTRS_SIM_FAULT
  });
  const auto index = static_cast<std::size_t>(c);
  return index < kNames.size() ? kNames[index] : "unknown";
}

const char* text_of(FaultClass c) noexcept {
  static constexpr auto kTexts = std::to_array<const char*>({
#define RTRS_SIM_FAULT(name, text) text,
      RTRS_SIM_FAULTS(RTRS_SIM_FAULT)
#undef RTRS_SIM_FAULT
  });
  const auto index = static_cast<std::size_t>(c);
  return index < kTexts.size() ? kTexts[index] : "unknown";
}

const FaultKind& kind_of(FaultClass c) noexcept {
  static constexpr auto kKinds = std::to_array<const FaultKind*>({
#define RTRS_SIM_FAULT(name, text) &name##_fault,
      RTRS_SIM_FAULTS(RTRS_SIM_FAULT)
#undef RTRS_SIM_FAULT
  });
  return *kKinds[static_cast<std::size_t>(c)];
}

FaultOptions draw_fault_options(ChoiceSource& choice, Nanos time_scale) {
  const ScopedGroup group(choice, Label::swarm);
  FaultOptions options;
  for (std::uint32_t& weight : std::span(options.weight).first(kFirstRare)) {
    const ScopedGroup option(choice, Label::option);
    if (choice.draw(2, Label::fault_class) == 0) continue;
    weight = 1 + choice.draw(100, Label::fault_weight);
  }
  static constexpr std::array<std::uint32_t, 5> kBudgets{0, 1, 2, 3, FaultOptions::kUnlimited};
  options.budget = kBudgets[choice.draw(kBudgets.size(), Label::fault_budget)];
  options.mean_gap = time_scale / 2;
  options.min_hold = time_scale / 100;
  options.mean_hold = time_scale;
  return options;
}

void draw_rare_faults(ChoiceSource& choice, FaultOptions& options) {
  const ScopedGroup group(choice, Label::rare_swarm);
  if (choice.draw(2, Label::rare_swarm) == 0) return;
  for (std::uint32_t& weight : std::span(options.weight).subspan(kFirstRare, kFirstDrawnAlone - kFirstRare)) {
    const ScopedGroup option(choice, Label::option);
    if (choice.draw(2, Label::rare_swarm) == 0) continue;
    weight = 1 + choice.draw(100, Label::rare_swarm);
  }
  static constexpr std::array<std::uint32_t, 4> kBiases{1, 1, 4, 16};
  options.bias = kBiases[choice.draw(kBiases.size(), Label::rare_swarm)];
}

void draw_crowd(ChoiceSource& choice, FaultOptions& options) {
  const ScopedGroup group(choice, Label::crowd);
  if (choice.draw(4, Label::crowd) == 3)
    options.weight[static_cast<unsigned>(FaultClass::crowd)] = 1 + choice.draw(100, Label::crowd);
}

void draw_hangs(ChoiceSource& choice, FaultOptions& options) {
  if (!choice.hits(25, 100, Label::hang)) return;
  options.weight[static_cast<unsigned>(FaultClass::hang)] = 1 + choice.draw(100, Label::hang);
}

void draw_blackouts(ChoiceSource& choice, FaultOptions& options) {
  options.weight[static_cast<unsigned>(FaultClass::blackout)] = 50 + choice.draw(100, Label::cruel);
  if (options.budget < 3) options.budget = 3;
}

void draw_late_faults(ChoiceSource& choice, FaultOptions& options) {
  for (std::uint32_t& weight : std::span(options.weight).subspan(kFirstLate)) {
    const ScopedGroup option(choice, Label::option);
    if (choice.hits(1, 8, Label::late_fault)) weight = 1 + choice.draw(100, Label::late_fault);
  }
}

std::string FaultOptions::describe() const {
  std::string text;
  for (unsigned i = 0; i < kFaultClasses; ++i) {
    if (weight[i] == 0) continue;
    text += std::string(text.empty() ? "" : " ") + to_string(static_cast<FaultClass>(i)) + "=" +
            std::to_string(weight[i]);
  }
  if (text.empty()) text = "none";
  if (pause_factor > 1) text += " pauses " + std::to_string(pause_factor) + " times as long";
  if (bias > 1) text += " bias=" + std::to_string(bias);
  return text + " budget=" + (budget == kUnlimited ? "unlimited" : std::to_string(budget));
}

}  // namespace rtrs::sim
