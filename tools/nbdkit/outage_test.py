"""Tests nbdkit with the plugin after the server has stopped and does not restart."""
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import threading

import end_to_end_test as e2e
import pytest
from programs import BOUND, PLUGIN, accepts, until

SIZE = 32 << 20


class NbdClient:
    """One NBD connection that supports only writes."""

    def __init__(self, path, export=""):
        self.socket = socket.socket(socket.AF_UNIX)
        # The socket file exists before nbdkit listens.
        until("nbdkit accepts connections", lambda: self.socket.connect_ex(str(path)) == 0)
        self.read(18)  # NBDMAGIC IHAVEOPT, flags
        # Sends the client flags (fixed newstyle, no zeroes) and the option EXPORT_NAME.
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, len(export)) + export.encode())
        self.read(10)  # size and flags of the export

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def write(self, data):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 0, len(data)) + data)

    def error(self):
        """Reads a reply. Returns its error, 0 for success, or -1 if nbdkit closed the connection."""
        try:
            magic, error, handle = struct.unpack(">IIQ", self.read(16))
        except (EOFError, ConnectionError):
            return -1
        assert (magic, handle) == (0x67446698, 7)
        return error


class TestOutage:
    @pytest.fixture(autouse=True)
    def given(self, tmp_path, urtrsd, ends):
        self.ends = ends
        # The export is slow, so that requests are in flight when the server is killed.
        self.server = e2e.start_server(urtrsd, "--export=slow=mem:32M,delay_ms=10000")
        self.ends.callback(self.server.end, signal.SIGKILL)
        self.status, self.socket = tmp_path / "status", tmp_path / "socket"

    def start(self, *parameters):
        nbdkit = subprocess.Popen(
            ["nbdkit", "-f", "-v", "-U", str(self.socket), PLUGIN, "path=127.0.0.1", "path=127.0.0.2",
             f"port={self.server.port}", "device=slow", f"status={self.status}", *parameters],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.ends.callback(nbdkit.stderr.close)
        self.ends.callback(nbdkit.wait)
        self.ends.callback(nbdkit.kill)
        self.lines = []
        # Reads all output of nbdkit, because a full pipe would block it.
        reader = threading.Thread(target=lambda: self.lines.extend(nbdkit.stderr), daemon=True)
        reader.start()
        self.until(lambda: accepts(self.socket), "nbdkit did not start")
        return nbdkit

    def until(self, condition, complaint):
        until(lambda: complaint + "\n" + "".join(self.lines[-20:]), condition)

    def in_flight(self):
        try:
            return sum(path["inflight"] for path in json.loads(self.status.read_text())["paths"])
        except (FileNotFoundError, json.JSONDecodeError):
            return 0

    def writers(self, count):
        clients = [NbdClient(self.socket) for _ in range(count)]
        for client in clients:
            self.ends.callback(client.socket.close)
        data = bytes(SIZE)
        # Sends all data of each write, because nbdkit starts a write only when its data is complete.
        for client in clients:
            client.write(data)
        return clients

    def test_every_request_fails_within_queue_timeout(self):
        self.start("queue_timeout=3s")
        clients = self.writers(4)
        # The clients send more requests than there are permits, so some requests wait for a permit.
        self.until(lambda: self.in_flight() >= 500, "not every permit is in use")
        self.server.end(signal.SIGKILL)
        for client in clients:
            client.socket.settimeout(BOUND)
            assert client.error() == 5

    def test_a_signal_ends_nbdkit_while_requests_wait_for_a_path(self):
        nbdkit = self.start("queue_timeout=never")
        clients = self.writers(4)
        self.until(lambda: self.in_flight() >= 500, "not every permit is in use")
        self.server.end(signal.SIGKILL)
        self.until(lambda: json.loads(self.status.read_text())["link"] == "down", "the link is still up")
        nbdkit.send_signal(signal.SIGTERM)
        for client in clients:
            client.socket.settimeout(BOUND)
            assert client.error() != 0
            # nbdkit exits only after idle clients have disconnected.
            client.socket.close()
        nbdkit.wait(timeout=BOUND)
        self.until(lambda: any("no path is connected: pending requests" in line for line in self.lines),
                   "the requests did not fail because no path is connected")

    def test_a_signal_ends_nbdkit_after_the_waiting_client_has_disconnected(self):
        nbdkit = self.start("queue_timeout=never")
        clients = self.writers(1)
        self.until(lambda: self.in_flight() > 0, "nothing is in flight")
        self.server.end(signal.SIGKILL)
        self.until(lambda: json.loads(self.status.read_text())["link"] == "down", "the link is still up")
        clients[0].socket.close()
        nbdkit.send_signal(signal.SIGTERM)
        nbdkit.wait(timeout=BOUND)

    def test_unread_log_lines_do_not_block_io(self):
        reader, writer = os.pipe()
        self.ends.callback(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        nbdkit = subprocess.Popen(
            ["nbdkit", "-f", "-U", str(self.socket), PLUGIN, "path=127.0.0.1", f"port={self.server.port}",
             "device=slow", "reconnect_min=50ms", "reconnect_max=200ms", f"status={self.status}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
        self.ends.callback(nbdkit.wait)
        self.ends.callback(nbdkit.kill)
        self.lines = []
        self.until(lambda: accepts(self.socket), "nbdkit did not start")
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x")
        os.set_blocking(writer, True)
        os.close(writer)
        self.server.end(signal.SIGKILL)
        self.until(lambda: self.status.exists() and json.loads(self.status.read_text())["link"] == "down",
                   "the link is still up")
        self.server.start().ready()
        client = NbdClient(self.socket)
        self.ends.callback(client.socket.close)
        client.socket.settimeout(BOUND)
        client.write(bytes(4096))
        assert client.error() == 0

