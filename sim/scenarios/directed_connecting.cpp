#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void two_clients(Scenario& s, ChoiceSource&) {
  s.faults_from_start = true;
  s.clients = 2;
}
void four_paths(Scenario& s, ChoiceSource&) {
  s.paths = 4;
}
void three_paths_from_start(Scenario& s, ChoiceSource&) {
  s.faults_from_start = true;
  s.paths = 3;
}
void four_paths_from_start(Scenario& s, ChoiceSource&) {
  s.faults_from_start = true;
  s.paths = 4;
}
void wait_policy(Scenario& s, ChoiceSource&) {
  s.client.extensions = 0;
  s.client.kernel_peer = UnfencedReplay::wait;
}

constexpr Directed kScenarios[] = {
    {"R01a",
     "the link dies after the first connection and no goodbye arrives: the half-open path must not block its "
     "return",
     from_start_alone,
     "connections number=1\ncut\nrate number=4 time=0\nrate number=6 time=1000000\npass time=40s\nrate "
     "number=6\nheal\nconnected"},
    {"R01b", "the same after the second connection", from_start_alone,
     "connections number=2\ncut\nrate number=6 time=1000000\npass time=40s\nrate number=6\nheal\nconnected"},
    {"R01c", "the same after the last connection, before the INFO exchange", from_start_alone,
     "connections number=3\ncut\nrate number=6 time=1000000\npass time=40s\nrate number=6\nheal\nconnected"},
    {"R01d", "half-open for less than the server's patience", from_start_alone,
     "connections number=3\ncut\nrate number=6 time=1000000\npass time=3s\nrate number=6\nheal\nconnected"},
    {"R01e", "the half-open path is removed and added again while the server still holds it", from_start,
     "connections number=2\ncut\nrate number=6 time=1000000\npass time=2s\nremove\npass time=2s\nrate "
     "number=6\nheal\nadd\nconnected"},
    {"R01f", "the client dies half-open and stays away: the server forgets the path by itself",
     from_start_alone,
     R"(connections number=2
cut
crash
forgotten
dropped number=handshake_timeout
heal
restart
connected)"},
    {"R03", "a connection breaks at the server while INFO_REQ is under way", from_start_alone,
     "connections number=3\nbreak_con con=1 ways=2\nconnected"},
    {"R03b", "INFO_REQ waits at the server when it learns that a connection is lost", from_start_alone,
     R"(connections number=3
pause client=0 time=500ms
break_con con=1 ways=2
pass time=1s
connected)"},
    {"R04a", "the client stops between its last connection and INFO_REQ for longer than a heartbeat",
     from_start_alone, "connections number=3\npause time=2s\nconnected"},
    {"R04b", "the server stops before it can answer INFO_REQ", from_start_alone,
     "connections number=3\npause client=0 time=2s\nconnected"},
    {"R06a", "replies of the connection manager come long after the client gave up", from_start_alone,
     "rate number=3 time=1000000\npass time=20s\nrate number=3\nconnected"},
    {"R06b", "replies are lost", from_start_alone,
     "rate number=2 time=1000000\npass time=20s\nrate number=2\nconnected"},
    {"R06c", "requests are late", from_start_alone,
     "rate number=1 time=1000000\npass time=20s\nrate number=1\nconnected"},
    {"R06d", "requests are lost", from_start_alone,
     "rate number=0 time=1000000\npass time=20s\nrate number=0\nconnected"},
    {"R09", "rejections are lost: the client times out and the server keeps nothing", from_start,
     "rate number=4 time=1000000\ncrash client=0\npass time=2s\nrestart client=0\npass time=10s\nrate "
     "number=4\nconnected"},
    {"R10", "the server restarts and the first to come is a path that is added, not one that it knew",
     nullptr,
     "remove path=1\npass time=1s\ncrash client=0\npass time=2s\nrestart client=0\nadd path=1\nconnected "
     "path=1\nconnected"},
    {"R11", "all paths are removed, then one is added: the session starts over", nullptr,
     "completed number=40\nremove path=0\nremove path=1\nforgotten path=0\nforgotten path=1\npass "
     "time=2s\nadd\nadd\nlink_up"},
    {"R12", "the first connects of two clients and all their paths at once", two_clients,
     "cut path=0\npass time=1s\nheal path=0\nconnected path=0\nconnected path=1\nconnected client=2 path=1"},
    {"R13",
     "a client dies and comes back under its name with other uuids while the server still holds the old one",
     nullptr, "completed number=5\ncrash\npass time=1s\nrestart\nconnected"},
    {"R24", "a connection breaks at the server while the next is being accepted", from_start_alone,
     "connections number=1\nbreak_con con=0 ways=2\nconnected"},
    {"R25", "a path comes and goes again and again: nothing is left behind", nullptr,
     "connected\nreconnect\nlost\nconnected\nreconnect\nlost\nconnected\nreconnect\nlost\nconnected\n"
     "reconnect\nlost\nconnected\nreconnect\nlost\nconnected\nreconnects number=5"},
    {"R26", "all links of four paths come back at once while storage still works for the old ones",
     four_paths,
     "storage number=8 time=8s length=9s\ndelivered number=2\ncut path=0\ncut path=1\ncut path=2\ncut "
     "path=3\npass time=12s\nheal path=0\nheal path=1\nheal path=2\nheal path=3\nconnected path=0\nconnected "
     "path=3"},
    {"L10a", "one of three paths is lost before the last is up: link events stay right",
     three_paths_from_start,
     "connected path=0\nbreak_path path=0\ncut path=0\nconnected path=2\npass time=2s\nheal "
     "path=0\nconnected path=0\ncrash client=0\nlink_down\npass time=2s\nrestart client=0\nlink_up"},
    {"L12a", "after a restart of the server both paths are first at the same time", nullptr,
     "completed number=10\ncrash client=0 number=1\nlost path=0\nlost path=1\nrestart client=0\nconnected "
     "path=0\nconnected path=1"},
    {"L12b", "after a silent death of the server both paths are first at the same time", nullptr,
     "completed number=10\ncrash client=0\npass time=20s\nrestart client=0\nconnected path=0\nconnected "
     "path=1"},
    {"L13", "two clients claim their names in the same moments", two_clients,
     "connected path=0\nconnected client=2 path=0\ncrash\ncrash client=2\npass time=1s\nrestart "
     "client=2\nrestart\nconnected client=2\nconnected"},
    {"L14", "a connect request of an attempt that was given up arrives when the next is under way",
     from_start_alone,
     "rate number=1 time=1000000\nconnections number=1\npass time=6s\nrate number=1\npass "
     "time=20s\nconnected"},
    {"L27", "the server is connected and its INFO_RSP does not arrive", from_start_alone,
     "serving\ncut ways=2\nrate number=6 time=1000000\npass time=4s\nrate number=6\nheal ways=2\nconnected"},
    {"F38c", "INFO_RSP is on its way when the client gives up, and comes after that", from_start_alone,
     "connections number=3\nslow time=1500ms\nended number=info_timeout\npass "
     "time=5s\nslow\nconnected\ncompleted "
     "number=20"},
    {"L27b", "the same, and the client has to wait for the new path before it sends its requests again",
     wait_policy,
     "delivered number=1\nbreak_path\nserving\ncut ways=2\npass time=4s\nheal ways=2\nconnected"},
    {"L30a", "a path that was never up brings the session back when the one that was up stays dead",
     from_start,
     R"(cut path=1
connected path=0
cut path=0
crash client=0
pass time=1s
restart client=0
heal path=1
connected path=1
by time=60s
completed number=10)"},
    {"L30b", "the same when the server dropped the session because its only path fell silent", from_start,
     R"(cut path=1
connected path=0
cut path=0
sessions number=0
heal path=1
connected path=1
by time=60s
completed number=10)"},
    {"L30c", "two such paths create the session at the same time: it is one", three_paths_from_start,
     R"(cut path=1
cut path=2
connected path=0
cut path=0
crash client=0
pass time=20s
restart client=0
heal path=1
heal path=2
connected path=1
connected path=2
sessions number=1
heal path=0
connected path=0
sessions number=1)"},
    {"L30d", "the path that was up and the one that never was come back at once", from_start,
     R"(cut path=1
connected path=0
cut path=0
crash client=0
pass time=20s
restart client=0
heal path=1
heal path=0
connected path=0
connected path=1
sessions number=1)"},
    {"L31a", "the first path swallows everything from the start: the next one opens the session", from_start,
     R"(cut path=0
connected path=1
by time=2s
heal path=0
connected path=0
sessions number=1)"},
    {"L31b", "the first three of four paths do", four_paths_from_start,
     R"(cut path=0
cut path=1
cut path=2
connected path=3
by time=4s
heal path=0
heal path=1
heal path=2
connected path=0
connected path=1
connected path=2
sessions number=1)"},
    {"L31c", "the first path is slower than its head start: both open the session, and it is one", from_start,
     R"(slow path=0 time=400ms
connected path=1
connected path=0
sessions number=1
slow path=0)"},
    {"L31d",
     "nothing comes back over the first path: the server holds it half-open beside the one that opened",
     from_start,
     R"(cut path=0 ways=2
connected path=1
by time=2s
heal path=0 ways=2
connected path=0
sessions number=1)"},
    {"L29a", "a client dies in silence and comes back within the dead time", nullptr,
     "delivered number=4\ncrash\npass time=2s\nrestart\nconnected path=0\nconnected path=1"},
    {"L29b", "a client is cut off, not dead: what it had sent must not act after its successor", nullptr,
     "storage number=2 time=4s length=5s\ndelivered number=1\ncut path=0\ncut path=1\npass time=2s\nheal "
     "path=0\nheal path=1\nconnected"},
};

}  // namespace

std::span<const Directed> connecting_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
