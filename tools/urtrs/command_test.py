"""Tests urtrs with a real urtrsd and a real client: queries, changes and errors."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest
from programs import BOUND, PLUGIN, accepts, program, until

URTRS = program("urtrs")


@pytest.fixture(name="run_folder")
def _run_folder(tmp_path, monkeypatch):
    # The folder name is short, because the path of a Unix socket has at most 107 bytes.
    folder = tmp_path / "run"
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture(name="server")
def _server(urtrsd, run_folder, tmp_path):
    image = tmp_path / "disk.img"
    image.write_bytes(os.urandom(1 << 20))
    server = urtrsd(f"--export=disk0={image}", "--export=ram=mem:1M")
    server.image = image
    return server


@pytest.fixture(name="clients")
def _clients(server, tmp_path, ends):
    """clients("web2") starts nbdkit with this session, one path, and the device disk0 open for reading."""
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")

    def start(name, *options):
        nbd = tmp_path / f"{name}.sock"
        process = subprocess.Popen(["nbdkit", "-f", "-U", nbd, PLUGIN, f"path=127.0.0.1:{server.port}", f"session={name}",
                                    "device=disk0", *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        ends.callback(process.wait, BOUND)
        ends.callback(process.terminate)
        until("nbdkit listens or has exited", lambda: accepts(nbd) or process.poll() is not None)
        assert process.poll() is None, process.stderr.read()
        until("the device is open", lambda: any(one["sessname"] == name for one in shown("device")))
        return f"nbd+unix:///?socket={nbd}"
    return start


@pytest.fixture(name="client")
def _client(clients):
    """NBD URI of disk0 in the session "web1", with write access."""
    return clients("web1")


def urtrs(*arguments, code=0):
    done = subprocess.run([URTRS, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout if code == 0 or "--json" in arguments else done.stderr


def shown(noun, *arguments):
    return json.loads(urtrs(noun, "list", "--json", *arguments))[noun + "s"]


def read_all(uri):
    subprocess.run(["nbdcopy", uri, "null:"], check=True, timeout=BOUND)


def test_sessions_paths_devices_and_exports_are_listed(server, client):
    read_all(client)
    session, = shown("session")
    assert (session["sessname"], session["state"], session["path_uu"]) == ("web1", "connected", "U")
    # The client has read 1 MiB. Each request has a header of at most 32 bytes.
    assert 1 << 20 <= session["tx_bytes"] < (1 << 20) + 65536
    path, = shown("path")
    assert path["pathname"] == "ip:127.0.0.1@ip:127.0.0.1"
    assert path["reads"] >= 8 and path["state"] == "connected"
    device, = shown("device")
    assert (device["mapping_path"], device["device"], device["size_bytes"]) == ("disk0", str(server.image), 1 << 20)
    assert [(one["name"], one["access"]) for one in shown("export")] == [("disk0", "rw"), ("ram", "rw")]
    assert "requests" in urtrs("stats")
    text = urtrs("session", "list")
    assert text.startswith("Session name") and "`- path 0  ip:127.0.0.1@ip:127.0.0.1  tcp  connected  " in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "web1" in urtrs("session", "show", "web1")
    for name in (path["pathname"], path["src_addr"], "0"):
        assert path["pathname"] in urtrs("path", "show", "web1", name)
    assert 0 < path["read_p50_us"] <= path["read_p99_us"] <= path["read_max_us"]
    assert "Read p99" in urtrs("path", "show", "web1", "0")
    for noun in ("path", "device"):
        assert "no session" in urtrs(noun, "list", "nobody", code=1)


def test_reset_sets_counters_to_zero(server, client):
    read_all(client)
    urtrs("reset", "web1", "ip:127.0.0.1@ip:127.0.0.1")
    path, = shown("path")
    assert (path["tx_bytes"], path["reads"]) == (0, 0)
    assert path["inflights"] == 0 and path["connections"] > 1


def test_reset_can_be_limited_to_one_session(server, client, clients):
    other = clients("web2", "access_mode=ro")
    read_all(client)
    read_all(other)
    before = {path["sessname"]: path["reads"] for path in shown("path")}
    assert min(before.values()) > 0
    urtrs("reset", "web1")
    after = {path["sessname"]: path["reads"] for path in shown("path")}
    assert after == {"web1": 0, "web2": before["web2"]}
    urtrs("reset")
    assert {path["reads"] for path in shown("path")} == {0}


def test_counters_start_at_zero_after_a_reconnect(server, client):
    read_all(client)
    before = shown("path")[0]
    urtrs("path", "disconnect", "web1", "0")
    server.logged("reason=requested")
    path, = until("the path is back", lambda: [one for one in shown("path") if one["state"] == "connected"])
    # After the reconnect, the client only reopens its device. Without a restart at zero, `reads` could not decrease.
    assert path["reads"] < before["reads"]


def test_a_disconnected_path_reconnects(server, client):
    before, = shown("path")
    urtrs("path", "disconnect", "web1", before["pathname"])
    server.logged(r'name="web1" path=ip:127\.0\.0\.1@ip:127\.0\.0\.1 index=0 peer=\S+ state=closing reason=requested '
                  r"errno=104: requested by an operator\n")
    until("the path is back", lambda: any(one["state"] == "connected" for one in shown("path")))
    read_all(client)


def test_an_ambiguous_path_name_disconnects_no_path(server, clients):
    clients("web1", f"path=127.0.0.2@127.0.0.1:{server.port}")
    until("both paths are connected", lambda: [one["state"] for one in shown("path")] == ["connected"] * 2)
    assert '"tcp" means 2 paths of session "web1"; say SRC@DST' in urtrs("path", "disconnect", "web1", "tcp", code=1)
    assert "reason=requested" not in server.text()


def test_a_disconnected_session_reconnects(server, client):
    urtrs("session", "disconnect", "web1")
    server.logged('name="web1" .* closed')
    until("the session is back", lambda: any(one["state"] == "connected" for one in shown("session")))
    read_all(client)


def test_a_closed_device_is_reopened_by_the_client(server, client):
    first, = shown("device")
    urtrs("device", "close", "disk0", "web1")
    read_all(client)
    again, = shown("device")
    assert again["handle"] != first["handle"]


def test_closing_a_device_of_a_client_without_extensions_requires_force(server, clients):
    client = clients("web1", "extensions=off")
    first, = shown("device")
    for words in (["disk0"], ["disk0", "web1"]):
        refused = urtrs("device", "close", *words, code=1)
        assert 'session "web1" uses no extension of urtrs' in refused and "rnbd/resize" in refused, refused
    assert shown("device")[0]["handle"] == first["handle"]
    assert 'no session "force" has a device' in urtrs("device", "close", "disk0", "force", "force", code=1)
    urtrs("device", "close", "disk0", "web1", "force")
    read_all(client)
    second, = shown("device")
    assert second["handle"] != first["handle"]
    urtrs("device", "close", "disk0", "force")
    read_all(client)
    assert shown("device")[0]["handle"] != second["handle"]


def names():
    return sorted(one["name"] for one in shown("export"))


def test_exports_are_added_and_removed(server, tmp_path, monkeypatch):
    more = tmp_path / "more.img"
    more.write_bytes(bytes(1 << 20))
    urtrs("export", "add", f"more={more},ro")
    assert names() == ["disk0", "more", "ram"]
    assert "already exists" in urtrs("export", "add", f"more={more}", code=1)
    assert "No such file" in urtrs("export", "add", "gone=/nonexistent", code=1)
    assert "expected NAME=SOURCE" in urtrs("export", "add", "gone", code=2)
    monkeypatch.chdir(tmp_path)  # file names are relative to the directory of the user, not of urtrsd
    urtrs("export", "add", f"near={more.name}")
    assert str(more) in [one["source"] for one in shown("export")]
    urtrs("export", "remove", "near")
    urtrs("export", "remove", "more")
    assert "no export named" in urtrs("export", "remove", "more", code=1)
    assert names() == ["disk0", "ram"]


def test_removing_an_export_in_use_requires_force(server, client):
    assert 'is open in session "web1"' in urtrs("export", "remove", "disk0", code=1)
    read_all(client)
    urtrs("export", "remove", "disk0", "force")
    until("the device is closed", lambda: not shown("device"))
    urtrs("export", "add", f"disk0={server.image}")
    # The next request of the client fails; after that the client must reopen the device without help.
    read_all(client)
    assert shown("device")


def test_a_reload_changes_exports_and_reports_settings_that_need_a_restart(urtrsd, run_folder, tmp_path):
    config = tmp_path / "urtrsd.toml"

    def write(exports, rest=""):
        lines = [f'[[export]]\nname = "{name}"\nmem = "{size}"\n' for name, size in exports.items()]
        config.write_text(rest + "".join(lines))
    write({"a": "1M", "b": "1M"})
    server = urtrsd(f"--config={config}")
    write({"b": "2M", "c": "1M"}, 'log_level = "debug"\nmax_sessions = 7\n')
    answer = json.loads(urtrs("reload", "--json"))
    assert sorted(answer["changed"]) == ['export "a" is removed', 'export "b" is added', 'export "b" is removed',
                                         'export "c" is added', "log_level is debug"]
    assert answer["kept"] == ["max_sessions is read at the start only; restart urtrsd to change it"]
    assert names() == ["b", "c"]
    config.write_text("max_sesions = 1\n")
    assert "max_sesions" in urtrs("reload", code=1)
    assert names() == ["b", "c"]
    write({"d": "1M"})
    server.process.send_signal(signal.SIGHUP)
    until("the reload has removed the export", lambda: names() == ["d"])
    server.logged("reload: export")


def test_monitor_prints_events(server, client):
    watch = subprocess.Popen([URTRS, "monitor", "--json", "--count=4"], stdout=subprocess.PIPE, text=True)

    def cut():
        """Disconnects the path when it is connected. Repeats this, because the monitor may not be watching yet."""
        if any(path["state"] == "connected" for path in shown("path")):
            urtrs("path", "disconnect", "web1", "0")
        return watch.poll() is not None
    until("four events", cut)
    events = [json.loads(line) for line in watch.stdout]
    assert [event["serial"] for event in events] == sorted(event["serial"] for event in events)
    assert all(event["schema_version"] == 1 and event["what"] for event in events)
    ended = next(event for event in events if event.get("state") == "closing")
    assert (ended["reason"], ended["errno"], ended["session"]) == ("requested", 104, "web1")
    assert ended["pathname"] == "ip:127.0.0.1@ip:127.0.0.1" and ended["sentence"] and ended["hint"]
    stats = {one["name"]: one["value"] for one in json.loads(urtrs("stats", "--json"))["stats"]}
    assert stats["paths_lost"] == stats["lost_by.requested"] > 0


def test_reasons_are_explained_without_a_daemon(run_folder):
    all_of_them = json.loads(urtrs("reason", "list", "--json", "all"))["reasons"]
    assert {"requested", "heartbeat_lost", "too_many_sessions"} <= {one["code"] for one in all_of_them}
    assert all(one["sentence"] and one["hint"] for one in all_of_them)
    assert {one["code"] for one in all_of_them if not one["errno"]} == {"device_grown"}, "only this reason is not an error"
    assert "no device with this name" in urtrs("reason", "show", "device_absent")
    assert "dead-peer time" in urtrs("reason", "show", "heartbeat_lost")
    assert 'no reason named "nonsense"' in urtrs("reason", "show", "nonsense", code=1)


def test_limits_are_shown_with_and_without_a_server(run_folder, urtrsd):
    alone = urtrs("limits")
    assert "max_sessions" in alone and "Used" in alone
    urtrsd("--export=ram=mem:1M", "--max-sessions=77")
    assert re.search(r"^sessions +64 .* 77 +0 ", urtrs("limits"), re.MULTILINE)
    assert "no_daemon" in urtrs("limits", "--json", f"--socket={run_folder}/none", code=3)


def test_top_shows_rates(server, client):
    """Searches several samples for a rate, because a busy machine may read nothing for half a second."""
    watch = subprocess.Popen([URTRS, "top", "--json", "--interval=0.5", "--count=8"], stdout=subprocess.PIPE, text=True)
    while watch.poll() is None:
        read_all(client)
    text, looks = watch.stdout.read(), []
    while text.strip():
        look, end = json.JSONDecoder().raw_decode(text.lstrip())
        looks.append(look["paths"])
        text = text.lstrip()[end:]
    rates = next(paths for paths in looks if paths[0]["read_iops"] > 0)
    assert 0 < rates[0]["p50_us"] <= rates[0]["p99_us"]
    assert rates[0]["read_p50_us"] > 0 and rates[0]["write_p99_us"] == 0


def test_a_dump_shows_what_requests_wait_for(urtrsd, run_folder, tmp_path):
    """Each operation of the export takes one minute, and one is in flight."""
    server = urtrsd("--export=slow=mem:1M,delay_ms=60000")
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    client = subprocess.Popen(["nbdkit", "-U", "-", PLUGIN, f"path=127.0.0.1:{server.port}", "session=web1",
                               "device=slow", "--run", "nbdcopy --requests=1 --request-size=65536 $uri null:"],
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        def dump():
            return json.loads(urtrs("debug", "dump", "--json"))
        until("a read waits for the storage", lambda: any(one.get("opcode") == "read" for one in dump()["requests"]))
        one = next(one for one in dump()["requests"] if one.get("opcode") == "read")
        assert (one["session"], one["device"], one["sector"], one["sectors"]) == ("web1", "slow", 0, 128)
        assert (one["state"], one["path"]) == ("storage", "ip:127.0.0.1@ip:127.0.0.1")
        assert one["waits"].startswith("in storage since ") and "delay_ms" in one["storage"]
        session, = dump()["sessions"]
        assert session["paths"][0]["inflight"] >= 1 and session["devices"][0]["state"] == "open"
        text = urtrs("debug", "dump")
        assert "session web1" in text and "in storage since" in text and "device slow open" in text
        assert "expected dump" in urtrs("debug", "me", code=2)
    finally:
        os.killpg(client.pid, signal.SIGKILL)  # also kills the child process of nbdkit that serves the device
        server.process.kill()  # after SIGTERM the server would wait for the read in flight
        for process in (client, server.process):
            process.wait(BOUND)


def test_relative_file_names_refer_to_the_folder_of_the_user(server, tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    urtrs("trace", "start", "live.rtrc")
    urtrs("trace", "stop")
    urtrs("trace", "dump", "ring.rtrc")
    assert sorted(file.name for file in folder.iterdir()) == ["live.rtrc", "ring.rtrc"]


def test_a_trace_is_recorded(server, client, tmp_path):
    trace = tmp_path / "live.rtrc"
    urtrs("trace", "start", trace)
    assert "being recorded already" in urtrs("trace", "start", trace, code=1)
    read_all(client)
    urtrs("trace", "stop")
    assert "No such file" in urtrs("trace", "start", "/nonexistent/x", code=1)
    urtrs("trace", "dump", tmp_path / "ring.rtrc")
    assert trace.stat().st_size > 0 and (tmp_path / "ring.rtrc").stat().st_size > 0


def test_errors_suggest_a_fix(server):
    assert "no session named" in urtrs("session", "disconnect", "nobody", code=1)
    assert "did you mean" in urtrs("sesion", "list", code=2)
    error = json.loads(urtrs("session", "disconnect", "nobody", "--json", code=1))["error"]
    assert error["errno"] == 2 and error["hint"]
    assert json.loads(urtrs("sesion", "--json", code=2))["error"]["code"] == "usage"
    assert "unknown log level" in urtrs("log", "loud", code=2)
    assert "did you mean \"debug\"" in urtrs("log", "debg", code=2)


def test_without_a_daemon_the_error_says_so(run_folder):
    assert "no urtrsd has a control socket" in urtrs("session", "list", code=3)
    assert json.loads(urtrs("session", "list", "--json", code=3))["error"]["code"] == "no_daemon"
    assert "cannot reach" in urtrs("session", "list", "--socket=/nonexistent", code=3)
    assert json.loads(urtrs("daemons", "--json"))["daemons"] == []


def test_two_daemons_require_the_socket_option(server, urtrsd):
    urtrsd("--export=a=mem:1M")
    assert "choose one with --socket" in urtrs("session", "list", code=3)
    both = json.loads(urtrs("daemons", "--json"))["daemons"]
    assert len(both) == 2
    urtrs("session", "list", f"--socket={both[0]['socket']}")


def test_the_socket_of_a_killed_daemon_is_replaced(server, urtrsd, run_folder):
    server.process.kill()
    server.process.wait(BOUND)
    assert len(list(run_folder.iterdir())) == 1
    assert "no urtrsd has a control socket" in urtrs("session", "list", code=3)
    server.start().ready()
    urtrs("session", "list")
    assert len(list(run_folder.iterdir())) == 1


def test_other_users_may_query_but_not_change(server, run_folder):
    """The user can open the socket, because its mode was changed, but is not a member of the group of the socket."""
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    sock, = run_folder.iterdir()
    for folder in (run_folder, *run_folder.parents[:3]):
        folder.chmod(0o755)
    sock.chmod(0o666)
    # This user has a supplementary group, but is not in the group of the socket.
    nobody = {"user": 65534, "group": 65534, "extra_groups": [12345]}
    changes = ["session.disconnect", "path.disconnect", "device.close", "export.add", "export.remove", "config.reload",
               "stats.reset", "trace.start", "trace.stop", "trace.dump", "log.level", "attribute.write"]
    asked = [{"method": "server.show"}, *({"method": method} for method in changes)]
    script = ("import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(sys.argv[2].encode());"
              "f=s.makefile();[print(f.readline(),end='') for _ in sys.argv[2].splitlines()]")
    lines = "".join(json.dumps({"jsonrpc": "2.0", "id": n, **one}) + "\n" for n, one in enumerate(asked))
    done = subprocess.run(["python3", "-c", script, sock, lines], capture_output=True, text=True, check=True, **nobody)
    look, *refused = (json.loads(line) for line in done.stdout.splitlines())
    assert "result" in look
    assert len(refused) == len(changes)
    assert all(one["error"]["data"]["errno"] == 1 for one in refused), refused


def test_a_flood_of_requests_does_not_stop_io(server, client, run_folder):
    sock, = run_folder.glob("urtrsd-*")
    with socket.socket(socket.AF_UNIX) as flood:
        flood.connect(str(sock))
        flood.setblocking(False)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server.show"}).encode() + b"\n"
        try:
            while True:
                flood.send(line * 100)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        read_all(client)
