"""urtrs map --run, with and without urtrs-mapd."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from programs import BOUND, program, until
from screens import Screen


@pytest.fixture(name="prepared", params=["with urtrs-mapd", "without"])
def _prepared(request, server):
    """Runs a test with or without urtrs-mapd, and checks that no mapping is left afterwards."""
    if request.param == "without":
        yield None
        return
    mapd = request.getfixturevalue("mapd")
    yield mapd
    assert mapd.devices() == {}
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])


def test_the_command_gets_the_uri_and_its_exit_code_is_returned(prepared, server, urtrs):
    run = ["map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run"]
    assert urtrs(*run, "nbdinfo --size $uri") == "1048576\n"
    assert urtrs(*run, "printenv unixsocket && test -S $unixsocket && printenv uri").count("sock") >= 2
    assert urtrs(*run, "nbdcopy $uri null: && exit 7", code=7) == ""
    urtrs(*run, "kill -9 $$", code=137)
    assert urtrs(*run, "true") == ""


def test_the_command_is_not_run_for_an_unknown_device(prepared, server, urtrs):
    said = urtrs("map", "nothing", "from", "127.0.0.1", f"--port={server.port}", "--run", "touch was-run", code=1)
    assert "nothing" in said
    assert not os.path.exists("was-run")


def test_the_device_is_mapped_in_the_given_mode(prepared, server, urtrs):
    urtrs("map", "disk1", "from", "127.0.0.1", "ro", f"--port={server.port}", "--run", "nbdinfo --is read-only $uri")
    urtrs("map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run", "nbdinfo --is read-only $uri", code=2)


def test_fio_verifies_data_on_the_device(prepared, server, urtrs):
    fio = ("fio --name=v --ioengine=nbd --uri=$uri --rw=randwrite --bs=4k --size=1M --verify=crc32c --verify_state_save=0 "
           "--verify_fatal=1 --output-format=terse")
    urtrs("map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run", fio)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_unmaps_the_device(mapd, server, tmp_path, number):
    begun = tmp_path / "begun"
    process = subprocess.Popen([program("urtrs"), "map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run",
                                f"trap 'exit 9' TERM HUP; touch {begun}; while :; do sleep 0.1; done"],
                               stdin=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    until("the command runs", begun.exists)
    assert mapd.devices()["disk1"]["state"] == "mapped"
    process.send_signal(number)
    assert process.wait(BOUND) == 9
    assert mapd.devices() == {}


def runs(pid):
    """True if the process exists and is not a zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(") ")[2][0] != "Z"
    return False


def test_a_signal_also_ends_child_processes_of_the_command(mapd, server, tmp_path):
    begun = tmp_path / "begun"
    process = subprocess.Popen([program("urtrs"), "map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run",
                                f"sleep 1000 & echo $! > {begun}.part; mv {begun}.part {begun}; wait; true"], stdin=subprocess.DEVNULL)
    until("the command runs", begun.exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(BOUND) == 128 + signal.SIGTERM
    until("the child process has ended", lambda: not runs(begun.read_text().strip()))
    assert mapd.devices() == {}


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed; tools/install-deps")
def test_on_a_terminal_the_command_is_in_the_foreground_and_gets_ctrl_c(prepared, server, tmp_path, ends):
    (tmp_path / "screen").mkdir()
    shown = Screen(tmp_path / "screen", [program("urtrs"), "map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run",
                                         "test -t 0 && test -t 1 && echo has $(stty size); trap 'exit 9' INT; while :; do sleep 0.1; done"])
    ends.callback(shown.end)
    shown.until(lambda lines: "has 24 80" in lines)
    shown.keys("C-c")
    assert shown.code() == 9


def test_a_device_mapped_before_stays_mapped(mapd, mapped, urtrs):
    assert "File exists" in urtrs("map", "disk0", "from", "127.0.0.1", "--run", "true", code=1)
    assert urtrs("map", "disk0", "from", "127.0.0.1", "--idempotent", "--run", "nbdinfo --size $uri") == f"{16 << 20}\n"
    assert mapd.devices()["disk0"]["state"] == "mapped"


def test_the_device_is_unmapped_although_children_still_use_it(mapd, server, urtrs):
    urtrs("map", "disk1", "from", "127.0.0.1", f"--port={server.port}", "--run",
          "/usr/bin/python3 -m nbd -u $uri -c 'import time; time.sleep(60)' >/dev/null 2>&1 & sleep 1")
    assert mapd.devices() == {}


def test_errors_are_explained(server, urtrs):
    said = urtrs("map", "disk0", "from", "127.0.0.1", code=3)
    assert "no urtrs-mapd has a control socket" in said and "start it with" in said
    assert json.loads(urtrs("map", "disk0", "from", "127.0.0.1", "--json", code=3))["error"]["code"] == "no_daemon"
    assert "start it with" in urtrs("unmap", "disk0", code=3)
    assert "start it with" in urtrs("mapping", "list", code=3)
    assert "is not a server" in urtrs("map", "disk0", "from", "h@web1", "--run", "true", code=2)
    assert "both given" in urtrs("map", "disk0", "from", "127.0.0.1", "--run=true", "--nbd", code=2)
