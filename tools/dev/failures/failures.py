#!/usr/bin/env python3
"""Records runs that fail in a known way, real and simulated, so that somebody who does not know the cause can read what `urtrs-replay
why` says of them.

Each failure gets a number by chance. OUT/read/NN.txt has what `why` and `stat` print, without the cause; OUT/key.md has the causes;
OUT/runs/NN has the traces. Real runs use urtrsd, nbdkit and python3-libnbd on this host; those with a network of their own need root,
iproute2 and nftables.

Example:
  tools/dev/failures/failures.py /tmp/failures --seed 7
"""
import argparse
import contextlib
import pathlib
import random
import subprocess
import sys
from typing import NamedTuple

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "lib/testing"))
from programs import BOUND, ROOT, program  # noqa: E402  # pylint: disable=wrong-import-position
from real_runs import REAL  # noqa: E402  # pylint: disable=wrong-import-position
from scene import Scene, Unavailable  # noqa: E402  # pylint: disable=wrong-import-position

SCENARIOS = ROOT / "tools/urtrs-replay/why.scenarios"


class Failure(NamedTuple):
    name: str  # function of real_runs.py, or scenario: of why.scenarios, or (in capitals) of the simulator
    cause: str  # what a reader of `why` must find
    shows: str  # regular expression of a sentence of `why`


FAILURES = (
    Failure("stopped_server", "the server process did not run (stopped) for some seconds", r"cause: the process of the server did not run"),
    Failure("killed_server", "the server process was killed; another one was started", r"cause: the trace of the server ends .*its process was killed"),
    Failure("ended_server", "the server was shut down in order, closing the session; another one was started", r"cause: the session was closed by request, .*whose process ended"),
    Failure("killed_client", "the client process was killed", r"cause: the trace of the client ends .*its process was killed"),
    Failure("killed_client_server_only", "the client process was killed, or ended: the server's trace alone cannot tell", r"only a trace of the client tells whether it ended the session or was killed"),
    Failure("stopped_client", "the client process did not run (stopped) for some seconds", r"cause: the process of the client did not run"),
    Failure("hung_storage", "storage of the server does not answer", r"cause: storage has not completed it"),
    Failure("slow_storage", "storage of the server took seconds", r"cause: storage took "),
    Failure("failing_storage", "storage of the server failed writes with EIO", r"cause: storage failed an IO with errno 5 \(EIO\)"),
    Failure("hung_server", "the server process does not run, and the client still waits", r"cause: the trace of the server ends .*its process does not run, or was killed"),
    Failure("cut_path", "the network of one path delivered nothing in both directions", r"cause: .* did not arrive on (connection \d of )?path [01]"),
    Failure("cut_one_way", "the network of one path delivered nothing", r"cause: .* did not arrive on (connection \d of )?path [01]"),
    Failure("hole", "one connection of a path delivered nothing", r"cause: .* did not arrive on connection \d of path [01]"),
    Failure("reset", "connections of one path were reset by something that is neither client nor server", r"cause: neither side closed the connection first"),
    Failure("cut_both", "the network of both paths delivered nothing", r"cause: .* did not arrive on (connection \d of )?path [01][^$]*path [01] was lost too"),
    Failure("refused_path", "nothing listens at the address of one path: connection refused", r"cause: the connect request .* connect_refused .*nothing listens there"),
    Failure("missing_export", "the server has no export of the name that the client asked for", r"device_absent"),
    Failure("refused_address", "the server does not allow the address of the client", r"cause: the connect request .*EACCES.* an access rule or a key of the server refused it"),
    Failure("wrong_key", "client and server have different TLS keys", r"cause: the connect request .* failed: tls_failed"),
    Failure("operator_of_client", "an operator disconnected one path at the client", r"cause: an operator disconnected path"),
    Failure("operator_of_server", "an operator disconnected the session at the server", r"cause: the session was closed by request, and with it path \d at the server \["),
    Failure("damaged_data", "a message was damaged on the way: a checksum was wrong", r"cause: the transport of the (client|server) rejected what arrived: it was damaged"),
    Failure("request_timeout", "storage took longer than the request timeout of the client", r"cause: storage had the request for \S+ m?s and had not completed it"),
    Failure("smaller_server", "the server restarted with a smaller queue depth", r"the server announced queue depth 4"),
    Failure("crowded", "the server has no room for the session of another client", r"cause: the server rejected the connect request .*: too_many_sessions"),
    Failure("L27", "INFO_RSP of the server did not arrive", r"cause: .* of the server \(first INFO_RSP\) did not arrive"),
    Failure("R59b", "the server process ended, and another one began much later", r"cause: the process of the server ended and began again"),
    Failure("HC16", "the client sent a request of a type that does not exist", r"the peer violated the protocol: bad_type"),
    Failure("L16j", "the server announced a key for its chunks that does not exist", r"cause: A17: .*\n.*the server sent: .*\n.*the client got: .*\n.*INFO_RSP"),
    Failure("F54", "the server crashed and restarted", r"cause: the process of the server (had )?ended and beg[au]n again"),
    Failure("BD11", "the host of the server crashed with unflushed writes", r"cause: the process of the server (had )?ended and beg[au]n again"),
    Failure("F23b", "the network of one path delivered nothing to the client", r"cause: \d messages? of the server .* did not arrive on (connection \d of )?path 0"),
)


