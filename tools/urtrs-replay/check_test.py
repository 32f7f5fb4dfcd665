#!/usr/bin/env python3
"""urtrs-replay check on real traces: simulated ones conform, captures of kernel peers get their verdicts, a trace that
was tampered with is found out, and one that is cut proves nothing.

Usage: check_test.py URTRS_REPLAY TRACES CAPTURES
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
from random import Random

TOOL, TRACES, CAPTURES = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
failures = []


def run(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)


def check(what, files, code, rule=None, *options):
    result = run("check", "--json", *options, *files)
    verdict = json.loads(result.stdout)
    rules = {finding["rule"] for trace in verdict["traces"] for finding in trace["findings"]}
    if result.returncode != code or (rule and rule not in rules):
        failures.append(f"{what}: exit code {result.returncode} instead of {code}, {sorted(rules)}\n{result.stdout[:2000]}")
    return verdict


def both_sides():
    for server in sorted(TRACES.glob("*-server.rtrc")):
        stem = server.name[: -len("-server.rtrc")]
        verdict = check(stem, sorted(TRACES.glob(stem + "-*.rtrc")), 0)
        if any(trace["most_states"] > 64 for trace in verdict["traces"]):
            failures.append(f"{stem}: more than 64 states at a time")
    if verdict["laws"]["connections"] == 0:
        failures.append("no connection was matched between the two sides")


def killed_processes(folder):
    """The trace of a killed process ends anywhere, within a step too: nobody is blamed for what it lacks."""
    text, cut, judged = folder / "killed.jsonl", folder / "killed.rtrc", 0
    random = Random(20261121)
    for one in sorted(TRACES.glob("seed-420-*.rtrc")):
        others = [trace for trace in TRACES.glob("seed-420-*.rtrc") if trace != one]
        lines = [line for line in run("cat", "--json", one).stdout.splitlines() if '"end"' not in line[:8]]
        for count in random.sample(range(2, len(lines)), 60):
            text.write_text("\n".join(lines[:count]) + "\n")
            run("from-json", text, cut)
            verdict = check(f"{one.name} up to line {count}", [cut, *others], 3)
            judged += verdict["laws"]["connections"]
    if judged == 0:
        failures.append("no connection of a cut trace was judged")


def tampered(folder, event, change, rule):
    """The corpus trace with its first `event` changed."""
    lines = run("cat", "--json", TRACES / "seed-420-client1.rtrc").stdout.splitlines()
    for at, line in enumerate(lines):
        record = json.loads(line)
        if record.get("event") == event:
            change(record["fields"])
            lines[at] = json.dumps(record)
            break
    lines = [line for line in lines if '"end"' not in line[:8]]
    text, trace = folder / "t.jsonl", folder / "t.rtrc"
    text.write_text("\n".join(lines) + "\n")
    made = run("from-json", text, trace)
    if made.returncode != 0:
        failures.append(f"{event}: from-json: {made.stderr}")
        return
    check(f"tampered {event}", [trace], 1, rule)


def captures(folder):
    for name, code, rule in (("rnr_nak", 0, None), ("path_loss", 0, None), ("invalidation", 1, "io-req-header")):
        trace = folder / f"{name}.rtrc"
        run("import", CAPTURES / f"{name}.pcapng", trace)
        check(name, [trace], code, rule, "--heartbeat-interval-ms", "5000")


def without_frames(capture, dropped):
    """A pcapng capture without the frames of these numbers, which begin at 0."""
    kept, at, frame = [], 0, 0
    while at < len(capture):
        kind, size = struct.unpack_from("<II", capture, at)
        packet = kind == 6
        if not packet or frame not in dropped:
            kept.append(capture[at:at + size])
        frame += packet
        at += size
    return b"".join(kept), frame


def incomplete_captures(folder):
    """Whichever frames a capture misses, what is left is never blamed for it."""
    random = Random(20261121)
    capture, trace = folder / "gaps.pcapng", folder / "gaps.rtrc"
    doubted = 0
    for name, known in (("rnr_nak", set()), ("path_loss", set()), ("invalidation", {"io-req-header"})):
        whole = (CAPTURES / f"{name}.pcapng").read_bytes()
        frames = without_frames(whole, ())[1]
        drops = [{frame} for frame in range(30)]
        drops += [set(random.sample(range(frames), frames * part // 100)) for part in (5, 10, 20, 40) for _ in range(5)]
        for dropped in drops:
            capture.write_bytes(without_frames(whole, dropped)[0])
            if run("import", capture, trace).returncode == 3:
                continue
            verdict = json.loads(run("check", "--json", "--heartbeat-interval-ms", "5000", trace).stdout)
            found = [finding for finding in verdict["traces"][0]["findings"] if finding["rule"] not in known]
            if found:
                failures.append(f"{name} without {sorted(dropped)}: {found[:3]}")
            doubted += verdict["verdict"] == "inconclusive"
    if doubted < 50:
        failures.append(f"of the captures with gaps only {doubted} were doubted")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        both_sides()
        killed_processes(folder)
        tampered(folder, "PostRequest", lambda f: f.update(imm=f["imm"] + 1), "request-imm")
        tampered(folder, "Complete", lambda f: f.update(permit=f["permit"] + 1), "complete-once")
        tampered(folder, "SendInfoReq", lambda f: f.update({"key.con": 1}), "info-full-set")
        captures(folder)
        incomplete_captures(folder)
        cut = folder / "cut.rtrc"
        whole = (TRACES / "seed-420-client1.rtrc").read_bytes()
        cut.write_bytes(whole[: len(whole) * 9 // 10])
        check("a cut trace", [cut], 3)
    for failure in failures:
        print("FAIL", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
