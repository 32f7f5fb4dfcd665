#include "sim/choices/forked_choices.hpp"

namespace rtrs::sim {

std::uint32_t ForkingChoice::choose(std::uint32_t n, Label label) {
  if (!rest_ && next_ < points_.size() && drawn() == points_[next_]) {
    ++next_;
    if (const auto seed = decide_(drawn())) rest_.emplace(*seed);
  }
  return rest_ ? rest_->draw(n, label) : inner_->draw(n, label);
}

}  // namespace rtrs::sim
