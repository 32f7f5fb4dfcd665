"""Runs the script of one case, with its network and processes."""
import re
import signal
import threading
import time

from . import bounds
from .network import Network
from .processes import Client, Failure, Lateness, Server
from .script import PATHS, Step, parse

READS = 16  # successive requests of a client's final read (tools/dev/netns-faults.d/load/load.cpp)
NUMBER = {"stop": signal.SIGSTOP, "cont": signal.SIGCONT}


class Interrupted(Exception):
    """The user interrupted the run."""


class Run:
    """Runs a case in `folder`, which must be empty. Afterwards the results are in the members below."""

    def __init__(self, case, folder, build, seed, stop: threading.Event):
        self.case, self.folder, self.build, self.seed, self.stop = case, folder, build, seed, stop
        self.timing = bounds.Timing(queue=case.queue)
        self.steps = parse(case.script)
        self.outages = bounds.Outages(PATHS)
        self.partial = False  # a path was degraded without being cut
        self.extra = []  # terms that the faults of this script add to the bound of a request
        self.clients = []  # all clients, including those that have ended
        self.server = None
        self.rules = []  # log of the active rules
        self.notes = []  # (description, seconds, Bound) of each wait
        self.healed_at = None  # monotonic time at which the last storage fault ended, in ns
        self.lateness = 0.0

    def play(self, tag):
        """Runs the script and yields once, so that the caller can judge. Raises Failure, network.Unavailable or Interrupted."""
        with Network(tag) as self.network, Lateness() as lateness:
            self.meter = lateness
            self.server = Server(self.build, self.network, self.folder, self.case, self.timing)
            try:
                self.server.start()
                for device in range(self.case.clients):
                    self.start_client(device)
                for step in self.steps:
                    self.take(step)
                self.finish()
                yield  # the caller judges before the server ends, whose mount namespace may have the only mount of the disk
                self.server.terminate()
            finally:
                self.lateness = lateness.worst
                for client in self.clients:
                    client.clean_up()
                if self.server.process is not None and self.server.process.poll() is None:
                    self.server.kill()
                (self.folder / "rules").write_text("".join(self.rules), encoding="utf-8")

    # Steps of the script

    def take(self, step: Step):
        getattr(self, "do_" + step.word)(step)
        self.rules.append(f"-- after '{step}'\n{self.network.ruleset()}")
        self.check_alive()

    def do_run(self, step):
        if self.stop.wait(step.seconds()):
            raise Interrupted

    def do_drop(self, step):
        self.fault(step, "drop", step.arguments[1])

    def do_hole(self, step):
        for path in step.paths():
            self.outages.begin(path, time.monotonic())
            self.network.fault(path, "hole", self.network.busiest_connection(path))

    def do_lose(self, step):
        percent = int(step.arguments[1].rstrip("%"))
        # TCP retransmits after 0.2 s and doubles this time for each further retransmission. With 1 % loss,
        # more than four losses in a row have a probability below 10^-8.
        self.extra.append((f"four losses of {percent}% in a row", 0.2 * (2 ** 4 - 1)))
        self.partial = True
        for path in step.paths():
            self.network.fault(path, "lose", step.arguments[1])

    def do_reset(self, step):
        self.fault(step, "reset")

    def do_refuse(self, step):
        # The fault affects only new connections, so there is no outage.
        for path in step.paths():
            self.network.fault(path, "refuse")

    def fault(self, step, kind, argument=""):
        for path in step.paths():
            self.outages.begin(path, time.monotonic())
            self.network.fault(path, kind, argument)

    def do_rate(self, step):
        bits = int(re.match(r"\d+", step.arguments[1])[0]) * (1000 if step.arguments[1].endswith("kbit") else 1_000_000)
        in_flight = 16 * 16 * 4096 * 8  # bits in flight: depth x cells of the longest request x bytes of a cell x 8
        self.extra.append((f"all in flight at {step.arguments[1]}", in_flight / bits))
        self.partial = True
        for path in step.paths():
            self.network.rate(path, step.arguments[1])

    def do_link(self, step):
        for path in step.paths():
            if step.arguments[1] == "down":
                self.outages.begin(path, time.monotonic())
            self.network.link(path, step.arguments[1])
            if step.arguments[1] == "up":
                self.outages.end(path, time.monotonic())

    def do_heal(self, step):
        kind = step.arguments[1] if len(step.arguments) > 1 else None
        for path in step.paths():
            self.network.heal(path, kind)
            if not self.network.faults[path]:
                self.outages.end(path, time.monotonic())

    def do_stop(self, step):
        self.to(step).send_signal(NUMBER["stop"])
        self.all_out(True)

    def do_cont(self, step):
        self.to(step).send_signal(NUMBER["cont"])
        self.all_out(False)

    def to(self, step):
        return self.server.process if step.arguments[0] == "server" else self.clients[-1].process

    def all_out(self, begins):
        for path in range(PATHS):
            (self.outages.begin if begins else self.outages.end)(path, time.monotonic())

    def do_kill(self, step):
        if step.arguments[0] == "client":
            self.clients[-1].kill()
            return
        self.all_out(True)
        self.server.kill()

    def do_term(self, _):
        self.all_out(True)
        self.server.terminate()

    def do_start(self, step):
        if step.arguments[0] == "client":
            self.start_client(self.clients[-1].device)
            return
        self.server.start(step.arguments[1:])
        self.all_out(False)

    def do_finish(self, _):
        self.finish_client(self.clients[-1])

    def do_remove(self, step):
        path = int(step.arguments[0])
        self.clients[-1].order(f"remove {path}")
        self.wait(f"path {path} removed", bounds.settle_bound, lambda client: client.states().get(path) in
                  ("absent", "closed"), self.clients[-1:])

    def do_add(self, step):
        self.clients[-1].order("add " + Client.path(int(step.arguments[0])))

    def do_limit(self, _):
        self.server.limit_image(True)

    def do_unlimit(self, _):
        self.server.limit_image(False)
        self.healed_at = time.monotonic_ns()

    def do_grow(self, _):
        self.server.grow_disk()
        self.healed_at = time.monotonic_ns()

    def do_lost(self, step):
        for path in step.paths():
            begun = (self.outages.open[path] or time.monotonic()) * 1e9 - 1e6
            self.wait(f"path {path} lost", lambda timing, storage, late: bounds.lost_bound(timing, late),
                      lambda client, path=path, begun=begun: any(
                          lost == path and at >= begun for lost, at, _ in client.losses()))

    def do_settle(self, _):
        self.wait("all paths connected", bounds.settle_bound, lambda client: list(client.states().values()).count(
            "connected") >= PATHS and all(state in ("connected", "absent") for state in client.states().values()))

    def do_failed(self, _):
        """Waits until a request has failed. Reads the history file, because a client prints its failures only when it exits."""
        self.wait("a request failed", lambda timing, storage, late: bounds.Bound(
            [("requests without a path", timing.queue)]), lambda client: bool(
                re.search(r"^a \d+ (peer|gone) ", client.history.read_text(encoding="ascii"), re.MULTILINE)))

    # Helpers

    def start_client(self, device):
        client = Client(self.build, self.network, self.folder, self.case, self.timing, number=len(self.clients),
                        device=device, seed=self.seed)
        self.clients.append(client)
        self.wait("device mapped and all paths connected", bounds.settle_bound,
                  lambda one: one.find("mapped") and list(one.states().values()).count("connected") == PATHS, [client])

    def living(self):
        return [client for client in self.clients if client.process.poll() is None and not client.find("closed")]

    def wait(self, words, bound_of, is_so, clients=None):
        """Waits until is_so(client) holds for every client. Raises Failure after the bound; records the time it
        took."""
        begin = time.monotonic()
        for client in clients or self.living():
            while not is_so(client):
                bound = bound_of(self.timing, self.case.storage_ms / 1000, self.meter.worst)
                if time.monotonic() - begin > bound.seconds:
                    raise Failure(f"{client.name}: not within its bound: {words}; {bound}; paths: {client.states()}")
                if self.stop.is_set():
                    raise Interrupted
                self.check_alive()
                with client.news:
                    client.news.wait(0.05)
        self.notes.append((words, time.monotonic() - begin,
                           bound_of(self.timing, self.case.storage_ms / 1000, self.meter.worst)))

    def check_alive(self):
        self.server.check_alive()
        for client in self.clients:
            # Waits until the process has ended, because its last output may still be in the pipe.
            if client.find("silent") and not client.killed and not client.find("closed"):
                client.ended(5)
                why = "; ".join(event.get("why", "") for event in client.find("unmappable"))
                raise Failure(f"{client.name} ended by itself with {client.process.returncode} {why}; see its log")

    def finish_client(self, client):
        client.order("finish")
        # The bound covers the requests in flight and the final read. If no path is left, the first request of
        # the final read times out, too, so the bound contains two stall bounds.
        reading = (READS * self.case.storage_ms / 1000, READS * bounds.slack(self.meter.worst) / 10)
        bound = bounds.Bound([*self.stall_bound().terms, *self.stall_bound().terms,
                              ("storage of the last reading", reading[0]), ("its scheduling", reading[1])])
        begin = time.monotonic()
        while not client.find("closed"):
            if time.monotonic() - begin > bound.seconds:
                raise Failure(f"{client.name} does not end: {client.summary() or 'requests are stuck'}; {bound}")
            if self.stop.is_set():
                raise Interrupted
            self.check_alive()
            with client.news:
                client.news.wait(0.05)
        code = client.ended(10)
        if code != 0:
            raise Failure(f"{client.name} " + ("closed and did not end" if code is None else f"ended with {code}; see its log"))

    def finish(self):
        for path in range(PATHS):
            self.outages.end(path, time.monotonic())
        for client in self.living():
            client.last_states = client.states()
            self.finish_client(client)

    def stall_bound(self):
        extra = list(self.extra)
        if self.partial and any(event["state"] == "down" for client in self.clients for event in client.find("link")):
            extra.append(("both bad paths lost: comeback", self.timing.comeback))
        if not self.case.heals:
            extra.append(("requests without a path", self.timing.queue))
        return bounds.stall_bound(self.timing, self.outages, may_lose=bool(self.case.lost or self.case.may_lose),
                                  partial=self.partial, storage=self.case.storage_ms / 1000, lateness=self.meter.worst,
                                  extra=extra)
