#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void alone(Scenario& s, ChoiceSource&) {
  s.paths = 1;
}
void long_load(Scenario& s, ChoiceSource&) {
  s.workload.requests = 400;
  s.workload.gap = s.interval / 5;
}
void idle(Scenario& s, ChoiceSource&) {
  s.workload.requests = 0;
  s.client.send_depth = s.server.send_depth = 8;
}
void tiny_queues(Scenario& s, ChoiceSource&) {
  s.client.send_depth = s.server.send_depth = 8;
  s.server.queue_depth = 64;
  s.workload.requests = 300;
  s.workload.window = 64;
  s.workload.burst_rate = 500'000;
  s.workload.write_percent = 20;
  s.workload.gap = microseconds(50);
}
void one_permit(Scenario& s, ChoiceSource&) {
  s.server.queue_depth = 1;
  s.workload.window = 8;
  s.workload.burst_rate = 500'000;
  s.workload.requests = 100;
}
void by_latency(Scenario& s, ChoiceSource&) {
  s.client.policy = MultipathPolicy::min_latency;
  s.workload.requests = 100;
}
void odd_depth(Scenario& s, ChoiceSource&) {
  s.server.queue_depth = 5;
  s.workload.window = 8;
  s.workload.requests = 100;
}
void torn(Scenario& s, ChoiceSource&) {
  s.workload.requests = 200;
  s.workload.gap = microseconds(50);
}

