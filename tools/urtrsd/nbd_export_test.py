"""Tests urtrsd with exports that are NBD servers: nbdkit, qemu-nbd, and a server that is killed."""
import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from iwarp_client import IwarpClient as Client
from programs import BOUND, PLUGIN, accepts, program, stand_still, until
from wire_client import exact

nbd = pytest.importorskip("nbd", reason="without python3-libnbd")
URTRSD = program("urtrsd")
SIZE = 4 << 20


class Nbdkit:
    """An NBD server on a Unix socket that can be killed and restarted."""

    def __init__(self, folder, *arguments):
        self.socket = folder / "held.sock"
        self.arguments = ["nbdkit", "-f", "-U", str(self.socket), *map(str, arguments)]
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.start()

    def start(self):
        self.socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL)
        until("the NBD server listens", lambda: accepts(self.socket))

    def kill(self):
        self.process.kill()
        self.process.wait(BOUND)


@pytest.fixture(name="nbdkit")
def _nbdkit(tmp_path, ends):
    def start(*arguments):
        server = Nbdkit(tmp_path, *arguments)
        ends.callback(server.kill)
        return server
    return start


def end(process):
    """Stops nbdkit. Kills it if a failed test still holds a connection, because nbdkit waits for its clients."""
    process.terminate()
    try:
        process.wait(BOUND)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(BOUND)


@pytest.fixture(name="client")
def _client(tmp_path, ends):
    """Starts a client of urtrsd. Returns the URI of the device for NBD clients."""
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")

    def start(server, device="disk"):
        nbd = tmp_path / "client.sock"
        log = (tmp_path / "client.log").open("w")
        process = subprocess.Popen(["nbdkit", "-f", "-U", nbd, PLUGIN, f"path=127.0.0.1:{server.port}", f"device={device}"],
                                   stdin=subprocess.DEVNULL, stderr=log)
        ends.callback(log.close)
        ends.callback(end, process)
        until("the client is ready or has exited", lambda: accepts(nbd) or process.poll() is not None)
        return f"nbd+unix:///?socket={nbd}"
    return start


