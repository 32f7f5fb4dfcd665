#include "core/wire/messages.hpp"
#include "sim/scenarios/directed_shapes.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

// Only what the script asks for, on few sectors, so that requests meet.
void scripted(Scenario& s, ChoiceSource&) {
  s.workload.requests = 0;
  s.storage.sectors = 8;
}
void scripted_kernel_peer(Scenario& s, ChoiceSource& choice) {
  scripted(s, choice);
  s.server.extensions = 0;
}
void scripted_waiting(Scenario& s, ChoiceSource& choice) {
  scripted_kernel_peer(s, choice);
  s.client.kernel_peer = UnfencedReplay::wait;
}
// The next attempt, which would end what is left of the path, is the script's.
void scripted_far_attempts(Scenario& s, ChoiceSource& choice) {
  scripted(s, choice);
  s.client.reconnect_min = s.client.reconnect_max = seconds(500);
}
void scripted_kernel_far_attempts(Scenario& s, ChoiceSource& choice) {
  scripted_far_attempts(s, choice);
  s.server.extensions = 0;
}
void scripted_one_chunk(Scenario& s, ChoiceSource& choice) {
  scripted_far_attempts(s, choice);
  s.server.queue_depth = 1;
}
void scripted_three(Scenario& s, ChoiceSource& choice) {
  scripted(s, choice);
  s.paths = 3;
}
void scripted_three_unfenced(Scenario& s, ChoiceSource& choice) {
  scripted_three(s, choice);
  s.server.extensions = 0;
}
void busy_three(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.paths = 3;
}
void busy_round_robin(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.client.policy = MultipathPolicy::round_robin;
}
void patient(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  // An attempt is far away: requests must not wait for it.
  s.client.reconnect_min = s.client.reconnect_max = seconds(500);
}
void patient_min_inflight(Scenario& s, ChoiceSource& choice) {
  patient(s, choice);
  s.client.policy = MultipathPolicy::min_inflight;
}
void fresh_keys(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.server.always_invalidate = true;
}
void remote_invalidation(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.client.offer_invalidation = true;
  s.workload.write_percent = 20;
}
// A server as over soft-RoCE, and a client that asks for the invalidation of its keys.
void keys_stay(Scenario& s, ChoiceSource& choice) {
  remote_invalidation(s, choice);
  s.client.extensions |= wire::kExtensionKeysStay;
  s.server.extensions |= wire::kExtensionKeysStay;
}
void keys_stay_with_kernel_client(Scenario& s, ChoiceSource& choice) {
  remote_invalidation(s, choice);
  s.client.extensions = 0;
  s.server.extensions |= wire::kExtensionKeysStay;
}
void alone(Scenario& s, ChoiceSource& choice) {
  busy(s, choice);
  s.paths = 1;
}

void scripted_short_wait(Scenario& s, ChoiceSource& choice) {
  scripted(s, choice);
  s.client.queue_timeout = 5 * s.interval;
}
void scripted_short_wait_kernel_peer(Scenario& s, ChoiceSource& choice) {
  scripted_short_wait(s, choice);
  s.server.extensions = 0;
}
void scripted_short_wait_patient(Scenario& s, ChoiceSource& choice) {
  scripted_short_wait_kernel_peer(s, choice);
  s.client.kernel_peer = UnfencedReplay::wait;
}

