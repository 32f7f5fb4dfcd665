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


RECORDED = pathlib.Path(__file__).resolve().parents[1] / "real_pairs.txt"
HEADER = """\
# Pairs of consecutive events on a connection in recorded runs of real processes: side, event, next event, and a simulated
# world that shows the pair (`urtrs-sim run ...`), or `missing:` and the reason why no world is known.
# `tools/dev/netns-faults run --all --pairs 300 --record` adds the pairs of a run.
"""
MISSING = "missing:"


def text_of(pair):
    side, before, event = pair
    return f"{side}: {before} -> {event}"


def recorded(file=RECORDED):
    """Returns {pair: world} of the list; a world is a list of arguments, or None for a missing pair."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        side, before, event, world = line.split("\t")
        found[side, before, event] = None if world.startswith(MISSING) else world.split()
    return found


def record(found, file=RECORDED, reason="no simulated world is known that shows it"):
    lines = ["\t".join((*pair, " ".join(world) if world else f"{MISSING} {reason}")) for pair, world in sorted(found.items())]
    file.write_text(HEADER + "".join(line + "\n" for line in lines), encoding="utf-8")


def worlds(build, known, seeds):
    """Yields the arguments of simulated runs: the worlds of the list, the scenarios made for it (RT01 and following) with
    several seeds, every directed scenario, and random worlds over queue pairs and over TCP."""
    yield from sorted({tuple(world) for world in known.values() if world})
    names = scenarios(build)
    yield from (("--scenario", name, "--seed", str(seed)) for name in names if name.startswith("RT") for seed in range(16))
    yield from (("--scenario", name, "--seed", "0") for name in names)
    for seed in range(seeds):
        yield ("--seed", str(seed))
        yield ("--seed", str(seed), "--fabric", "tcp")


def search(build, wanted, candidates, jobs, say):
    """Plays the worlds until each wanted pair was seen. Returns {pair: world} and the number of worlds played."""
    found, number = {}, 0
    candidates = iter(candidates)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while wanted - found.keys() and (some := list(itertools.islice(candidates, 8 * jobs))):
            for what, seen in zip(some, pool.map(lambda what: of_world(build, *what), some)):
                number += 1
                for pair in seen:
                    found.setdefault(pair, list(what))
            say(f"{number} worlds: {len(wanted - found.keys())} of {len(wanted)} pairs left")
    return found, number


def only_real(real, sim):
    """Returns a description of each pair that occurred only on the real fabric, and whether the event itself occurs in simulation."""
    known = {(side, event) for side, _, event in sim}
    return [text_of((side, before, event)) + ("" if (side, event) in known else " (the event itself is new)")
            for side, before, event in sorted(real - sim)]
