"""Checks the counts and latencies of urtrs-perf, and those of fio, against traces. fio measures a device through the
plugin, urtrs-perf a session, so each is compared with the trace of its own session. Speed is not tested.

  counts     are equal in the tool, the trace and the server
  latency    The trace records a request inside the session, so the tool sees it longer: each percentile of the tool is
             at least that of the trace. urtrs-perf starts the next request of a slot when the previous one has
             completed. So the time between two starts in the trace is the latency that it measured, and must have
             about the same rank there.
  rates      At most `iodepth` requests are in flight, so the sum of all latencies is limited by the time of the run.
"""
import bisect
import collections
import json
import os
import shutil
import subprocess

import pytest

from programs import BOUND, PLUGIN, Urtrsd, accepts, program, until

PERF, REPLAY, URTRS = program("urtrs-perf"), program("urtrs-replay"), program("urtrs")
COUNT, DEPTH, BLOCK = 2000, 4, 4096
ROUNDING = 1.03  # histogram buckets are rounded by 1/64 in fio and by 1/128 in urtrs-perf

pytestmark = pytest.mark.skipif(shutil.which("fio") is None or shutil.which("nbdkit") is None or not PLUGIN.exists(),
                                reason="needs fio, nbdkit and the plugin")
Request = collections.namedtuple("Request", "direction length slot since latency")


def requests(trace):
    """Returns the requests of a client trace in the order of completion, without the session's own messages."""
    text = subprocess.run([REPLAY, "cat", "--json", trace], capture_output=True, text=True, timeout=BOUND, check=True).stdout
    begun, ended = {}, []
    for line in text.splitlines():
        if '"event":"Submitted"' not in line and '"event":"Complete"' not in line:
            continue
        record = json.loads(line)
        fields = record.get("fields", {})
        if record.get("event") == "Submitted":
            begun[fields["permit"]] = record["time"], fields
        elif record.get("event") == "Complete":
            since, request = begun.pop(fields["permit"])
            assert fields["result"] == "ok"
            if not request["service"]:
                ended.append(Request(request["direction"], request["data_len"], request["affinity"], since, record["time"] - since))
    assert not begun
    return ended


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def check_rate(total_ns, elapsed_ns):
    """Compares the sum of all latencies with the time of the run, to detect wrong units."""
    assert total_ns <= DEPTH * elapsed_ns * ROUNDING
    assert total_ns >= elapsed_ns / 10


def run_fio(uri, file):
    subprocess.run(["fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", "--rw=randrw", f"--bs={BLOCK}", f"--iodepth={DEPTH}",
                    f"--number_ios={COUNT}", "--size=64M", "--norandommap", "--randseed=7", "--lat_percentiles=1",
                    "--percentile_list=51:91:99.5", "--output-format=json", f"--output={file}"], check=True, timeout=BOUND,
                   stdin=subprocess.DEVNULL)
    return json.loads(file.read_text())["jobs"][0]


def test_fio_agrees_with_the_trace(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    environment = {**os.environ, "URTRS_RUNTIME_DIR": str(run)}
    server = Urtrsd(tmp_path / "log", "--export=disk0=mem:64M", env=environment).ready()
    plugin = subprocess.Popen(["nbdkit", "-f", "-U", tmp_path / "nbd", PLUGIN, f"path=127.0.0.1:{server.port}", "device=disk0",
                               f"trace={tmp_path}/trace"], stdin=subprocess.DEVNULL, env=environment)
    try:
        until("nbdkit listens or has exited", lambda: accepts(tmp_path / "nbd") or plugin.poll() is not None)
        job = run_fio(f"nbd+unix:///?socket={tmp_path}/nbd", tmp_path / "fio.json")
        stats = json.loads(subprocess.run([URTRS, "stats", "--json"], capture_output=True, text=True, env=environment, check=True,
                                          timeout=BOUND).stdout)["stats"]
    finally:
        plugin.terminate()
        plugin.wait(BOUND)
        server.end()
    assert {one["name"]: one["value"] for one in stats}["storage_operations"] == COUNT
    seen = requests(tmp_path / "trace")
    assert len(seen) == COUNT
    total = 0
    for direction in ("read", "write"):
        said, own = job[direction], [one for one in seen if one.direction == direction]
        assert said["total_ios"] == said["lat_ns"]["N"] == len(own)
        assert said["io_bytes"] == sum(one.length for one in own) == len(own) * BLOCK
        for percent, at_least in ((51, 50), (91, 90), (99.5, 99)):
            assert said["lat_ns"]["percentile"][f"{percent:.6f}"] * ROUNDING >= percentile([one.latency for one in own], at_least)
        total += said["lat_ns"]["mean"] * said["lat_ns"]["N"]
    check_rate(total, max(job[direction]["runtime"] + 1 for direction in ("read", "write")) * 1e6)


@pytest.mark.parametrize("workload", ["randread", "randwrite"])
def test_urtrs_perf_agrees_with_the_trace(tmp_path, workload):
    with subprocess.Popen([PERF, "-p", "0", "--events", f"--record={tmp_path}/server"], stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().split()[-1]
        done = subprocess.run([PERF, "127.0.0.1", "-p", port, "--events", "--rw", workload, "-s", "4k", "-q", str(DEPTH), "-n",
                               str(COUNT), f"--record={tmp_path}/client", "--json"], capture_output=True, text=True, timeout=BOUND,
                              check=True)
        server.terminate()
    said, = json.loads(done.stdout)["results"]
    seen = requests(tmp_path / "client")
    # The trace starts with the requests of the warm-up, which are not part of the measurement.
    measured = seen[len(seen) - COUNT:]
    assert said["iterations"] == COUNT and len(seen) == COUNT + COUNT // 10
    assert {(one.direction, one.length) for one in seen} == {(workload.removeprefix("rand"), BLOCK)}
    events = json.loads(subprocess.run([REPLAY, "stat", "--json", tmp_path / "server"], capture_output=True, text=True, check=True,
                                       timeout=BOUND).stdout)["events"]
    assert events["Deliver"] == len(seen)
    latency = said["latency_usec"]
    for name, at_least in (("p50", 45), ("p90", 85), ("p99", 97)):
        assert latency[name] * 1e3 * ROUNDING >= percentile([one.latency for one in measured], at_least), name
    begun = {slot: [one.since for one in measured if one.slot == slot] for slot in range(DEPTH)}
    times = sorted((after - before) / 1e3 for each in begun.values() for before, after in zip(each, each[1:]))
    assert len(times) == COUNT - DEPTH
    for name, lower, upper in (("p50", 0.45, 0.55), ("p90", 0.85, 0.95), ("p99", 0.97, 0.999)):
        assert bisect.bisect_right(times, latency[name] * ROUNDING) >= len(times) * lower, name
        assert bisect.bisect_left(times, latency[name] / ROUNDING) <= len(times) * upper, name
    assert latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99_9"] <= latency["max"]
    assert said["iops"] == pytest.approx(COUNT / said["elapsed_s"], rel=0.01)
    assert said["bw_mib_s"] == pytest.approx(said["iops"] * BLOCK / 2 ** 20, rel=0.01)
    check_rate(latency["mean"] * 1e3 * COUNT, said["elapsed_s"] * 1e9)
