// Plays a choice log that has been edited. A flat choice log slips out of step as soon as one draw is gone;
// here every group is looked up by its label among those of the group around it, and every draw by its label
// within its group, so that what was left out or made calm does not shift what remains. What the choice log
// does not have is calm, and groups that may be left out are left out.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/choices/choice.hpp"

namespace rtrs::sim {

class GroupedChoice final : public ChoiceSource {
 public:
  explicit GroupedChoice(const ChoiceLog&);

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;
  bool skip(Label) override;
  void entered(Label) override;
  void left() override;

 private:
  // What one group has under one label, in order.
  struct Queue {
    Label label = Label::none;
    std::size_t next = 0;
    std::vector<std::uint32_t> items;  // values of draws, or numbers of nodes
    bool empty() const noexcept { return next == items.size(); }
  };
  struct Node {
    bool left_out = false;
    std::vector<Queue> draws;
    std::vector<Queue> groups;
  };
  static Queue& queue_of(std::vector<Queue>&, Label);
  static Queue* find(std::vector<Queue>&, Label) noexcept;

  std::vector<Node> nodes_;  // 0: the choice log itself
  std::vector<std::uint32_t> open_;
  static constexpr std::uint32_t kCalm = 0xffff'ffff;  // a group that the choice log does not have
};

// The same run in fewer words: without what a GroupedChoice would draw and leave out anyway.
ChoiceLog trimmed(const ChoiceLog&);

}  // namespace rtrs::sim
