"""urtrsd does not open a block device for writing that this host uses; the host cannot use a device that urtrsd writes to."""
import errno
import json
import os
import re
import shutil
import subprocess

import pytest
from iwarp_client import IwarpClient
from programs import BOUND, program, until

URTRS, URTRSD = program("urtrs"), program("urtrsd")
TOOLS = ("losetup", "mkfs.ext4", "mount", "umount")


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BOUND, check=False)


class Disk:
    """Loop device with a file system, mounted at `point`."""

    def __init__(self, folder, ends):
        self.image, self.point = folder / "image", folder / "mounted here"
        self.point.mkdir()
        self.image.write_bytes(bytes(16 << 20))
        made = run("losetup", "-f", "--show", self.image)
        if made.returncode != 0:
            pytest.skip(f"no loop device: {made.stderr}")
        self.device = made.stdout.strip()
        ends.callback(run, "losetup", "-d", self.device)
        assert run("mkfs.ext4", "-q", "-F", self.device).returncode == 0
        ends.callback(run, "umount", self.point)

    def mount(self):
        return run("mount", self.device, self.point)

    def unmount(self):
        assert run("umount", self.point).returncode == 0


@pytest.fixture(name="disk")
def _disk(tmp_path, ends):
    if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
        pytest.skip(f"needs root and {', '.join(TOOLS)}")
    disk = Disk(tmp_path, ends)
    mounted = disk.mount()
    if mounted.returncode != 0:
        pytest.skip(f"no mount: {mounted.stderr}")
    return disk


@pytest.fixture(name="start")
def _start(tmp_path, urtrsd):
    return lambda *arguments, **options: urtrsd(f"--control={tmp_path}/control", *arguments, **options)


def urtrs(folder, *arguments):
    done = run(URTRS, f"--socket={folder}/control", *arguments)
    assert done.returncode == 0, done
    return done.stdout


def holder(disk):
    return f'in use by this host: mounted at "{disk.point}": Device or resource busy (16)'


def test_a_mounted_device_is_opened_for_reading_only(disk, start, tmp_path):
    check = run(URTRSD, f"--export=d={disk.device}", "--check-config")
    assert check.returncode == 3 and f'export "d" ("{disk.device}") is {holder(disk)}' in check.stderr, check
    server = start(f"--export=d={disk.device}").logged(re.escape(holder(disk)))
    peer = IwarpClient(server.port)
    assert peer.open("d")[0] == errno.EBUSY
    assert peer.open("d", writable=False)[0] == 0
    listed = json.loads(urtrs(tmp_path, "export", "list", "--json"))["exports"][0]
    assert listed["state"] == "missing" and holder(disk) in listed["why"]
    disk.unmount()
    server.logged('export "d" is available')
    peer.close()
    writer = IwarpClient(server.port, "writer")
    until("a client may write", lambda: writer.open("d")[0] == 0)


def test_a_mounted_device_is_rejected_for_writing_in_every_way(disk, start, tmp_path):
    strict = start(f"--export=d={disk.device}", "--strict", ready=False)
    assert strict.process.wait(BOUND) == 3 and holder(disk) in strict.text()
    config = tmp_path / "urtrsd.toml"
    config.write_text('dev_search_path = "/dev"\n')
    server = start(f"--config={config}")
    peer = IwarpClient(server.port)
    name = os.path.basename(disk.device)
    assert peer.open(name)[0] == errno.EBUSY and peer.open(name, writable=False)[0] == 0
    assert holder(disk) in server.text()
    config.write_text(config.read_text() + f'[[export]]\nname = "d"\npath = "{disk.device}"\n')
    assert holder(disk) in urtrs(tmp_path, "reload")
    assert IwarpClient(server.port, "other").open("d")[0] == errno.EBUSY
    added = run(URTRS, f"--socket={tmp_path}/control", "export", "add", f"e={disk.device}")
    assert added.returncode == 1 and holder(disk) in added.stderr


def test_force_allows_writing_to_a_mounted_device(disk, start):
    run(URTRSD, f"--export=d={disk.device},force", "--check-config").check_returncode()
    server = start(f"--export=d={disk.device},force", f"--export=safe={disk.device}")
    assert IwarpClient(server.port).open("d")[0] == 0
    server.logged('opened for writing because of "force", although this host uses it: mounted at')
    assert IwarpClient(server.port, "other").open("safe")[0] == errno.EBUSY, "the other export was not forced"


def test_the_host_cannot_mount_a_device_opened_for_writing(disk, start):
    disk.unmount()
    server = start(f"--export=d={disk.device}", f"--export=also={disk.device}")
    writer, reader = IwarpClient(server.port, "writer"), IwarpClient(server.port, "reader")
    opened, device = writer.open("d")
    assert opened == 0
    assert reader.open("also", writable=False)[0] == 0, "sessions of one server share the claim"
    assert disk.mount().returncode != 0
    assert writer.close_device(device) == 0
    until("the device can be mounted while a reader has it open", lambda: disk.mount().returncode == 0)
    assert writer.open("d")[0] == errno.EBUSY
    disk.unmount()
    assert writer.open("d")[0] == 0


def test_an_image_of_a_mounted_loop_device_is_in_use(disk, start):
    said = f'in use by this host: {disk.device} is a loop device on it, mounted at "{disk.point}"'
    check = run(URTRSD, f"--export=d={disk.image}", "--check-config")
    assert check.returncode == 3 and said in check.stderr, check
    server = start(f"--export=d={disk.image}")
    peer = IwarpClient(server.port)
    assert peer.open("d")[0] == errno.EBUSY and peer.open("d", writable=False)[0] == 0
    assert said in server.text()