constexpr Directed kScenarios[] = {
    {"R28", "after a reconnect one late heartbeat must not kill the path", alone,
     "completed number=40\ncut\nlost\npass time=10s\nheal\nconnected\npass time=3s\nstarve time=3s\npass "
     "time=10s\nreconnects number=1"},
    {"R29a", "heartbeats wait behind IO that flows: data is life", long_load,
     "starve path=0 time=30s\nstarve path=1 time=30s\npass time=30s\nreconnects number=0\nreconnects path=1 "
     "number=0"},
    {"R29b", "only the acknowledgements wait", long_load,
     "starve path=0 ways=2 time=30s\nstarve path=1 ways=2 time=30s\npass time=30s\nreconnects "
     "number=0\nreconnects path=1 number=0"},
    {"R30", "ten minutes of heartbeats alone, then a burst: the queues are as they were", idle,
     "pass time=600s\nwrite number=1\nwrite number=2\nread number=3\nwrite number=4\nread number=1\nwrite "
     "number=1\nread number=2\nwrite number=8\ncompleted number=8\nreconnects number=0"},
    {"R31", "a path without any IO must not die of its own heartbeats", idle,
     "pass time=1000s\nreconnects number=0\nreconnects path=1 number=0"},
    {"R33", "the path of the lowest latency, also when none was ever measured and when one becomes slow",
     by_latency,
     "completed number=10\nslow path=0 time=50ms\npass time=5s\nslow path=1 time=100ms\ncompleted "
     "number=100"},
    {"R35", "a burst of full depth through queues of eight", tiny_queues,
     "completed number=300\nreconnects number=0"},
    {"R41", "the policy changes under load", long_load,
     "delivered number=5\npolicy number=1\ndelivered number=20\npolicy number=2\ndelivered "
     "number=40\nbreak_path\npolicy number=0\ndelivered number=60\npolicy number=1\nconnected\ncompleted "
     "number=150"},
    {"R45", "one permit, many who want it", one_permit, "completed number=100\nreconnects number=0"},
    {"R46", "one permit and a path that dies", one_permit,
     "delivered number=5\nbreak_path\nconnected\nbreak_path path=1\ncompleted number=100"},
    {"R53a", "an operator disconnects a path while it waits for its next attempt", nullptr,
     "cut\nlost\npass time=12s\ndisconnect\npass time=5s\nheal\nreconnect\nconnected"},
    {"R53b", "an operator disconnects a path and wants it back at once, again and again", nullptr,
     "delivered number=3\ndisconnect\nreconnect\npass time=1s\nconnected\ndisconnect\nreconnect\n"
     "disconnect\nreconnect\npass time=1s\nconnected"},
    {"R54a", "remove, reconnect and remove at once: the removal is final", nullptr,
     "delivered number=3\nreconnect\nremove\nreconnect\nremove\npass time=2s\nadd\nconnected"},
    {"R54b", "a path is removed while it drains", nullptr,
     "rate number=10 time=1000000\ndelivered number=3\nbreak_path\nlost\nremove\nreconnect\npass "
     "time=5s\nlost\nforgotten\nadd\nconnected"},
    {"R55", "a path is removed with requests in flight", long_load,
     "storage number=4 time=1s length=1s\ndelivered number=2\nremove\npass "
     "time=1s\nadd\nconnected\ncompleted number=50"},
    {"R56", "the session is closed while its connections drain slowly", nullptr,
     "delivered number=10\nrate number=10 time=1000000"},
    {"R57a", "the server ends a path while storage works for it", nullptr,
     "storage number=4 time=3s length=3s\ndelivered number=1\ndrop\nconnected\ncompleted number=40"},
    {"R57b", "the server ends both", nullptr,
     "storage number=4 time=3s length=3s\ndelivered number=1\ndrop\ndrop path=1\nconnected\nconnected "
     "path=1\ncompleted number=40"},
    {"R59a", "the server's host dies: no goodbye ever comes", nullptr,
     "delivered number=3\ncrash client=0\npass time=60s\nrestart client=0\nconnected\ncompleted number=30"},
    {"R59b", "the server closes in order", nullptr,
     "delivered number=3\ncrash client=0 number=1\npass time=20s\nrestart client=0\nconnected\ncompleted "
     "number=30"},
    {"R70", "every errno of storage reaches the application", nullptr,
     "storage_fails number=2 time=1\nstorage_fails number=2 time=28\nstorage_fails number=2 "
     "time=511\ncompleted number=40"},
    {"L03", "answers wait for room in queues of eight", tiny_queues,
     "storage number=40 time=1ms length=10ms\ncompleted number=300"},
    {"L04", "a path dies with answers that wait for room", tiny_queues,
     "storage number=60 time=1ms length=1s\ndelivered number=30\ncut ways=2\npass time=20s\nheal "
     "ways=2\nconnected\ncompleted number=200"},
    {"L05", "hundreds of failing requests, then full load", tiny_queues,
     "storage_fails number=200 time=5\ncompleted number=300"},
    {"L08", "queues are full when answers come", tiny_queues,
     "slow time=20ms\nslow path=1 time=20ms\ncompleted number=150\nbreak_path\ncompleted number=300"},
    {"L18", "an errno that nine bits cannot carry is still an error", nullptr,
     "storage_fails number=3 time=512\nstorage_fails number=3 time=1024\nstorage_fails number=3 "
     "time=4095\ncompleted number=40"},
    {"F17", "writes are visible in part before they are there", torn,
     "rate number=12 time=300000\nrate number=13 time=300000\nrate number=11 time=500000\ndelivered "
     "number=50\nbreak_path\ncompleted number=200"},
    {"DP01", "a depth that is no power of two", odd_depth,
     "delivered number=20\nbreak_path\ncompleted number=100"},
    {"F23a", "nothing reaches the server any more on one path", long_load,
     "delivered number=5\ncut ways=1\nlost\npass time=15s\nheal ways=1\nconnected\ncompleted number=60"},
    {"F23b", "nothing comes back any more on one path", long_load,
     "delivered number=5\ncut ways=2\nlost\npass time=15s\nheal ways=2\nconnected\ncompleted number=60"},
    {"F42a", "the client stops for longer than the dead time", nullptr,
     "delivered number=5\npause time=20s\npass time=21s\nconnected\ncompleted number=40"},
    {"F42b", "the server stops for longer than the dead time", nullptr,
     "delivered number=5\npause client=0 time=20s\npass time=21s\nconnected\ncompleted number=40"},
    {"F42c", "both stop, one after the other", nullptr,
     "delivered number=5\npause client=0 time=8s\npass time=4s\npause time=8s\npass "
     "time=20s\nconnected\ncompleted number=40"},
    {"F24", "the links go up and down in turns", long_load,
     "cut path=0\npass time=2s\ncut path=1\nheal path=0\npass time=2s\ncut path=0\nheal path=1\npass "
     "time=2s\ncut path=1\nheal path=0\npass time=9s\nheal path=1\nconnected path=0\nconnected "
     "path=1\ncompleted number=60"},
};

}  // namespace

std::span<const Directed> load_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
