"""Helpers of the Python tests: the programs of a build, urtrsd as a process, waiting with a time limit."""
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("URTRS_BUILD_DIR", ROOT / "build/release")).resolve()
TRACES = ROOT / "tools/dev/traces/whole"
CAPTURES = ROOT / "conformance/captures"
PLUGIN = BUILD / "tools/nbdkit/nbdkit-urtrs-plugin.so"
BOUND = 60  # seconds; generous time limit for operations that normally take less than one second


def program(name):
    return str(BUILD / "tools" / name / name)


def free_port():
    """Returns a port that is free on every local address. The port is below the range of outgoing connections, because
    the client of another test could be given a port of that range before the server listens."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as ports:
        first_outgoing = int(ports.read().split()[0])
    for port in random.sample(range(min(10000, first_outgoing // 2), first_outgoing), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise AssertionError(f"100 ports below {first_outgoing} are all taken")


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def accepts(path):
    """Tells whether a process listens at a unix socket. Its file exists earlier, when a connection is still refused."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        return any(line.split()[3] == "00010000" and line.rstrip("\n").endswith(f" {path}") for line in sockets)


def until(what, condition, seconds=BOUND):
    """Waits until condition() is true and returns its result. `what`, a text or a function that returns it, describes
    the condition in the error message."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what}: not within {seconds} s")
        time.sleep(0.02)
    return result


def stand_still(process):
    """Sends SIGSTOP and waits until the process has stopped, because the signal alone takes effect later."""
    process.send_signal(signal.SIGSTOP)
    stat = pathlib.Path(f"/proc/{process.pid}/stat")
    until("the process stands still", lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T")


class Urtrsd:
    """urtrsd on a free port, with its log in a file. start() after end() uses the same port. `prefix`: words in front of
    the command, such as `ip netns exec NAME`."""

    def __init__(self, log, *arguments, prefix=(), **options):
        self.log, self.arguments, self.prefix, self.options = pathlib.Path(log), arguments, prefix, options
        self.port = free_port()
        self.start()

    def start(self):
        with self.log.open("a", encoding="utf-8") as sink:
            self.begin = sink.tell()
            self.process = subprocess.Popen([*self.prefix, program("urtrsd"), f"--port={self.port}", *map(str, self.arguments)],
                                            stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, **self.options)
        return self

    def text(self):
        """Returns the log since the last start."""
        return self.log.read_bytes()[self.begin:].decode(errors="replace")

    def logged(self, pattern):
        """Waits until the log matches the pattern; fails if urtrsd exits first."""
        def found():
            return re.search(pattern, self.text())
        until(lambda: f"{pattern!r} in the log:\n{self.text()}", lambda: found() or self.process.poll() is not None)
        assert found(), f"urtrsd ended without {pattern!r} in the log:\n{self.text()}"
        return self

    def ready(self):
        return self.logged(" ready\n")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self, how=signal.SIGTERM):
        """Sends the signal, waits for the exit, and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(BOUND)