def run(*command, code=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def connected(uri):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle


def error_of(call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        time.sleep(0.02)
        return error.errno
    return None


def test_written_data_is_read_back(nbdkit, client, urtrsd, tmp_path):
    held = nbdkit("memory", SIZE)
    uri = client(urtrsd(f"--export=disk={held.uri}"))
    data = tmp_path / "data"
    data.write_bytes(os.urandom(SIZE))
    run("nbdcopy", data, uri)
    run("nbdcopy", uri, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data.read_bytes()
    run("nbdcopy", held.uri, tmp_path / "held")
    assert (tmp_path / "held").read_bytes() == data.read_bytes()
    device = connected(uri)
    device.zero(65536, 0)
    device.trim(65536, 65536)
    device.pwrite(b"x" * 512, 1024, nbd.CMD_FLAG_FUA)
    device.flush()
    behind = connected(held.uri)
    for disk in (device, behind):
        assert disk.pread(2048, 0) == bytes(1024) + b"x" * 512 + bytes(512)
        assert disk.pread(65536, 131072) == data.read_bytes()[131072:196608]


def test_a_qemu_image_format_can_be_exported(client, urtrsd, tmp_path, ends):
    if shutil.which("qemu-nbd") is None:
        pytest.skip("without qemu-utils")
    image, sock = tmp_path / "disk.qcow2", tmp_path / "qemu.sock"
    run("qemu-img", "create", "-q", "-f", "qcow2", image, SIZE)
    process = subprocess.Popen(["qemu-nbd", "-t", "-f", "qcow2", "-k", sock, image], stdin=subprocess.DEVNULL)
    ends.callback(process.wait)
    ends.callback(process.kill)
    until("qemu-nbd listens", lambda: accepts(sock))
    uri = client(urtrsd(f"--export=disk=nbd+unix:///?socket={sock}"))
    device = connected(uri)
    device.pwrite(b"q" * 4096, 8192)
    device.flush()
    process.terminate()
    process.wait(BOUND)
    assert "4096/4096" in run("qemu-io", "-f", "qcow2", "-c", "read -P 0x71 8192 4096", image)


def test_io_fails_while_the_server_is_lost_and_resumes(nbdkit, client, urtrsd, tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(SIZE))
    held = nbdkit("file", image)
    server = urtrsd(f"--export=disk={held.uri}", "--nbd-wait=0")
    uri = client(server)
    device = connected(uri)
    device.pwrite(b"a" * 512, 0)
    held.kill()
    until("IO fails", lambda: error_of(device.pread, 512, 0) == "EIO")
    server.logged("its NBD server is lost: .*; IO fails until it is back")
    held.start()
    until("IO resumes", lambda: error_of(device.pread, 512, 0) is None)
    server.logged("its NBD server is back")
    # The lost server may have lost unflushed writes, so one flush must fail.
    assert error_of(device.flush) == "EIO"
    assert error_of(device.flush) is None, "only one flush fails per loss"
    held.kill()
    held.start()
    until("IO resumes", lambda: error_of(device.pread, 512, 0) is None)
    assert error_of(device.flush) is None, "nothing was lost this time"


class Writer(threading.Thread):
    """Writes consecutive blocks that contain their number, until end()."""

    def __init__(self, uri):
        super().__init__()
        self.device, self.done, self.errors, self.stopped = connected(uri), 0, [], False
        self.start()

    def run(self):
        while not self.stopped and not self.errors:
            try:
                self.device.pwrite(struct.pack(">Q", self.done) * 64, self.done % 1000 * 512)
                self.done += 1
            except nbd.Error as error:
                self.errors.append(error.errno)

    def end(self):
        self.stopped = True
        self.join(BOUND)
        assert not self.is_alive()


def test_io_waits_for_a_server_that_restarts(nbdkit, client, urtrsd, tmp_path):
    """Requests in flight are resent, later requests wait, and one flush fails because changes may be lost."""
    image = tmp_path / "image"
    image.write_bytes(bytes(SIZE))
    held = nbdkit("file", image)
    server = urtrsd(f"--export=disk={held.uri}")
    writer = Writer(client(server))
    for losses in range(1, 3):
        begin = writer.done
        until("the writer is writing", lambda: writer.done > begin + 100 or writer.errors)
        held.kill()
        until("the loss is seen", lambda: server.text().count("IO waits for up to 30 s (nbd_wait)") == losses)
        done = writer.done
        held.start()
        until("the writer continues", lambda: writer.done > done + 100 or writer.errors)
    writer.end()
    assert writer.errors == []
    server.logged("its NBD server is back; it may have lost writes that were not flushed, so the next flush of each open device fails once")
    assert error_of(writer.device.flush) == "EIO"
    assert error_of(writer.device.flush) is None
    disk = image.read_bytes()
    for number in range(max(0, writer.done - 1000), writer.done):
        assert disk[number % 1000 * 512:][:512] == struct.pack(">Q", number) * 64, number


def exports(control):
    """Returns the state and the reason of each export by name."""
    rows = json.loads(run(program("urtrs"), f"--socket={control}", "export", "list", "--json"))["exports"]
    return {row["name"]: (row["state"], row["why"]) for row in rows}


@pytest.mark.parametrize("idle", (False, True))
def test_io_waits_at_most_nbd_wait(nbdkit, client, urtrsd, tmp_path, idle):
    held = nbdkit("memory", SIZE)
    control = tmp_path / "control"
    server = urtrsd(f"--export=disk={held.uri}", "--nbd-wait=1s", f"--control={control}")
    device = connected(client(server))
    device.pread(512, 0)
    assert exports(control)["disk"] == ("served", "")
    held.kill()
    if not idle:
        assert error_of(device.pread, 512, 0) == "EIO"
    server.logged("IO waits for up to 1 s").logged("its NBD server did not return in time; IO fails until it does")
    assert error_of(device.pread, 512, 0) == "EIO"
    state, why = exports(control)["disk"]
    assert state == "lost" and "its NBD server is lost" in why
    held.start()
    until("the export is served", lambda: exports(control)["disk"] == ("served", ""))
    assert server.logged("its NBD server is back").text().count("may have lost writes") == 0, "nothing was written"
    until("IO resumes", lambda: error_of(device.pread, 512, 0) is None)


def test_shutdown_does_not_wait_for_a_lost_server(nbdkit, urtrsd):
    held = nbdkit("memory", SIZE)
    server = urtrsd(f"--export=disk={held.uri}", "--nbd-wait=86400s", "--shutdown-timeout=never")
    peer = Client(server.port)
    opened, device = peer.open("disk")
    assert opened == 0
    held.kill()
    server.logged("its NBD server is lost")
    peer.send_read(device, 0, 4096, 1)
    peer.beat()
    assert server.end() == 0


def test_the_next_open_detects_data_lost_by_a_failed_flush(nbdkit, client, urtrsd, tmp_path):
    """Tests the second failure, because the cache of an NBD server has no identity before the first failure."""
    image, control = tmp_path / "image", tmp_path / "control"
    image.write_bytes(bytes(SIZE))
    held = nbdkit("file", image)
    device = connected(client(urtrsd(f"--export=disk={held.uri}", f"--control={control}", "--nbd-wait=0")))

    def told():
        return (tmp_path / "client.log").read_text().count("the server restarted without its cache")
    for failures in range(2):
        assert told() == 0
        device.pwrite(b"a" * 512, 0)
        held.kill()
        until("IO fails", lambda: error_of(device.pread, 512, 0) == "EIO")
        held.start()
        until("IO resumes", lambda: error_of(device.pread, 512, 0) is None)
        assert error_of(device.flush) == "EIO", failures
        run(program("urtrs"), f"--socket={control}", "device", "close", "disk")
        until("the device is open again", lambda: error_of(device.pread, 512, 0) is None)
    until("the client reports the loss", lambda: told() == 1)


@pytest.mark.parametrize("closed_first", [False, True])
def test_a_loss_is_reported_after_the_device_was_closed(nbdkit, client, urtrsd, tmp_path, closed_first):
    """The loss of unflushed changes is reported although the device was closed in between."""
    image, control = tmp_path / "image", tmp_path / "control"
    image.write_bytes(bytes(SIZE))
    held = nbdkit("file", image)
    device = connected(client(urtrsd(f"--export=disk={held.uri}", f"--control={control}")))

    def close():
        run(program("urtrs"), f"--socket={control}", "device", "close", "disk")
    device.pwrite(b"a" * 512, 0)
    if closed_first:
        close()
    held.kill()
    held.start()
    if not closed_first:
        until("IO resumes", lambda: error_of(device.pread, 512, 0) is None)
        close()
    until("the device is open again", lambda: error_of(device.pread, 512, 0) is None)
    assert error_of(device.flush) == "EIO"


def test_closing_the_last_device_disconnects_from_the_server(nbdkit, urtrsd, tmp_path):
    """urtrsd disconnects from the NBD server when the last device is closed and all writes are flushed."""
    held = nbdkit("memory", SIZE)
    server = urtrsd(f"--export=disk={held.uri}")
    peer = Client(server.port)

    def connections():
        return len(os.listdir(f"/proc/{held.process.pid}/task"))
    alone = 1
    until("the startup check of urtrsd has disconnected", lambda: connections() == alone)
    opened, device = peer.open("disk")
    assert opened == 0 and peer.write_device(device, 0, b"a" * 512) == 0
    until("urtrsd is connected to the NBD server", lambda: connections() > alone)
    assert peer.flush_device(device) == 0
    assert peer.close_device(device) == 0
    until("urtrsd has disconnected from the NBD server", lambda: connections() == alone)


def test_a_loss_fails_one_flush_of_every_session(nbdkit, urtrsd, tmp_path):
    """A flush fails in every session, even if the session wrote nothing."""
    image = tmp_path / "image"
    image.write_bytes(bytes(SIZE))
    held = nbdkit("file", image)
    server = urtrsd(f"--export=disk={held.uri}", "--nbd-wait=0")
    writer, reader = Client(server.port), Client(server.port)
    (opened, written), (also_opened, read) = writer.open("disk"), reader.open("disk", writable=False)
    assert (opened, also_opened) == (0, 0)
    assert reader.flush_device(read) == 0
    assert writer.write_device(written, 0, b"a" * 512) == 0
    held.kill()
    until("IO fails", lambda: (writer.read_device(written, 0, 512)[0], reader.read_device(read, 0, 512)[0]) == (errno.EIO, errno.EIO))
    held.start()
    until("IO resumes", lambda: (writer.read_device(written, 0, 512)[0], reader.read_device(read, 0, 512)[0]) == (0, 0))
    for flush in (lambda: writer.flush_device(written)), (lambda: reader.flush_device(read)):
        assert (flush(), flush()) == (errno.EIO, 0)
    assert reader.close_device(read) == 0
    _, read = reader.open("disk", writable=False)
    assert reader.flush_device(read) == 0


def test_an_unresponsive_server_is_declared_lost(nbdkit, client, urtrsd):
    """The server counts as lost after 60 s, although the TCP stack of its host still acknowledges data."""
    held = nbdkit("memory", SIZE)
    server = urtrsd(f"--export=disk={held.uri}", "--export=other=mem:1M", "--nbd-wait=0")
    device = connected(client(server))
    device.pread(512, 0)
    stand_still(held.process)
    assert error_of(device.pread, 512, 0) == "EIO"
    server.logged("its NBD server is lost: no reply for 60 s; IO fails until it is back")
    assert error_of(device.pread, 512, 0) == "EIO"
    held.process.send_signal(signal.SIGCONT)
    server.logged("its NBD server is back")
    until("IO resumes", lambda: error_of(device.pread, 512, 0) is None)


def test_a_replaced_disk_of_another_size_is_not_used(nbdkit, client, urtrsd):
    held = nbdkit("memory", SIZE)
    server = urtrsd(f"--export=disk={held.uri}")
    uri = client(server)
    connected(uri).pread(512, 0)
    held.kill()
    held.arguments[-1] = str(SIZE // 2)
    held.start()
    server.logged("its server now has a different or smaller disk; to use it, close the export in all sessions")


def test_unusable_servers_are_reported_by_check_config(tmp_path, urtrsd, nbdkit):
    def refused(uri):
        return run(URTRSD, "--listen=127.0.0.1", f"--export=disk={uri}", "--check-config", code=3)
    assert 'export "disk" ("nbd+unix:///?socket=/nowhere") cannot be used: ' in refused("nbd+unix:///?socket=/nowhere")
    assert "No such file or directory" in refused("nbd+unix:///?socket=/nowhere")
    assert "Connection refused" in refused("nbd://127.0.0.1:1")
    held = nbdkit("-r", "memory", SIZE)
    assert "its NBD server serves it read-only" in refused(held.uri)
    urtrsd(f"--export=disk={held.uri},ro")


def serve_a_size(listener, size):
    """NBD handshake with one client; reports this disk size."""
    client, _ = listener.accept()
    with client:
        client.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
        exact(client, 4)
        while True:
            option, length = struct.unpack(">8xII", exact(client, 16))
            exact(client, length)
            known = option in (6, 7)  # NBD_OPT_INFO, NBD_OPT_GO
            told = [(3, struct.pack(">HQH", 0, size, 1)), (1, b"")] if known else [(0x80000001, b"")]
            for kind, data in told:
                client.sendall(struct.pack(">QIII", 0x3e889045565a9, option, kind, len(data)) + data)
            if option == 7:
                client.recv(1)
                return


def test_a_size_of_2_to_the_63_is_rejected(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "nbd"))
        listener.listen()
        thread = threading.Thread(target=serve_a_size, args=(listener, 1 << 63))
        thread.start()
        said = run(URTRSD, "--listen=127.0.0.1", f"--export=disk=nbd+unix:///?socket={tmp_path}/nbd", "--check-config", code=3)
        thread.join(BOUND)
    assert "cannot be used: its server reports a size of 2^63 bytes or more" in said
