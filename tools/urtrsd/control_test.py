"""Tests the control socket of urtrsd: requests, permissions and events."""
import errno
import fcntl
import grp
import json
import os
import re
import socket
import subprocess
import time

import pytest
from iwarp_client import IwarpClient, iwarp_connect
from programs import BOUND, until
from wire_client import Refused, connect_request

ASK = ("import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(sys.argv[2].encode()+b'\\n');"
       "print(s.makefile().readline())")


class Line:
    """A connection to the control socket."""

    def __init__(self, path):
        self.end = socket.socket(socket.AF_UNIX)
        self.end.settimeout(BOUND)
        self.end.connect(str(path))
        self.lines = self.end.makefile()

    def ask(self, method, **params):
        """Returns the result or the error object."""
        self.end.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        answer = self.next()
        return answer.get("result", answer.get("error"))

    def next(self):
        return json.loads(self.lines.readline())


@pytest.fixture(name="control")
def _control(tmp_path):
    return tmp_path / "control"


@pytest.fixture(name="server")
def _server(urtrsd, control):
    return urtrsd("--export=a=mem:1M", "--export=b=mem:1M", f"--control={control}", "--allow-sessions=one,two")


@pytest.fixture(name="line")
def _line(server, control):
    return Line(control)


@pytest.fixture(name="session")
def _session(server, ends):
    def session(name, *devices):
        """Opens a session with these devices open."""
        one = IwarpClient(server.port, name)
        ends.callback(one.close)
        opened = [one.open(device, False) for device in devices]
        assert all(error == 0 for error, _ in opened), opened
        return one
    return session


def test_invalid_parameters_are_rejected(line):
    for method, params, why in (("server.show", {"bucket": "true"}, 'no parameter "bucket"'), ("log.level", {"level": 7}, "must be a string"),
                                ("log.level", {"level": "info\0x"}, "has a zero byte"), ("log.level", {"level": "off"}, 'unknown log level "off"'),
                                ("log.level", {}, "unknown log level"), ("trace.start", {"file": "x.rtrc"}, "\"x.rtrc\" is a relative path"),
                                ("trace.dump", {"file": "x.rtrc"}, "\"x.rtrc\" is a relative path"), ("path.disconect", {}, "unknown method")):
        assert why in line.ask(method, **params)["message"], method


def test_device_close_affects_only_the_named_session(line, session):
    session("one", "a"), session("two", "a")
    assert line.ask("device.close", device="a", session="nobody")["data"]["errno"] == errno.ENOENT
    assert line.ask("device.close", device="a", session="one", force="true")["closed"] == 1
    assert [one["session"] for one in line.ask("server.show")["devices"]] == ["two"]
    assert line.ask("device.close", device="a", force="true")["closed"] == 1
    assert line.ask("server.show")["devices"] == []


def test_closing_a_device_of_a_client_without_extensions_requires_force(line, session):
    """A kernel client offers no extensions, and does not reopen a device after the server has closed it."""
    session("one", "a", "b"), session("two", "a")
    for more in ({"session": "one"}, {}):
        refused = line.ask("device.close", device="a", **more)
        assert 'session "one" uses no extension of urtrs' in refused["message"]
        assert "/sys/block/rnbdN/rnbd/resize" in refused["data"]["hint"]
        assert refused["data"]["errno"] == errno.EBUSY
    assert len(line.ask("server.show")["devices"]) == 3
    assert line.ask("device.close", device="a", force="true")["closed"] == 2
    assert [one["mapping_path"] for one in line.ask("server.show")["devices"]] == ["b"]


def test_changes_are_logged_but_queries_are_not(server, line):
    line.ask("server.show")
    line.ask("stats.reset", session="no\nbody")
    server.logged(rf'control: stats.reset {{"session":"no\\nbody"}} requested by process {os.getpid()} of user {os.geteuid()}\n')
    assert "server.show" not in server.text()


def test_watchers_receive_events_about_rejected_clients(server, line, session):
    begun = time.time()
    assert line.ask("events.watch")["schema_version"] == 1
    session("one")
    with pytest.raises(OSError):
        IwarpClient(server.port, "stranger")
    events = []
    while len(events) < 40 and not any(one.get("reason") == "not_allowed" for one in events):
        events.append(line.next()["params"])
    assert [one["serial"] for one in events] == list(range(1, len(events) + 1))
    refused = events[-1]
    assert (refused["errno"], bool(refused["sentence"])) == (errno.EACCES, True), refused
    assert all(begun - 1 <= one["unix_ms"] / 1000 <= time.time() + 1 for one in events)


