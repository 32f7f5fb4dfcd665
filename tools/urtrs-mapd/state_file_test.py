"""State file of urtrs-mapd: damaged, malicious, of a later version, or missing."""
import json
import os
import subprocess

from conftest import size
from programs import BOUND, until


def test_a_damaged_state_file_is_kept_and_no_process_is_ended(mapd, mapped):
    before = mapd.nbdkits()
    whole = mapd.state.read_text()
    mapd.end()
    for number, damage in enumerate((whole[:-20], whole.replace('"rw"', '"wr"'), whole.replace("disk0", "disk0\\n"), "", "\0" * 512), 1):
        mapd.state.write_text(damage)
        mapd.start()
        aside = mapd.folder / ("state.json.damaged" + (f"-{number}" if number > 1 else ""))
        assert aside.read_text() == damage
        assert str(aside) in mapd.text()
        assert mapd.nbdkits() == before
        assert size(mapped) == 16 << 20
        mapd.end()
    mapd.state.write_text(whole)
    mapd.start()
    until("the device is shown as mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    assert mapd.nbdkits() == before


def test_after_a_damaged_state_file_running_sessions_are_kept(mapd, mapped, urtrs, ends):
    urtrs("map", "disk1", "from", "127.0.0.1", "ro")
    saved, before = mapd.saved(), mapd.nbdkits()
    mapd.end()
    mapd.state.write_text("{x")
    mapd.start()
    until("the devices are listed and saved", lambda: mapd.state.exists() and mapd.saved() == saved)
    assert {name: (one["state"], one["access_mode"]) for name, one in mapd.devices().items()} == {"disk0": ("mapped", "rw"), "disk1": ("mapped", "ro")}
    assert f"keeping what process {before[0]} has mapped: disk0, disk1" in mapd.text()
    use = subprocess.Popen(["/usr/bin/python3", "-m", "nbd", "-u", mapped, "-c", "import sys; print('open', flush=True); sys.stdin.readline(); h.pread(512, 0)"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends.callback(use.kill)
    assert use.stdout.readline() == "open\n"
    urtrs("map", "disk2", "from", "127.0.0.1")
    urtrs("unmap", "disk2")
    assert "\"force\" closes it anyway" in urtrs("unmap", "disk0", code=1)
    mapd.end()
    mapd.start()
    assert mapd.nbdkits() == before
    use.communicate("\n", timeout=BOUND)
    assert use.returncode == 0, "its IO continues"
    until("nbdkit has noticed that its client disconnected", lambda: mapd.devices()["disk0"]["users"] == 0)
    urtrs("unmap", "disk0")
    urtrs("unmap", "disk1")
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])


def test_a_process_that_does_not_fit_the_parameters_is_ignored(mapd, mapped):
    before, arguments = mapd.nbdkits(), mapd.arguments
    for now, known in ((("auth_keys=/none",), []), ((), ["disk0"])):
        mapd.end()
        mapd.state.write_text("{x")
        mapd.arguments = (*arguments, *now)
        mapd.start()
        until("the expected devices are listed", lambda known=known: list(mapd.devices()) == known)
        assert (mapd.nbdkits(), size(mapped)) == (before, 16 << 20)
    assert f"process {before[0]} is not managed" in mapd.text()


def test_other_files_are_not_overwritten(mapd, mapped):
    mapd.end()
    before, kept = mapd.nbdkits(), mapd.state.read_bytes()
    mapd.state.unlink()
    for name, make in (("a folder", mapd.state.mkdir), ("a pipe", lambda: os.mkfifo(mapd.state)), ("a link", lambda: mapd.state.symlink_to("none")),
                       ("a text", lambda: mapd.state.write_text("root:x:0:0\n")), ("an image", lambda: mapd.state.write_bytes(bytes(5 << 20)))):
        make()
        found = os.lstat(mapd.state)
        mapd.start(ready=False)
        assert mapd.process.wait(BOUND) == 3, name
        assert "is not a state file of urtrs-mapd" in mapd.text().splitlines()[-1], name
        assert (os.lstat(mapd.state).st_ino, os.lstat(mapd.state).st_size) == (found.st_ino, found.st_size), name
        (mapd.state.rmdir if name == "a folder" else mapd.state.unlink)()
    assert mapd.nbdkits() == before
    mapd.state.write_bytes(kept)
    mapd.start()
    until("the device is shown as mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")


def test_hostile_state_files_are_rejected(mapd):
    good = {"session": "s", "paths": ["127.0.0.1"], "port": 1, "fabric": "tcp", "devices": []}
    devices = [{"device": str(i), "access_mode": "rw"} for i in range(10_000)]
    for damage in ({"devices": devices}, {"session": "../../tmp/x"}, {"session": "a\nb"}, {"session": "--help"},
                   {"devices": [{"device": "a\nb", "access_mode": "rw"}]}, {"paths": ["127.0.0.1", "control=/tmp/x"] * 5}):
        mapd.end()
        mapd.state.write_text(json.dumps({"schema_version": 1, "sessions": [{**good, **damage}]}))
        mapd.start()
        assert not mapd.state.exists() and mapd.sessions() == {}
    assert "is damaged: line 1: " in mapd.text()
    mapd.end()
    mapd.state.write_text('{"schema_version": 4}')
    mapd.start(ready=False)
    assert mapd.process.wait(BOUND) == 3
    assert mapd.state.exists(), "a file of a later version is not treated as damaged"
    assert "written by a later urtrs-mapd" in mapd.text()
