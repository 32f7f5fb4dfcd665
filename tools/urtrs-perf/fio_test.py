"""urtrs-perf and fio count and time alike. fio measures a device through the plugin, urtrs-perf a session, so each is compared
with the trace of the session that it loaded: one ruler for both. How fast they are is no matter of this test.

  counts     exactly those of the trace and of the server
  latency    a trace has the times at which the session was called, so an answer is there before whoever asked looks again:
             both see each request for longer, hence every percentile is at least that of the trace. urtrs-perf begins the next
             request of a slot when it has seen the last one end, so what lies between two beginnings in the trace is what it
             measured, and each of its percentiles has a rank near to its name's there
  rates      no more requests are under way than asked for: the sum of their times fits the time of the run
"""
import bisect
import collections
import json
import os
import shutil
import subprocess

import pytest

from programs import BOUND, PLUGIN, Urtrsd, program, until

PERF, REPLAY, URTRS = program("urtrs-perf"), program("urtrs-replay"), program("urtrs")
COUNT, DEPTH, BLOCK = 2000, 4, 4096
ROUNDING = 1.03  # of the buckets of fio, 1/64, and of urtrs-perf, 1/128

pytestmark = pytest.mark.skipif(shutil.which("fio") is None or shutil.which("nbdkit") is None or not PLUGIN.exists(),
                                reason="needs fio, nbdkit and the plugin")
Request = collections.namedtuple("Request", "direction length slot since latency")


def requests(trace):
    """Those of a client's trace, in the order in which they ended, without the messages of the protocol itself."""
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
    """The sum of all times against that of the run; a thing of units, not of speed."""
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
        until("nbdkit is there", lambda: (tmp_path / "nbd").exists() or plugin.poll() is not None)
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
    # What warms up comes before and is not counted.
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
