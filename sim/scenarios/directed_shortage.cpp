#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void fresh_keys_from_start(Scenario& s, ChoiceSource& choice) {
  from_start_alone(s, choice);
  s.server.always_invalidate = true;
}
void own_region_from_start(Scenario& s, ChoiceSource& choice) {
  from_start_alone(s, choice);
  s.workload.own_region = true;
  s.workload.write_percent = 20;
}
void steady(Scenario& s, ChoiceSource&) {
  s.workload.requests = 400;
  s.workload.gap = s.interval / 5;
}
void steady_alone(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.paths = 1;
}
void answers_in_time(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.client.request_timeout = seconds(10);
}
void answers_in_time_without_fence(Scenario& s, ChoiceSource& choice) {
  answers_in_time(s, choice);
  s.client.extensions = s.server.extensions = 0;
  s.client.kernel_peer = UnfencedReplay::replay;
  s.fenced = false;
}
// Peers without extensions of which one is like the kernel's: it probes nothing.
void only_the_server_probes(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.client.extensions = s.server.extensions = 0;
  s.client.kernel_peer = UnfencedReplay::replay;
  s.fenced = false;
  s.server.probe_deliveries = true;
  s.client.probe_deliveries = false;
}
void only_the_client_probes(Scenario& s, ChoiceSource& choice) {
  only_the_server_probes(s, choice);
  std::swap(s.client.probe_deliveries, s.server.probe_deliveries);
}
void only_the_server_probes_fresh_keys(Scenario& s, ChoiceSource& choice) {
  only_the_server_probes(s, choice);
  s.server.always_invalidate = true;
}
// One request at a time, and a heartbeat so rare that nothing else wakes a process up.
void one_by_one(Scenario& s, ChoiceSource&) {
  s.paths = 1;
  s.interval = s.client.heartbeat.interval = s.server.heartbeat.interval = seconds(100);
  s.workload.requests = 60;
  s.workload.window = 1;
  s.workload.gap = microseconds(50);
}
void impatient(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.network.rnr_budget = s.interval / 2;
}
void apart(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.network.channel_spread = s.interval / 4;
  s.network.channel_turns = 8;
}

void slow_client(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.client_clock = {1, 2};
}
void slow_server(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.server_clock = {1, 2};
}
void clocks_apart(Scenario& s, ChoiceSource& choice) {
  steady(s, choice);
  s.client_clock = {2, 1};
  s.server_clock = {1, 2};
  s.client.heartbeat.missed_max = s.server.heartbeat.missed_max = 2;
}
void same_again(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.same_identity = true;
}
void lying_client(Scenario& s, ChoiceSource&) {
  s.liar = 1;
  s.clients = 2;
}
void lying_server(Scenario& s, ChoiceSource&) {
  s.liar = 0;
}

void impatient_of_liar(Scenario& s, ChoiceSource& choice) {
  impatient(s, choice);
  s.liar = 0;
}