constexpr Directed kScenarios[] = {
    {"L01a", "a write that storage still holds when its path dies must not undo the write that came after it",
     scripted,
     "storage number=1 time=20s length=20s\nwrite number=1\ndelivered number=1\nbreak_path\nwrite "
     "number=1\npass time=1s\nread number=1\ncompleted number=3"},
    {"L01b", "the same with a link that is cut, not broken", scripted,
     "storage number=1 time=20s length=20s\nwrite number=1\ndelivered number=1\ncut\nwrite number=1\npass "
     "time=1s\nread number=1\npass time=30s\nheal\ncompleted number=3"},
    {"L01c", "with a kernel server: the histories of the widened windows must hold", scripted_kernel_peer,
     "storage number=1 time=20s length=20s\nwrite number=1\ndelivered number=1\nbreak_path\nwrite "
     "number=1\npass time=1s\nread number=1\npass time=30s\ncompleted number=3"},
    {"L01d", "with a kernel server and a client that waits for the path itself", scripted_waiting,
     "storage number=1 time=5s length=5s\nwrite number=1\ndelivered number=1\nbreak_path\nwrite "
     "number=1\npass time=1s\nread number=1\ncompleted number=3"},
    {"L01e",
     "a write that is still on the wire when its path dies must not act after the write that came after it",
     scripted_far_attempts,
     R"(rate number=disconnect_lost time=1000000
rate number=ghost_delay time=1000000
write number=1
submitted number=1
break_path
completed number=1
write number=1
completed number=2
pass time=20s
read number=1
completed number=3
rate number=disconnect_lost
rate number=ghost_delay
reconnect)"},
    {"L01f", "the same with a kernel server: it acts within the window that such a server leaves open",
     scripted_kernel_far_attempts,
     R"(rate number=disconnect_lost time=1000000
rate number=ghost_delay time=1000000
write number=1
submitted number=1
break_path
completed number=1
write number=1
completed number=2
pass time=20s
read number=1
completed number=3
rate number=disconnect_lost
rate number=ghost_delay
reconnect)"},
    {"L02d",
     "a write that is still on the wire when its path dies must not land in its chunk, which serves another",
     scripted_one_chunk,
     R"(rate number=disconnect_lost time=1000000
rate number=ghost_delay time=1000000
write number=4
submitted number=1
break_path
completed number=1
storage number=1 time=20s length=20s
write number=4 time=4
completed number=2
rate number=disconnect_lost
rate number=ghost_delay
reconnect)"},
    {"L01g", "a fence whose path dies before the answer is asked again over a third", scripted_three,
     R"(storage number=1 time=5s length=5s
write number=1
held number=1
cut path=0
break_path path=0
pass time=1s
cut path=1
break_path path=1
completed number=1
heal path=0
heal path=1)"},
    {"L01h",
     "without a fence, as a kernel client: a request that waits for its chunk moves on to a third path "
     "before "
     "the server knows that the second is lost",
     scripted_three_unfenced,
     R"(storage number=1 time=5s length=5s
write number=1
held number=1
cut path=0
break_path path=0
pass time=1s
cut path=1
break_path path=1
completed number=1
heal path=0
heal path=1)"},
    {"L01i", "a write that failed for want of a path must not undo a later one that was acknowledged",
     scripted_short_wait,
     R"(storage number=1 time=40s length=40s
write number=1
held number=1
cut path=0
cut path=1
errors number=1
heal path=1
connected path=1
write number=1
completed number=2
read number=1
completed number=3
pass time=40s
read number=1
completed number=4
heal path=0)"},
    {"L01j", "the same with a kernel server and a client that waits: nothing is sent before the path is back",
     scripted_short_wait_patient,
     R"(storage number=1 time=40s length=40s
write number=1
held number=1
cut path=0
cut path=1
errors number=1
heal path=1
heal path=0
connected path=1
write number=1
completed number=2
read number=1
completed number=3
pass time=40s
read number=1
completed number=4)"},
    {"L01k", "the same with a kernel server and replay: the write that failed acts late, and is counted",
     scripted_short_wait_kernel_peer,
     R"(storage number=1 time=40s length=40s
write number=1
held number=1
cut path=0
cut path=1
errors number=1
reached number=unproven_failure
heal path=1
connected path=1
write number=1
completed number=2
pass time=40s
read number=1
completed number=3
heal path=0)"},
    {"L02a", "the chunk of a request that storage still works for is used again over another path", scripted,
     "storage number=1 time=20s length=21s\nwrite number=4\ndelivered number=1\nbreak_path\npass "
     "time=100ms\nwrite number=4 time=4\nread number=4\nwrite number=2\ncompleted number=4"},
    {"L02b", "a read that storage fills late must not smash the write that has its chunk now", scripted,
     "storage number=1 time=20s length=21s\nread number=4\ndelivered number=1\nbreak_path\npass "
     "time=100ms\nwrite number=4 time=4\nread number=4 time=4\ncompleted number=3"},
    {"L02c", "late messages of the dead path, as the network may still deliver them", scripted,
     "rate number=9 time=1000000\nstorage number=1 time=5s length=5s\nwrite number=2\nwrite number=2 "
     "time=2\nbreak_path\nwrite number=2\nwrite number=2 time=2\npass time=10s\nread number=4\ncompleted "
     "number=5"},
    {"L07", "a path that lost its requests at full depth has none in flight when it is back", busy,
     "delivered number=8\nbreak_path\nconnected\ncompleted number=150"},
    {"L28a", "all links are cut for a second under load: a pause, no error", busy,
     "delivered number=4\ncut path=0\ncut path=1\npass time=1s\nheal path=0\nheal path=1\ncompleted "
     "number=200"},
    {"L28b", "for ten seconds", busy,
     "delivered number=4\ncut path=0\ncut path=1\npass time=10s\nheal path=0\nheal path=1\ncompleted "
     "number=200"},
    {"L28c", "for a minute", busy,
     "delivered number=4\ncut path=0\ncut path=1\npass time=60s\nheal path=0\nheal path=1\ncompleted "
     "number=200"},
    {"L24", "answers of a path that is lost and found again come late", busy,
     "rate number=9 time=500000\ndelivered number=8\nbreak_path ways=2\nconnected\nbreak_path "
     "ways=2\nconnected\ncompleted number=200"},
    {"R34", "a connection of three breaks: requests of the others may have been executed", busy,
     "delivered number=8\nbreak_con con=1\nconnected\nbreak_con con=2 ways=2\nconnected\ncompleted "
     "number=200"},
    {"R42", "the path with the fewest requests dies: none may choose it", busy_three,
     "slow path=0 time=20ms\nslow path=1 time=20ms\ndelivered number=30\nbreak_path path=2\npass "
     "time=10ms\nbreak_path path=1\ncompleted number=200"},
    {"R43", "a path is removed under load, and added again", busy_round_robin,
     "delivered number=10\nremove path=0\npass time=1s\nadd path=0\ncompleted number=200"},
    {"R43c", "the first path is gone for long: the one behind it serves", patient_min_inflight,
     R"(delivered number=8
break_path
completed number=200
reconnects number=0
reconnect
connected)"},
    {"R44", "the next path of the round is removed", busy_round_robin,
     "delivered number=5\nremove path=1\ndelivered number=50\nadd path=1\nremove path=0\ndelivered "
     "number=100\nadd path=0\ncompleted number=200"},
    {"R48", "requests whose key the server may invalidate move to another path", remote_invalidation,
     "delivered number=10\nbreak_path\nconnected\nbreak_path path=1\ncompleted number=200"},
    {"R48b", "keys that the client agreed to take back itself move to another path", keys_stay,
     "delivered number=10\nbreak_path\nconnected\nbreak_path path=1\ncompleted number=200\nreached "
     "number=keys_left"},
    {"R48c", "a kernel client before 6.12 hangs when a key that it asked to invalidate is left to it",
     keys_stay_with_kernel_client,
     "delivered number=10\nbreak_path\nconnected\nbreak_path path=1\ncompleted number=200\nreached "
     "number=keys_asked_back"},
    {"R49", "fresh keys: a path dies with keys that nobody has", fresh_keys,
     "delivered number=10\nbreak_path\nconnected\nbreak_path path=1 ways=2\nconnected path=1\ncompleted "
     "number=200"},
    {"R52", "requests of a lost path go on at once, not at its next attempt", patient,
     "delivered number=8\nbreak_path\ncompleted number=200\nreconnect\nconnected"},
    {"R58", "flushed work completes late, after successes", busy,
     "rate number=10 time=1000000\ndelivered number=8\nbreak_path\nconnected\ncompleted number=200"},
    {"F28", "a path dies just when the other comes back", busy,
     "delivered number=8\ncut path=0\nlost path=0\npass time=5s\nheal path=0\nconnected path=0\nbreak_path "
     "path=1\ncompleted number=200"},
    {"F16", "failover of a failover: the second path dies while it takes over", busy_three,
     "rate number=9 time=1000000\ndelivered number=8\nbreak_path path=0\npass time=1ms\nbreak_path "
     "path=1\npass time=1ms\nbreak_path path=2\ncompleted number=200"},
    {"F54", "the server dies between effect and answer", alone,
     "storage number=4 time=1ms length=2s\ndelivered number=2\npass time=10ms\ncrash client=0\npass "
     "time=3s\nrestart client=0\nconnected\ncompleted number=100"},
    {"F55", "the server is back before the client has noticed", busy,
     "delivered number=8\ncrash client=0\npass time=10ms\nrestart client=0\nconnected path=0\nconnected "
     "path=1\ncompleted number=200"},
};

}  // namespace

std::span<const Directed> failover_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
