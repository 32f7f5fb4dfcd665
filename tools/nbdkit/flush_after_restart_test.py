"""Result of a FLUSH after a restart of urtrsd.

A restart of urtrsd alone loses no data of a file, but all data of a memory device. To simulate a power failure of the
host, the export gets another file with the content from before the write."""
import pathlib
import shutil
import signal
import socket
import struct
import subprocess

import pytest
from programs import PLUGIN, until

SIZE = 1 << 20
DATA = bytes(range(256)) * 16
EIO = 5
READ, WRITE, DISCONNECT, FLUSH = range(4)
FUA = 1


class Disk:
    """nbdkit with the plugin, and one NBD client that sends one request at a time."""

    def __init__(self, directory, port, device):
        self.log = pathlib.Path(directory, "nbdkit.log")
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(120)
        # With -s, nbdkit serves a single client through standard input and output.
        with theirs, self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["nbdkit", "-s", PLUGIN, "path=127.0.0.1", f"port={port}", f"device={device}", "reconnect_min=50ms",
                 "reconnect_max=200ms", "connect_timeout=60s"], stdin=theirs, stdout=theirs, stderr=log)
        assert self.take(16) == b"NBDMAGICIHAVEOPT"
        self.take(2)
        # Client flags: fixed newstyle, no zeroes. Option EXPORT_NAME with an empty name.
        self.ours.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
        size, _ = struct.unpack(">QH", self.take(10))
        assert size == SIZE

    def take(self, count):
        data = b""
        while len(data) < count:
            piece = self.ours.recv(count - len(data))
            if not piece:
                raise RuntimeError(f"nbdkit hung up:\n{self.log.read_text()}")
            data += piece
        return data

    def ask(self, what, offset=0, length=0, data=b"", flags=0):
        self.ours.sendall(struct.pack(">IHHQQI", 0x25609513, flags, what, 7, offset, length) + data)
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        assert (magic, cookie) == (0x67446698, 7)
        return error, self.take(length) if what == READ and error == 0 else b""

    def write(self, offset, flags=0):
        return self.ask(WRITE, offset, len(DATA), DATA, flags)[0]

    def flush(self):
        return self.ask(FLUSH)[0]

    def read(self, offset):
        return self.ask(READ, offset, len(DATA))[1]

    def logged(self, text):
        # The plugin writes the log in a separate thread, so a reply may arrive before the log line is
        # written.
        until(lambda: f"{text} in {self.log.read_text()}", lambda: text in self.log.read_text())

    def end(self):
        self.ours.sendall(struct.pack(">IHHQQI", 0x25609513, 0, DISCONNECT, 0, 0, 0))
        self.process.wait()
        self.ours.close()


class TestFlushAfterRestart:
    @pytest.fixture(autouse=True)
    def given(self, tmp_path, urtrsd, ends):
        self.directory, self.ends = tmp_path, ends
        self.image, self.after = self.directory / "image", self.directory / "after"
        self.image.write_bytes(bytes(SIZE))
        shutil.copy(self.image, self.after)
        self.export = self.directory / "export"
        self.export.symlink_to(self.image)
        self.server = urtrsd(f"--export=disk={self.export}", "--export=memory=mem:1M")
        self.ends.callback(self.server.end, signal.SIGKILL)

    def open(self, device):
        disk = Disk(self.directory, self.server.port, device)
        self.ends.callback(disk.end)
        return disk

    def restart(self, how=signal.SIGKILL):
        self.server.end(how)
        self.server.start().ready()

    def lose_host(self):
        self.server.end(signal.SIGKILL)
        self.export.unlink()
        self.export.symlink_to(self.after)
        self.server.start().ready()

    def test_a_killed_server_loses_no_writes_to_a_file(self):
        disk = self.open("disk")
        for how in (signal.SIGKILL, signal.SIGTERM):
            assert disk.write(8192) == 0
            self.restart(how)
            assert disk.flush() == 0
            assert disk.write(0, FUA) == 0
            assert disk.read(8192) == DATA
        assert "without its cache" not in disk.log.read_text()

    def test_a_write_lost_with_the_host_fails_the_next_flush(self):
        disk = self.open("disk")
        assert disk.write(8192) == 0
        self.lose_host()
        assert disk.flush() == EIO
        assert disk.read(8192) == bytes(len(DATA)), "the write is lost"
        text = "1 acknowledged writes were not flushed and may be lost"
        disk.logged(text)
        assert disk.write(8192) == 0
        assert disk.flush() == 0

    def test_a_write_lost_with_the_host_fails_the_next_write_with_fua(self):
        disk = self.open("disk")
        assert disk.write(8192) == 0
        self.lose_host()
        assert disk.write(0, FUA) == EIO
        assert disk.write(0, FUA) == 0
        assert disk.flush() == EIO
        assert disk.flush() == 0

    def test_a_lost_cache_is_no_error_if_all_writes_were_flushed(self):
        disk = self.open("disk")
        assert disk.write(8192) == 0
        assert disk.flush() == 0
        assert disk.write(0, FUA) == 0
        self.lose_host()
        assert disk.flush() == 0
        assert disk.write(0, FUA) == 0

    def test_a_memory_device_is_lost_with_the_server(self):
        disk = self.open("memory")
        assert disk.write(8192) == 0
        self.restart()
        assert disk.flush() == EIO
        assert disk.read(8192) == bytes(len(DATA))
        assert disk.write(8192) == 0
        assert disk.write(0, FUA) == 0
        assert disk.flush() == 0
        self.restart(signal.SIGTERM)
        assert disk.write(0) == 0
        text = "every acknowledged write was flushed before"
        disk.logged(text)