def test_a_rejected_connect_request_is_an_event(urtrsd, control):
    server = urtrsd("--export=a=mem:1M", f"--control={control}", "--allow-addresses=10.0.0.0/8")
    line = Line(control)
    line.ask("events.watch")
    with pytest.raises(OSError):
        IwarpClient(server.port, "stranger")
    event = line.next()["params"]
    assert (event["what"], event["reason"], event["errno"]) == ("connect_refused", "not_allowed", errno.EACCES)
    assert event["pathname"] == "ip:127.0.0.1@ip:127.0.0.1"


def test_a_refused_open_is_an_event(line, session):
    client = session("one")
    line.ask("events.watch")
    assert client.open('no "such"\n')[0] == errno.ENOENT
    event = line.next()["params"]
    assert (event["what"], event["session"], event["device"], event["errno"]) == ("open_refused", "one", 'no "such"\\x0a', errno.ENOENT)
    assert event["sentence"]


def test_members_of_the_group_may_change(urtrsd, control, tmp_path):
    """The primary group or any supplementary group of the process counts."""
    if os.geteuid() != 0:
        pytest.skip("needs other users")
    group = next(one for one in grp.getgrall() if one.gr_gid not in (0, 65534))
    urtrsd("--export=a=mem:1M", f"--control={control}", f"--control-group={group.gr_name}")
    assert (control.stat().st_gid, control.stat().st_mode & 0o777) == (group.gr_gid, 0o660)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)

    def asked_by(**user):
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "stats.reset"})
        done = subprocess.run(["/usr/bin/python3", "-c", ASK, control, line], capture_output=True, text=True, check=False, user=65534, **user)
        return json.loads(done.stdout) if done.returncode == 0 else None
    assert "result" in asked_by(group=group.gr_gid, extra_groups=[])
    assert "result" in asked_by(group=65534, extra_groups=[12345, group.gr_gid])
    assert asked_by(group=65534, extra_groups=[12345]) is None, "the process cannot open the socket"


def test_a_reload_keeps_exports_in_use_and_reports_each_once(urtrsd, control, tmp_path):
    config = tmp_path / "urtrsd.toml"
    config.write_text('[[export]]\nname = "a"\nmem = "1M"\n')
    server = urtrsd(f"--config={config}", f"--control={control}")
    one = IwarpClient(server.port, "one")
    assert one.open("a")[0] == 0
    config.write_text('[[export]]\nname = "a"\nmem = "2M"\n')
    answer = Line(control).ask("config.reload")
    assert answer["changed"] == [] and len(answer["kept"]) == 1, answer
    assert 'export "a" is open in session "one"' in answer["kept"][0]
    one.close()
    until("the session has ended", lambda: not Line(control).ask("server.show")["devices"])
    assert sorted(Line(control).ask("config.reload")["changed"]) == ['export "a" is added', 'export "a" is removed']


def test_every_configuration_error_is_logged(urtrsd, control, tmp_path):
    config = tmp_path / "urtrsd.toml"
    config.write_text('[[export]]\nname = "a"\nmem = "1M"\n')
    server = urtrsd(f"--config={config}", f"--control={control}")
    config.write_text("max_sesions = 1\nport = 70000\n")
    assert Line(control).ask("config.reload")["data"]["errno"] == errno.EINVAL
    text = server.logged("reload: nothing was changed").text()
    assert "max_sesions" in text and "port: expected integer 0..65535" in text, text


def test_half_open_sessions_are_shown_and_limited(urtrsd, control):
    """The server shows the half-open sessions of an address, and closes the oldest session above the limit."""
    server = urtrsd("--export=a=mem:1M", f"--control={control}", "--max-half-open=2", "--max-sessions=64")
    line = Line(control)
    held = [iwarp_connect(server.port, connect_request(0, 2, os.urandom(16), os.urandom(16)), BOUND)[0] for _ in range(8)]
    until("the others are closed", lambda: line.ask("server.show")["stats"]["crowded_out"] == 6)
    assert [one["state"] for one in line.ask("server.show")["sessions"]] == ["half-open"] * 2
    for sock in held:
        sock.close()


def test_show_omits_the_silence_of_an_active_path_and_includes_export_delays(urtrsd, control):
    server = urtrsd("--export=a=mem:1M,delay_ms=5", "--export=b=mem:1M,ro", f"--control={control}")
    one = IwarpClient(server.port, "one")
    one.beat()
    shown = Line(control).ask("server.show")
    path, = shown["sessions"][0]["paths"]
    assert path["state"] == "connected" and "silent_s" not in path, path
    assert (path["hca_name"], path["posting"]) == ("tcp", ""), "posting is only set for verbs"
    memory = {"source": "mem:1048576", "memory_bytes": 1 << 20, "state": "served", "why": ""}
    assert shown["exports"] == [{"name": "a", "access": "rw", "read_only": False, "delay_ms": 5, **memory},
                                {"name": "b", "access": "ro", "read_only": True, "delay_ms": 0, **memory}]
    one.close()


