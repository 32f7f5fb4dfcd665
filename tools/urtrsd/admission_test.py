#!/usr/bin/env python3
"""urtrsd at its limits, with clients that keep the framing of libfabric's provider tcp and nothing else: one that is
too much is refused with a reason, and a good session beside it never notices.

usage: admission_test.py URTRSD"""
import os
import re
import resource
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

URTRSD = sys.argv[1]
HB_MSG, HB_ACK = 8 << 28, 9 << 28
failures = []


def check(condition, text):
    print(('ok    ' if condition else 'FAILED ') + text, flush=True)
    if not condition:
        failures.append(text)


# --- what goes over the wire ---

def cm_header(size, kind=0):
    return struct.pack('<BB', 3, kind) + struct.pack('>H', size) + struct.pack('<IQQQ', 0, 0, 0, 1)


def conn_req(cid, cid_num, paths, session):
    return struct.pack('<BBHHHHH16s16sBB10s', 0, 0, 0x1bbd, 0x0200, cid, cid_num, 1, paths, session, 1, 0, b'')


def exact(sock, size):
    data = b''
    while len(data) < size:
        got = sock.recv(size - len(data))
        if not got:
            raise ConnectionResetError('closed after %d of %d bytes' % (len(data), size))
        data += got
    return data


class Refused(Exception):
    def __init__(self, error):
        super().__init__('refused with errno %s' % error)
        self.error = error


