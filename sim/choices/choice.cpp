#include "sim/choices/choice.hpp"

#include <algorithm>
#include <array>

namespace rtrs::sim {
namespace {

// splitmix64: sufficient quality for choices, and the same on every platform.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint32_t random_below(std::uint64_t& state, std::uint32_t n) noexcept {
  return static_cast<std::uint32_t>(((next_random(state) >> 32) * n) >> 32);
}

}  // namespace

const char* to_string(Label label) noexcept {
  static constexpr auto kNames = std::to_array<const char*>({
#define RTRS_SIM_LABEL(name) #name,
      RTRS_SIM_LABELS(RTRS_SIM_LABEL)
#undef RTRS_SIM_LABEL
  });
  const auto index = static_cast<std::size_t>(label);
  return index < kNames.size() ? kNames[index] : "unknown";
}

void ChoiceSource::span_begin(Label label) {
  entered(label);
  if (observer_ != nullptr) observer_->opened(label);
  if (!recording_) return;
  open_.push_back(log_.groups.size());
  log_.groups.push_back(
      ChoiceGroup{label, static_cast<std::uint32_t>(open_.size() - 1), log_.draws.size(), log_.draws.size()});
}

void ChoiceSource::span_end() {
  left();
  if (observer_ != nullptr) observer_->closed();
  // Recording may have started inside this group.
  if (open_.empty()) return;
  log_.groups[open_.back()].end = log_.draws.size();
  open_.pop_back();
}

void ChoiceSource::note_skip(Label label) {
  if (observer_ != nullptr) observer_->left_out(label);
  if (!recording_) return;
  log_.groups.push_back(ChoiceGroup{label, static_cast<std::uint32_t>(open_.size()), log_.draws.size(),
                                    log_.draws.size(), true});
}

std::uint32_t SeededChoice::choose(std::uint32_t n, Label label) {
  if (label >= Label::late_fault) return random_below(late_fault_, n);
  if (label >= Label::wide) return random_below(wide_, n);
  if (label >= Label::host_name) return random_below(host_name_, n);
  if (label >= Label::late_disk) return random_below(late_disk_, n);
  if (label >= Label::pipe_size) return random_below(pipe_, n);
  if (label >= Label::recover) return random_below(recover_, n);
  if (label >= Label::closing) return random_below(closing_, n);
  if (label >= Label::cruel) return random_below(cruel_, n);
  if (label >= Label::disk) return random_below(disk_, n);
  if (label >= Label::hang) return random_below(hang_, n);
  if (label >= Label::dead_link) return random_below(late_, n);
  return random_below(label < Label::rare_swarm ? state_ : rare_, n);
}

PartlyZeroChoice::PartlyZeroChoice(ChoiceSource& inner, std::span<const Label> calm)
    : inner_(inner), calm_(kLabels) {
  for (const Label label : calm) calm_[static_cast<std::size_t>(label)] = true;
}

std::uint32_t PartlyZeroChoice::choose(std::uint32_t n, Label label) {
  const std::uint32_t drawn = inner_.draw(n, label);
  return calm_[static_cast<std::size_t>(label)] ? 0 : drawn;
}

std::uint32_t LoggedChoice::choose(std::uint32_t n, Label label) {
  if (next_ == draws_.size()) return 0;
  const Draw& draw = draws_[next_++];
  if (draw.label != label || draw.n != n) ++mismatches_;
  return draw.value;
}

std::uint32_t PrefixChoice::choose(std::uint32_t n, Label) {
  if (next_ == prefix_.size()) return random_below(state_, n);
  return prefix_[next_++].value;
}

std::uint64_t draw_exponential(ChoiceSource& source, std::uint64_t minimum, std::uint64_t mean, Label label) {
  // Computes -ln(1 - u) for u in [0, 1) with integers only, because floating-point logarithms differ between
  // libraries. Each halving of 1 - u adds ln 2. Between halvings the function is linear, with an error of at
  // most 6 %.
  constexpr std::uint32_t kSteps = 4096;
  const std::uint32_t drawn = source.draw(kSteps, label);
  std::uint32_t rest = kSteps - drawn;  // (1 - u) * kSteps, in 1 .. kSteps
  std::uint64_t halvings = 0;
  while (rest * 2 <= kSteps) {
    rest *= 2;
    ++halvings;
  }
  const std::uint64_t part = std::uint64_t{kSteps - rest} * 2;  // 0 .. kSteps: 1 - u between 1 and 1/2
  const std::uint64_t log2_steps = halvings * kSteps + part;
  constexpr std::uint64_t kLn2PerMille = 693;
  return minimum + mean * kLn2PerMille / 1000 * log2_steps / kSteps;
}

std::uint64_t draw_time(ChoiceSource& source, std::uint64_t range, Label label) {
  constexpr std::uint64_t kFine = 0xffff'fffe;
  if (range == 0) return 0;
  if (range <= kFine) return source.draw(static_cast<std::uint32_t>(range + 1), label);
  const std::uint64_t unit = range / kFine + 1;
  return std::min(range, source.draw(static_cast<std::uint32_t>(range / unit + 1), label) * unit);
}

}  // namespace rtrs::sim
