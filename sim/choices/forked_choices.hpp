// Repeats the beginning of a run and draws the remaining choices again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/choices/choice.hpp"

namespace rtrs::sim {

// From draw number `draw` (0: the first draw of the run) on, the choices come from SeededChoice(seed).
struct Fork {
  std::uint64_t draw = 0;
  std::uint64_t seed = 0;
};

// Repeats the choices of `inner`. At given draws, the owner decides whether the rest of the run is drawn
// again. The owner may call fork(2) in this decision, so that the beginning is played only once for many
// continuations.
class ForkingChoice final : public ChoiceSource {
 public:
  // Called before draw number `draw`. Returns the seed of the rest; nullopt: `inner` continues.
  using Decide = std::function<std::optional<std::uint64_t>(std::uint64_t draw)>;
  // `points`: numbers of draws, in ascending order and without repetitions.
  ForkingChoice(std::unique_ptr<ChoiceSource> inner, std::vector<std::uint64_t> points, Decide decide)
      : inner_(std::move(inner)), points_(std::move(points)), decide_(std::move(decide)) {}

 protected:
  std::uint32_t choose(std::uint32_t n, Label label) override;
  bool skip(Label label) override { return !rest_ && inner_->skips(label); }
  void entered(Label label) override {
    if (!rest_) inner_->span_begin(label);
  }
  void left() override {
    if (!rest_) inner_->span_end();
  }

 private:
  const std::unique_ptr<ChoiceSource> inner_;
  const std::vector<std::uint64_t> points_;
  const Decide decide_;
  std::size_t next_ = 0;
  std::optional<SeededChoice> rest_;
};

}  // namespace rtrs::sim
