// Prints the faults of a run that are chances of a single message, with their times; the others are in the
// world's journal.
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
