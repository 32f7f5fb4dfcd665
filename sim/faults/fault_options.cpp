// Options of faults that use separate random streams.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

void draw_hangs(ChoiceSource& choice, FaultOptions& options) {
  if (!choice.hits(25, 100, Label::hang)) return;
  options.weight[static_cast<unsigned>(FaultClass::hang)] = 1 + choice.draw(100, Label::hang);
}

void draw_blackouts(ChoiceSource& choice, FaultOptions& options) {
  options.weight[static_cast<unsigned>(FaultClass::blackout)] = 50 + choice.draw(100, Label::cruel);
  if (options.budget < 3) options.budget = 3;
}

}  // namespace rtrs::sim
