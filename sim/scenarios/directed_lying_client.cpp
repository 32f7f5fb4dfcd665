// The first client lies, the second is honest: the server ends the liar's path or answers with an error, and
// nobody else notices.
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

void lying(Scenario& s, ChoiceSource&) {
  s.liar = 1;
  s.clients = 2;
}
void lying_reader(Scenario& s, ChoiceSource& choice) {
  lying(s, choice);
  s.workload.write_percent = 0;
  s.workload.requests = 100;
}
void lying_writer(Scenario& s, ChoiceSource& choice) {
  lying(s, choice);
  s.workload.write_percent = 100;
  s.workload.requests = 100;
}
void lying_fresh_keys(Scenario& s, ChoiceSource& choice) {
  lying_writer(s, choice);
  s.server.always_invalidate = true;
}
void lying_odd_depth(Scenario& s, ChoiceSource& choice) {
  lying_writer(s, choice);
  s.server.queue_depth = 5;
  s.workload.window = 1;
}
void lying_alone_at_odd_depth(Scenario& s, ChoiceSource& choice) {
  lying_odd_depth(s, choice);
  s.workload.requests = 0;
}

constexpr Directed kScenarios[] = {
    {"HC01", "CON_REQ without the magic number", lying,
     R"(lie number=connect at=2 size=2 value=0
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC02", "CON_REQ of another major version", lying,
     R"(lie number=connect at=4 size=2 value=0x0100
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC03", "CON_REQ with a cid that its cid_num does not allow", lying,
     R"(lie number=connect at=6 size=2 value=3
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC04", "CON_REQ of a path without connections", lying,
     R"(lie number=connect at=8 size=2 value=0
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC05", "CON_REQ of a path with more connections than there may be", lying,
     R"(lie number=connect at=8 size=2 value=4097
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC06", "CON_REQ that is cut off", lying,
     R"(lie number=connect at=40
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC07", "CON_REQ of nothing at all", lying,
     R"(lie number=connect at=0
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC08", "the connections of one path do not agree on their number", lying,
     R"(lie number=connect con=1 at=8 size=2 value=5
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC09", "one connection says an older attempt than the others", lying,
     R"(lie number=connect con=1 at=10 size=2 value=0
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC10", "one connection says a newer attempt than the others", lying,
     R"(lie number=connect con=2 at=10 size=2 value=900
reconnect
dropped number=superseded
connected
unharmed client=2)"},
    {"HC11", "a connection comes twice", lying,
     R"(lie number=connect con=2 at=6 size=2 value=1
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"HC12", "one connection claims another path of the same addresses", lying,
     R"(lie number=connect con=1 at=12 size=8 value=1
reconnect
ended number=rejected
connected
unharmed client=2)"},
    {"R02", "INFO_REQ of a path whose middle connection went to another session", lying,
     R"(lie number=connect con=1 at=28 size=8 value=1
reconnect
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R14a", "a session name with a slash", lying,
     R"(lie number=message at=4 size=1 value=47
reconnect
ended number=peer_closed
connected
unharmed client=2)"},
    {"R14b", "no session name", lying,
     R"(lie number=message at=2 size=1 value=0
reconnect
ended number=peer_closed
connected
unharmed client=2)"},
    {"R14c", "a session name with a dot", lying,
     R"(lie number=message at=3 size=1 value=46
reconnect
ended number=peer_closed
connected
unharmed client=2)"},
    {"R14d", "a session name with a control character", lying,
     R"(lie number=message at=3 size=1 value=10
reconnect
ended number=peer_closed
connected
unharmed client=2)"},
    {"R13b", "a session takes the name of another that lives", lying,
     R"(lie number=message at=8 size=1 value=49
reconnect
dropped number=name_refused
connected
unharmed client=2)"},
    {"HC13", "INFO_REQ with the type of another message", lying,
     R"(lie number=message at=0 size=2 value=7
reconnect
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC14", "INFO_REQ that is cut off", lying,
     R"(lie number=message at=100
reconnect
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC15", "a message of one byte instead of INFO_REQ", lying,
     R"(lie number=message at=1
reconnect
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R65a", "a WRITE whose user header is longer than the message", lying_writer,
     R"(lie number=header con=1 at=2 size=2 value=65535
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R65b", "a READ whose user header is longer than the message", lying_reader,
     R"(lie number=header con=1 at=2 size=2 value=65535
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R65c", "a user header one byte too long: the upper layer refuses it", lying_writer,
     R"(lie number=header con=1 at=2 size=2 value=25 count=3
errors number=1
completed number=150
unharmed
unharmed client=2)"},
    {"L06a", "a request without user header is answered with an error, not with silence", lying_writer,
     R"(lie number=header con=1 at=2 size=2 value=0 count=5
errors number=5
completed number=150
unharmed
unharmed client=2)"},
    {"R66a", "a READ of more than a chunk", lying_reader,
     R"(lie number=header con=1 at=20 size=4 value=8193
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R66b", "a READ of four gigabytes", lying_reader,
     R"(lie number=header con=1 at=20 size=4 value=4294967295
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R66c", "a READ of nothing", lying_reader,
     R"(lie number=header con=1 at=20 size=4 value=0
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R66d", "a READ into memory that the client never offered", lying_reader,
     R"(lie number=header con=1 at=8 size=8 value=64
ended number=transport_error
connected
unharmed client=2)"},
    {"R66e", "a READ with a key that the client never had", lying_reader,
     R"(lie number=header con=1 at=16 size=4 value=3735928559
ended number=transport_error
connected
unharmed client=2)"},
    {"R67a", "a READ with two descriptors", lying_reader,
     R"(lie number=header con=1 at=6 size=2 value=2
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R67b", "a READ with as many descriptors as the field can say", lying_reader,
     R"(lie number=header con=1 at=6 size=2 value=65535
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R67c", "a READ that wants a key invalidated and names none", lying_reader,
     R"(lie number=header con=1 at=4 size=4 value=1 count=3
completed number=150
unharmed
unharmed client=2)"},
    {"HC16", "a request of an unknown type", lying_writer,
     R"(lie number=header con=1 at=0 size=1 value=9
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC17", "a request that says it is an INFO_RSP", lying_writer,
     R"(lie number=header con=2 at=0 size=1 value=1
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R36a", "a slot behind the last one", lying_odd_depth,
     R"(lie number=request con=1 value=0xe000000 count=4
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R36c", "a slot just behind the last one", lying_alone_at_odd_depth,
     R"(lie number=request con=1 value=0xa000000
write number=1
dropped number=protocol_violation
connected
completed number=1
unharmed client=2)"},
    {"R36b", "an offset behind the end of the chunk", lying_writer,
     R"(lie number=request con=1 value=0x2000
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC18", "an immediate of an unknown type", lying_writer,
     R"(lie number=request con=1 value=0x70000000
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC19", "a response from a client", lying_writer,
     R"(lie number=request con=1 value=0x10000000
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"L22a", "a second request for a slot that is in service", lying_writer,
     R"(storage number=400 time=20ms length=20ms
lie number=request_twice con=1
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"R49b", "a second request for a slot whose key is about to die", lying_fresh_keys,
     R"(storage number=400 time=20ms length=20ms
lie number=request_twice con=1
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC20", "an unknown immediate out of nothing", lying,
     R"(inject con=0 value=0xf0000000
dropped number=protocol_violation
connected
unharmed client=2)"},
    {"HC21", "a hundred acknowledgements of heartbeats that nobody sent", lying,
     R"(inject con=0 value=0x90000000 count=100
pass time=3s
unharmed
unharmed client=2)"},
    {"HC23", "heartbeats on an IO connection", lying,
     R"(inject con=1 value=0x80000000 count=20
inject con=2 value=0x90000000 count=20
pass time=3s
unharmed
completed number=60
unharmed client=2)"},
    {"HC24", "a second message on the service connection of a path that is connected", lying,
     R"(lie number=message_twice count=2
reconnect
dropped number=protocol_violation
connected
completed number=60
unharmed client=2)"},
    {"L14b", "the counter of attempts wraps around: the newer attempt is the newer one", lying,
     R"(disconnect
forgotten
lie number=connect con=0 at=10 size=2 value=65535
lie number=connect con=1 at=10 size=2 value=65535
lie number=connect con=2 at=10 size=2 value=65535
reconnect
connected
lie number=connect con=0 at=10 size=2 value=0
lie number=connect con=1 at=10 size=2 value=0
lie number=connect con=2 at=10 size=2 value=0
rate number=disconnect_lost time=1000000
break_path ways=1
dropped number=superseded
by time=1s
rate number=disconnect_lost
connected
unharmed client=2)"},
    {"HC22", "a hundred heartbeats at once: each is answered, nobody starves", lying,
     R"(inject con=0 value=0x80000000 count=100
pass time=3s
unharmed
completed number=60
unharmed client=2)"},
};

}  // namespace

std::span<const Directed> lying_client_scenarios() {
  return kScenarios;
}

}  // namespace rtrs::sim
