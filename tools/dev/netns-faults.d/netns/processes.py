"""Server and client processes in their namespaces, and their output."""
import json
import pathlib
import resource
import shlex
import signal
import subprocess
import threading
import time

from .network import client_address, server_address
from .script import PATHS

PORT = 1234
CELL = 4096
CELLS = 256
IMAGE_BYTES = 1 << 30
BASE = IMAGE_BYTES - CELLS * CELL  # the cells are at the end of the image, so that a size limit affects only cells


class Failure(Exception):
    """The case failed; the text names the expectation that was not met."""


def spawn(namespace, words, log, **more):
    # The process is killed when the thread that runs the case ends. A separate session keeps SIGINT of the
    # terminal from the process.
    return subprocess.Popen(("setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", namespace, *words),
                            stderr=log, start_new_session=True, **more)


def end_by_signal(process, number, limit):
    """Sends a signal and returns the exit code; kills the process and returns None if it does not exit within `limit`
    s."""
    if process.poll() is None:
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


class Server:
    def __init__(self, build, network, folder, case, timing):
        self.program = build / "tools/urtrsd/urtrsd"
        self.network, self.folder, self.case = network, folder, case
        self.disk = folder / "disk"
        self.disk.mkdir()
        exports = []
        for client in range(case.clients):
            delay = f",delay_ms={case.storage_ms}" if case.storage_ms else ""
            exports += ["--export", f"disk{client}={self.image(client)}{delay}"]
        self.options = ["--port", str(PORT), "--heartbeat-interval", f"{round(timing.heartbeat * 1000)}ms",
                        "--heartbeat-missed", str(timing.missed), "--trace-detail", "wire", *exports]
        for path in range(PATHS):
            self.options += ["--listen", server_address(path)]
        self.process = None
        self.traces = []  # one trace per process, oldest first
        self.killed = set()  # traces of the processes that were killed
        if not case.disk_kib:
            for client in range(case.clients):
                self._make_image(client)

    def image(self, client):
        return self.disk / f"disk{client}.img"

    def _make_image(self, client):
        with open(self.image(client), "wb") as file:
            file.truncate(IMAGE_BYTES)

    def start(self, more=(), limit=20):
        self.traces.append(self.folder / f"server{len(self.traces)}.rtrc")
        words = [self.program, *self.options, "--trace", self.traces[-1], *more]
        if self.case.disk_kib:
            # The mount belongs to the mount namespace of the process, so that the mount disappears when the
            # process exits.
            words = ["sh", "-c", f"mount -t tmpfs -o size={self.case.disk_kib}k none {shlex.quote(str(self.disk))} && "
                     f"truncate -s {IMAGE_BYTES} {shlex.quote(str(self.image(0)))} && exec {shlex.join(map(str, words))}"]
        log_file = self.folder / f"server{len(self.traces) - 1}.log"
        with open(log_file, "w", encoding="utf-8") as log:
            self.process = spawn(self.network.server, words, log, stdin=subprocess.DEVNULL, stdout=log)
        end = time.monotonic() + limit
        # Searches all lines: a waiting client may connect immediately, which is logged after the ready line.
        while not any(line.endswith(" ready") for line in log_file.read_text(encoding="utf-8").splitlines()):
            if self.process.poll() is not None:
                raise Failure(f"urtrsd did not start: {log_file.read_text(encoding='utf-8')[-300:].strip()}")
            if time.monotonic() > end:
                raise Failure(f"urtrsd was not ready after {limit} s")
            time.sleep(0.02)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.killed.add(self.traces[-1])
        self.process.kill()
        self.process.wait()

    def terminate(self):
        code = end_by_signal(self.process, signal.SIGTERM, 40)
        if code != 0:
            raise Failure("urtrsd did not end within 40 s of SIGTERM" if code is None else
                          f"urtrsd ended with {code}; see its log")

    def limit_image(self, on):
        hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        soft = BASE + CELLS * CELL // 2 if on else hard
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (soft, hard))

    def grow_disk(self):
        done = subprocess.run(("nsenter", "-t", str(self.process.pid), "-m", "mount", "-o", "remount,size=64m",
                               str(self.disk)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"the disk cannot be made larger: {done.stderr.strip()}")

    def image_as_seen(self, client):
        """Returns a path with which this test can open the image of the running server."""
        return pathlib.Path(f"/proc/{self.process.pid}/root{self.image(client).resolve()}")

    def check_alive(self):
        if self.process is not None and self.process.poll() not in (None, 0, -signal.SIGKILL):
            raise Failure(f"urtrsd ended by itself with {self.process.returncode}; see {self.traces[-1].stem}.log")


class Client:
    """A client: a process of netns-load. `events`: its output, oldest first."""

    def __init__(self, build, network, folder, case, timing, *, number, device, seed):
        self.number, self.device, self.network = number, device, network
        self.name = f"client{number}"
        self.history = folder / f"{self.name}.history"
        self.trace = folder / f"{self.name}.rtrc"
        self.killed = False
        self.events = []
        self.news = threading.Condition()
        self.asked_to_remove = set()
        words = [build / "tools/dev/netns-faults.d/load/netns-load", "run", "--port", PORT, "--session", f"netns-{device}",
                 "--device", f"disk{device}", "--client", number, "--seed", seed, "--base", BASE, "--cells", CELLS,
                 "--rate", case.rate, "--history", self.history, "--trace", self.trace,
                 "--missed", timing.missed]
        for name, seconds in (("heartbeat", timing.heartbeat), ("connect", timing.connect), ("info", timing.info),
                              ("fence", timing.fence), ("queue", timing.queue), ("jitter", timing.jitter),
                              ("reconnect-min", timing.reconnect_min), ("reconnect-max", timing.reconnect_max)):
            words += [f"--{name}-ms", round(seconds * 1000)]
        for path in range(PATHS):
            words += ["--path", self.path(path)]
        with open(folder / f"{self.name}.log", "w", encoding="utf-8") as log:
            self.process = spawn(network.client, [str(word) for word in words], log, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.said = open(folder / f"{self.name}.events", "w", encoding="utf-8")
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()

    @staticmethod
    def path(path):
        return f"{client_address(path)}@{server_address(path)}"

    def _listen(self):
        for line in self.process.stdout:
            self.said.write(line)
            self.said.flush()
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "garbled", "line": line}
            with self.news:
                self.events.append(event)
                self.news.notify_all()
        with self.news:
            self.events.append({"event": "silent"})
            self.news.notify_all()

    def order(self, text):
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Failure(f"{self.name} is gone; see its log") from None

    def find(self, kind, since=0):
        with self.news:
            return [event for event in self.events[since:] if event["event"] == kind]

    def states(self):
        """Returns the latest state of each path."""
        states = {}
        for event in self.find("path"):
            states[event["path"]] = event["state"]
        return states

    def losses(self):
        """Returns (path, time, reason) of each path loss. A path that was closed on request does not count."""
        lost, connected = [], set()
        for event in self.find("path"):
            if event["state"] == "connected":
                connected.add(event["path"])
            elif event["path"] in connected:
                connected.discard(event["path"])
                if event["reason"] not in ("requested", "session_closed", "path_removed"):
                    lost.append((event["path"], event["at"], event["reason"]))
        return lost

    def summary(self):
        done = self.find("done")
        return done[-1] if done else None

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait()
        self.reader.join(5)

    def ended(self, limit):
        """Returns the exit code; None if the process still runs after `limit` seconds."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None

    def clean_up(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()


class Lateness:
    """Measures the worst wake-up delay of a sleeping process on this host, in seconds."""

    STEP = 0.01

    def __init__(self):
        self.worst = 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._measure, daemon=True)

    def _measure(self):
        while not self.over.is_set():
            begin = time.monotonic()
            time.sleep(self.STEP)
            self.worst = max(self.worst, time.monotonic() - begin - self.STEP)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
