// The server lies to its only client: the client gives the path up or takes no harm, says why, and is well
// again when the lies have ended.
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void lying(Scenario& s, ChoiceSource&) {
  s.liar = 0;
}
void lying_busy(Scenario& s, ChoiceSource& choice) {
  lying(s, choice);
  s.workload.requests = 100;
}
void lying_to_reader(Scenario& s, ChoiceSource& choice) {
  lying_busy(s, choice);
  s.workload.write_percent = 0;
}
void lying_of_invalidation(Scenario& s, ChoiceSource& choice) {
  lying_to_reader(s, choice);
  s.client.offer_invalidation = true;
}
void lying_fresh_keys(Scenario& s, ChoiceSource& choice) {
  lying_busy(s, choice);
  s.server.always_invalidate = true;
}
void lying_plainly(Scenario& s, ChoiceSource& choice) {
  lying_busy(s, choice);
  s.client.extensions = 1;  // no generations
}

void lying_about_one(Scenario& s, ChoiceSource& choice) {
  lying_plainly(s, choice);
  s.workload.requests = 0;
}
void lying_about_one_of_many(Scenario& s, ChoiceSource& choice) {
  lying(s, choice);
  s.workload.requests = 0;
}

constexpr Directed kScenarios[] = {
    {"R07a", "CON_RSP without the magic number", lying,
     R"(lie client=0 number=accept at=0 size=2 value=0
reconnect
ended number=bad_conn_rsp
connected)"},
    {"R07b", "CON_RSP of another major version", lying,
     R"(lie client=0 number=accept at=2 size=2 value=0x0300
reconnect
ended number=bad_conn_rsp
connected)"},
    {"R07c", "an accept that carries an error", lying,
     R"(lie client=0 number=accept at=4 size=2 value=0xff98
reconnect
ended number=bad_conn_rsp
connected)"},
    {"R07d", "CON_RSP that is cut off", lying,
     R"(lie client=0 number=accept at=20
reconnect
ended number=bad_conn_rsp
connected)"},
    {"R07e", "the same on a later connection of the path", lying,
     R"(lie client=0 number=accept con=2 at=0 size=2 value=0
reconnect
ended number=bad_conn_rsp
connected)"},
    {"L16a", "a queue depth of nothing", lying,
     R"(lie client=0 number=accept at=6 size=2 value=0
reconnect
ended number=bad_conn_rsp
connected)"},
    {"L16b", "sizes whose sum wraps around", lying,
     R"(lie client=0 number=accept at=8 size=8 value=0x1ffffffff
reconnect
ended number=bad_conn_rsp
connected)"},
    {"L16c", "chunks of nothing", lying,
     R"(lie client=0 number=accept at=8 size=8 value=0
reconnect
ended number=bad_conn_rsp
connected)"},
    {"L16d", "INFO_RSP without any chunk", lying,
     R"(lie client=0 number=message at=2 size=2 value=0
reconnect
reached number=tampered
connected
reconnects number=1)"},
    {"L16e", "INFO_RSP with more runs than the message has", lying,
     R"(lie client=0 number=message at=2 size=2 value=65535
reconnect
ended number=protocol_violation
connected)"},
    {"L16f", "INFO_RSP with a run of nothing", lying,
     R"(lie client=0 number=message at=20 size=4 value=0
reconnect
ended number=protocol_violation
connected)"},
    {"L16g", "INFO_RSP with a run that is no multiple of the chunk size", lying,
     R"(lie client=0 number=message at=20 size=4 value=65535
reconnect
ended number=protocol_violation
connected)"},
    {"L16h", "INFO_RSP of another type", lying,
     R"(lie client=0 number=message at=0 size=2 value=9
reconnect
ended number=protocol_violation
connected)"},
    {"L16i", "INFO_RSP that is cut off", lying,
     R"(lie client=0 number=message at=7
reconnect
ended number=protocol_violation
connected)"},
    {"L16j", "INFO_RSP with a key that does not exist: the first request breaks the path, not the client",
     lying_busy,
     R"(lie client=0 number=message at=16 size=4 value=3735928559
reconnect
reached number=tampered
dropped number=transport_error
connected)"},
    {"L16k", "INFO_RSP with an address outside of the chunks", lying_busy,
     R"(lie client=0 number=message at=8 size=8 value=64
reconnect
reached number=tampered
dropped number=transport_error
connected)"},
    {"R15e",
     "another queue depth than the session was opened with, in one answer: the path tries again by itself",
     lying,
     R"(lie client=0 number=accept at=6 size=2 value=16
reconnect
ended number=depth_changed
connected)"},
    {"R40", "flags that the client does not know are nothing to it", lying,
     R"(lie client=0 number=accept at=18 size=2 value=0xffff
reconnect
reached number=tampered
connected
reconnects number=1)"},
    {"L17a", "a rejection with errno 0 is a rejection", lying_busy,
     R"(storage number=4 time=2s length=2s
held number=1
lie client=0 number=reject at=4 size=2 value=0 count=3
break_path path=0
break_path path=1
reached number=tampered
connected
completed number=100)"},
    {"L17b", "a rejection with errno 1", lying_busy,
     R"(storage number=4 time=2s length=2s
held number=1
lie client=0 number=reject at=4 size=2 value=1 count=3
break_path path=0
break_path path=1
reached number=tampered
connected
completed number=100)"},
    {"L17c", "a rejection with a positive errno", lying_busy,
     R"(storage number=4 time=2s length=2s
held number=1
lie client=0 number=reject at=4 size=2 value=32767 count=3
break_path path=0
break_path path=1
reached number=tampered
connected
completed number=100)"},
    {"L17d", "a rejection of one byte", lying_busy,
     R"(storage number=4 time=2s length=2s
held number=1
lie client=0 number=reject at=1 count=3
break_path path=0
break_path path=1
reached number=tampered
connected
completed number=100)"},
    {"L24b", "every response of a while comes twice", lying_busy,
     R"(lie client=0 number=response_twice con=1 count=10
lie client=0 number=response_twice con=2 count=10
reached number=stale_response
completed number=100
unharmed)"},
    {"L24c", "a response that comes twice, to a client without generations", lying_plainly,
     R"(lie client=0 number=response_twice con=1 count=3
reached number=stale_response
completed number=100
unharmed)"},
    {"HS01", "a response to a slot beyond the depth", lying_plainly,
     R"(lie client=0 number=response con=1 value=0x40000
ended number=protocol_violation
connected
completed number=100)"},
    {"HS02", "a response of an unknown type", lying_busy,
     R"(lie client=0 number=response con=1 value=0x60000000
ended number=protocol_violation
connected
completed number=100)"},
    {"L23a", "a response claims an invalidation that nobody asked for", lying_busy,
     R"(lie client=0 number=response con=1 value=0x30000000
ended number=protocol_violation
connected
completed number=100)"},
    {"L23b", "a response claims an invalidation that did not happen", lying_of_invalidation,
     R"(lie client=0 number=no_invalidation con=1
ended number=protocol_violation
connected
completed number=100)"},
    {"HS03", "an errno that the server's storage never said ends its request, and nothing else", lying_busy,
     R"(lie client=0 number=response con=1 value=0x2800000
errors number=1
completed number=100
unharmed)"},
    {"HS04", "READ data outside of what was offered", lying_to_reader,
     R"(lie client=0 number=read_data con=1 value=1073741824
ended number=transport_error
connected
completed number=100)"},
    {"HS05", "a fresh key for another slot", lying_fresh_keys,
     R"(lie client=0 number=key con=1 at=2 size=2 value=6
reached number=tampered
ended number=protocol_violation
connected
completed number=100)"},
    {"HS06", "a fresh key for a slot beyond the depth", lying_fresh_keys,
     R"(lie client=0 number=key con=1 at=2 size=2 value=8
ended number=protocol_violation
connected
completed number=100)"},
    {"HS07", "RKEY_RSP of another type", lying_fresh_keys,
     R"(lie client=0 number=key con=1 at=0 size=2 value=3
ended number=protocol_violation
connected
completed number=100)"},
    {"HS08", "RKEY_RSP that is cut off", lying_fresh_keys,
     R"(lie client=0 number=key con=1 at=7
ended number=protocol_violation
connected
completed number=100)"},
    {"HS09",
     "a fresh key that does not exist: the next request breaks the path, and the next attempt has good keys",
     lying_fresh_keys,
     R"(lie client=0 number=key con=1 at=4 size=4 value=3735928559 count=20
dropped number=transport_error
connected
completed number=100)"},
    {"HS10", "a response without any request", lying,
     R"(completed number=40
inject client=0 con=1 value=0x10000005
reached number=stale_response
pass time=2s
unharmed)"},
    {"HS11", "a request from a server", lying,
     R"(inject client=0 con=1 value=0x1000
ended number=protocol_violation
connected)"},
    {"HS12", "an unknown immediate out of nothing", lying,
     R"(inject client=0 con=0 value=0x50000000
ended number=protocol_violation
connected)"},
    {"HS13", "a hundred heartbeats at once", lying,
     R"(inject client=0 con=0 value=0x80000000 count=100
pass time=3s
completed number=40
unharmed)"},
    {"HS14", "heartbeats on an IO connection", lying,
     R"(inject client=0 con=1 value=0x80000000 count=20
inject client=0 con=2 value=0x90000000 count=20
pass time=3s
completed number=40
unharmed)"},
    {"HS15", "a response over another connection of its path than the request", lying_about_one,
     R"(connected
connected path=1
storage number=1 time=20s length=20s
write number=1
held number=1
inject client=0 con=2 value=0x10000000
ended number=protocol_violation
connected
completed number=1)"},
    {"HS16", "a response over another path than the request: the request goes on", lying_about_one,
     R"(connected
connected path=1
storage number=1 time=20s length=20s
write number=1
held number=1
inject client=0 path=1 con=1 value=0x10000000
reached number=stale_response
by time=10s
completed number=1
unharmed)"},
    {"HS17", "a response of an earlier use of the permit: the request goes on", lying_about_one_of_many,
     R"(connected
connected path=1
storage number=1 time=20s length=20s
write number=1
held number=1
inject client=0 con=1 value=0x10000000
reached number=stale_response
by time=10s
completed number=1
unharmed)"},
    {"L06b", "a request that is never answered ends with its session", lying,
     R"(completed number=40
lie client=0 number=unanswered con=1
write number=1 con=0
write number=1 con=1
write number=1 con=2
write number=1 con=3
reached number=tampered
leave
gone
rejoin
connected)"},
};

}  // namespace

std::span<const Directed> lying_server_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
