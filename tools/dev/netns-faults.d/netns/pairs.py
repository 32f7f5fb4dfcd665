"""Checks the simulator: each pair of consecutive events on a real connection must also occur in simulation."""
import concurrent.futures
import itertools
import json
import pathlib
import subprocess
import tempfile

SKIPPED = ("StateHash", "Snapshot", "Continued")  # records that do not count as events
DETAILS = ("reason", "status", "result", "kind")


def label(record):
    fields = record["fields"]
    return ":".join([record["event"], *(str(fields[name]) for name in DETAILS if isinstance(fields.get(name), str))])


def channel(record):
    fields = record["fields"]
    if "key.con" in fields:
        return (record["instance"], fields["key.path"], fields["key.con"], fields["key.epoch"])
    return None


def pairs_of(lines):
    """Returns the set of (side, previous event on the same connection, event) of a trace, given as JSON lines."""
    seen, last, sides = set(), {}, {}
    for line in lines:
        record = json.loads(line)
        event = record.get("event", "")
        if event.startswith("Begin"):
            sides[record["instance"]] = "client" if event == "BeginClient" else "server"
        if not event or event.startswith("Wire") or event in SKIPPED:
            continue
        where = channel(record)
        if where is None:
            continue
        words = label(record)
        seen.add((sides.get(record["instance"], "?"), last.get(where, "-"), words))
        last[where] = words
    return seen


def of_trace(replay, trace):
    done = subprocess.run((replay, "cat", "--json", trace), capture_output=True, text=True, check=False)
    return pairs_of(line for line in done.stdout.splitlines() if line.startswith('{"seq"'))


def of_world(build, *what):
    """Returns the event pairs of one simulated run."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "t"
        subprocess.run((build / "tools/urtrs-sim/urtrs-sim", "run", *what, "--trace", prefix), capture_output=True, check=False)
        seen = set()
        for trace in sorted(pathlib.Path(folder).glob("t.*.rtrc")):
            seen |= of_trace(build / "tools/urtrs-replay/urtrs-replay", trace)
        return seen


def scenarios(build):
    listed = subprocess.run((build / "tools/urtrs-sim/urtrs-sim", "list"), capture_output=True, text=True, check=False).stdout
    part = listed.partition("\nscenarios:\n")[2]
    return [line.split()[0] for line in itertools.takewhile(lambda line: line.startswith("  "), part.splitlines())]


def simulated(build, seeds, jobs, say):
    """Returns the pairs of all directed scenarios and `seeds` random runs, the number of scenarios, and the last seed
    with a new pair."""
    worlds = [("--scenario", name, "--seed", "0") for name in scenarios(build)]
    directed = len(worlds)
    worlds += [("--seed", str(seed)) for seed in range(seeds)]
    seen, last = set(), 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for number, new in enumerate(pool.map(lambda what: of_world(build, *what), worlds), 1):
            if new - seen:
                seen |= new
                last = max(0, number - 1 - directed)
            if number % 100 == 0:
                say(f"{number}/{len(worlds)} worlds: {len(seen)} pairs")
    return seen, directed, last


def only_real(real, sim):
    """Returns a description of each pair that occurred only on the real fabric, and whether the event itself occurs in simulation."""
    known = {(side, event) for side, _, event in sim}
    return [f"{side}: {before} -> {event}" + ("" if (side, event) in known else " (the event itself is new)")
            for side, before, event in sorted(real - sim)]
