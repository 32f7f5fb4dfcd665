#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void from_start_of_two(Scenario& s, ChoiceSource&) {
  s.faults_from_start = true;
  s.clients = 2;
}
void finite_queue(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.client.queue_timeout = 5 * s.interval;
}
void lossy(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.workload.gap = milliseconds(20);
}
void tiny_queues(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.client.send_depth = s.server.send_depth = 8;
}

constexpr Directed kScenarios[] = {
    {"R15a",
     "the server comes back with half the depth: no path is used until the depth is right again, then all of "
     "them without an operator",
     busy,
     R"(completed number=10
depth number=4
crash client=0
restart client=0
ended path=0 number=depth_changed
pass time=5s
link_down
depth number=8
crash client=0
restart client=0
connected path=0
connected path=1
completed number=100)"},
    {"R15b", "with twice the depth", busy,
     R"(completed number=10
depth number=16
crash client=0
restart client=0
ended path=0 number=depth_changed
depth number=8
crash client=0
restart client=0
pass time=3s
reconnect path=0
connected path=0
reconnect path=1
connected path=1
completed number=100)"},
    {"R15c", "with one permit more", busy,
     R"(completed number=10
depth number=9
crash client=0
restart client=0
ended path=0 number=depth_changed
depth number=8
crash client=0
restart client=0
pass time=3s
reconnect path=0
connected path=0
reconnect path=1
connected path=1
completed number=100)"},
    {"R15d", "with one permit less", busy,
     R"(completed number=10
depth number=7
crash client=0
restart client=0
ended path=0 number=depth_changed
depth number=8
crash client=0
restart client=0
pass time=3s
reconnect path=0
connected path=0
reconnect path=1
connected path=1
completed number=100)"},
    {"L15", "a path that is added is held to the depth of the session, too", busy,
     R"(completed number=10
remove path=1
pass time=1s
depth number=16
crash client=0
restart client=0
ended path=0 number=depth_changed
add path=1
ended path=1 number=depth_changed
depth number=8
crash client=0
restart client=0
pass time=3s
reconnect path=0
connected path=0
reconnect path=1
connected path=1)"},
    {"PR01", "the server dies between the first and the second connection of a path", from_start_alone,
     R"(connections number=1
crash client=0
pass time=1s
restart client=0
connected)"},
    {"PR02", "between the second and the third", from_start_alone,
     R"(connections number=2
crash client=0
pass time=1s
restart client=0
connected)"},
    {"PR03", "between the last connection and the INFO exchange", from_start_alone,
     R"(connections number=3
crash client=0
pass time=1s
restart client=0
connected)"},
    {"PR04", "when it has sent INFO_RSP", from_start_alone,
     R"(serving
crash client=0
pass time=1s
restart client=0
connected)"},
    {"PR05",
     "the client dies between the first and the second connection of a path, and returns under its name",
     from_start,
     R"(connections number=1
crash
pass time=1s
restart
connected path=0
connected path=1)"},
    {"PR06", "before the INFO exchange", from_start,
     R"(connections number=3
crash
pass time=1s
restart
connected path=0
connected path=1)"},
    {"PR07", "when only the server thinks that it is connected", from_start,
     R"(serving
crash
pass time=1s
restart
connected path=0
connected path=1)"},
    {"PR08", "a client dies three times in a row, each time faster than the server notices", busy,
     R"(completed number=5
crash
restart
pass time=500ms
crash
restart
pass time=500ms
crash
restart
reached number=name_refused
connected path=0
connected path=1)"},
    {"R13c", "one of two clients dies and returns; the other does not notice", from_start_of_two,
     R"(connected
connected client=2
crash
pass time=1s
restart
reached number=name_refused
connected
unharmed client=2)"},
    {"L11", "a session that was refused for its name is complete when the name is free", from_start_of_two,
     R"(connected
connected path=1
crash
restart
reached number=name_refused
connected path=0
connected path=1
completed number=20)"},
    {"L29c", "a client dies with writes in storage: they act before its successor's, or never", busy,
     R"(storage number=8 time=4s length=5s
held number=4
crash
restart
connected path=0
connected path=1
completed number=20)"},
    {"KY01", "the server comes back with fresh keys for every request", busy,
     R"(completed number=20
fresh_keys number=1
crash client=0
restart client=0
connected path=0
connected path=1
completed number=150)"},
    {"KY02", "it comes back without them", busy_fresh_keys,
     R"(completed number=20
fresh_keys number=0
crash client=0
restart client=0
connected path=0
connected path=1
completed number=150)"},
    {"KY03", "paths with fresh keys die again and again, with answers on their way", busy_fresh_keys,
     R"(rate number=slow_drain time=500000
delivered number=8
break_path ways=2
connected
delivered number=40
break_path ways=1
connected
delivered number=80
break_path path=1 ways=2
connected path=1
rate number=slow_drain
completed number=200)"},
    {"KY04", "fresh keys and late messages of dead connections", busy_fresh_keys,
     R"(rate number=ghost_delay time=1000000
delivered number=8
break_path ways=1
connected
delivered number=60
break_path path=1 ways=1
connected path=1
completed number=200)"},
    {"R37", "connections break at any message, for ten seconds", lossy,
     R"(rate number=qp_error time=20000
pass time=10s
rate number=qp_error
connected path=0
connected path=1
completed number=100)"},
    {"R32", "queues of eight are as they were after every reconnect", tiny_queues,
     R"(delivered number=20
reconnect
lost
connected
delivered number=60
reconnect
lost
connected
delivered number=100
reconnect
lost
connected
completed number=200)"},
    {"R86", "one outage, one event that the link is down and one that it is up", busy,
     R"(link_up
delivered number=8
cut path=0
cut path=1
link_down
pass time=3s
heal path=0
link_up
heal path=1
connected path=0
connected path=1)"},
    {"L28d", "with a bound on waiting, requests fail when no path comes back in time, and not before",
     finite_queue,
     R"(delivered number=8
cut path=0
cut path=1
link_down
reached number=queue_expired
heal path=0
heal path=1
connected)"},
    {"L28e", "an outage shorter than the bound fails nothing", finite_queue,
     R"(delivered number=8
cut path=0
cut path=1
pass time=2s
heal path=0
heal path=1
link_up
completed number=200
spared)"},
};

}  // namespace

std::span<const Directed> process_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
