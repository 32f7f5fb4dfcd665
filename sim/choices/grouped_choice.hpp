// Plays an edited choice log. A flat choice log gets misaligned when one draw is removed. This class finds
// each group by its label within the enclosing group, and each draw by its label within its group, so that
// removed or calmed entries do not shift the rest. Draws that are missing in the log are calm; missing groups
// that may be left out are left out.
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
  // Entries of a group with the same label, in order.
  struct Queue {
    Label label = Label::none;
    std::size_t next = 0;
    std::vector<std::uint32_t> items;  // values of draws, or indices of nodes (groups)
    bool empty() const noexcept { return next == items.size(); }
  };
  struct Node {
    bool left_out = false;
    std::vector<Queue> draws;
    std::vector<Queue> groups;
  };
  static Queue& queue_of(std::vector<Queue>&, Label);
  static Queue* find(std::vector<Queue>&, Label) noexcept;

  std::vector<Node> nodes_;  // index 0: the whole choice log
  std::vector<std::uint32_t> open_;
  static constexpr std::uint32_t kCalm = 0xffff'ffff;  // a group that is not in the choice log
};

// Returns an equivalent shorter choice log, without the entries that GroupedChoice would replace by the same
// value if they were missing.
ChoiceLog trimmed(const ChoiceLog&);

}  // namespace rtrs::sim
