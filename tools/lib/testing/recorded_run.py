"""Runs of urtrsd and the nbdkit plugin over two paths of the fabric tcp, which record traces, and the messages of traces."""
import collections
import hashlib
import json
import os
import signal
import subprocess

import pytest
from programs import PLUGIN, free_port, program

REPLAY, URTRSD = program("urtrs-replay"), program("urtrsd")
SIZE = 2 << 20
CON_REQ_HEX = 2 * 56


def run(*command, code=0):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, (command, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def messages(trace, by_client):
    """Returns the messages of each connection in both directions, in the form of the client's trace. Facts that only
    one side knows are left out: data of reads, keys and addresses of requests, data that is recorded as a digest."""
    said = collections.defaultdict(lambda: ([], []))
    names, seen = {}, collections.Counter()
    for text in run(REPLAY, "cat", trace, "--json").stdout.splitlines():
        record = json.loads(text)
        event = record.get("event", "")
        if event not in ("WireSent", "WireReceived", "WireCm"):
            continue
        fields = record["fields"]
        key = (record["instance"], fields["key.path"], fields["key.con"], fields["key.epoch"])
        if event == "WireCm":
            if fields["kind"] == "req":
                request = fields["private_data"][:CON_REQ_HEX]
                names[key] = (request, seen[request])
                seen[request] += 1
            continue
        if fields["op"] == "write":
            continue
        to_server = (event == "WireSent") == by_client
        length = 0 if fields["op"] == "write_imm" and not to_server else fields["length"]
        said[names[key]][0 if to_server else 1].append(
            (fields["op"], fields["has_imm"], fields["imm"], length, fields["head"]))
    return said


class RecordedRun:
    """Base of test classes. Each test has its own folder and server."""

    @pytest.fixture(autouse=True)
    def given(self, tmp_path):
        self.folder = tmp_path
        with open(self.file("disk.img"), "wb") as image:
            image.write(b"".join(hashlib.sha512(str(i).encode()).digest() for i in range(SIZE // 64)))
        with open(self.file("target"), "wb") as target:
            target.truncate(SIZE)
        self.port = free_port()
        self.server = None
        yield
        self.end_server()

    def file(self, name):
        return os.path.join(self.folder, name)

    def start_server(self, trace, *options):
        self.server = subprocess.Popen(
            [URTRSD, "--listen=127.0.0.1", "--listen=127.0.0.2", f"--port={self.port}", "--trace-detail=wire",
             f"--trace={self.file(trace)}", f"--export=target={self.file('target')}", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = ""
        for line in self.server.stdout:
            seen += line
            if line.rstrip().endswith(" ready"):
                return
        raise RuntimeError(f"urtrsd did not start:\n{seen}")

    def end_server(self, how=signal.SIGTERM):
        if self.server is None:
            return
        self.server.send_signal(how)
        self.server.stdout.read()
        self.server.stdout.close()
        self.server.wait()
        self.server = None

    def client(self, commands, *options):
        return subprocess.Popen(
            ["nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", "path=127.0.0.2", f"port={self.port}",
             "reconnect_min=50ms", "reconnect_max=200ms", "connect_timeout=60s", "device=target", "trace_detail=wire",
             f"trace={self.file('client.rtrc')}", f"status={self.file('status.json')}", *options, "--run", commands],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def judged(self, traces, *allowed):
        done = subprocess.run([REPLAY, "check", "--json", *traces], capture_output=True, text=True, check=False)
        verdict = json.loads(done.stdout)
        assert verdict["verdict"] in allowed, verdict
        for trace in verdict["traces"]:
            assert (trace["verdict"] == "inconclusive") == bool(trace["not_judged"]), trace
        return verdict
