// Prints the faults that affect a single message, with their times. The journal of the world contains the
// other faults.
#pragma once
#include "sim/choices/choice.hpp"
#include "sim/world/world.hpp"

namespace rtrs::tools {

class Schedule final : public sim::ChoiceObserver {
 public:
  explicit Schedule(const sim::World& world) noexcept : world_(world) {}
  void drawn(const sim::Draw&) override;
  void opened(sim::Label) override {}
  void closed() override {}
  void left_out(sim::Label) override {}

 private:
  const sim::World& world_;
};

}  // namespace rtrs::tools
