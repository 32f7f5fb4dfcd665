"""Tests docs/qemu.md: QEMU tools with a device, the QEMU storage daemon, and a copy of a disk that is in use."""
import json
import os
import shutil
import socket
import subprocess

import pytest
from programs import BOUND, PLUGIN, accepts, until

SIZE = 8 << 20


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


class Case:
    @pytest.fixture(autouse=True)
    def given(self, tmp_path, urtrsd, ends):
        """nbdkit with the device disk0, which is backed by a file."""
        if shutil.which("qemu-io") is None:
            pytest.skip("without qemu-utils")
        self.folder, self.ends = tmp_path, ends
        self.image = tmp_path / "disk.img"
        self.image.write_bytes(os.urandom(SIZE))
        server = urtrsd(f"--export=disk0={self.image}")
        self.socket = tmp_path / "nbd.sock"
        self.uri = f"nbd+unix:///disk0?socket={self.socket}"
        self.start(self.socket, "nbdkit", "-f", "-U", self.socket, PLUGIN, f"path=127.0.0.1:{server.port}", "device=disk0")

    def start(self, waits_for, *command):
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL)
        self.ends.callback(process.wait)
        self.ends.callback(process.terminate)
        until(f"{command[0]} is there", lambda: accepts(waits_for) or process.poll() is not None)
        assert process.poll() is None


class TestTools(Case):
    def test_qemu_img_reports_the_size(self):
        info = json.loads(run("qemu-img", "info", "--output=json", self.uri))
        assert (info["format"], info["virtual-size"]) == ("raw", SIZE)

    def test_qemu_img_converts_in_both_directions(self):
        copy = self.folder / "copy.qcow2"
        run("qemu-img", "convert", "-O", "qcow2", self.uri, copy)
        assert "identical" in run("qemu-img", "compare", copy, self.uri)
        changed = self.folder / "changed.img"
        changed.write_bytes(os.urandom(SIZE))
        run("qemu-img", "convert", "-n", "-O", "raw", changed, self.uri)
        assert self.image.read_bytes() == changed.read_bytes()

    def test_qemu_io_requests_succeed(self):
        said = run("qemu-io", "-f", "raw", "-c", "write -f -P 7 4096 8192", "-c", "write -z -u 16384 4096", "-c", "discard 65536 65536",
                   "-c", "read -P 7 4096 8192", "-c", "read -P 0 16384 4096", "-c", "flush", self.uri)
        assert "failed" not in said
        data = self.image.read_bytes()
        assert data[4096:12288] == bytes([7]) * 8192 and data[16384:20480] == bytes(4096)

    def test_a_qcow2_image_can_be_stored_on_the_device(self):
        run("qemu-img", "create", "-q", "-f", "qcow2", self.uri, "4M")
        run("qemu-io", "-f", "qcow2", "-c", "write -P 9 0 65536", self.uri)
        assert "No errors" in run("qemu-img", "check", "-f", "qcow2", self.uri)
        assert "65536/65536" in run("qemu-io", "-f", "qcow2", "-c", "read -P 9 0 65536", self.uri)


class Qmp:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(BOUND)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("rw")
        self.lines.readline()
        self.call("qmp_capabilities")

    def call(self, name, **arguments):
        self.lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.lines.flush()
        return self.until(lambda answer: "event" not in answer)

    def until(self, wanted):
        while True:
            answer = json.loads(self.lines.readline())
            assert "error" not in answer, answer
            if wanted(answer):
                return answer


class TestStorageDaemon(Case):
    def test_qemu_mirrors_a_disk_during_writes(self):
        if shutil.which("qemu-storage-daemon") is None:
            pytest.skip("without qemu-system-common")
        qmp, vm = self.folder / "qmp.sock", self.folder / "vm.sock"
        target = self.folder / "copy.img"
        target.write_bytes(bytes(SIZE))
        self.start(qmp, "qemu-storage-daemon", "--chardev", f"socket,id=qmp,path={qmp},server=on,wait=off",
                   "--monitor", "chardev=qmp",
                   "--blockdev", f"driver=nbd,node-name=disk,export=disk0,server.type=unix,server.path={self.socket}",
                   "--blockdev", f"driver=file,node-name=copy,filename={target}",
                   "--nbd-server", f"addr.type=unix,addr.path={vm}",
                   "--export", "type=nbd,id=vm,node-name=disk,writable=on,name=vm")
        until("the export listens", lambda: accepts(vm))
        talk = Qmp(qmp)
        self.ends.callback(talk.socket.close)
        talk.call("blockdev-mirror", **{"job-id": "copy", "device": "disk", "target": "copy", "sync": "full"})
        run("qemu-io", "-f", "raw", "-c", "write -P 5 0 1048576", f"nbd+unix:///vm?socket={vm}")
        until("the copy has caught up", lambda: all(
            job["status"] == "ready" for job in talk.call("query-jobs")["return"] if job["id"] == "copy"))
        talk.call("job-complete", id="copy")
        until("the copy is complete", lambda: all(
            job["status"] == "concluded" or job["id"] != "copy" for job in talk.call("query-jobs")["return"]))
        run("qemu-io", "-f", "raw", "-c", "read -P 5 0 1048576", target)
        assert target.read_bytes() == self.image.read_bytes()
