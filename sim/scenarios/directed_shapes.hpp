// What directed worlds of several tables have in common.
#pragma once
#include "sim/cluster/scenario.hpp"

namespace rtrs::sim {

inline void from_start(Scenario& s, ChoiceSource&) {
  s.faults_from_start = true;
}
inline void from_start_alone(Scenario& s, ChoiceSource&) {
  s.faults_from_start = true;
  s.paths = 1;
}
inline void busy(Scenario& s, ChoiceSource&) {
  s.workload.requests = 200;
  s.workload.window = 8;
  s.workload.gap = microseconds(50);
}
inline void busy_fresh_keys(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.server.always_invalidate = true;
}

}  // namespace rtrs::sim
