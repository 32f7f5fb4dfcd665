"""Paths given by host name while the name service does not answer. IO on another path must continue."""
import socket
import struct
import threading
import time

import pytest
from control_test import client_with_etc
from programs import until

nbd = pytest.importorskip("nbd", reason="without python3-libnbd")
# Maximum duration of an IO in seconds. A lookup blocks for at least 10 s if the name service is silent.
GOOD_TIME = 4
NAMESERVER = "127.0.0.77"


class NameService:
    """A DNS server on port 53 that can be made silent."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((NAMESERVER, 53))
        self.socket.settimeout(0.1)
        self.over = False
        self.address = None  # address in every answer; None: no answer
        self.asked = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def end(self):
        self.over = True
        self.thread.join()
        self.socket.close()

    def run(self):
        while not self.over:
            try:
                query, client = self.socket.recvfrom(512)
            except TimeoutError:
                continue
            self.asked += 1
            if self.address is not None:
                self.socket.sendto(self.answer(query), client)

    def answer(self, query):
        end = query.index(0, 12) + 5
        is_a = query[end - 4:end - 2] == b"\0\1"
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0)
        record = struct.pack(">HHHIH", 0xc00c, 1, 1, 1, 4) + socket.inet_aton(self.address) if is_a else b""
        return head + query[12:end] + record


class Io:
    """Reads in a loop. `slowest`: duration of the longest read, in seconds."""

    def __init__(self, socket_path):
        self.handle = nbd.NBD()
        self.handle.connect_uri(f"nbd+unix:///?socket={socket_path}")
        self.count, self.slowest, self.error, self.began = 0, 0, None, None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.done.wait(0.02):
            self.began = time.monotonic()
            try:
                self.handle.pread(4096, 0)
            except nbd.Error as error:
                self.error = error
                return
            self.slowest = max(self.slowest, time.monotonic() - self.began)
            self.count += 1

    def stop(self):
        self.done.set()
        self.thread.join(GOOD_TIME)

    def end(self):
        count = self.count
        until("IO continues", lambda: self.count > count + 2 or self.error, GOOD_TIME)
        self.stop()
        assert self.error is None and not self.thread.is_alive() and self.slowest < GOOD_TIME, (self.error, self.slowest)


@pytest.fixture(name="names")
def _names(ends):
    try:
        service = NameService()
    except OSError as error:
        pytest.skip(f"{NAMESERVER} port 53 cannot be had: {error}")
    ends.callback(service.end)
    return service


@pytest.fixture(name="plugin")
def _plugin(tmp_path, ends):
    """Starts nbdkit with an /etc/resolv.conf that names the DNS server of this test."""
    return client_with_etc(tmp_path, ends, "resolv.conf", f"nameserver {NAMESERVER}\n")[1]


def named(client):
    return client.session()["paths"][1]


@pytest.mark.parametrize("fabric", ["tcp", "libfabric"])
def test_a_silent_name_service_does_not_delay_io(urtrsd, names, plugin, ends, fabric):
    server = urtrsd("--listen=127.0.0.1", "--listen=127.0.0.2", "--export=disk=mem:1M", f"--fabric={fabric}")
    client = plugin("path=127.0.0.1@127.0.0.1", f"port={server.port}", f"fabric={fabric}")
    until("the path is up", lambda: client.states() == ["connected"])
    io = Io(client.nbd)
    ends.callback(io.stop)
    assert client.ask("path.add", path="storage.example")["path"] == 1
    path = until("the path by name is retried", lambda: named(client)["attempt"] >= 2 and named(client))
    assert path["reason"] == "name_unresolved" and names.asked > 0, path
    names.address = "127.0.0.2"
    until("the path by name is up", lambda: client.states() == ["connected", "connected"])
    names.address = None
    assert "message" not in client.ask("path.reconnect", path="1")
    until("the last answer is used", lambda: named(client)["reconnects"] == 1 and client.states() == ["connected", "connected"])
    io.end()
    assert client.states()[0] == "connected" and client.session()["paths"][0]["reconnects"] == 0


def test_a_start_with_a_silent_name_service_uses_the_numeric_path(urtrsd, names, plugin):
    server = urtrsd("--listen=127.0.0.1", "--export=disk=mem:1M")
    client = plugin("path=storage.example", "path=127.0.0.1", f"port={server.port}")
    Io(client.nbd).end()
    assert client.states()[1] == "connected" and names.asked > 0
    began = time.monotonic()
    assert client.end() == 0
    assert time.monotonic() - began < 2 * GOOD_TIME, "a lookup delays the exit"
