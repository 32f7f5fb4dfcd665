// Fault class: every link is cut and restored up to four times, at different times, so that at any moment
// some links are cut.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {
namespace {

void cut_again(FaultContext&, LinkId, std::uint32_t times);

Nanos next_beat(FaultContext& s) {
  return s.network.now() +
         draw_exponential(s.choice, s.options().min_hold, s.options().mean_hold / 2, Label::fault_hold);
}

void restore(FaultContext& s, LinkId link, std::uint32_t times) {
  s.heal(link, kBothWays);
  if (times > 1) s.continue_at(next_beat(s), [=](FaultContext& next) { cut_again(next, link, times - 1); });
}

void cut_again(FaultContext& s, LinkId link, std::uint32_t times) {
  s.cut(link, kBothWays);
  s.continue_at(next_beat(s), [=](FaultContext& next) { restore(next, link, times); });
}

bool flap(FaultContext& s) {
  s.note(FaultRecord::Target::everything, kNone, 0);
  for (LinkId link = 0; link < s.network.link_count(); ++link) {
    const std::uint32_t times = s.choice.draw(5, Label::fault_flaps);
    if (times == 0) continue;
    const Nanos first = s.network.now() + draw_time(s.choice, s.hold, Label::fault_gap);
    s.continue_at(first, [=](FaultContext& next) { cut_again(next, link, times); });
  }
  return true;
}

}  // namespace

const FaultKind flap_fault{flap};

}  // namespace rtrs::sim
