"""Tests urtrs with a control socket at which this test sends unexpected replies."""
import itertools
import json
import resource
import signal
import socket
import subprocess
import threading

import pytest
from programs import BOUND, program, until

URTRS = program("urtrs")
EMPTY = {"schema_version": 1, "sessions": [], "devices": [], "exports": [], "stats": {}}
PATH = {"path": 0, "src_addr": "ip:10.0.0.1", "dst_addr": "ip:10.0.0.2", "peer": "ip:10.0.0.1 > ip:10.0.0.2", "hca_name": "tcp",
        "hca_port": 1, "state": "connected", "since_s": 1.5, "connections": 5, "inflight": 0, "extensions": [], "reads": 0,
        "read_bytes": 0, "writes": 0, "write_bytes": 0}


def session(**counts):
    return {**EMPTY, "sessions": [{"session": 0, "name": "web1", "state": "connected", "paths": [{**PATH, **counts}]}]}


NUMBERS = itertools.count()


class Daemon:
    """Answers each request with the next reply in `answers`, then repeats the last reply; None: no reply. Then sends `events`."""

    def __init__(self, folder, answers, name=None):
        self.answers, self.asked, self.params, self.events = list(answers), [], [], []
        self.path = str(folder / (name or f"{next(NUMBERS)}.sock"))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection = self.listener.accept()[0]
            for line in connection.makefile(encoding="utf-8"):
                request = json.loads(line)
                self.asked.append(request["method"])
                self.params.append(request["params"])
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is not None:
                    text = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer})
                    connection.sendall(text.encode() + b"\n")
                for event in self.events:
                    line = json.dumps({"jsonrpc": "2.0", "method": "event", "params": {"schema_version": 1, **event}})
                    connection.sendall(line.encode() + b"\n")


@pytest.fixture(name="daemon")
def _daemon(tmp_path):
    return lambda *answers, **options: Daemon(tmp_path, answers, **options)


def urtrs(played, *arguments, code=0):
    done = subprocess.run([URTRS, f"--socket={played.path}", *arguments], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 or "--json" in arguments else done.stderr


def test_a_valid_reply_is_shown(daemon):
    assert "web1" in urtrs(daemon(session()), "session", "list")


@pytest.mark.parametrize("answer", [{}, [], 7, "text", {"schema_version": 2}, {"schema_version": "1"}], ids=str)
@pytest.mark.parametrize("command", ["session list", "stats", "reload", "log debug", "top --count=1 --interval=0.1"])
def test_invalid_replies_are_errors(daemon, answer, command):
    played = daemon(answer)
    said = urtrs(played, *command.split(), code=1)
    assert "the reply is not from an urtrsd of this version" in said and said.count("\n") == 1
    assert json.loads(urtrs(played, *command.split(), "--json", code=1))["error"]["code"] == "failed"


@pytest.mark.parametrize("count", [-1, 1.5, 1e300, "7", True, [], 2**64], ids=str)
def test_an_invalid_count_is_an_error(daemon, count):
    for key in ("read_bytes", "reads", "inflight", "path", "connections"):
        assert f'"{key}" is' in urtrs(daemon(session(**{key: count})), "path", "list", code=1)


def test_the_largest_count_is_shown_and_a_sum_does_not_wrap(daemon):
    most = 2**64 - 1
    played = daemon(session(reads=most, read_bytes=most))
    assert json.loads(urtrs(played, "path", "list", "--json"))["paths"][0]["reads"] == most
    assert str(most) in urtrs(played, "path", "list", "+reads")


def test_top_shows_rates_per_interval(daemon):
    played = daemon(session(), session(reads=1000), session(reads=1000))
    looks = urtrs(played, "top", "--count=2", "--interval=0.1", "--csv", "--fields=read_iops", "--no-headers").split()
    assert int(looks[0]) > 0 and looks[1] == "0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_wait_silently(daemon, number):
    played = daemon(None)
    waiting = subprocess.Popen([URTRS, f"--socket={played.path}", "stats"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until("urtrs has sent its request", lambda: played.asked)
    waiting.send_signal(number)
    assert (*waiting.communicate(timeout=BOUND), waiting.returncode) == (b"", b"", 128 + number)


@pytest.mark.parametrize("command", ["top", "monitor"])
def test_a_signal_ends_top_and_monitor_with_success(daemon, command):
    played = daemon(session())
    watching = subprocess.Popen([URTRS, f"--socket={played.path}", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until("urtrs has sent its request", lambda: played.asked)
    watching.send_signal(signal.SIGINT)
    assert (watching.communicate(timeout=BOUND)[1], watching.returncode) == (b"", 0)


def test_events_are_printed_as_rows(daemon):
    played = daemon({"schema_version": 1})
    played.events = [{"what": "path", "serial": 4, "unix_ms": 5, "session": "a,b", "path": 0, "state": "connected"},
                     {"what": "link_up", "serial": 5, "unix_ms": 6, "peer": "p\n"}]
    rows = urtrs(played, "monitor", "--csv", "--count=2").splitlines()
    assert rows == ["serial,unix_ms,what,session,path,peer,state,reason,errno", '4,5,path,"a,b",0,,connected,,',
                    "5,6,link_up,,,p\\x0a,,,"]


def test_pages_of_a_dump_are_merged(daemon):
    """Each page starts at the position given by the previous page."""
    first, second = {"schema_version": 1, "sessions": [], "requests": [{"permit": 1}], "next": "0:7"}, \
        {"schema_version": 1, "requests": [{"permit": 7}, {"permit": 9}], "next": ""}
    played = daemon(first, second)
    dump = json.loads(urtrs(played, "debug", "dump", "--json"))
    assert [one["permit"] for one in dump["requests"]] == [1, 7, 9] and dump["next"] == ""
    assert played.asked == ["debug.dump"] * 2 and [one.get("from") for one in played.params] == ["", "0:7"]


def test_an_unresponsive_daemon_is_listed_and_fails_the_doctor(daemon, tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path))
    hangs, answers = daemon(None, name="urtrsd-1.sock"), daemon(session(), name="urtrsd-2.sock")
    listed = subprocess.run([URTRS, "daemons", "--json"], capture_output=True, text=True, timeout=BOUND, check=True).stdout
    by_socket = {one["socket"]: one.get("sessions") for one in json.loads(listed)["daemons"]}
    assert by_socket == {hangs.path: None, answers.path: 1}
    done = subprocess.run([URTRS, "doctor", "--json"], capture_output=True, text=True, timeout=BOUND, check=False)
    graded = [one["what"] for one in json.loads(done.stdout)["checks"] if one["grade"] == "fail"]
    assert done.returncode == 1 and any(f"{hangs.path} cannot be queried" in what for what in graded), done.stdout


def test_the_doctor_uses_the_hard_limit_and_ignores_non_executable_files(tmp_path, monkeypatch):
    (tmp_path / "nbdkit-urtrs").write_text("no program")
    (tmp_path / "nbdkit").write_text("no program")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path))
    done = subprocess.run([URTRS, "doctor", "--json"], capture_output=True, text=True, timeout=BOUND, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048)))
    found = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    assert (found["descriptors"]["grade"], found["descriptors"]["what"]) == ("ok", "2048")
    assert str(tmp_path) not in found["nbdkit"]["what"]