def record(failure, folder, seed):
    """Returns the traces of the run, the client's first. May raise Unavailable."""
    if failure.name in REAL:
        with contextlib.ExitStack() as ends:
            return REAL[failure.name](Scene(folder, ends, seed))
    own = ["--file", SCENARIOS] if failure.name.islower() else []
    subprocess.run([program("urtrs-sim"), "run", *own, "--scenario", failure.name, "--seed", str(seed), "--trace", folder / "run"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=4 * BOUND, check=False)
    traces = []
    for trace in sorted(folder.glob("run.*.rtrc")):  # client1, client2, server
        traces.append(trace.rename(trace.with_name(trace.name.removeprefix("run."))))
    assert traces, failure
    return traces


def said(verb, *words, folder):
    done = subprocess.run([program("urtrs-replay"), verb, *words], capture_output=True, text=True, timeout=4 * BOUND, check=False, cwd=folder)
    return f"$ urtrs-replay {verb} {' '.join(words)}\n{done.stdout}{done.stderr}"


def read(traces):
    """Returns what `why` and `stat` say."""
    folder = traces[0].parent
    names = [trace.name for trace in traces]
    return "\n".join([said("why", *names, folder=folder), *(said("stat", name, folder=folder) for name in names)])


def main():
    parser = argparse.ArgumentParser(prog="tools/dev/failures/failures.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="folder, must not exist")
    parser.add_argument("--seed", type=int, default=1, help="order, seeds of simulated runs, and paths that fail; default 1")
    parser.add_argument("--only", action="append", choices=[one.name for one in FAILURES], help="this failure; may be repeated")
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    (given.out / "read").mkdir()
    rows = [one for one in FAILURES if not given.only or one.name in given.only]
    random.Random(given.seed).shuffle(rows)
    key = ["| number | failure | cause |", "|---|---|---|"]
    for number, failure in enumerate(rows, 1):
        folder = given.out / f"runs/{number:02}"
        folder.mkdir(parents=True)
        try:
            text = read(record(failure, folder.resolve(), given.seed + number))
        except Unavailable as error:
            text, failure = "", failure._replace(cause=f"not recorded: {error}")
        (given.out / f"read/{number:02}.txt").write_text(text)
        key.append(f"| {number} | {failure.name} | {failure.cause} |")
        print(f"{number} of {len(rows)} recorded", flush=True)
    (given.out / "key.md").write_text("\n".join(key) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
