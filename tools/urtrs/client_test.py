"""urtrs client: queries and changes of running clients, with JSON that matches the schema."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest
from programs import BOUND, PLUGIN, ROOT, program, stand_still, until

jsonschema = pytest.importorskip("jsonschema")

URTRS = program("urtrs")
SCHEMA = json.loads((ROOT / "docs/schema/urtrs.json").read_text())


def urtrs(*arguments, code=0):
    done = subprocess.run([URTRS, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def client(words, part, code=0):
    answer = json.loads(urtrs("client", *words.split(), "--json", code=code))
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{part}"}).validate(answer)
    return answer


def paths():
    return [path["state"] for path in client("path list web1", "client_paths")["paths"]]


@pytest.fixture(name="server")
def _server(urtrsd, tmp_path, monkeypatch):
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    return urtrsd("--export=disk0=mem:1M", "--export=disk1=mem:1M")


@pytest.fixture(name="start")
def _start(server, tmp_path, ends):
    def start(name, at=server, nbd=None, options=()):  # starts nbdkit; returns the process
        before = len(sessions())
        process = subprocess.Popen(["nbdkit", "-f", "-U", tmp_path / (nbd or name), PLUGIN, f"path=127.0.0.1:{at.port}", f"session={name}",
                                    f"port={at.port}", "reconnect_max=1s", *options], stdin=subprocess.DEVNULL)
        ends.callback(process.wait, BOUND)
        ends.callback(process.terminate)
        until(f"{name} is connected", lambda: sum(one["state"] == "connected" for one in sessions()) > before)
        return process
    return start


def sessions():
    done = subprocess.run([URTRS, "client", "session", "list", "--json"], capture_output=True, text=True, timeout=BOUND, check=False)
    return json.loads(done.stdout).get("sessions", [])


@pytest.fixture(name="web1")
def _web1(start):
    start("web1")


def test_without_a_client_the_error_suggests_a_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path))
    assert "no client has a control socket" in urtrs("client", "session", "list", code=3)
    assert client("path list", "error", code=3)["error"]["code"] == "no_daemon"
    assert "cannot reach" in urtrs("client", "stats", "--socket=/nonexistent", code=3)


def test_sessions_and_paths_are_shown_as_a_tree(web1):
    tree = urtrs("client", "session", "list").splitlines()
    assert tree[0].split() == ["Session", "name", "State", "PS", "MP", "TX", "RX", "Reconnects"]
    assert tree[1].split()[:4] == ["web1", "connected", "U", "MI"]
    assert tree[2].startswith("`- path 0  ip:127.0.0.1@ip:127.0.0.1  tcp  connected  "), tree
    assert client("session show web1", "client_session_show")["path_uu"] == "U"
    assert client("path show web1 0", "client_path_show")["pathname"] == "ip:127.0.0.1@ip:127.0.0.1"
    assert "did you mean \"web1\"" in urtrs("client", "path", "list", "web2", code=1)
    header, row = urtrs("client", "path", "list", "--no-totals").splitlines()
    assert header.split()[:4] == ["Session", "name", "Index", "Path"]
    assert row.split()[:3] == ["web1", "0", "ip:127.0.0.1@ip:127.0.0.1"]


def test_paths_are_added_disconnected_and_removed(web1):
    client("path add web1 127.0.0.2@127.0.0.1", "added")
    until("both paths are connected", lambda: paths() == ["connected", "connected"])
    client("path disconnect web1 ip:127.0.0.2@ip:127.0.0.1", "done")
    until("the disconnected path is closed", lambda: paths() == ["connected", "closed"])
    assert "U_" in urtrs("client", "session", "list")
    client("path reconnect web1 1", "done")
    until("both paths are connected", lambda: paths() == ["connected", "connected"])
    client("path delete web1 1", "done")
    until("the path is removed", lambda: paths() == ["connected"])
    assert "already" in urtrs("client", "path", "add", "web1", "127.0.0.1", code=1)


def test_an_impossible_path_is_not_added(web1):
    assert "the source address does not belong to this host" in urtrs("client", "path", "add", "web1", "203.0.113.9@127.0.0.1", code=1)
    assert paths() == ["connected"]


def test_removing_the_last_path_requires_force(web1):
    assert "IO would stop" in urtrs("client", "path", "remove", "web1", "0", code=1)
    assert "unknown argument \"now\" of remove" in urtrs("client", "path", "remove", "web1", "0", "now", code=2)
    assert paths() == ["connected"]
    client("path remove web1 0 force", "done")
    until("the last path is removed", lambda: paths() == [])


def test_a_dead_path_shows_the_next_attempt(web1, server):
    server.end(9)
    line = until("the path waits for the next attempt", lambda: next((one for one in urtrs("client", "session", "list").splitlines() if "next in" in one), None))
    assert "waiting  attempt" in line and "of inf" not in line and ", next in" in line and "refused" in line
    server.start().ready()
    client("session recover web1", "recovered")
    until("the path is connected again", lambda: paths() == ["connected"])


def test_policy_statistics_and_dump_commands(web1):
    client("session policy web1 ml", "done")
    assert client("session show web1", "client_session_show")["policy"] == "min-latency"
    assert "unknown policy" in urtrs("client", "session", "policy", "web1", "best", code=2)
    assert any(one["name"] == "failovers" for one in client("stats", "client_stats")["stats"])
    client("reset web1", "done")
    client("top --count=1 --interval=0.1", "client_top")
    assert client("debug dump", "client_debug_dump")["sessions"][0]["session"] == "web1"
    assert "session web1: 0 requests in flight" in urtrs("client", "debug", "dump")


def test_timers_are_shown_with_the_path(web1):
    shown = client("path show web1 0", "client_path_show")
    assert shown["dead_s"] == pytest.approx((shown["missed_max"] + 2) * shown["heartbeat_s"])
    assert 0 < shown["reconnect_min_s"] <= shown["reconnect_max_s"]
    assert "Dead after/s" in urtrs("client", "path", "show", "web1", "0")
    of_server = json.loads(urtrs("path", "show", "web1", "0", "--json"))
    assert (of_server["heartbeat_s"], of_server["missed_max"], of_server["dead_s"]) == (5, 5, 35)


def test_timers_show_their_origin(start):
    start("web1", options=["heartbeat_interval=250ms", "queue_timeout=never"])
    timers = {one["name"]: (one["seconds"], one["origin"]) for one in client("timers web1", "client_timers")["timers"]}
    assert timers["heartbeat_interval"] == (0.25, "option")
    assert timers["dead_peer_time"] == (1.75, "from the heartbeat")
    assert timers["reconnect_max"] == (1, "option") and timers["reconnect_min"] == (0.5, "default")
    assert timers["queue_timeout"] == (None, "option") and timers["request_timeout"] == (None, "default")
    table = urtrs("client", "timers")
    assert "web1          heartbeat_interval     0.25  option\n" in table and "queue_timeout         never  option\n" in table, table
    assert "did you mean \"web1\"" in urtrs("client", "timers", "web2", code=1)


def test_metrics_cover_all_clients(start):
    start("web1")
    start("web2")
    text = client("metrics", "client_metrics")["text"]
    for line in ('urtrs_client_up{session="web1"} 1', 'urtrs_client_up{session="web2"} 1', 'urtrs_client_errors_total{session="web1"} 0',
                 'urtrs_client_path_up{session="web1",path="ip:127.0.0.1@ip:127.0.0.1",index="0"} 1'):
        assert f"\n{line}\n" in text, text
    assert text.count("# TYPE urtrs_client_up gauge\n") == 1
    assert {line.split("{")[0].split(" ")[0] for line in urtrs("client", "metrics").splitlines() if line[0] != "#"} == \
        {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    samples = [line for line in text.splitlines() if line[0] != "#"]
    assert len(samples) > 40
    assert all(re.fullmatch(r'[a-z_]+\{([a-z_]+="[^"\\]*"(,(?!\})|(?=\})))+\} [0-9.e+-]+', line) for line in samples), text


def test_devices_are_mapped_resized_and_unmapped(web1):
    client("device map disk1 web1 ro", "mapped")
    assert client("device show disk1", "client_device_show")["access_mode"] == "ro"
    assert client("device list", "client_devices")["devices"][0]["state"] == "open"
    client("device remap disk1", "error", code=1)
    size = client("device show disk1", "client_device_show")["size_bytes"]
    client("device resize disk1 512k web1", "done")
    assert client("device show disk1", "client_device_show")["size_bytes"] == 512 << 10 < size
    assert "multiple of 512 bytes" in urtrs("client", "device", "resize", "disk1", "1000", code=2)
    assert "'x' is not a size" in urtrs("client", "device", "resize", "disk1", "x", code=2)
    assert "no client has a device" in urtrs("client", "device", "resize", "disk7", "1M", code=1)
    client("device unmap disk1", "done")
    until("the device is no longer listed", lambda: client("device list", "client_devices")["devices"] == [])
    assert "no client has a device" in urtrs("client", "device", "unmap", "disk1", code=1)
    unknown = urtrs("client", "device", "map", "nothing", "web1", code=1)
    assert "No such" in unknown and "Check the name" in unknown


def test_monitor_prints_events_that_fit_the_schema(web1):
    watch = subprocess.Popen([URTRS, "client", "monitor", "--json", "--count=3"], stdout=subprocess.PIPE, text=True)

    def cut():
        """Repeats the disconnect, because the monitor may not be watching yet."""
        subprocess.run([URTRS, "client", "path", "reconnect", "web1", "0"], capture_output=True, check=False, timeout=BOUND)
        return watch.poll() is not None
    until("three events", cut)
    for line in watch.stdout.read().splitlines():
        jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/event"}).validate(json.loads(line))


def test_two_clients_are_merged_into_one_list(web1, start):
    start("web2")
    assert sorted(one["sessname"] for one in client("session list", "client_sessions")["sessions"]) == ["web1", "web2"]
    assert "name one" in urtrs("client", "monitor", code=2)
    client("session policy web2 rr", "done")
    assert [client(f"session show {name}", "client_session_show")["mp_short"] for name in ("web1", "web2")] == ["MI", "RR"]


def test_unresponsive_clients_are_reported(web1, start, ends):
    stopped = [start(f"hangs{n}") for n in range(2)]
    for process in stopped:
        ends.callback(process.send_signal, signal.SIGCONT)
        stand_still(process)
    done = subprocess.run([URTRS, "client", "session", "list", "--json"], capture_output=True, text=True, timeout=BOUND, check=True)
    assert [one["sessname"] for one in json.loads(done.stdout)["sessions"]] == ["web1"]
    assert sorted(done.stderr.splitlines()) == sorted(
        f"urtrs: skipped, because it does not answer: {os.environ['URTRS_RUNTIME_DIR']}/client-{one.pid}.sock" for one in stopped)


def test_the_time_limit_for_unresponsive_clients_is_shared(web1, start, ends):
    """All clients together have a time limit of 3 s, and the client that is called last still has enough time."""
    full, hang = [], [subprocess.Popen(["sleep", "1000"]) for _ in range(25)]
    for process in hang:
        ends.callback(process.wait)
        ends.callback(process.kill)
    start("web2")
    for process in hang:
        full.append(f"{os.environ['URTRS_RUNTIME_DIR']}/client-{process.pid}.sock")
        listener, first = (ends.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        listener.bind(full[-1])
        listener.listen(0)
        first.connect(full[-1])
    done = subprocess.run([URTRS, "client", "session", "list", "--json"], capture_output=True, text=True, timeout=BOUND, check=True)
    assert sorted(one["sessname"] for one in json.loads(done.stdout)["sessions"]) == ["web1", "web2"]
    assert sorted(done.stderr.splitlines()) == sorted(f"urtrs: skipped, because it does not answer: {one}" for one in full)


def test_completion_offers_live_names(web1):
    def offered(*words):
        return urtrs("complete", *words).split()
    assert "client" in offered("")
    assert offered("client", "se") == ["session"]
    assert offered("client", "path", "disconnect", "") == ["web1"]
    assert offered("client", "path", "disconnect", "web1", "") == ["ip:127.0.0.1@ip:127.0.0.1"]
    assert offered("client", "session", "policy", "web1", "min-l") == ["min-latency"]
    assert os.environ["URTRS_RUNTIME_DIR"] in offered("client", "stats", "--socket=")[0]


def test_two_clients_with_the_same_session_name_are_ambiguous(web1, start, urtrsd, tmp_path):
    """Two sessions of the same name at different servers: a command for one must not reach the other."""
    other = urtrsd("--export=disk0=mem:1M")
    start("web1", other, "again")
    assert "two clients have a session \"web1\"" in urtrs("client", "session", "policy", "web1", "rr", code=1)
    assert {one["mp_short"] for one in sessions()} == {"MI"}
    one, _ = sorted((tmp_path / "run").glob("client-*.sock"))
    urtrs("client", "session", "policy", "web1", "rr", f"--socket={one}")
    assert sorted(one["mp_short"] for one in sessions()) == ["MI", "RR"]


def test_unmap_selects_the_mapped_device_and_not_an_idle_one(start):
    start("web1")
    start("web2", options=("device=disk0", "device=disk1"))
    assert "idle" in {one["state"] for one in client("device list web2", "client_devices")["devices"]}
    client("device map disk0 web1 ro", "mapped")
    client("device unmap disk0", "done")
    until("the device is no longer listed", lambda: client("device list web1", "client_devices")["devices"] == [])


def test_read_bytes_are_counted_as_received(web1, tmp_path):
    subprocess.run(["nbdcopy", f"nbd+unix:///disk0?socket={tmp_path / 'web1'}", "null:"], check=True, timeout=BOUND)
    session = client("session show web1", "client_session_show")
    path = client("path show web1 0", "client_path_show")
    for shown in session, path:
        assert shown["rx_bytes"] >= 1 << 20 > 65536 > shown["tx_bytes"], shown