def connect(port, request, timeout=5):
    sock = socket.create_connection(('127.0.0.1', port), timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.sendall(cm_header(len(request)) + request)
        head = exact(sock, 32)
        data = exact(sock, struct.unpack('>H', head[2:4])[0])
    except OSError:
        sock.close()
        raise
    if head[1] != 1:
        sock.close()
        raise Refused(-struct.unpack_from('<h', data, 4)[0] if len(data) >= 6 else None)
    return sock


class Session:
    """One path whose INFO exchange is done, unless told otherwise."""

    def __init__(self, port, cid_num=2, info=True, timeout=5):
        self.sockets = []
        paths, session = os.urandom(16), os.urandom(16)
        try:
            for cid in range(cid_num):
                self.sockets.append(connect(port, conn_req(cid, cid_num, paths, session), timeout))
            if info:
                self.info()
        except BaseException:
            self.close()
            raise

    def info(self):
        message = struct.pack('<H', 0) + os.urandom(8).hex().encode().ljust(255, b'\0') + bytes(15)
        self.sockets[0].sendall(struct.pack('<BBHBBBBQ', 3, 0, 0, 0, 0, 16, 0, 16 + len(message)) + message)
        self.receive(0)

    def receive(self, con):
        """(immediate or None) of the next frame."""
        head = struct.unpack('<BBHBBBBQ', exact(self.sockets[con], 16))
        rest = exact(self.sockets[con], head[5] - 16)
        exact(self.sockets[con], head[7] - head[5])
        return struct.unpack_from('<Q', rest)[0] & 0xffffffff if head[2] & 1 else None

    def beat(self):
        """Asks for a sign of life and waits for it: the server still serves this path."""
        self.sockets[0].sendall(struct.pack('<BBHBBBBQ', 3, 4, 1, 0, 1, 48, 0, 48) + struct.pack('<Q', HB_MSG) +
                                struct.pack('<QQQ', 0, 0, 0))
        while self.receive(0) != HB_ACK:
            pass

    def close(self):
        for sock in self.sockets:
            sock.close()


class Daemon:
    def __init__(self, *arguments, descriptors=1024, address_space=None, depth=128):
        self.log = tempfile.TemporaryFile('w+')
        inner = [URTRSD, '--port', '0', '--export', 'd=mem:16M', '--sess-queue-depth', str(depth), *arguments]

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        self.process = subprocess.Popen(inner, stderr=self.log, stdout=self.log, preexec_fn=limit)
        self.port = 0
        end = time.monotonic() + 120
        while not self.port and time.monotonic() < end and self.process.poll() is None:
            text = self.text()
            found = re.search(r'listening on 127\.0\.0\.1:(\d+)', text)
            if found and ' ready' in text:
                self.port = int(found.group(1))
            time.sleep(0.02)
        if not self.port:
            raise SystemExit('urtrsd did not start:\n' + self.text())

    def text(self):
        self.log.flush()
        return os.pread(self.log.fileno(), 1 << 22, 0).decode(errors='replace')

    def logged(self, pattern):
        end = time.monotonic() + 60
        while not re.search(pattern, self.text()) and time.monotonic() < end:
            time.sleep(0.02)
        check(re.search(pattern, self.text()), 'the log has a line like ' + pattern)

    def alive(self):
        return self.process.poll() is None

    def descriptors(self):
        return len(os.listdir('/proc/%d/fd' % self.process.pid))

    def resident_mib(self):
        with open('/proc/%d/status' % self.process.pid) as status:
            return int(re.search(r'VmRSS:\s+(\d+)', status.read()).group(1)) // 1024

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Beside:
    """A good session that asks for a sign of life ten times a second while something else happens."""

    def __init__(self, port):
        self.session = Session(port, timeout=60)
        self.error, self.beats, self.slowest = None, 0, 0.0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.done.is_set():
                begun = time.monotonic()
                self.session.beat()
                self.beats += 1
                self.slowest = max(self.slowest, time.monotonic() - begun)
                self.done.wait(0.1)
        except OSError as error:
            self.error = error

    def end(self, what):
        self.done.set()
        self.thread.join(70)
        check(self.error is None and not self.thread.is_alive(),
              '%s: the session beside it lives (%d signs of life, slowest after %.2f s, %s)' %
              (what, self.beats, self.slowest, self.error))
        self.session.close()


def silent_sockets():
    daemon = Daemon(descriptors=256)
    beside = Beside(daemon.port)
    held, end = [], time.monotonic() + 9
    peak = 0
    while time.monotonic() < end:
        try:
            held.append(socket.create_connection(('127.0.0.1', daemon.port), 1))
        except OSError:
            time.sleep(0.05)
        if len(held) > 400:
            held.pop(0).close()
        peak = max(peak, daemon.descriptors())
        time.sleep(0.002)
    newcomer = Session(daemon.port)
    newcomer.close()
    for sock in held:
        sock.close()
    beside.end('sockets that say nothing, up to %d of 256 descriptors' % peak)
    daemon.stop()


def descriptors_used_up():
    daemon = Daemon(descriptors=200)
    beside = Beside(daemon.port)
    held, errors = [], []
    end = time.monotonic() + 20
    while len(errors) < 4 and time.monotonic() < end:
        try:
            held.append(Session(daemon.port, cid_num=136, timeout=10))
        except (OSError, Refused) as error:
            errors.append(error)
    check(daemon.alive(), 'sessions of 136 connections with 200 descriptors: urtrsd lives')
    check(len(errors) == 4 and all(isinstance(e, (Refused, ConnectionResetError)) for e in errors),
          'those are refused: %s' % ', '.join(str(e) for e in errors))
    check(any(isinstance(e, Refused) and e.error == 12 for e in errors), 'with ENOMEM')
    for one in held:
        one.close()
    time.sleep(0.5)
    Session(daemon.port).close()
    beside.end('descriptors used up')
    daemon.stop()


def memory_used_up():
    daemon = Daemon(descriptors=4096, address_space=900 << 20, depth=512)
    beside = Beside(daemon.port)
    held, errors = [], []
    end = time.monotonic() + 30
    while len(errors) < 4 and len(held) < 60 and time.monotonic() < end:
        try:
            held.append(Session(daemon.port, cid_num=12, timeout=10))
        except (OSError, Refused) as error:
            errors.append(error)
    check(daemon.alive() and bool(errors), '%d sessions in 900 MiB, then: %s; urtrsd %s' % (
        len(held), ', '.join(str(e) for e in errors), 'lives' if daemon.alive() else 'is gone'))
    for one in held:
        one.close()
    time.sleep(0.5)
    Session(daemon.port).close()
    beside.end('memory used up')
    daemon.stop()


def half_open_sessions():
    daemon = Daemon('--max-sessions', '32', descriptors=1024)
    beside = Beside(daemon.port)
    before, held = daemon.resident_mib(), []
    for _ in range(120):
        try:
            held.append(connect(daemon.port, conn_req(0, 2, os.urandom(16), os.urandom(16))))
        except (OSError, Refused) as error:
            held.append(error)
    begun = time.monotonic()
    Session(daemon.port).close()
    check(time.monotonic() - begun < 5, 'a newcomer is in after %.2f s' % (time.monotonic() - begun))
    grown = daemon.resident_mib() - before
    check(grown < 32, '120 connect requests cost %d MiB of memory' % grown)
    beside.end('120 connect requests without INFO_REQ')
    for one in held:
        if isinstance(one, socket.socket):
            one.close()
    daemon.stop()


def sessions_of_one_address():
    daemon = Daemon('--max-sessions', '8', '--max-host-sessions', '3', descriptors=1024)
    held = [Session(daemon.port) for _ in range(3)]
    try:
        held.append(Session(daemon.port))
        error = None
    except Refused as refused:
        error = refused.error
    check(error == 12, 'the fourth session of an address that may have three: errno %s' % error)
    daemon.logged(r'refused a connect request: peer=127\.0\.0\.1:\d+ reason=too_many_sessions errno=12')
    daemon.logged(r'session=2 name="[^"]+" peer=127\.0\.0\.1:\d+ opened')
    check('peer= ' not in daemon.text(), 'every line of a path names its peer')
    for one in held:
        one.beat()
        one.close()
    daemon.stop()


def half_requests():
    daemon = Daemon(descriptors=1024)
    beside = Beside(daemon.port)
    stop = threading.Event()

    def attack():
        held = []
        while not stop.wait(0.01):
            try:
                sock = socket.create_connection(('127.0.0.1', daemon.port), 1)
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
        Session(daemon.port).close()
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.1)
    stop.set()
    attacker.join()
    check(slowest < 5, 'newcomers beside 100 half connect requests a second: slowest %.2f s' % slowest)
    beside.end('half connect requests')
    daemon.stop()


