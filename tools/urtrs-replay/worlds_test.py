#!/usr/bin/env python3
"""urtrs-replay check on traces of simulated worlds: nobody is called violating for what the network, a restart or a late
copy did, a message that was changed between the ends is never called conforming, and traces of two runs prove nothing.

Usage: worlds_test.py URTRS_REPLAY URTRS_SIM [FIRST..LAST]
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
from random import Random

TOOL, SIM = sys.argv[1], sys.argv[2]
FIRST, LAST = map(int, (sys.argv[3] if len(sys.argv) > 3 else "0..24").split(".."))
LATE_COPY = 13451  # without a fence, an older copy of a request overwrites what was sent after it
failures, verdicts = [], collections.Counter()


def run(*arguments):
    return subprocess.run([str(one) for one in arguments], capture_output=True, text=True, check=False)


def check(*traces):
    return json.loads(run(TOOL, "check", "--json", *traces).stdout)


def traces_of(seed, folder):
    # A client that comes back with its former uuids breaks the protocol.
    run(SIM, "run", "--seed", seed, "--without", "rare_swarm", "--trace", folder / f"world{seed}")
    return sorted(folder.glob(f"world{seed}.*.trace"))


def first(verdict):
    found = [one for trace in verdict["traces"] for one in trace["findings"]] + verdict["laws"]["findings"]
    return found[:1]


def changed(lines, random):
    """Changes one bit of a message to the server that arrived; None when there is none."""
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
    # The header of RTRS stands last and is judged by rules of its own; what is before it only the sender knows.
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
    if verdict["verdict"] == "conforming":
        compared = verdict["laws"]
        failures.append(f"seed {seed}: a changed message is called conforming: {done[1]}, {compared}")


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as name:
        folder, former = pathlib.Path(name), None
        late = check(*traces_of(LATE_COPY, folder))
        if late["verdict"] == "violating":
            failures.append(f"seed {LATE_COPY}: {first(late)}")
        for seed in range(FIRST, LAST):
            random = Random(seed)
            traces = traces_of(seed, folder)
            if not traces:
                failures.append(f"seed {seed}: no traces")
                continue
            verdict = check(*traces)
            verdicts["innocent, " + verdict["verdict"]] += 1
            if verdict["verdict"] == "violating":
                failures.append(f"seed {seed}: {first(verdict)}")
            if verdict["verdict"] != "conforming" and verdict["laws"]["contents_unproven"] == 0:
                failures.append(f"seed {seed}: {verdict['verdict']} for no reason in its content: "
                                f"{[trace['not_judged'] for trace in verdict['traces']]}{verdict['laws']['not_judged']}")
            for side in ("client", "server"):
                one = check(*[trace for trace in traces if f".{side}" in trace.name])
                if one["verdict"] != "conforming":
                    failures.append(f"seed {seed}: {side} alone: {one['verdict']}: {first(one)}")
            corrupted(seed, traces, folder, random)
            if former is not None:
                mixed = check(*[trace for trace in former if ".client" in trace.name],
                              *[trace for trace in traces if ".server" in trace.name])
                verdicts["two runs, " + mixed["verdict"]] += 1
                if mixed["verdict"] == "violating":
                    failures.append(f"seeds {seed - 1} and {seed}: {first(mixed)}")
                for trace in former:
                    trace.unlink()
            former = traces
    print(dict(sorted(verdicts.items())))
    for failure in failures:
        print("FAIL", failure[:1500])
    if verdicts["corrupted, violating"] * 2 < verdicts["corrupted, inconclusive"]:
        print("FAIL most changed messages were only doubted")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
