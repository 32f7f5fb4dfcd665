// Faults that are drawn from streams of their own.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

void draw_hangs(ChoiceSource& choice, FaultOptions& options) {
  if (!choice.hits(25, 100, Label::hang)) return;
  options.weight[static_cast<unsigned>(FaultClass::hang)] = 1 + choice.draw(100, Label::hang);
}

}  // namespace rtrs::sim
