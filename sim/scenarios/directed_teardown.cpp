#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void crowded(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.server.queue_depth = 2;
  s.workload.window = 16;
  s.workload.burst_rate = 500'000;
}
void two_clients(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.clients = 2;
}
void tiny_queues(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.client.send_depth = s.server.send_depth = 8;
  s.server.queue_depth = 64;
  s.workload.window = 64;
  s.workload.burst_rate = 500'000;
}

constexpr Directed kScenarios[] = {
    {"TD01", "the session is closed after its first connection", from_start_alone,
     R"(connections number=1
leave
gone
rejoin
connected)"},
    {"TD02", "the session is closed before the INFO exchange", from_start_alone,
     R"(connections number=3
leave
gone
rejoin
connected)"},
    {"TD03", "the session is closed when only the server thinks that its path is connected", from_start_alone,
     R"(serving
leave
gone
rejoin
connected)"},
    {"TD04", "the session is closed with requests in storage: they are answered first", busy,
     R"(storage number=8 time=2s length=3s
held number=4
leave
gone
rejoin
connected)"},
    {"TD05", "the session is closed with requests that wait for a permit", crowded,
     R"(storage number=8 time=2s length=3s
reached number=permit_waiter
leave
gone
rejoin
connected)"},
    {"TD06", "the session is closed while all links are cut", busy,
     R"(delivered number=8
cut path=0
cut path=1
link_down
leave
gone
heal path=0
heal path=1
rejoin
connected)"},
    {"TD07", "the session is closed with answers that wait for room", tiny_queues,
     R"(storage number=60 time=1ms length=500ms
held number=4
leave
gone
rejoin
connected)"},
    {"TD08", "the session is closed while the paths that it lost still drain", busy,
     R"(rate number=slow_drain time=1000000
delivered number=8
break_path path=0
break_path path=1
leave
gone
rate number=slow_drain
rejoin
connected)"},
    {"R53c", "the session is closed in the moment in which a path dies", busy,
     R"(delivered number=8
break_path
leave
gone
rejoin
connected)"},
    {"R53d", "a path is removed in the moment in which it dies and an operator wants it back", busy,
     R"(delivered number=8
break_path
reconnect
remove
pass time=1s
add
connected
completed number=200)"},
    {"R72a", "a session is closed twice", busy,
     R"(delivered number=8
leave
leave
gone
rejoin
connected)"},
    {"TD09", "client and server close in the same moment", busy,
     R"(delivered number=8
leave
retire
gone
retired
crash client=0 number=1
restart client=0
rejoin
connected)"},
    {"TD10", "the server closes with requests in storage", busy,
     R"(storage number=8 time=2s length=3s
held number=4
retire
retired
crash client=0 number=1
restart client=0
connected path=0
connected path=1
completed number=100)"},
    {"TD11", "the server closes a session under load; its client opens it again", two_clients,
     R"(delivered number=20
expel client=1
lost
connected
unharmed client=2
completed number=300)"},
    {"TD12", "the server closes a session whose requests are in storage", two_clients,
     R"(storage number=8 time=2s length=3s
held number=4
expel client=1
lost
connected path=0
connected path=1
unharmed client=2)"},
    {"TD13", "the server closes a session that is being opened", from_start,
     R"(serving
expel client=1
expel client=1
connected path=0
connected path=1)"},
    {"TD14", "both sides disconnect a path in the same moment", busy,
     R"(delivered number=8
disconnect
drop
pass time=2s
reconnect
connected
completed number=200)"},
    {"TD17", "both sides disconnect a path in the same moment when it has its first connection",
     from_start_alone,
     R"(connections number=1
disconnect
drop
pass time=1s
reconnect
connected
completed number=20)"},
    {"TD18", "when it has all of them and INFO_REQ is under way", from_start_alone,
     R"(connections number=3
disconnect
drop
pass time=1s
reconnect
connected
completed number=20)"},
    {"TD19", "when only the server thinks that it is connected", from_start_alone,
     R"(serving
drop
disconnect
pass time=1s
reconnect
connected
completed number=20)"},
    {"TD20", "a path is added while its session closes", busy,
     R"(delivered number=20
remove path=1
pass time=2s
storage number=1 time=2s length=3s
write number=1
held number=1
leave
add path=1
gone
rejoin
connected)"},
    {"TD15", "the only connected path is removed while the other is on its way back", busy,
     R"(delivered number=8
cut path=1
lost path=1
remove path=0
pass time=1s
heal path=1
connected path=1
add
connected path=0
completed number=200)"},
    {"TD16", "a path is removed while its requests move to the other", busy,
     R"(rate number=slow_drain time=1000000
delivered number=8
break_path
pass time=1ms
remove
rate number=slow_drain
pass time=3s
add
connected
completed number=200)"},
    {"R54c", "a path is removed after its first connection and added again", from_start,
     R"(connections number=1
remove
pass time=1s
add
connected path=0
connected path=1)"},
    {"R54d", "after the second", from_start,
     R"(connections number=2
remove
pass time=1s
add
connected path=0
connected path=1)"},
    {"R54e", "before the INFO exchange", from_start,
     R"(connections number=3
remove
pass time=1s
add
connected path=0
connected path=1)"},
    {"R54f", "when only the server thinks that it is connected", from_start,
     R"(serving
remove
pass time=1s
add
connected path=0
connected path=1)"},
    {"R61", "sessions come and go: nothing is left of them", two_clients,
     R"(leave
gone
sessions number=1
rejoin
connected
leave
gone
sessions number=1
rejoin
connected
leave
gone
sessions number=1
rejoin
connected
unharmed client=2)"},
    {"R80", "a session of the same name is opened while the server still works for the former", busy,
     R"(storage number=8 time=2s length=8s
held number=4
break_path path=0
break_path path=1
crash
restart
reached number=name_refused
connected)"},
    {"R43b", "the path of the next turn is removed in the moment in which the other dies", busy,
     R"(delivered number=8
break_path path=0
remove path=1
pass time=1s
add
connected path=0
completed number=200)"},
};

}  // namespace

std::span<const Directed> teardown_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
