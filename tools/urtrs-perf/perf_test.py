"""urtrs-perf client and server on loopback: verified data, two paths, a killed server, Ctrl-C, invalid options."""
import collections
import json
import os
import shutil
import signal
import subprocess

import pytest
from programs import ROOT, program, until

PERF = program("urtrs-perf")


@pytest.fixture
def start():
    """Starts a server. Returns (process, port)."""
    servers = []

    def server(*arguments):
        process = subprocess.Popen([PERF, "-p", "0", *arguments], stdout=subprocess.PIPE, text=True)
        servers.append(process)
        line = process.stdout.readline()
        assert line.startswith("listening on port "), line
        return process, line.split()[-1]

    yield server
    for process in servers:
        process.kill()
        process.wait()
        process.stdout.close()


def client(port, *arguments):
    return subprocess.run([PERF, *arguments, "-p", port], capture_output=True, text=True, timeout=60)


def test_data_is_verified(start):
    for wait in ("--busy-poll", "--events", "--pump"):
        server, port = start(wait)
        for workload in ("randread", "randwrite", "rw"):
            done = client(port, "127.0.0.1", wait, "--rw", workload, "-q", "8", "-D", "0.3", "--verify", "--json")
            assert done.returncode == 0, (wait, workload, done.stderr)
            report = json.loads(done.stdout)
            result = report["results"][0]
            assert report["schema_version"] == 1 and report["error"] is None, report
            assert result["iterations"] > 0 and result["iops"] > 0, result
            assert 0 < result["latency_usec"]["min"] <= result["latency_usec"]["p50"], result
            assert result["latency_usec"]["p50"] <= result["latency_usec"]["max"], result
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0, wait


def test_two_paths_and_all_sizes_are_measured(start, tmp_path):
    server, port = start("--chunk-size", "8k")
    name = tmp_path / "result.json"
    done = client(port, "127.0.0.1", "127.0.0.2", "-a", "-n", "50", "--verify", f"--json={name}", "--policy", "round-robin")
    assert done.returncode == 0, done.stderr
    report = json.loads(name.read_text())
    assert list(tmp_path.iterdir()) == [name]
    assert [one["bytes"] for one in report["results"]] == [2 << n for n in range(12)], report
    assert all(one["iterations"] == 50 for one in report["results"]), report
    assert all(path["ios"] > 0 for path in report["paths"]) and len(report["paths"]) == 2, report
    assert "t_typical[usec]" in done.stdout, done.stdout
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=30) == 0


def test_a_run_can_be_recorded(start, tmp_path):
    """Traces of both sides are complete. A trace that cannot be written is reported at the start."""
    ours, theirs = tmp_path / "client.rtrc", tmp_path / "server.rtrc"
    server, port = start("--record", str(theirs))
    done = client(port, "127.0.0.1", "-n", "100", "--record", str(ours), "--record-detail", "wire")
    assert done.returncode == 0, done.stderr
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=30) == 0
    for trace in ours, theirs:
        assert trace.read_bytes().endswith(b"RTRCEND\n"), trace
    done = client(port, "127.0.0.1", "--record", str(tmp_path / "no/trace"))
    assert done.returncode == 3 and "cannot write the trace" in done.stderr, done