def test_an_event_has_the_errno_that_the_client_received(urtrsd, control):
    """The errno is EBUSY if a half-open session can be closed for a newer one; without half-open sessions it is ENOMEM."""
    server = urtrsd("--export=a=mem:1M", f"--control={control}", "--max-sessions=1")
    line = Line(control)
    line.ask("events.watch")
    held, _ = iwarp_connect(server.port, connect_request(0, 2, os.urandom(16), os.urandom(16)), BOUND)
    with pytest.raises(Refused) as refused:
        IwarpClient(server.port, "two")
    event = line.next()["params"]
    while event["what"] != "connect_refused":
        event = line.next()["params"]
    assert (event["reason"], event["errno"], refused.value.errno) == ("too_many_sessions", errno.EBUSY, errno.EBUSY)
    held.close()


def test_a_dump_in_pages_lists_each_request_once(urtrsd, control):
    """The dump has more requests than fit on one page."""
    server = urtrsd("--export=slow=mem:16M,delay_ms=600000", "--sess-queue-depth=512", f"--control={control}")
    session = IwarpClient(server.port, "many")
    error, device = session.open("slow")
    assert error == 0
    for chunk in range(1, 512):
        session.send_read(device, 8 * chunk, 4096, chunk)
    line = Line(control)
    until("all are in storage", lambda: line.ask("debug.dump")["storage_operations"] == 511)
    pages = [line.ask("debug.dump")]
    while pages[-1]["next"]:
        pages.append(line.ask("debug.dump", **{"from": pages[-1]["next"]}))
    assert [len(page["requests"]) for page in pages] == [500, 11]
    assert sorted(one["sector"] for page in pages for one in page["requests"]) == [8 * chunk for chunk in range(1, 512)]
    assert "sessions" not in pages[1]
    assert "of the previous page" in line.ask("debug.dump", **{"from": "0"})["message"]
    server.end(9)


def test_a_file_locked_by_another_program_is_not_added(urtrsd, control, tmp_path):
    urtrsd("--export=a=mem:1M", f"--control={control}")
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    with image.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert "which holds a lock on it" in Line(control).ask("export.add", export=f"b={image}")["message"]
    assert "message" not in Line(control).ask("export.add", export=f"b={image}")


def test_adding_an_export_warns_about_an_incomplete_last_sector(urtrsd, control, tmp_path):
    server = urtrsd("--export=a=mem:1M", f"--control={control}")
    (tmp_path / "odd.img").write_bytes(bytes(1000))
    line = Line(control)
    for source in f"{tmp_path}/odd.img", "mem:1000":
        warning = line.ask("export.add", export=f"odd-{len(source)}={source}")["warning"]
        assert "has 1000 bytes, not a multiple of 512: the last 488 bytes are not exported" in warning
        until("the warning is in the log", lambda: warning in server.text())
    assert "warning" not in line.ask("export.add", export="even=mem:1024")


def test_a_warning_about_a_device_names_the_session(urtrsd, tmp_path):
    (tmp_path / "odd.img").write_bytes(bytes(1000))
    server = urtrsd(f"--export=odd={tmp_path}/odd.img")
    session = IwarpClient(server.port, "one")
    assert session.open("odd")[0] == 0
    server.logged(r'warn\w* session=0 name="one" peer=\S+ device "odd" has 1000 bytes')
    session.close()
    assert server.end() == 0 and len(re.findall(r"warn\w* session=0 ", server.text())) == 1, server.text()


def test_a_client_may_be_silent_for_the_time_configured_on_the_server(urtrsd, control):
    """The configuration allows 20 s (1000 heartbeats of 20 ms); with the default number of heartbeats the limit would be 140 ms."""
    server = urtrsd("--export=m=mem:1M", f"--control={control}", "--heartbeat-interval=20ms", "--heartbeat-missed=1000")
    session, line = IwarpClient(server.port, "silent"), Line(control)

    def silent():
        path, = line.ask("server.show")["sessions"][0]["paths"]
        return path["state"] == "connected" and path.get("silent_s", 0) > 0.5
    until("the client counts as silent", silent)
    session.beat()
    session.close()
