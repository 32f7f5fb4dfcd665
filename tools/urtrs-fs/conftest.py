"""What the tests of urtrs-fs share."""
import os
import subprocess

import pytest
from programs import BOUND, PLUGIN, program, until


@pytest.fixture(name="mounted")
def _mounted(urtrsd, tmp_path, monkeypatch):
    """The tree of a server with two sessions, each with a device."""
    if not os.path.exists("/dev/fuse") or not PLUGIN.exists():
        pytest.skip("needs /dev/fuse and the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    exports = []
    for disk in ("disk0", "disk1"):
        (tmp_path / disk).write_bytes(bytes(1 << 20))
        exports.append(f"--export={disk}={tmp_path / disk}")
    server = urtrsd(*exports)
    clients = [subprocess.Popen(["nbdkit", "-f", "-U", tmp_path / f"{n}.sock", PLUGIN, f"path=127.0.0.1:{server.port}",
                                 f"session=web{n}", f"device=disk{n}"], stdin=subprocess.DEVNULL) for n in (0, 1)]
    sysfs = tmp_path / "sys"
    sysfs.mkdir()
    done = subprocess.run([program("urtrs-fs"), sysfs], capture_output=True, text=True, timeout=BOUND, check=False)
    if done.returncode != 0 and "fuse" in done.stderr:
        pytest.skip(f"FUSE cannot mount here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    until("two devices are open", lambda: len(list((sysfs / "class/rnbd-server/ctl/devices").iterdir())) == 2)
    yield sysfs
    subprocess.run(["umount", sysfs], timeout=BOUND, check=False)
    for client in clients:
        client.terminate()
        client.wait(BOUND)
