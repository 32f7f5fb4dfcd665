#include "sim/world/wide.hpp"

#include <algorithm>
#include <array>

namespace rtrs::sim {

namespace {
constexpr std::uint32_t kOneIn = 150;  // one seed in this many gives a wide world
}  // namespace

Wide draw_wide(ChoiceSource& choice) {
  const ScopedGroup group(choice, Label::option);
  Wide wide;
  if (!choice.hits(1, kOneIn, Label::wide)) return wide;
  if (choice.draw(2, Label::wide) == 0) {
    wide.paths = kPathsInside + 1 + choice.draw(24, Label::wide);
    return wide;
  }
  // Sizes around multiples of the batch size.
  static constexpr std::array<std::uint16_t, 6> kSizes{
      kConsPerStep, kConsPerStep + 1, 2 * kConsPerStep, kConsPerStep - 1, 257, 0};
  wide.connections = kSizes[choice.draw(kSizes.size(), Label::wide)];
  if (wide.connections == 0)
    wide.connections = static_cast<std::uint16_t>(200 + choice.draw(801, Label::wide));
  return wide;
}

void prepare(Scenario& s, const Wide& wide) {
  if (wide.connections == 0) return;
  s.paths = std::min(s.paths, 2U);
  s.clients = 1;
  s.interval = std::max(s.interval, seconds(1));
}

void widen(Scenario& s, const Wide& wide) {
  if (wide.paths != 0) s.paths = wide.paths;
  if (wide.connections != 0) s.client.con_num = wide.connections;
}

}  // namespace rtrs::sim
