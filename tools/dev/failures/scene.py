"""A server and a client on this host that record traces, a load, and what a test can put between or behind them."""
import contextlib
import json
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from programs import BOUND, PLUGIN, ROOT, Urtrsd, accepts, program, until

sys.path.append(str(ROOT / "tools/dev/netns-faults.d"))
from netns.network import Network, Unavailable, server_address  # noqa: E402  # pylint: disable=wrong-import-position

__all__ = ["HeldDisk", "Relay", "Scene", "Unavailable"]
SIZE = 4 << 20
BEAT = ("500ms", "5")  # a silent peer is dead after 3 to 3.5 s
LOOPBACK = ("127.0.0.1", "127.0.0.2")
ALL = ("connected", "connected")


class Load:
    """Writes and reads one block after the other through an NBD socket, until it is stopped. Counts IOs and errors."""

    def __init__(self, socket_file):
        import nbd  # pylint: disable=import-outside-toplevel
        self.error, self.done, self.errors, self.stopped = nbd.Error, 0, 0, False
        self.device = nbd.NBD()
        self.device.connect_unix(str(socket_file))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        block = 0
        while not self.stopped:
            block = (block + 7) % (SIZE // 4096)
            try:
                self.device.pwrite(bytes([block % 251]) * 4096, block * 4096)
                self.device.pread(4096, block * 4096)
                self.done += 2
                time.sleep(0.001)  # keeps the traces small
            except self.error:
                self.errors += 1
                if not self.device.aio_is_ready():
                    return
        with contextlib.suppress(self.error):
            self.device.shutdown()

    def progress(self, count=40):
        begin = self.done
        until("IO makes progress", lambda: self.done >= begin + count)

    def stop(self):
        self.stopped = True
        self.thread.join(BOUND)


class Scene:
    """A server and a client in a folder. `paths`: addresses of the server. `draw`: chooses what a run leaves open."""

    def __init__(self, folder, ends, seed=0):
        self.folder, self.ends, self.draw = pathlib.Path(folder), ends, random.Random(seed)
        self.paths, self.prefixes, self.network = LOOPBACK, {"server": (), "client": ()}, None
        self.server_traces, self.server, self.nbdkit, self.load = [], None, None, None

    def file(self, name):
        return self.folder / name

    def use_network(self):
        """Puts server and client into namespaces of their own; raises Unavailable."""
        self.network = self.ends.enter_context(Network("why"))
        self.paths = [server_address(path) for path in (0, 1)]
        self.prefixes = {side: ("ip", "netns", "exec", getattr(self.network, side)) for side in self.prefixes}

    def start_server(self, *options):
        """Starts urtrsd, with a trace of its own, and waits until it is ready."""
        self.server_traces.append(self.file(f"server{len(self.server_traces) + 1}.rtrc"))
        more = [f"--trace={self.server_traces[-1]}", "--trace-detail=wire", f"--heartbeat-interval={BEAT[0]}", f"--heartbeat-missed={BEAT[1]}",
                f"--control={self.file('control')}", *(f"--listen={address}" for address in self.paths), *options]
        if self.server is None:
            self.server = Urtrsd(self.file("urtrsd.log"), *more, prefix=self.prefixes["server"])
            self.ends.callback(lambda: self.server.end(signal.SIGKILL))
        else:
            self.server.arguments = more
            self.server.start()
        self.server.ready()

    def disk(self, source="mem:4M"):
        return f"--export=disk={source}"

    def start_client(self, *options, paths=None, works=True):
        """Starts nbdkit. Unless it is to fail, waits until all paths are connected and a load runs."""
        ready = self.file("nbdkit.pid")
        with self.file("nbdkit.log").open("w") as log:
            self.nbdkit = subprocess.Popen(
                [*self.prefixes["client"], "nbdkit", "-f", "-U", self.file("nbd.sock"), "-P", ready, PLUGIN,
                 *(f"path={address}" for address in paths or self.paths), f"port={self.server.port}", "device=disk", "session=host", "policy=rr",
                 f"control={self.file('client.sock')}", f"heartbeat_interval={BEAT[0]}", f"heartbeat_missed={BEAT[1]}", "reconnect_min=200ms",
                 "reconnect_max=500ms", f"trace={self.file('client.rtrc')}", "trace_detail=wire", f"status={self.file('status')}", *options],
                stdin=subprocess.DEVNULL, stderr=log)
        self.ends.callback(self.nbdkit.wait)
        self.ends.callback(self.nbdkit.kill)
        until("nbdkit listens or has exited", lambda: ready.exists() or self.nbdkit.poll() is not None)
        if not works:
            return
        assert self.nbdkit.poll() is None, self.file("nbdkit.log").read_text()
        self.load = Load(self.file("nbd.sock"))
        self.load.progress()

    def states(self):
        with contextlib.suppress(OSError, ValueError):
            return tuple(path["state"] for path in json.loads(self.file("status").read_text())["paths"])
        return ()

    def until_connected(self):
        until(lambda: f"all paths are connected: {self.states()}", lambda: self.states() == ALL)

    def until_lost(self, path=None):
        def lost():
            states = self.states()
            return states and all(one != "connected" for one in (states if path is None else states[path:path + 1]))
        until(f"path {path} is lost", lost)

    def until_logged_loss(self):
        """Waits until the client has logged a loss, after which it may have connected the path again."""
        until("the client has lost a path", lambda: re.search(r"\[\w+\]", self.file("nbdkit.log").read_text()))

    def until_recorded(self):
        """Waits until the files have all records of this moment. Blocks are written when they are full or a second old."""
        sizes = [trace.stat().st_size for trace in self.traces()]
        until("the traces have grown", lambda: all(trace.stat().st_size > size for trace, size in zip(self.traces(), sizes)))

    def until_hang(self, seconds=1):
        """Waits until the trace of the client shows a request that is not answered for so long."""
        def found():
            done = subprocess.run([program("urtrs-replay"), "stat", "--json", "--hang-after", f"{seconds}s", self.file("client.rtrc")],
                                  capture_output=True, text=True, timeout=BOUND, check=False)
            with contextlib.suppress(ValueError):
                return json.loads(done.stdout)["unanswered"]
            return None
        until("a request is not answered", found)

    def urtrs(self, *words):
        done = subprocess.run([program("urtrs"), *words], capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def finish(self):
        """Ends the load, the client and the server, and returns the traces."""
        if self.load is not None:
            self.load.stop()
        if self.nbdkit.poll() is None:
            self.nbdkit.terminate()
            self.nbdkit.wait(BOUND)
        self.server.end()
        return self.traces()

    def traces(self):
        return [self.file("client.rtrc"), *self.server_traces]

    def copies(self):
        """Copies the traces of processes that still run."""
        copies = []
        for trace in self.traces():
            copies.append(self.folder / "copy" / trace.name)
            copies[-1].parent.mkdir(exist_ok=True)
            shutil.copy(trace, copies[-1])
        return copies


class HeldDisk:
    """An NBD server that holds the disk of the server."""

    def __init__(self, scene, *filters):
        self.socket = scene.file("held.sock")
        names = [one for one in filters if one.startswith("--")]
        rest = [one for one in filters if not one.startswith("--")]
        self.process = subprocess.Popen(["nbdkit", "-f", "-U", self.socket, *names, "memory", "4M", *rest], stdin=subprocess.DEVNULL)
        scene.ends.callback(self.process.wait)
        scene.ends.callback(self.process.kill)
        until("the NBD server listens", lambda: accepts(self.socket))
        self.uri = f"nbd+unix:///?socket={self.socket}"


class Relay:
    """Relays TCP to the server. After flip(), changes one bit of the next large piece of data in one direction."""

    def __init__(self, scene, to_server):
        self.listener = socket.create_server(("127.0.0.1", 0))
        scene.ends.callback(self.listener.close)
        self.port, self.target, self.to_server, self.wanted = self.listener.getsockname()[1], scene.server.port, to_server, False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                other = socket.create_connection(("127.0.0.1", self.target))
                for source, sink, to_server in ((one, other, True), (other, one, False)):
                    sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self.forward, args=(source, sink, to_server), daemon=True).start()

    def forward(self, source, sink, to_server):
        with contextlib.suppress(OSError):
            while data := source.recv(262144):
                if self.wanted and to_server == self.to_server and len(data) >= 4096:
                    self.wanted = False
                    data = data[:2048] + bytes([data[2048] ^ 1]) + data[2049:]
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