def key_of_nothing():
    """A write whose bounds wrap around, through the key of empty writes, reaches no memory. It ends the process where
    the provider copies it there itself."""
    for offset in (64, 1 << 16, 1 << 18):
        write_behind_nothing(offset)


def write_behind_nothing(offset):
    daemon = Daemon()
    mark = os.urandom(16)
    if daemon.alive():
        sock = connect(daemon.port, conn_req(0, 2, os.urandom(16), os.urandom(16)))
        sock.sendall(struct.pack('<BBHBBBBQ', 3, 4, 0, 0, 1, 40, 0, 40 + len(mark)) +
                     struct.pack('<QQQ', offset, (1 << 64) - offset, 0) + mark)
        sock.settimeout(2)
        try:
            while sock.recv(64):
                pass
        except OSError:
            pass
        sock.close()
    time.sleep(0.3)
    found = 0
    if daemon.alive():
        with open('/proc/%d/maps' % daemon.process.pid) as maps, open('/proc/%d/mem' % daemon.process.pid, 'rb', 0) as mem:
            for line in maps:
                start, end = (int(x, 16) for x in line.split()[0].split('-'))
                if 'rw' not in line.split()[1] or end - start > 1 << 28:
                    continue
                try:
                    mem.seek(start)
                    found += mem.read(end - start).count(mark)
                except OSError:
                    pass
    # Not zero: the bytes of any message are in the provider's receive buffer before a key is looked at. A write that
    # reached memory would be a second copy, and the provider that makes one itself ends the process at these offsets.
    check(found <= 1, 'a write through key 0, %d bytes behind its start, is in the memory %d times; urtrsd %s' % (
        offset, found, 'lives' if daemon.alive() else 'has ended'))
    daemon.stop()


def untrusted_network():
    loopback = Daemon()
    check('trusted' not in loopback.text(), 'no warning on loopback')
    loopback.stop()
    everywhere = subprocess.Popen([URTRSD, '--port', '0', '--listen', '0.0.0.0', '--export', 'd=mem:1M'],
                                  stderr=subprocess.PIPE)
    seen = ''
    end = time.monotonic() + 30
    while ' ready' not in seen and time.monotonic() < end:
        if select.select([everywhere.stderr], [], [], 1)[0]:
            seen += os.read(everywhere.stderr.fileno(), 65536).decode()
    everywhere.kill()
    everywhere.wait()
    check(re.search(r'warning .*0\.0\.0\.0.*trusted', seen) is not None, 'a warning on any other address')


soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
CASES = [silent_sockets, descriptors_used_up, memory_used_up, half_open_sessions, sessions_of_one_address,
         half_requests, key_of_nothing, untrusted_network]
for case in CASES:
    if len(sys.argv) > 2 and case.__name__ not in sys.argv[2:]:
        continue
    print('--- ' + case.__name__, flush=True)
    try:
        case()
    except (OSError, Refused, SystemExit) as error:
        check(False, '%s: %s %s' % (case.__name__, type(error).__name__, error))
sys.exit(1 if failures else 0)
