"""urtrs-replay check on traces of simulated worlds. Effects of the network, restarts or late copies are no violations.
A message modified between the ends is never conforming. Traces of two different runs are inconclusive."""
import collections
import json
import os
import subprocess
from random import Random

from programs import program

TOOL, SIM = program("urtrs-replay"), program("urtrs-sim")
FIRST, LAST = map(int, os.environ.get("SEEDS", "0..24").split(".."))
LATE_COPY = 13451  # seed of a run without a fence, in which an older copy of a request overwrites newer data
verdicts = collections.Counter()


def run(*arguments):
    return subprocess.run([str(one) for one in arguments], capture_output=True, text=True, check=False)


def check(*traces):
    return json.loads(run(TOOL, "check", "--json", *traces).stdout)


def traces_of(seed, folder):
    # Excludes rare faults. With them, a client can restart with its former uuids, which violates the
    # protocol.
    run(SIM, "run", "--seed", seed, "--without", "rare_swarm,lie", "--trace", folder / f"world{seed}")
    return sorted(folder.glob(f"world{seed}.*.rtrc"))


def first(verdict):
    found = [one for trace in verdict["traces"] for one in trace["findings"]] + verdict["laws"]["findings"]
    return found[:1]


def changed(lines, random):
    """Flips one bit of a message that the server received. Returns None if the server received no message."""
    found = []
    for at, line in enumerate(lines):
        record = json.loads(line)
        if record.get("event") == "WireReceived":
            fields = record["fields"]
            if fields["op"] == "write_imm" and fields["length"] > 0 and (fields["digest"] or fields["head"]):
                found.append(at)
    if not found:
        return None
    at = random.choice(found)
    record = json.loads(lines[at])
    fields = record["fields"]
    # The RTRS header at the end of the message has its own rules. Only the sender knows the correct data before
    # that header.
    if fields["digest"]:
        fields["digest"] ^= 1 << random.randrange(64)
    else:
        fields["head"] = ("%02x" % (int(fields["head"][:2], 16) ^ 1)) + fields["head"][2:]
    return lines[:at] + [json.dumps(record)] + lines[at + 1:], record


def corrupted(seed, traces, folder, random):
    servers = [trace for trace in traces if ".server" in trace.name]
    if not servers:
        return
    server = random.choice(servers)
    lines = [line for line in run(TOOL, "cat", "--json", server).stdout.splitlines() if '"end"' not in line[:8]]
    done = changed(lines, random)
    if done is None:
        return
    text, made = folder / "changed.jsonl", folder / "changed.rtrc"
    text.write_text("\n".join(done[0]) + "\n")
    made.unlink(missing_ok=True)
    run(TOOL, "from-json", text, made)
    verdict = check(*[made if trace == server else trace for trace in traces])
    verdicts["corrupted, " + verdict["verdict"]] += 1
    assert verdict["verdict"] != "conforming", ("a changed message", seed, done[1], verdict["laws"])


def test_late_copy_is_no_violation(tmp_path):
    late = check(*traces_of(LATE_COPY, tmp_path))
    assert late["verdict"] != "violating", first(late)


def judge(seed, traces, folder):
    assert traces, f"seed {seed}: no traces"
    verdict = check(*traces)
    verdicts["innocent, " + verdict["verdict"]] += 1
    assert verdict["verdict"] != "violating", (seed, first(verdict))
    assert verdict["verdict"] == "conforming" or verdict["laws"]["contents_unproven"] > 0, \
        (seed, "inconclusive although all contents match", [trace["not_judged"] for trace in verdict["traces"]], verdict["laws"])
    for side in ("client", "server"):
        one = check(*[trace for trace in traces if f".{side}" in trace.name])
        assert one["verdict"] == "conforming", (seed, side, first(one))
    corrupted(seed, traces, folder, Random(seed))


def test_simulated_worlds_have_the_expected_verdict(tmp_path):
    former = None
    for seed in range(FIRST, LAST):
        traces = traces_of(seed, tmp_path)
        judge(seed, traces, tmp_path)
        if former is not None:
            mixed = check(*[trace for trace in former if ".client" in trace.name],
                          *[trace for trace in traces if ".server" in trace.name])
            verdicts["two runs, " + mixed["verdict"]] += 1
            assert mixed["verdict"] != "violating", (seed, first(mixed))
            for trace in former:
                trace.unlink()
        former = traces
    print(dict(sorted(verdicts.items())))
    assert verdicts["corrupted, violating"] * 2 >= verdicts["corrupted, inconclusive"], verdicts
