// Requests that wait for a permit.
#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void few_permits(Scenario& s, ChoiceSource&) {
  s.workload.requests = 0;
  s.storage.sectors = 8;
  s.client.queue_timeout = 5 * s.interval;
  s.server.queue_depth = 2;
  s.workload.window = 8;
}
void one_permit_impatient_unfenced(Scenario& s, ChoiceSource& choice) {
  few_permits(s, choice);
  s.server.extensions = 0;
  s.server.queue_depth = 1;
  s.client.request_timeout = 2 * s.interval;
}

constexpr Directed kScenarios[] = {
    {"L28f", "requests that wait for a permit fail within queue_timeout, also when all permits are given up",
     few_permits,
     R"(storage number=2 time=5s length=5s
write number=1
write number=1 time=1
write number=1 time=2
write number=1 time=3
submitted number=4
held number=2
cut path=0
cut path=1
errors number=4
by time=60s
heal path=0
heal path=1)"},
    {"L28g", "time that a request waited for a permit while a path was connected does not count", few_permits,
     R"(storage number=2 time=10s length=10s
write number=1
write number=1 time=1
write number=1 time=2
write number=1 time=3
submitted number=4
held number=2
pass time=8s
break_path path=0
break_path path=1
link_down
completed number=4
spared)"},
    {"L28h", "a request that waits for a permit fails in time though nothing else is under way", few_permits,
     R"(storage number=2 time=60s length=60s
cut path=1
pass time=10s
write number=1
write number=1 time=1
held number=2
heal path=1
connected path=1
cut path=0
pass time=10s
cut path=1
errors number=2
heal path=1
connected path=1
write number=1 time=2
submitted number=3
cut path=1
errors number=3
by time=120s
heal path=0
heal path=1)"},
    {"L28i",
     "all permits are given up to a path that is dead: requests fail in time, its removal gives permits back",
     one_permit_impatient_unfenced,
     R"(cut path=1
pass time=10s
storage number=1 time=20s length=20s
read number=1
held number=1
heal path=1
connected path=1
reached number=request_timed_out
cut path=0
read number=1 time=2
read number=1 time=3
errors number=3
reached number=no_permit
pass time=60s
remove path=0
pass time=30s
write number=1 time=5
completed number=4
by time=110s
add path=0
heal path=0)"},
};

}  // namespace

std::span<const Directed> permit_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