constexpr Directed kScenarios[] = {
    {"R05a", "the client has no memory for its headers when the first path is up", from_start_alone,
     "shortage number=2\nended path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R05b", "no memory for its buffers: what it had is given back", from_start_alone,
     "shortage number=3\nended path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R05c", "no key for its buffers", from_start_alone,
     "shortage number=4\nended path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R05d", "no connection, the second and the third of the path", from_start_alone,
     "shortage\nended path=0 number=no_resources\nshortage number=1\npass "
     "time=3s\nconnected\ncompleted number=20"},
    {"R05e", "nothing at all for twenty seconds", from_start,
     "shortage count=1000000\npass time=20s\nshortage count=0\nconnected path=0\nconnected "
     "path=1\ncompleted number=20"},
    {"R08a", "the address of a path does not resolve for a while", from_start,
     "rate number=resolve_failed time=1000000\nended path=0 number=address_unresolved\npass time=5s\nrate "
     "number=resolve_failed\nconnected path=0\nconnected path=1\ncompleted number=20"},
    {"R08b", "a name server that fails every other time, while paths die and return", steady,
     "rate number=resolve_failed time=500000\ndelivered number=20\nbreak_path\nconnected\nbreak_path "
     "path=1\nconnected path=1\nbreak_path\nconnected\nrate number=resolve_failed"},
    {"R17a", "the server has no memory for the chunks of a session", from_start_alone,
     "shortage client=0 number=3\ndropped path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R17b", "the server cannot make the first connection", from_start_alone,
     "shortage client=0\nended path=0 number=connect_refused\nconnected\ncompleted number=20"},
    {"R17c", "or the last one", from_start_alone,
     "shortage client=0 number=2\ndropped path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R17d", "it has no key for the chunks when INFO_REQ comes", from_start_alone,
     "shortage client=0 number=4\ndropped path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R17e", "nothing at all for twenty seconds, with a session that lives", busy,
     "delivered number=20\nshortage client=0 count=1000000\nbreak_path\npass time=20s\nshortage client=0 "
     "count=0\nconnected path=0\ncompleted number=200\nreconnects path=1 number=0"},
    {"R18a", "keys of the first chunks are there and that of the fourth is not", fresh_keys_from_start,
     "shortage client=0 number=7\ndropped path=0 number=no_resources\nconnected\ncompleted number=20"},
    {"R18b", "a fresh key for an answer cannot be had", busy_fresh_keys,
     "delivered number=20\nshortage client=0\nreached number=shortage\nconnected "
     "path=0\ncompleted number=200"},
    {"R18c", "memory of the application gets no key: reads go through that of the client",
     own_region_from_start,
     "connected\nshortage count=1000000\ncompleted number=40\nreconnects number=0\nunharmed"},
    {"R24b", "no connection can be accepted for a while, and the other path serves on", steady,
     "delivered number=20\nrate number=accept_failed time=1000000\nbreak_path\npass time=10s\nrate "
     "number=accept_failed\nconnected\ncompleted number=100\nreconnects path=1 number=0"},
    {"R27a", "the client's adapter goes between the first and the second connection", from_start_alone,
     "connections number=1\nunplug\npass time=5s\nplug\nconnected\ncompleted number=20"},
    {"R27b", "before INFO_RSP", from_start_alone,
     "connections number=3\nunplug\npass time=5s\nplug\nconnected\ncompleted number=20"},
    {"R27c", "the server's goes between the first and the second connection", from_start_alone,
     "connections number=1\nunplug ways=2\npass time=5s\nplug ways=2\nconnected\ncompleted number=20"},
    {"R27d", "when it has sent INFO_RSP", from_start_alone,
     "serving\nunplug ways=2\npass time=5s\nplug ways=2\nconnected\ncompleted number=20"},
    {"L26a", "an adapter of the client goes under load; its path returns by itself", steady,
     "delivered number=20\nunplug\nended number=fabric_gone\npass time=60s\nplug\nconnected\ncompleted "
     "number=100\nreconnects number=1\nreconnects path=1 number=0"},
    {"L26b", "one of the server", steady,
     "delivered number=20\nunplug ways=2\ndropped number=fabric_gone\npass time=60s\nplug "
     "ways=2\nconnected\ncompleted number=100\nreconnects path=1 number=0"},
    {"L26c", "all of them, with requests under way", busy,
     "delivered number=20\nunplug path=0\nunplug path=1\nlink_down\npass time=30s\nplug path=1\nconnected "
     "path=1\nplug path=0\nconnected path=0\ncompleted number=200"},
    {"F08a", "a process sleeps while receives have a limit of time", impatient,
     "delivered number=20\npause client=0 time=3s\npass time=10s\npause time=3s\npass time=10s\nconnected "
     "path=0\nconnected path=1\ncompleted number=100"},
    {"F08b",
     "a server posts no receives on one connection, and its client waits for them no longer than it may",
     impatient_of_liar,
     "lie client=0 number=no_receives con=1\nreconnect\nreached number=rnr_exceeded\nconnected\ncompleted "
     "number=100"},
    {"F12a", "the fabric takes a part of what is posted: the rest follows at once", one_by_one,
     "rate number=post_short time=1000000\ncompleted number=60\nby time=20s"},
    {"F12b", "under load, while paths die", busy,
     "rate number=post_short time=500000\ndelivered number=20\nbreak_path ways=2\nconnected\ndelivered "
     "number=100\nbreak_path path=1 ways=1\nconnected path=1\ncompleted number=200"},
    {"F14", "messages of different connections arrive in any order", apart,
     "delivered number=20\nbreak_con con=1\nconnected\nbreak_con path=1 con=2 ways=2\nconnected "
     "path=1\ncompleted number=200"},
    {"F20a", "one connection of a path gets nothing through, the others do", steady,
     "delivered number=20\nswallow con=1\nended number=transport_error\npass time=2s\nlet_through "
     "con=1\nconnected\ncompleted number=100\nreconnects path=1 number=0"},
    {"F20b", "the service connection gets nothing through", steady,
     "delivered number=20\nswallow con=0\nlost\npass time=2s\nlet_through con=0\nconnected\ncompleted "
     "number=100\nreconnects path=1 number=0"},
    {"F20c", "shorter than the budget of retries: nothing happens", steady,
     "delivered number=20\nswallow con=1\npass time=500ms\nlet_through con=1\ncompleted "
     "number=100\nunharmed"},
    {"F20d", "one connection hangs for good under a living heartbeat: its requests fail over", steady,
     "delivered number=20\nhang con=1\nended number=connection_silent\nconnected\ncompleted "
     "number=100\nreconnects path=1 number=0"},
    {"F20e", "the same with a single path", steady_alone,
     "delivered number=20\nhang con=2\nended number=connection_silent\nconnected\ncompleted number=100"},
    {"F20f", "the service connection hangs for good while a fence waits for its answer", steady,
     "storage number=4 time=20s length=20s\nheld number=3\nhang con=0\nbreak_path path=1\nended "
     "number=connection_silent\nconnected "
     "path=0\nconnected path=1\ncompleted number=200"},
    {"F20g", "storage takes three times the dead-peer time, and no path is lost", steady,
     "delivered number=20\nstorage number=2 time=30s length=30s\npass time=60s\ncompleted "
     "number=100\nunharmed"},
    {"F20h", "storage takes longer than request_timeout: those requests fail, the others go on",
     answers_in_time,
     "delivered number=20\nstorage number=2 time=30s length=30s\nended number=request_timeout\nreached "
     "number=request_timed_out\nconnected\ncompleted number=200"},
    {"F20i", "the same with a server that knows no fence", answers_in_time_without_fence,
     "delivered number=20\nstorage number=2 time=30s length=30s\nended number=request_timeout\nreached "
     "number=request_timed_out\nconnected\ncompleted number=200"},
    {"F20j", "answers to a kernel client hang on one connection, and the server ends the path",
     only_the_server_probes,
     "storage number=4 time=1s length=2s\nheld number=3\nhang con=1\ndropped "
     "number=connection_silent\nconnected\ncompleted number=200\nreconnects path=1 number=0"},
    {"F20k", "the same where chunks wait for the end of their keys", only_the_server_probes_fresh_keys,
     "storage number=4 time=1s length=2s\nheld number=3\nhang con=1\ndropped "
     "number=connection_silent\nconnected\ncompleted number=200\nreconnects path=1 number=0"},
    {"F20l", "requests to a kernel server hang on one connection, and the client ends the path",
     only_the_client_probes,
     "delivered number=20\nhang con=1\nended number=connection_silent\nconnected\ncompleted "
     "number=200\nreconnects "
     "path=1 number=0"},
    {"F20m",
     "storage takes three times the dead-peer time: a server that probes keeps the paths of a kernel client",
     only_the_server_probes,
     "delivered number=20\nstorage number=2 time=30s length=30s\npass time=60s\ncompleted "
     "number=100\nunharmed"},
    {"F20n", "the same with a client that probes and a kernel server", only_the_client_probes,
     "delivered number=20\nstorage number=2 time=30s length=30s\npass time=60s\ncompleted "
     "number=100\nunharmed"},
    {"F38a", "INFO_REQ comes twice: the path ends and returns, the other client notices nothing",
     lying_client,
     "lie number=message_twice\nreconnect\ndropped number=protocol_violation\nconnected\nunharmed client=2"},
    {"F38b", "INFO_RSP comes twice", lying_server,
     "lie client=0 number=message_twice\nreconnect\nlost\nconnected\ncompleted number=20"},
    {"F43a", "the client's clock goes at half the speed: no path dies, and a dead one is noticed",
     slow_client,
     "delivered number=20\npass time=30s\nreconnects number=0\nreconnects path=1 number=0\ncut\nlost\npass "
     "time=40s\nheal\nconnected"},
    {"F43b", "the server's does", slow_server,
     "delivered number=20\npass time=30s\nreconnects number=0\nreconnects path=1 number=0\ncut\nlost\npass "
     "time=40s\nheal\nconnected"},
    {"F43c", "one clock is four times as fast as the other, and both sides are impatient", clocks_apart,
     "delivered number=20\npass time=60s\nreconnects number=0\nreconnects path=1 number=0\ncut path=1 "
     "ways=2\nlost path=1\npass time=20s\nheal path=1 ways=2\nconnected path=1"},
    {"F52a", "a client that died comes back as the very same before the server has noticed", same_again,
     "completed number=20\ncrash\nrestart\npass time=30s\nconnected path=0\nconnected path=1\ncompleted "
     "number=150"},
    {"F52b", "with writes of its former life in storage", same_again,
     "storage number=8 time=4s length=5s\nheld number=4\ncrash\nrestart\nconnected path=0\nconnected "
     "path=1\ncompleted number=100"},
    {"F52c", "in the middle of its handshake, three times", same_again,
     "completed number=20\ncrash\nrestart\nconnections number=1\ncrash\nrestart\nconnections "
     "number=2\ncrash\nrestart\npass time=30s\nconnected path=0\nconnected path=1\ncompleted number=100"},
};

}  // namespace

std::span<const Directed> shortage_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
