"""Fixtures for tests of urtrs-fs."""
import os
import subprocess

import pytest
from programs import BOUND, PLUGIN, program, until


@pytest.fixture(name="mount")
def _mount(tmp_path, monkeypatch, ends):
    """mount() mounts the tree of all running programs and returns the folder. Request this fixture before starting
    programs, because it sets their run-time directory."""
    if not os.path.exists("/dev/fuse") or not PLUGIN.exists():
        pytest.skip("needs /dev/fuse and the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))

    def mount(*arguments):
        sysfs = tmp_path / "sys"
        sysfs.mkdir()
        done = subprocess.run([program("urtrs-fs"), *arguments, sysfs], capture_output=True, text=True, timeout=BOUND, check=False)
        if done.returncode != 0 and "fuse" in done.stderr:
            pytest.skip(f"FUSE cannot mount here: {done.stderr}")
        assert done.returncode == 0, done.stderr
        ends.callback(lambda: subprocess.run(["umount", sysfs], timeout=BOUND, check=False))
        return sysfs
    return mount


@pytest.fixture(name="client")
def _client(tmp_path, ends):
    """Starts nbdkit with a session. Returns the process."""
    def client(session, *arguments):
        process = subprocess.Popen(["nbdkit", "-f", "-U", tmp_path / f"{session}.sock", PLUGIN, f"session={session}", *arguments],
                                   stdin=subprocess.DEVNULL)

        def end():
            process.terminate()
            process.wait(BOUND)
        ends.callback(end)
        return process
    return client


def exports(folder, size, *names):
    for name in names:
        with (folder / name).open("wb") as file:
            file.truncate(size)
        yield f"--export={name}={folder / name}"


@pytest.fixture(name="mounted")
def _mounted(mount, client, urtrsd, tmp_path):
    """Mounted tree of a server with two sessions, each with a device. The tree does not contain the clients."""
    server = urtrsd(*exports(tmp_path, 1 << 20, "disk0", "disk1"))
    for n in (0, 1):
        client(f"web{n}", f"path=127.0.0.1:{server.port}", f"device=disk{n}", "control=")
    sysfs = mount()
    until("two devices are open", lambda: len(list((sysfs / "class/rnbd-server/ctl/devices").iterdir())) == 2)
    return sysfs


def connected(sysfs, session):
    """Returns the paths of the session if all are connected, else None."""
    paths = list((sysfs / "class/rtrs-client" / session / "paths").iterdir())
    return paths if paths and all((path / "state").read_text() == "connected\n" for path in paths) else None


@pytest.fixture(name="lab")
def _lab(mount, client, urtrsd, tmp_path):
    """Mounted tree with the setup of the Linux listing: the session "lab" maps loop0; loop2 is exported but not mapped."""
    list(exports(tmp_path, 64 << 20, "loop0", "loop2"))
    server = urtrsd("--listen=127.1.0.2", f"--dev-search-path={tmp_path}")
    client("lab", f"path=ip:127.1.0.1@ip:127.1.0.2:{server.port}", f"port={server.port}", "reconnect_min=50ms")
    sysfs = until("the control socket exists", lambda: any((tmp_path / "run").glob("client-*"))) and mount()
    until("the session is up", lambda: connected(sysfs, "lab"))
    (sysfs / "class/rnbd-client/ctl/map_device").write_text("sessname=lab device_path=loop0\n")
    return sysfs
