#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void busy_alone(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.paths = 1;
}
void idle(Scenario& s, ChoiceSource&) {
  s.workload.requests = 0;
}
void impatient(Scenario& s, ChoiceSource& choice) {
  idle(s, choice);
  s.client.heartbeat.missed_max = s.server.heartbeat.missed_max = 2;
}
void intolerant(Scenario& s, ChoiceSource& choice) {
  idle(s, choice);
  s.client.heartbeat.missed_max = s.server.heartbeat.missed_max = 0;
}
void patient(Scenario& s, ChoiceSource& choice) {
  idle(s, choice);
  s.client.heartbeat.missed_max = s.server.heartbeat.missed_max = 1000;
}
void unequal(Scenario& s, ChoiceSource& choice) {
  idle(s, choice);
  s.client.heartbeat.missed_max = 2;
}
void four_paths(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.paths = 4;
}

constexpr Directed kScenarios[] = {
    {"HB01", "a client that stops for less than the dead time loses nothing", idle,
     R"(pause time=4s
pass time=8s
unharmed)"},
    {"HB02", "nor when the server stops", idle,
     R"(pause client=0 time=4s
pass time=8s
unharmed)"},
    {"HB03", "heartbeats are late, by less than the dead time of two", impatient,
     R"(starve path=0 time=1500ms
pass time=4s
starve path=0 ways=1 time=1500ms
pass time=4s
unharmed)"},
    {"HB04", "the two sides have different patience: the less patient finds the other silent", unequal,
     R"(pause client=0 time=6s
ended number=heartbeat_lost
connected)"},
    {"HB05", "the server stops for ten minutes: all is noticed once, and heals", idle,
     R"(pause client=0 time=600s
ended number=heartbeat_lost
pass time=601s
connected path=0
connected path=1)"},
    {"HB06", "an idle path dies of silence in one direction: both sides notice, within bounds", idle,
     R"(cut ways=1
lost
forgotten
pass time=10s
heal ways=1
connected)"},
    {"HB07", "in the other direction", idle,
     R"(cut ways=2
lost
forgotten
pass time=10s
heal ways=2
connected)"},
    {"HB08", "no tolerance at all: the first answer that is missing ends the path, and an idle one lives",
     intolerant,
     R"(pass time=30s
unharmed
cut ways=1
lost
forgotten
pass time=5s
heal ways=1
connected)"},
    {"HB09", "a very patient pair: a server that stops for ten minutes loses nothing", patient,
     R"(pause client=0 time=600s
pass time=610s
unharmed
pause time=600s
pass time=610s
unharmed)"},
    {"R28b", "after its third reconnect a path still forgives late heartbeats", idle,
     R"(reconnect
lost
connected
reconnect
lost
connected
reconnect
lost
connected
pass time=3s
starve time=3s
pass time=10s
reconnects number=3)"},
    {"R52b", "a silent server is noticed although nothing was sent: requests move in time", busy_alone,
     R"(delivered number=8
pause client=0 time=20s
ended number=heartbeat_lost
pass time=21s
connected
completed number=200)"},
    {"R16", "one of four paths cannot connect: the others serve", four_paths,
     R"(cut path=3
lost path=3
completed number=200
connected path=0
heal path=3
connected path=3)"},
    {"MP01", "all four paths die, one comes back and serves alone", four_paths,
     R"(delivered number=8
cut path=0
cut path=1
cut path=2
cut path=3
link_down
pass time=10s
heal path=2
connected path=2
completed number=200
heal path=0
heal path=1
heal path=3)"},
    {"MP02", "requests move to a path that the server closes in the same moment", four_paths,
     R"(delivered number=8
break_path path=0
drop path=1
drop path=2
completed number=200
connected path=0
connected path=1)"},
    {"MP03", "a write landed, its answer is lost, and no path is left for a while", busy,
     R"(storage number=400 time=0 length=50ms
held number=4
pass time=10ms
cut path=0 ways=2
cut path=1 ways=2
link_down
reached number=parked
heal path=0 ways=2
heal path=1 ways=2
completed number=200)"},
    {"MP04", "one path is a thousand times slower than the other: nothing starves", busy,
     R"(slow path=0 time=50ms
completed number=200
unharmed)"},
};

}  // namespace

std::span<const Directed> silence_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
