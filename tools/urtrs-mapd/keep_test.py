"""A change of paths is either saved or rejected, even if the state file cannot be written."""
import contextlib
import json
import os
import signal
import subprocess

import pytest
from conftest import size
from programs import BOUND, program, until

SECOND = "127.0.0.2@127.0.0.1"


def paths(mapd):
    """Returns the paths that the nbdkit of the session uses, and the paths in the state file."""
    session, = mapd.sessions().values()
    shown, = mapd.ask_at(session["control"], "client.show")["sessions"]
    return [path["address"] for path in shown["paths"]], session["paths"]


def go_on(pid):
    """Continues a stopped process, if it still exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def saved_paths(mapd):
    session, = json.loads(mapd.state.read_text())["sessions"]
    return session["paths"]


@pytest.fixture(name="session")
def _session(mapd, mapped):
    return mapd.sessions().popitem()[0]


@pytest.fixture(name="blocked")
def _blocked(mapd):
    """Path at which a test creates a directory, so that urtrs-mapd cannot write the state file."""
    return mapd.folder / "state.json.new"


def test_an_added_path_survives_restarts(mapd, server, mapped, session, urtrs):
    there = [f"127.0.0.1:{server.port}", f"127.0.0.2@127.0.0.1:{server.port}"]
    assert json.loads(urtrs("client", "path", "add", session, SECOND, "--json")) == {"path": 1, "schema_version": 1}
    assert (paths(mapd), saved_paths(mapd)) == ((there, ["127.0.0.1", SECOND]), ["127.0.0.1", SECOND])
    pid, = mapd.nbdkits()
    os.kill(pid, signal.SIGKILL)
    until("another process serves the device", lambda: mapd.nbdkits() not in ([], [pid]) and mapd.devices()["disk0"]["state"] == "mapped")
    assert paths(mapd)[0] == there
    mapd.end(signal.SIGKILL)
    mapd.start()
    until("the device is shown as mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    assert paths(mapd) == (there, ["127.0.0.1", SECOND])
    until("both are connected", lambda: urtrs("client", "path", "list", session).count(" connected") == 2)
    assert json.loads(urtrs("client", "path", "remove", session, "127.0.0.1", "--json")) == {"schema_version": 1}
    assert (paths(mapd), saved_paths(mapd)) == (([there[1]], [SECOND]), [SECOND])
    assert "a session needs a path" in urtrs("client", "path", "remove", session, "0", "force", code=1)
    assert size(mapped) == 16 << 20


def test_map_with_an_additional_path_suggests_the_command_to_add_it(mapd, mapped, session, urtrs):
    said = urtrs("map", "disk1", "from", session, "127.0.0.1", SECOND, code=1)
    command = f"urtrs client path add {session} {SECOND}"
    assert f"\"{command}\" adds the path to this one" in said
    urtrs(*command.split()[1:])
    urtrs("map", "disk1", "from", session, "127.0.0.1", SECOND)
    assert len(paths(mapd)[0]) == 2


def test_invalid_paths_are_rejected(mapd, mapped, session, urtrs):
    before = paths(mapd)
    for words, code, said in ((("127.0.0.1",), 1, "File exists"), (("a@b@c",), 2, "more than one '@'"), ((SECOND, "0"), 2, "port=0: expected a whole number from 1 to 65535"),
                              (("192.0.2.1@127.0.0.1",), 1, "does not belong to this host")):
        assert said in urtrs("client", "path", "add", session, *words, code=code), words
    assert mapd.ask("path.add", session="nobody", path=SECOND)["data"]["errno"] == 2
    assert "is missing" in mapd.ask("path.remove", session=session)["message"]
    assert paths(mapd) == before


def test_a_path_can_be_added_while_the_process_is_not_connected(mapd, server, mapped, session, urtrs):
    server.end(9)
    pid, = mapd.nbdkits()
    os.kill(pid, signal.SIGKILL)
    until("the process was restarted twice", lambda: mapd.sessions()[session]["restarts"] >= 2)
    assert mapd.ask("path.add", session=session, path=SECOND) == {"schema_version": 1}
    assert saved_paths(mapd) == ["127.0.0.1", SECOND]
    server.start().ready()
    until("the device is mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    assert len(paths(mapd)[0]) == 2


def test_without_urtrs_mapd_an_added_path_is_temporary(mapd, mapped, session, urtrs):
    mapd.end()
    done = subprocess.run([program("urtrs"), "client", "path", "add", session, SECOND], capture_output=True, text=True, timeout=BOUND, check=True)
    assert "this change is lost when the nbdkit of the session ends" in done.stderr
    mapd.state.write_text("{damaged")
    mapd.start()
    until("the paths are read from the process", lambda: mapd.state.exists() and len(saved_paths(mapd)) == 2)


def test_changes_that_cannot_be_saved_are_undone(mapd, mapped, session, urtrs, blocked):
    before = (mapd.state.read_text(), paths(mapd))
    blocked.mkdir()
    for words in (("map", "disk1", "from", "127.0.0.1"), ("unmap", "disk0"), ("unmap", "disk0", "force"),
                  ("client", "path", "add", session, SECOND)):
        said = urtrs(*words, code=1)
        assert f"nothing was changed, because \"{mapd.state}\" cannot be written: File exists" in said, words
        assert list(mapd.devices()) == ["disk0"] and mapd.devices()["disk0"]["state"] == "mapped", words
        assert (mapd.state.read_text(), paths(mapd)) == before, words
    assert size(mapped.replace("disk0", "disk1")) is None
    assert size(mapped) == 16 << 20
    blocked.rmdir()
    until("the state file can be written again", lambda: f"\"{mapd.state}\" can be written again" in mapd.text())
    urtrs("map", "disk1", "from", "127.0.0.1")
    urtrs("unmap", "disk0")
    assert list(mapd.saved().values()) == [["disk1"]]
    mapd.end(signal.SIGKILL)
    mapd.start()
    until("the device is shown as mapped", lambda: mapd.devices()["disk1"]["state"] == "mapped")
    assert list(mapd.devices()) == ["disk1"]


def test_a_new_session_that_cannot_be_saved_leaves_no_process(mapd, server, urtrs, blocked):
    blocked.mkdir()
    assert "cannot be written" in urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}", code=1)
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])
    assert (mapd.devices(), mapd.state.exists()) == ({}, False)


def test_killing_the_process_fails_a_pending_map(mapd, server, mapped):
    server.process.send_signal(signal.SIGSTOP)
    asks = subprocess.Popen([program("urtrs"), "map", "disk1", "from", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until("the device is being mapped", lambda: mapd.devices().get("disk1", {}).get("state") == "mapping")
    os.kill(mapd.nbdkits()[0], signal.SIGKILL)
    assert asks.wait(BOUND) == 1
    assert "mapping \"disk1\"" in asks.stderr.read()
    server.process.send_signal(signal.SIGCONT)
    until("disk0 is mapped again, and nothing else", lambda: {name: one["state"] for name, one in mapd.devices().items()} == {"disk0": "mapped"})


def test_requests_to_an_unresponsive_process_time_out(mapd, mapped, ends):
    pid, = mapd.nbdkits()
    os.kill(pid, signal.SIGSTOP)
    ends.callback(go_on, pid)
    asks = [subprocess.Popen([program("urtrs"), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for words in (("map", "disk1", "from", "127.0.0.1"), ("unmap", "disk0"))]
    for one in asks:
        assert one.wait(BOUND) == 4
        assert f"its process {pid} does not answer" in one.stderr.read()
    go_on(pid)
    until("both requests are cancelled or completed", lambda: mapd.devices() == {})
