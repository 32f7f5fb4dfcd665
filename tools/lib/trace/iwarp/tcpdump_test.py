"""Captures of urtrsd and the nbdkit plugin over TCP, made by tcpdump: `import` returns the messages that the client
recorded, and `check` accuses nobody, whole or with lost and cut frames."""
import json
import os
import shutil
import signal
import struct
import subprocess

import pytest
from programs import until
from recorded_run import REPLAY, SIZE, RecordedRun, messages, run

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("tcpdump", "nbdkit", "nbdcopy"))) or os.geteuid() != 0,
                                reason="needs root, tcpdump, nbdkit and nbdcopy")
FRAME = struct.Struct("<IIII")
KEYS = "alice:" + "5a" * 32 + "\n"


def frames(capture):
    """Returns the file header, and the frames as (header, bytes)."""
    with open(capture, "rb") as file:
        whole = file.read()
    at, found = 24, []
    while at < len(whole):
        header = FRAME.unpack_from(whole, at)
        at += FRAME.size
        found.append((header, whole[at:at + header[2]]))
        at += header[2]
    return whole[:24], found


def ended(capture):
    """Returns the number of TCP connections over IPv4 in the capture that were closed or reset."""
    ports = set()
    for _, frame in frames(capture)[1]:
        source, target = struct.unpack_from(">HH", frame, 34)
        if frame[47] & 5:
            ports.add((min(source, target), max(source, target)))
    return len(ports)


class TestTcpdump(RecordedRun):
    @pytest.fixture(autouse=True)
    def tcpdump(self, given):
        self.raw = self.file("raw.pcap")
        with subprocess.Popen(["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-B", "65536", "-w", self.raw, f"tcp port {self.port}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert any("listening on" in line for line in process.stderr)
            self.process = process
            yield
            if process.poll() is None:
                process.kill()

    def end_capture(self, connections):
        until("the ends of all connections are in the capture", lambda: ended(self.raw) >= connections)
        self.process.send_signal(signal.SIGINT)
        told = self.process.stderr.read()
        assert "0 packets dropped by kernel" in told, told

    def rewritten(self, name, change):
        """Writes the frames for which change(number, bytes) returns bytes."""
        header, found = frames(self.raw)
        with open(self.file(name), "wb") as file:
            file.write(header)
            for number, (fields, frame) in enumerate(found):
                kept = change(number, frame)
                if kept is not None:
                    file.write(FRAME.pack(*fields[:2], len(kept), fields[3]) + kept)
        return self.file(name)

    def imported(self, capture, code=0):
        trace = capture + ".rtrc"
        done = run(REPLAY, "import", capture, trace, "--port", str(self.port), "--json", code=code)
        return trace, json.loads(done.stdout), done.stderr

    def copy(self, *options, crc=False):
        self.start_server("server.rtrc", *["--crc"] * crc)
        with self.client(f"set -e; nbdcopy --request-size=1048576 --flush {self.file('disk.img')} $uri; "
                         f"nbdcopy $uri {self.file('back')}", *options) as client:
            _, errors = client.communicate()
        assert client.returncode == 0, errors
        self.end_server()

    @pytest.mark.parametrize("crc", [False, True])
    def test_copy_over_two_paths(self, crc):
        self.copy(crc=crc)
        client, server = self.file("client.rtrc"), self.file("server.rtrc")
        expected = messages(client, True)
        self.end_capture(len(expected))
        trace, found, told = self.imported(self.raw)
        assert told == "" and found["gaps"] == found["invalid_tcp_streams"] == found["packets_without_connection"] == 0, (found, told)
        assert messages(trace, True) == expected
        self.judged([trace], "conforming")
        self.judged([client, server, trace], "conforming")
        self.lossy(expected)
        self.cut(expected)
        self.late()

    def lossy(self, expected):
        """Every 40th frame with data is missing, after the setup of all connections."""
        trace, found, told = self.imported(self.rewritten("lossy.pcap", lambda number, frame: None if number > 150 and number % 40 == 0 else frame))
        assert found["gaps"] > 0 and found["lost_tcp_bytes"] > 0 and "are marked WireGap" in told, (found, told)
        self.judged([trace], "inconclusive")
        said = messages(trace, True)
        assert said.keys() <= expected.keys()
        for name, (forth, back) in said.items():
            for part, whole in zip((forth, back), expected[name]):
                left = iter(whole)
                assert all(one in left for one in part), name
        # Most messages are found again after each gap.
        count = sum(len(part) for pair in said.values() for part in pair)
        assert count > sum(len(part) for pair in expected.values() for part in pair) // 2

    def cut(self, expected):
        trace, found, _ = self.imported(self.rewritten("cut.pcap", lambda number, frame: frame[:200]))
        assert found["lost_tcp_bytes"] > SIZE
        self.judged([trace], "inconclusive")
        assert messages(trace, True).keys() & expected.keys()

    def late(self):
        _, found, told = self.imported(self.rewritten("late.pcap", lambda number, frame: None if number < 150 else frame), code=3)
        assert found["packets_without_connection"] > 0 and "it contains no setup of an RTRS connection" in told

    def test_server_killed_during_copy(self):
        self.start_server("server1.rtrc")
        os.mkfifo(self.file("begun"))
        with self.client(f"nbdcopy {self.file('disk.img')} $uri & echo >{self.file('begun')}; wait $!") as client:
            with open(self.file("begun"), encoding="utf-8") as begun:
                begun.read()
            self.end_server(signal.SIGKILL)
            self.start_server("server2.rtrc")
            _, errors = client.communicate()
        assert client.returncode == 0, errors
        self.end_server()
        expected = messages(self.file("client.rtrc"), True)
        self.end_capture(len(expected))
        trace, found, _ = self.imported(self.raw)
        assert found["gaps"] == 0, found
        self.judged([trace], "conforming")
        said = messages(trace, True)
        for name, told in expected.items():
            # A killed server may not have read the last requests that the client sent.
            assert said[name][1] == told[1] and said[name][0] == told[0][:len(said[name][0])], name

    def test_tls_cannot_be_decoded(self):
        with open(self.file("keys"), "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as keys:
            keys.write(KEYS)
        self.start_server("server.rtrc", f"--tls-keys={self.file('keys')}")
        with self.client(f"nbdcopy {self.file('disk.img')} $uri", f"tls_keys={self.file('keys')}", "tls_identity=alice") as client:
            _, errors = client.communicate()
        assert client.returncode == 0, errors
        self.end_server()
        self.end_capture(1)
        trace, found, told = self.imported(self.raw, code=3)
        assert found["tls_segments"] > 0 and told.count("encrypted by TLS") == 1, (found, told)
        assert not os.path.exists(trace)
