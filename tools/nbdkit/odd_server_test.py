"""nbdkit with the plugin, and a server that accepts everything and sends wrong responses or none."""
import errno
import json
import subprocess
import time

import pytest
from odd_server import OddServer
from programs import BOUND, PLUGIN, accepts, until

nbd = pytest.importorskip("nbd", reason="without python3-libnbd")


@pytest.fixture(name="odd")
def _odd(ends):
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")

    def start(**ways):
        server = OddServer(**ways)
        ends.callback(server.end)
        return server
    return start


@pytest.fixture(name="client")
def _client(tmp_path, ends):
    """An NBD connection to nbdkit with the plugin."""
    def start(server, *parameters, export=""):
        path = tmp_path / "nbd.sock"
        if not path.exists():
            log = (tmp_path / "log").open("w")
            ends.callback(log.close)
            process = subprocess.Popen(["nbdkit", "-f", "-U", path, PLUGIN, f"path=127.0.0.1:{server.port}", "session=s", "control=",
                                        f"status={tmp_path}/status", *parameters], stdin=subprocess.DEVNULL, stderr=log)
            ends.callback(process.wait)
            ends.callback(process.kill)
            until("nbdkit listens or has exited", lambda: accepts(path) or process.poll() is not None)
        handle = nbd.NBD()
        handle.set_export_name(export)
        handle.connect_unix(str(path))
        return handle
    return start


def test_io_fails_if_the_server_closes_the_connection_each_time(odd, client, tmp_path):
    server = odd(on_io="close")
    log = tmp_path / "log"
    handle = client(server, "device=d", "request_timeout=1s", "queue_timeout=2s", "reconnect_min=50ms", "reconnect_max=100ms")
    shown = []

    def completed(_error):
        return 1
    handle.aio_pread(nbd.Buffer(4096), 0, completion=completed)
    end = time.monotonic() + BOUND
    while handle.aio_in_flight() and time.monotonic() < end:
        handle.poll(100)
        shown.append(json.loads((tmp_path / "status").read_text())["oldest_request"])
    assert handle.aio_in_flight() == 0, "the request is still in flight"
    with pytest.raises(nbd.Error) as failed:
        handle.pread(4096, 0)
    assert failed.value.errnum == errno.EIO  # the NBD protocol has no ETIMEDOUT
    until("the log of nbdkit has the reason", lambda: "lost its path each time that it was sent, for 3 s" in log.read_text())
    assert server.requests > 2
    assert any(one is not None and one["age_s"] > 1 for one in shown), shown


def test_an_unanswered_open_fails_the_start_after_connect_timeout(odd):
    server = odd(on_open="silent")
    begin = time.monotonic()
    done = subprocess.run(["nbdkit", "-f", "-U", "-", PLUGIN, f"path=127.0.0.1:{server.port}", "session=s", "control=", "device=d",
                           "connect_timeout=1s"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode != 0
    assert "did not open 'd'" in done.stderr, done.stderr
    # The start must not wait for close_timeout (30 s).
    assert time.monotonic() - begin < 25


@pytest.mark.parametrize("said, shown", [(512, 4096), (5000, 4096), (16384, 16384), (33333, 32768), (65535, 32768)])
def test_a_block_size_is_rounded_to_a_power_of_two(odd, client, said, shown):
    handle = client(odd(physical_block_size=said), "device=d")
    assert handle.get_block_size(nbd.SIZE_PREFERRED) == shown
    handle.pwrite(bytes(4096), 0)


# If the server does not support write-zeroes, nbdkit writes zero bytes instead. If the plugin returned
# EOPNOTSUPP for that write, nbdkit would fail an assertion.
def test_nbdkit_survives_a_server_without_write_zeroes(odd, client):
    handle = client(odd(on_io="unsupported"), "device=d")
    for io in lambda: handle.zero(4096, 0), lambda: handle.pwrite(bytes(512), 0), lambda: handle.pread(512, 0):
        with pytest.raises(nbd.Error) as failed:
            io()
        assert failed.value.errnum == errno.EIO


# docs/security.md describes this behaviour.
def test_a_read_completed_without_data_returns_old_buffer_content(odd, client):
    server = odd(on_io="no_data")
    one, other = client(server, export="a"), client(server, export="b")
    secret = b"what a wrote" + bytes(500)
    one.pwrite(secret, 0)
    assert other.pread(512, 0) in (secret, bytes(512))
