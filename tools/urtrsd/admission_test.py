"""urtrsd at its limits, with clients that follow the framing of libfabric's provider tcp but no further rules: excess
clients are rejected with a reason, and a well-behaved session is not affected."""
import contextlib
import errno
import os
import re
import resource
import signal
import socket
import struct
import threading
import time

import pytest
from wire_client import Client, Refused, cm_header, connect, connect_request


@pytest.fixture(scope="module", autouse=True)
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def start(urtrsd):
    """Starts a server with these limits. The test kills the server at the end, because it does not test the shutdown."""
    servers = []

    def limited(*arguments, descriptors=1024, address_space=None, depth=128):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        servers.append(urtrsd("--fabric=libfabric", "--export=d=mem:16M", f"--sess-queue-depth={depth}", *arguments, preexec_fn=limit))
        return servers[-1]

    yield limited
    for server in servers:
        server.end(signal.SIGKILL)


class Beside:
    """A well-behaved session that sends ten heartbeats per second in the background."""

    def __init__(self, server):
        self.session = Client(server.port)
        self.error = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.done.wait(0.1):
                self.session.beat()
        except OSError as error:
            self.error = error

    def end(self):
        self.done.set()
        self.thread.join(70)
        assert self.error is None and not self.thread.is_alive(), "the good session failed"
        self.session.close()


def lives(server):
    return server.process.poll() is None


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) // 1024


def test_silent_sockets_do_not_block_other_clients(start):
    server = start(descriptors=256)
    beside = Beside(server)
    held, end = [], time.monotonic() + 9
    while time.monotonic() < end:
        try:
            held.append(socket.create_connection(("127.0.0.1", server.port), 1))
        except OSError:
            time.sleep(0.05)
        if len(held) > 400:
            held.pop(0).close()
        time.sleep(0.002)
    newcomer = Client(server.port, timeout=5)
    newcomer.close()
    for sock in held:
        sock.close()
    beside.end()


def test_exhausted_descriptors_reject_clients_with_an_error(start):
    server = start(descriptors=200)
    beside = Beside(server)
    held, errors = [], []
    end = time.monotonic() + 20
    while len(errors) < 4 and time.monotonic() < end:
        try:
            held.append(Client(server.port, connections=136, timeout=10))
        except OSError as error:
            errors.append(error)
    assert lives(server)
    assert len(errors) == 4 and all(isinstance(error, (Refused, ConnectionResetError)) for error in errors), errors
    assert any(isinstance(error, Refused) and error.errno == errno.ENOMEM for error in errors), errors
    for one in held:
        one.close()
    time.sleep(0.5)
    Client(server.port, timeout=5).close()
    beside.end()


def test_the_server_survives_exhausted_memory(start):
    server = start(descriptors=4096, address_space=900 << 20, depth=512)
    beside = Beside(server)
    held, errors = [], []
    end = time.monotonic() + 30
    while len(errors) < 4 and len(held) < 60 and time.monotonic() < end:
        try:
            held.append(Client(server.port, connections=12, timeout=10))
        except OSError as error:
            errors.append(error)
    assert lives(server) and errors, f"{len(held)} sessions in 900 MiB"
    for one in held:
        one.close()
    time.sleep(0.5)
    Client(server.port, timeout=5).close()
    beside.end()


def test_half_open_sessions_do_not_block_new_clients(start):
    server = start("--max-sessions", "32", descriptors=1024)
    beside = Beside(server)
    before, held = resident_mib(server), []
    for _ in range(120):
        try:
            held.append(connect(server.port, connect_request(0, 2, os.urandom(16), os.urandom(16)), 5)[0])
        except OSError as error:
            held.append(error)
    begun = time.monotonic()
    Client(server.port, timeout=5).close()
    assert time.monotonic() - begun < 5, "seconds until a new client is connected"
    assert resident_mib(server) - before < 32, "MiB of memory for 120 connect requests"
    beside.end()
    for one in held:
        if isinstance(one, socket.socket):
            one.close()


def test_sessions_of_one_address_are_limited(start):
    server = start("--max-sessions", "8", "--max-host-sessions", "3", descriptors=1024)
    held = [Client(server.port, timeout=5) for _ in range(3)]
    with pytest.raises(Refused) as refused:
        Client(server.port, timeout=5)
    assert refused.value.errno == errno.ENOMEM
    server.logged(r'refused a connect request: peer=127\.0\.0\.1:\d+ reason=too_many_sessions errno=12: max_sessions or '
                  r'max_host_sessions is reached: 3 sessions open \(max_sessions = 8, max_host_sessions = 3\); close unused sessions, or raise ')
    server.logged(r'session=2 name="[^"]+" peer=127\.0\.0\.1:\d+ opened')
    assert "peer= " not in server.text(), "a log line about a path has no peer"
    for one in held:
        one.beat()
        one.close()


def test_incomplete_connect_requests_do_not_block_new_clients(start):
    server = start(descriptors=1024)
    beside = Beside(server)
    stop = threading.Event()

    def attack():
        held = []
        while not stop.wait(0.01):
            try:
                sock = socket.create_connection(("127.0.0.1", server.port), 1)
                sock.sendall(cm_header(56) if len(held) % 2 else b'half')
                held.append(sock)
            except OSError:
                pass
            if len(held) > 300:
                held.pop(0).close()
        for sock in held:
            sock.close()
    attacker = threading.Thread(target=attack)
    attacker.start()
    time.sleep(1)
    slowest = 0.0
    for _ in range(10):
        begun = time.monotonic()
        Client(server.port, timeout=5).close()
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.1)
    stop.set()
    attacker.join()
    assert slowest < 5, "seconds until a new client is connected, beside 100 half connect requests a second"
    beside.end()


@pytest.mark.parametrize("offset", [64, 1 << 16, 1 << 18])
def test_the_rkey_of_empty_writes_gives_no_access_to_memory(start, offset):
    """An RDMA write to the rkey of empty writes, with bounds that wrap around, must not change memory. If the provider
    copies the data in user space, the write crashes the process."""
    server = start()
    mark = os.urandom(16)
    sock, _ = connect(server.port, connect_request(0, 2, os.urandom(16), os.urandom(16)), 5)
    sock.sendall(struct.pack("<BBHBBBBQ", 3, 4, 0, 0, 1, 40, 0, 40 + len(mark)) +
                 struct.pack("<QQQ", offset, (1 << 64) - offset, 0) + mark)
    sock.settimeout(2)
    with contextlib.suppress(OSError):
        while sock.recv(64):
            pass
    sock.close()
    time.sleep(0.3)
    # One copy of the mark is allowed, because the provider's receive buffer holds the bytes before the
    # provider checks the rkey. A second copy would mean that the write reached memory. The server may also
    # crash: a provider that copies in user space crashes at these offsets.
    assert not lives(server) or copies_in(server.process.pid, mark) <= 1


def copies_in(pid, mark):
    """Returns the number of occurrences of these bytes in the writable memory of the process."""
    found = 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            if "rw" not in line.split()[1] or end - start > 1 << 28:
                continue
            with contextlib.suppress(OSError):
                memory.seek(start)
                found += memory.read(end - start).count(mark)
    return found


def test_listening_on_all_addresses_causes_a_warning(start):
    assert "trusted" not in start().text(), "a warning on loopback"
    start("--listen=0.0.0.0").logged(r"warning .*0\.0\.0\.0.*trusted")
