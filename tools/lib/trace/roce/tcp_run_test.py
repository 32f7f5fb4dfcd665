"""Converts a run over TCP to a capture: urtrsd and the nbdkit plugin record the run, `urtrs-replay pcap` makes a RoCEv2
capture, Wireshark decodes every frame, `import` returns the same messages, and `check` finds no violation."""
import json
import os
import shutil
import signal

import pytest
from recorded_run import REPLAY, SIZE, RecordedRun, messages, run

LUA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../wireshark/urtrs.lua")

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("tshark", "nbdkit", "nbdcopy"))),
                                reason="needs tshark, nbdkit and nbdcopy")


def io_messages(trace, by_client):
    """Returns the numbers of requests and of messages to the client (without heartbeats and SENDs), and how many carry data."""
    requests, answers, with_data = 0, 0, 0
    for text in run(REPLAY, "cat", trace, "--json").stdout.splitlines():
        record = json.loads(text)
        event, fields = record.get("event", ""), record.get("fields", {})
        if event not in ("WireSent", "WireReceived") or fields["op"] == "send":
            continue
        kind = fields["imm"] >> 28 if fields["has_imm"] else None
        if kind in (8, 9):
            continue
        if (event == "WireSent") == by_client:
            requests += kind == 0
        else:
            answers += 1
            with_data += fields["op"] == "write_imm" and fields["length"] != 0
    return requests, answers, with_data


def tshark(capture, *options, show):
    return run("tshark", *options, "-r", capture, "-Y", show).stdout


class TestRun(RecordedRun):
    def capture(self, name, *traces, restarted=False):
        """Converts the traces to a capture without Wireshark warnings, and back to a trace. A restarted server answers
        earlier requests with ENOTCONN, because it does not know their device."""
        capture, again = self.file(name + ".pcapng"), self.file(name + ".rtrc")
        done = run(REPLAY, "pcap", *traces, "-o", capture, "--json")
        made = json.loads(done.stdout)
        assert (made["drifting_clocks"], made["without_setup"]) == (0, 0), made
        assert made["frames"] > SIZE // 1024
        assert tshark(capture, show="!infiniband || _ws.malformed || _ws.expert") == ""
        dissector = ("-X", f"lua_script:{LUA}")
        told = "(_ws.expert && !(rtrs.errno == 107))" if restarted else "_ws.expert"
        assert tshark(capture, *dissector, show=f"!infiniband || _ws.malformed || {told} || _ws.lua.error || "
                                "rtrs.malformed || rtrs.type == UNKNOWN || rtrs.missing || rtrs.retransmission") == ""
        assert tshark(capture, *dissector, show="rtrs.type == IO_RSP && rtrs.response_to") != ""
        assert tshark(capture, *dissector, show="rnbd.op == 1") != ""
        found = json.loads(run(REPLAY, "import", capture, again, "--json").stdout)
        assert (found["gaps"], found["malformed_packets"], found["bad_icrc"]) == (0, 0, 0), found
        assert found["connections"] == made["connections"]
        return again

    def test_copy_over_two_paths(self):
        self.start_server("server.rtrc")
        # Repeats the copy until both paths are up, because the second path may connect after the first copy
        # has ended.
        both_up = f"test $(grep -o '\"state\": *\"connected\"' {self.file('status.json')} | wc -l) = 2"
        with self.client(f"set -e; until nbdcopy --flush {self.file('disk.img')} $uri && {both_up}; do :; done; "
                         f"nbdcopy $uri {self.file('back')}") as client:
            _, errors = client.communicate()
        assert client.returncode == 0, errors
        self.end_server()
        client_trace, server_trace = self.file("client.rtrc"), self.file("server.rtrc")
        verdict = self.judged([client_trace, server_trace], "conforming")
        assert verdict["laws"]["connections"] > 0
        client, server = messages(client_trace, True), messages(server_trace, False)
        # There are messages on both service connections and on the IO connections that were used.
        assert len(client) > 2
        assert server.keys() == client.keys()
        for name, told in client.items():
            assert server[name] == told
        # Two messages per IO, even for reads: the request, and the response with the data.
        counted = io_messages(server_trace, False)
        assert counted[0] == counted[1] and counted[2] >= 2 * SIZE // (256 << 10), counted
        assert messages(self.capture("by-client", client_trace), True) == client
        for name in ("by-server", "both"):
            traces = [server_trace] if name == "by-server" else [client_trace, server_trace]
            again = messages(self.capture(name, *traces), True)
            assert again.keys() == server.keys()
            # A server does not know whether a client that disconnected has received its last responses.
            for key, told in again.items():
                assert told[0] == server[key][0]
                assert told[1] == server[key][1][:len(told[1])]
                if key in client:
                    assert told == client[key]
        self.judged([self.file(name + ".rtrc") for name in ("by-client", "by-server", "both")], "conforming")
        assert io_messages(self.file("both.rtrc"), True) == counted
        dissected = ("-X", f"lua_script:{LUA}")
        assert tshark(self.file("both.pcapng"), *dissected, show="rtrs.type == DATA && rtrs.imm") == ""
        with_data = tshark(self.file("both.pcapng"), *dissected, show="rtrs.type == IO_RSP && rtrs.data_len")
        assert len(with_data.splitlines()) == counted[2]

    def test_server_killed_during_copy(self):
        self.start_server("server1.rtrc")
        os.mkfifo(self.file("begun"))
        commands = (f"nbdcopy {self.file('disk.img')} $uri & echo >{self.file('begun')}; wait $! && "
                    f"nbdcopy $uri {self.file('back')}")
        with self.client(commands) as client:
            with open(self.file("begun"), encoding="utf-8") as begun:
                begun.read()
            self.end_server(signal.SIGKILL)
            self.start_server("server2.rtrc")
            _, errors = client.communicate()
        assert client.returncode == 0, errors
        self.end_server()
        client_trace = self.file("client.rtrc")
        self.judged([client_trace], "conforming")
        client = messages(client_trace, True)
        assert messages(self.capture("by-client", client_trace, restarted=True), True) == client
        self.judged([self.file("by-client.rtrc")], "conforming")
        # The killed server had not written its last records yet, which cover at most one second.
        self.capture("by-server", self.file("server2.rtrc"), restarted=True)
        self.judged([self.file("server1.rtrc")], "conforming", "inconclusive")
        self.judged([self.file("server2.rtrc"), self.file("by-server.rtrc")], "conforming")