def test_a_killed_server_fails_the_measurement(start):
    server, port = start()
    running = subprocess.Popen([PERF, "127.0.0.1", "-p", port, "-D", "60", "--queue-timeout", "0.5", "--interval",
                                "0.1", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "IOPS" in running.stderr.readline()  # the measurement has started
    server.kill()
    server.wait()
    output, errors = running.communicate(timeout=30)
    assert running.returncode == 4, (running.returncode, errors)
    assert "path 127.0.0.1 lost" in errors and "no path is connected" in errors, errors
    report = json.loads(output)
    assert report["exit_code"] == 4 and report["error"]["message"], report


def test_an_interrupted_run_prints_its_results(start):
    server, port = start()
    running = subprocess.Popen([PERF, "127.0.0.1", "-p", port, "-D", "60", "--interval", "0.2"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "IOPS" in running.stderr.readline()
    assert "IOPS" in running.stderr.readline()
    assert running.poll() is None
    # The warm-up takes one second; it has ended when these progress lines were printed.
    for _ in range(6):
        running.stderr.readline()
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=30)
    assert running.returncode == 130, (running.returncode, errors)
    assert "results so far" in errors and "4096" in output, (output, errors)


def test_invalid_input_has_specific_exit_codes(start):
    done = client("1", "127.0.0.1", "--connect-timeout", "0.3")
    assert done.returncode == 4 and "no connection within 0.3 s" in done.stderr, done
    assert client("1", "127.0.0.1", "--fabric", "libfabric", "--provider", "nonesuch").returncode == 3
    assert client("1", "127.0.0.1", "--rw", "sideways").returncode == 2
    server, port = start("--chunk-size", "8k")
    done = client(port, "127.0.0.1", "--bs", "1m")
    assert done.returncode == 2 and "at most" in done.stderr, done
    second = subprocess.run([PERF, "-p", port], capture_output=True, text=True, timeout=30)
    assert second.returncode == 3 and "cannot listen" in second.stderr, second


def test_the_bare_fabric_is_measured(start):
    server, port = start("--raw")
    done = client(port, "127.0.0.1", "--raw", "-q", "4", "-n", "1000", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kind"] == "raw" and report["results"][0]["iterations"] == 1000, report
    assert server.wait(timeout=30) == 0


def test_an_io_takes_two_messages(start, tmp_path):
    """One request and one response, as counted in the trace of the server. The response of a read carries the data."""
    for workload in ("read", "write"):
        trace = tmp_path / f"{workload}.rtrc"
        server, port = start("--events", "--record", str(trace), "--record-detail", "wire")
        assert client(port, "127.0.0.1", "--events", "--rw", workload, "-n", "100", "-q", "4").returncode == 0
        server.send_signal(signal.SIGINT)
        server.wait(60)
        printed = subprocess.run([program("urtrs-replay"), "cat", "--json", trace], capture_output=True, text=True, timeout=60, check=True)
        said = collections.Counter()
        for line in printed.stdout.splitlines():
            record = json.loads(line)
            fields = record.get("fields", {})
            # Heartbeats (immediate types 8 and 9) are ignored, because their number does not depend on IO.
            if record.get("event") in ("WireSent", "WireReceived") and not (fields["has_imm"] and fields["imm"] >> 28 in (8, 9)):
                said[record["event"], fields["op"], fields["imm"] >> 28 if fields["has_imm"] else None, fields["length"] >= 4096] += 1
        ios = said["WireReceived", "write_imm", 0, workload == "write"]
        assert ios >= 100
        # INFO_REQ and INFO_RSP.
        assert said == {("WireReceived", "send", None, False): 1, ("WireSent", "send", None, False): 1,
                        ("WireReceived", "write_imm", 0, workload == "write"): ios,
                        ("WireSent", "write_imm", 1, workload == "read"): ios}, said


def counted(capture):
    """Returns the number of RTRS messages by kind in a capture, without heartbeats. A message counts in its last frame."""
    lua = ROOT / "tools/wireshark/urtrs.lua"
    shown = subprocess.run(["tshark", "-X", f"lua_script:{lua}", "-r", capture, "-Y", "rtrs.type", "-T", "fields", "-e", "rtrs.type",
                            "-E", "aggregator= "], capture_output=True, text=True, timeout=120, check=True)
    kinds = collections.Counter(kind for line in shown.stdout.splitlines() for kind in line.split())
    return {kind: count for kind, count in kinds.items() if not kind.startswith("HB_")}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize("workload", ["read", "write"])
def test_an_io_takes_two_messages_in_a_capture(start, tmp_path, workload):
    """Wireshark counts the messages in a capture that urtrs-replay makes from the trace of the server. There are no other
    messages below RTRS: no writes without immediate, and no SENDs as responses."""
    trace, capture = tmp_path / "server.rtrc", tmp_path / "run.pcapng"
    server, port = start("--events", "--record", str(trace), "--record-detail", "wire")
    assert client(port, "127.0.0.1", "--events", "--rw", workload, "-n", "100", "-q", "4").returncode == 0
    server.send_signal(signal.SIGINT)
    server.wait(60)
    subprocess.run([program("urtrs-replay"), "pcap", trace, "-o", capture], capture_output=True, timeout=60, check=True)
    kinds = counted(capture)
    assert kinds["IO_REQ"] >= 100, dict(kinds)
    ends = {"first": (0x06,), "middle": (0x07,), "write": (0x08, 0x0a), "write_imm": (0x09, 0x0b), "send": (0x02, 0x03, 0x04, 0x05, 0x16, 0x17)}
    opcodes = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.bth.opcode && infiniband.bth.destqp != 1", "-T", "fields", "-e",
                              "infiniband.bth.opcode", "-e", "infiniband.immdt"], capture_output=True, text=True, timeout=120, check=True)
    said = collections.Counter()
    for line in opcodes.stdout.splitlines():
        opcode, _, immediate = line.partition("\t")
        if not immediate or int(immediate.split(",")[0], 16) >> 28 not in (8, 9):
            said.update(name for name, codes in ends.items() if int(opcode.split(",")[0]) in codes)
    assert said["write"] == 0 and said["send"] == 2, said  # INFO_REQ and INFO_RSP
    assert said["write_imm"] == 2 * kinds["IO_REQ"] == 2 * kinds["IO_RSP"], (said, kinds)


def ended(capture):
    """Returns the number of TCP connections in the capture that were closed or reset."""
    shown = subprocess.run(["tshark", "-r", capture, "-Y", "tcp.flags.fin == 1 || tcp.flags.reset == 1", "-T", "fields", "-e", "tcp.stream"],
                           capture_output=True, text=True, timeout=120, check=False)
    return len(set(shown.stdout.split()))


def can_capture():
    return shutil.which("tshark") is not None and shutil.which("tcpdump") is not None and os.geteuid() == 0


@pytest.mark.skipif(not can_capture(), reason="needs root, tcpdump and tshark")
@pytest.mark.parametrize("workload", ["read", "write"])
def test_an_io_takes_two_messages_on_the_wire(start, tmp_path, workload):
    """Wireshark counts the messages with its own iWARP dissectors, in a capture of the loopback interface."""
    capture = tmp_path / "wire.pcap"
    server, port = start("--events")
    with subprocess.Popen(["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-B", "32768", "-w", capture, f"tcp port {port}"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as tcpdump:
        try:
            assert any("listening on" in line for line in tcpdump.stderr)
            assert client(port, "127.0.0.1", "--events", "--rw", workload, "-n", "100", "-q", "4").returncode == 0
            server.send_signal(signal.SIGINT)
            server.wait(60)
            until("the ends of both connections are in the capture", lambda: ended(capture) == 2)
        finally:
            tcpdump.send_signal(signal.SIGINT)
            dropped = tcpdump.stderr.read()
    assert "0 packets dropped by kernel" in dropped, dropped
    kinds = counted(capture)
    assert kinds["IO_REQ"] >= 100, dict(kinds)
    # In iWARP, a write and its immediate are one segment each, so a separate segment with the data of a read
    # is correct.
    assert kinds["IO_RSP"] == kinds["IO_REQ"] and "RKEY_RSP" not in kinds, kinds
    assert set(kinds) <= {"CON_REQ", "CON_RSP", "INFO_REQ", "INFO_RSP", "IO_REQ", "IO_RSP", "DATA"}, kinds
