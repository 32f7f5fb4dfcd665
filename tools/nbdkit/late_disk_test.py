"""Tests NBD clients of nbdkit while a server restarts: before its disk is available, with another disk, or too late."""
import errno
import json
import signal
import subprocess

import pytest
from programs import BOUND, PLUGIN, Urtrsd, until

nbd = pytest.importorskip("nbd", reason="without python3-libnbd")
pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="without the nbdkit plugin")

DATA = bytes(range(256)) * 16


@pytest.fixture(name="disk")
def _disk(tmp_path):
    folder = tmp_path / "disks"
    folder.mkdir()
    (folder / "a.img").write_bytes(bytes(1 << 20))
    return folder / "a.img"


class Client:
    """nbdkit with the plugin, and one NBD client."""

    def __init__(self, folder, ends, port, device, *parameters):
        self.status_file, self.log = folder / "status", folder / "nbdkit.log"
        # nbdkit creates the socket file before it listens, and the file `ready` afterwards.
        socket, ready = folder / "nbd.sock", folder / "nbdkit.pid"
        with self.log.open("w") as log:
            process = subprocess.Popen(
                ["nbdkit", "-f", "-U", socket, "-P", ready, PLUGIN, f"path=127.0.0.1:{port}", f"device={device}", "control=",
                 f"status={self.status_file}", "reconnect_min=50ms", "reconnect_max=200ms", *parameters],
                stdin=subprocess.DEVNULL, stderr=log)
        ends.callback(process.wait)
        ends.callback(process.kill)
        until("nbdkit listens or has exited", lambda: ready.exists() or process.poll() is not None)
        self.handle = nbd.NBD()
        self.handle.connect_unix(str(socket))

    def begin_write(self):
        """Starts a write. Its result is appended to the returned list: an errno, or 0 for success."""
        results = []

        def completed(error):
            results.append(error.value)
            return 1
        self.handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(DATA)), 0, completion=completed)
        return results

    def until_over(self, results):
        def over():
            self.handle.poll(50)
            return results
        until("the write has completed", over)
        return results[0]

    def until_reason(self, reason):
        def is_so():
            return json.loads(self.status_file.read_text())["devices"][0]["reason"] == reason
        until(f"the reason is {reason}", is_so)

    def until_logged(self, *parts):
        until(f"{parts} in the log", lambda: any(all(part in line for part in parts) for line in self.log.read_text().splitlines()))


def test_a_write_waits_until_the_disk_appears(tmp_path, ends, disk):
    server = Urtrsd(tmp_path / "log", f"--dev-search-path={disk.parent}").ready()
    ends.callback(server.end, signal.SIGKILL)
    client = Client(tmp_path, ends, server.port, "a.img")
    client.handle.pwrite(DATA, 0)
    server.end()
    away = disk.rename(disk.with_suffix(".away"))
    server.start().ready()
    results = client.begin_write()
    client.until_reason("device_absent")
    client.until_logged("[device_absent]", "IO waits up to 2 min (queue_timeout)")
    away.rename(disk)
    assert client.until_over(results) == 0
    client.until_reason("none")
    assert disk.read_bytes()[:len(DATA)] == DATA


def test_a_write_fails_after_queue_timeout_if_the_disk_stays_missing(tmp_path, ends, disk):
    server = Urtrsd(tmp_path / "log", f"--dev-search-path={disk.parent}").ready()
    ends.callback(server.end, signal.SIGKILL)
    client = Client(tmp_path, ends, server.port, "a.img", "queue_timeout=1s")
    server.end()
    disk.unlink()
    server.start().ready()
    client.until_reason("device_absent")
    assert client.until_over(client.begin_write()) == errno.EIO
    client.until_logged("write of 4096 bytes", "No such file", "IO is held for 1 s (queue_timeout)")


def test_a_smaller_disk_is_reported_with_both_sizes(tmp_path, ends, disk):
    server = Urtrsd(tmp_path / "log", f"--export=d={disk}").ready()
    ends.callback(server.end, signal.SIGKILL)
    client = Client(tmp_path, ends, server.port, "d")
    server.end()
    disk.write_bytes(bytes(512 << 10))
    server.start().ready()
    client.until_reason("device_shrunk")
    client.until_logged("its size changed from 2048 to 1024 sectors", "[device_shrunk]")


def test_request_timeout_works_without_heartbeats(tmp_path, ends):
    server = Urtrsd(tmp_path / "log", "--export=d=mem:1M,delay_ms=60000").ready()
    ends.callback(server.end, signal.SIGKILL)
    client = Client(tmp_path, ends, server.port, "d", "heartbeat_interval=1h", "request_timeout=500ms")
    assert client.until_over(client.begin_write()) == errno.EIO
    client.until_logged("lost: a request was not answered in time [request_timeout]")
