"""NBD clients in user space when the nbdkit of a mapped device is killed and urtrs-mapd restarts it."""
import os
import shutil
import signal
import subprocess

import pytest
from programs import BOUND, accepts, until

nbd = pytest.importorskip("nbd", reason="without python3-libnbd")


def kill(mapd):
    """Kills the nbdkit and waits for its replacement."""
    before = mapd.nbdkits()
    assert len(before) == 1
    os.kill(before[0], signal.SIGKILL)
    until("the next nbdkit serves the device", lambda: mapd.nbdkits() not in (before, []) and mapd.devices()["disk0"]["state"] == "mapped")


@pytest.fixture(name="qemu")
def _qemu(mapped, tmp_path, ends):
    """qemu("reconnect-delay=60") exports the device again with the QEMU storage daemon. Returns the URI."""
    if shutil.which("qemu-storage-daemon") is None:
        pytest.skip("without qemu-system-common")

    def start(option):
        vm = tmp_path / "vm.sock"
        process = subprocess.Popen(["qemu-storage-daemon", "--blockdev", "driver=nbd,node-name=disk,export=disk0,server.type=unix,"
                                    f"server.path={nbd_socket(mapped)},{option}", "--nbd-server", f"addr.type=unix,addr.path={vm}",
                                    "--export", "type=nbd,id=vm,node-name=disk,writable=on,name=vm"], stdin=subprocess.DEVNULL)
        ends.callback(process.kill)
        until("QEMU serves the device", lambda: accepts(vm))
        return f"nbd+unix:///vm?socket={vm}"
    return start


def nbd_socket(uri):
    return uri.partition("socket=")[2].replace("%40", "@")


def test_qemu_with_a_reconnect_delay_continues(mapd, qemu, load):
    writes = load(qemu("reconnect-delay=60"))
    for _ in range(3):
        kill(mapd)
        assert writes.poll() is None, "the load must not end yet"
    writes.ends_well()


def test_qemu_without_a_reconnect_delay_fails_requests_and_reconnects(mapd, qemu):
    client = nbd.NBD()
    client.connect_uri(qemu("reconnect-delay=0"))
    client.pwrite(b"x" * 4096, 0)
    before = mapd.nbdkits()[0]
    os.kill(before, signal.SIGSTOP)
    cookie = client.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"y" * 4096)), 4096)
    until("the write is sent", lambda: client.poll(0) == 0 or client.aio_get_direction() & client.AIO_DIRECTION_WRITE == 0)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(nbd.Error):
        while not client.aio_command_completed(cookie):
            client.poll(BOUND * 1000)
    until("the next nbdkit serves the device", lambda: mapd.devices()["disk0"]["state"] == "mapped" and mapd.nbdkits() not in ([before], []))

    def goes_on():
        try:
            return client.pread(4096, 0) == b"x" * 4096
        except nbd.Error:
            return False
    until("QEMU has reconnected", goes_on)


def test_libnbd_does_not_reconnect(mapd, mapped):
    client = nbd.NBD()
    client.connect_uri(mapped)
    client.pwrite(b"x" * 4096, 0)
    client.flush()
    kill(mapd)
    with pytest.raises(nbd.Error):
        client.pread(4096, 0)
    with pytest.raises(nbd.Error):
        client.pread(4096, 0)
    another = nbd.NBD()
    another.connect_uri(mapped)
    assert another.pread(4096, 0) == b"x" * 4096


def test_nbdcopy_fails_with_an_error(mapd, mapped, tmp_path, ends):
    (tmp_path / "image").write_bytes(os.urandom(16 << 20))
    copy = subprocess.Popen(["nbdkit", "-U", "-", "--filter=rate", "file", str(tmp_path / "image"), "rate=32M", "--run",
                             f'nbdcopy "$uri" "{mapped}"'], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    ends.callback(copy.kill)
    until("nbdcopy is copying", lambda: mapd.devices()["disk0"]["users"] > 0)
    kill(mapd)
    assert copy.wait(BOUND) != 0
    assert "nbd" in copy.stderr.read()
