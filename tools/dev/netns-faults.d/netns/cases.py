"""The test cases: each has a script of faults and an expected result."""
import dataclasses

NONE = frozenset()
BOTH = frozenset((0, 1))
ONE = frozenset((1,))


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    script: str
    lost: frozenset = NONE  # paths that must be lost at least once, which proves that the fault had an effect
    may_lose: frozenset = NONE  # further paths that are allowed to be lost
    errors: tuple = ()  # patterns of errors: each pattern must match an error, and each error must match a pattern
    heals: bool = True  # True: all paths must be connected at the end
    clients: int = 1
    rate: int = 1500  # requests per second per client
    storage_ms: int = 0  # delay of each IO at the export, in milliseconds
    queue: float = 60.0  # seconds that a request waits while no path is connected
    disk_kib: int = 0  # size of the disk with the image in KiB; 0: large enough for the image
    seconds: int = 60  # maximum duration of the case, in seconds


CASES = [
    Case("calm", "nothing happens", "run 3"),
    Case("one-way-to-server", "what the client sends over a path vanishes",
         "run 1; drop 1 to-server; lost 1; run 1; heal 1; settle; run 1", lost=ONE),
    Case("one-way-to-client", "what the server sends over a path vanishes",
         "run 1; drop 1 to-client; lost 1; run 1; heal 1; settle; run 1", lost=ONE),
    Case("both-ways", "a path is silent in both directions",
         "run 1; drop 1 both; lost 1; run 1; heal 1; settle; run 1", lost=ONE),
    Case("one-connection", "one connection of a path delivers nothing, the others do",
         "run 1; hole 1; lost 1; run 1; heal 1; settle; run 1", lost=ONE),
    Case("short-outage", "both paths are silent for less than the dead time",
         "run 1; drop all both; run 0.5; heal all; run 2"),
    Case("link-down", "a cable is pulled and put back",
         "run 1; link 1 down; lost 1; run 1; link 1 up; settle; run 1", lost=ONE),
    Case("flap", "a cable with a bad contact: short and long losses in turn",
         "run 1; link 1 down; run 0.3; link 1 up; run 0.4; link 1 down; run 2; link 1 up; run 0.3; link 1 down; run 0.2;"
         " link 1 up; run 0.7; link 1 down; run 2.5; link 1 up; settle; run 1", lost=ONE),
    Case("rate-limit", "a path has 20 Mbit/s only", "run 1; rate 1 20mbit; run 4; heal 1; settle; run 1", may_lose=ONE),
    Case("loss", "each hundredth packet vanishes on both paths", "run 1; lose all 1%; run 5; heal all; settle; run 1",
         may_lose=BOTH),
    Case("rst", "a firewall resets the connections of a path",
         "run 1; reset 1; lost 1; run 1; heal 1; settle; run 1", lost=ONE),
    Case("rst-all", "all connections are reset at once",
         "run 1; reset all; lost all; run 0.5; heal all; settle; run 1", lost=BOTH),
    Case("syn-drop", "after a reset new connections get no answer",
         "run 1; refuse 1; reset 1; lost 1; heal 1 reset; run 4; heal 1; settle; run 1", lost=ONE),
    Case("server-stop-cont", "the server is stopped for less than the dead time",
         "run 1; stop server; run 0.6; cont server; run 2"),
    Case("client-stop-cont", "the client stands still for less than the dead time",
         "run 1; stop client; run 0.6; cont client; run 2"),
    Case("pause-beyond-dead-time", "the server stands still for longer than the dead time",
         "run 1; stop server; run 3; cont server; settle; run 1", lost=BOTH),
    Case("client-pause-beyond-dead-time", "the client stands still for longer than the dead time",
         "run 1; stop client; run 3; cont client; settle; run 1", lost=BOTH),
    Case("server-kill-restart", "the server is killed and started again",
         "run 1; kill server; run 1; start server; settle; run 1", lost=BOTH),
    Case("server-term-restart", "the server is ended properly and started again",
         "run 1; term server; run 1; start server; settle; run 1", lost=BOTH),
    Case("client-kill-restart", "the client is killed; a new client uses the same cells",
         "run 1; kill client; run 0.3; start client; run 2"),
    Case("slow-disk", "storage takes a second for each request, and a path goes away under it",
         "run 2; link 1 down; lost 1; run 2; link 1 up; settle; run 2", lost=ONE, storage_ms=1000),
    Case("disk-full", "the server's disk is full, and later has room again",
         "run 1; failed; run 1; grow disk; run 2", errors=("write: No space left on device",), disk_kib=512),
    Case("disk-error", "the server's storage refuses half of the cells (EFBIG, EIO on the wire), and later takes them again",
         "run 1; limit image; failed; run 1; unlimit image; run 2", errors=("write: Input/output error",)),
    Case("all-paths-down-then-up", "no path is left for a while",
         "run 1; link all down; lost all; run 1; link all up; settle; run 1", lost=BOTH),
    Case("one-path-down-while-other-returns", "a path is lost while the other one reconnects",
         "run 1; link 0 down; lost 0; run 0.5; link 0 up; link 1 down; lost 1; run 1; link 1 up; link 0 down; run 2;"
         " link 0 up; settle; run 1", lost=BOTH),
    Case("server-restart-with-other-depth", "the server comes back with another queue depth: the session cannot go on",
         "run 1; term server; start server --queue-depth 32; failed; finish client; start client; settle; run 2",
         lost=BOTH, errors=("(read|write): no path is connected",), heals=False, queue=4),
    Case("two-clients", "two clients with a device each while a cable is pulled",
         "run 1; link 1 down; lost 1; run 1; link 1 up; settle; run 1", lost=ONE, clients=2, rate=800),
    Case("remove-add-path-under-load", "a path is removed and added again by its operator",
         "run 1; remove 1; run 1; add 1; settle; run 1"),
]
BY_NAME = {case.name: case for case in CASES}
# Cases that CTest runs: the shortest cases that use the whole test setup.
SHORT = ("calm", "link-down")


def own(script):
    """Returns a case with a script from the command line. Only the rules that hold for every case are checked."""
    return Case("own", "a script from the command line", script, may_lose=BOTH, errors=("(read|write): .*",), heals=False)
