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
            cut.unlink(missing_ok=True)
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
    trace.unlink(missing_ok=True)
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


def strip(trace, folder, keeps):
    """The trace with the records that `keeps` holds for, not completed."""
    lines = run("cat", "--json", trace).stdout.splitlines()
    text, made = folder / "stripped.jsonl", folder / f"stripped-{trace.name}"
    kept = lines[:1] + [line for line in lines[1:] if "event" in json.loads(line) and keeps(json.loads(line))]
    for at, line in enumerate(kept[1:]):
        kept[at + 1] = json.dumps({**json.loads(line), "seq": at})
    text.write_text("\n".join(kept) + "\n")
    made.unlink(missing_ok=True)
    done = run("from-json", text, made)
    if done.returncode != 0:
        failures.append(f"from-json of {trace.name}: {done.stderr}")
    return made


def says(what, verdict, words):
    doubts = [doubt for trace in verdict["traces"] for doubt in trace["not_judged"]] + verdict["laws"]["not_judged"]
    if not any(words in doubt for doubt in doubts):
        failures.append(f"{what}: no doubt says '{words}': {doubts}")


def not_judged(folder):
    """What could not be looked at is never called conforming."""
    client, server = TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"
    other = next(trace for trace in sorted(TRACES.glob("*-server.rtrc")) if trace != server)
    says("two runs", check("traces of two runs", [client, other], 3), "other end")
    silent = strip(client, folder, lambda record: not record["event"].startswith("Wire"))
    says("no notes", check("no wire notes", [silent], 3), "no wire notes")
    says("one without notes", check("one side without wire notes", [silent, server], 3), "no wire notes")


def corrupted(folder):
    """A message that arrives with other content than was sent is a violation of the laws."""
    client, server = TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"
    for field, change in (("digest", lambda value: value ^ 1),
                          ("head", lambda value: value[:16] + ("1" if value[16] != "1" else "2") + value[17:])):
        lines = run("cat", "--json", server).stdout.splitlines()
        for at, line in enumerate(lines):
            record = json.loads(line)
            if record.get("event") == "WireReceived" and record["fields"]["op"] == "write_imm" and \
                    record["fields"]["digest"] and len(record["fields"]["head"]) > 32:
                record["fields"][field] = change(record["fields"][field])
                lines[at] = json.dumps(record)
                break
        else:
            failures.append("no write with data in the trace")
        text, made = folder / "corrupted.jsonl", folder / "corrupted.rtrc"
        text.write_text("\n".join(line for line in lines if '"end"' not in line[:8]) + "\n")
        made.unlink(missing_ok=True)
        run("from-json", text, made)
        verdict = check(f"another {field} than was sent", [client, made], 1)
        if verdict["laws"]["violations"] == 0:
            failures.append(f"another {field} than was sent: no law is broken")
    if check("both sides", [client, server], 0)["laws"]["contents"] == 0:
        failures.append("no content was compared")


class Frame:
    """An enhanced packet block of a pcapng capture: Ethernet, IPv4, UDP, BTH."""

    def __init__(self, block):
        self.block = block
        high, low = struct.unpack_from("<II", block, 12)
        self.time = high << 32 | low
        self.source = block[28 + 26:28 + 30]
        self.acknowledges = block[28 + 42] == 0x11

    def at(self, time):
        return self.block[:12] + struct.pack("<II", time >> 32, time & 0xFFFFFFFF) + self.block[20:]


def rewritten(capture, folder, change):
    """The trace of the capture whose frames `change(frames, unit)` has changed; unit: 1 ms of its clock."""
    data, at, head, frames, unit = capture.read_bytes(), 0, b"", [], 1000
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        block = data[at:at + size]
        if kind == 6:
            frames.append(Frame(block))
        else:
            head += block
            if kind == 1 and b"\x09\x00\x01\x00\x09" in block[16:]:
                unit = 1_000_000
        at += size
    changed, trace = folder / "changed.pcapng", folder / "changed.rtrc"
    changed.write_bytes(head + b"".join(change(frames, unit)))
    trace.unlink(missing_ok=True)
    done = run("import", "--json", changed, trace)
    return trace, json.loads(done.stdout) if done.stdout else {}


def partial_captures(folder):
    """Captures that began late, have one direction, or no ACK frames."""
    heartbeat = ("--heartbeat-interval-ms", "5000")
    for name, code in (("rnr_nak", 0), ("path_loss", 0), ("invalidation", 1)):
        capture = CAPTURES / f"{name}.pcapng"
        def blind(frames, _):
            return [frame.block for frame in frames if not frame.acknowledges]
        trace, counts = rewritten(capture, folder, blind)
        if counts["acknowledgements"] == 0:
            verdict = check(f"{name} without ACK frames", [trace], 3 if code == 0 else 1, None, *heartbeat)
            if len(verdict["traces"][0]["findings"]) > 3:
                failures.append(f"{name} without ACK frames: {verdict['traces'][0]['findings'][:3]}")
        else:
            failures.append(f"{name}: {counts['acknowledgements']} acknowledgements are left")
        servers = {}
        def sources(frames, _):
            for frame in frames:
                servers.setdefault(frame.source, len(servers))
            return [frame.block for frame in frames]
        rewritten(capture, folder, sources)
        client = min(servers, key=servers.get)  # its connect request comes first
        for side in (True, False):
            def one_direction(frames, _):
                return [frame.block for frame in frames if (frame.source == client) == side]
            trace, _ = rewritten(capture, folder, one_direction)
            check(f"{name}, {'client' if side else 'server'} only", [trace], 3, None, *heartbeat)
    # The path that comes back is set up in it, the rest is not.
    trace, counts = rewritten(CAPTURES / "path_loss.pcapng", folder, lambda frames, _: [one.block for one in frames[60:]])
    verdict = check("begun late", [trace], 3, None, *heartbeat)
    if counts["connections"] == 0:
        failures.append("begun late: no connection is set up in the rest")
    says("begun late", verdict, "setup")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        both_sides()
        killed_processes(folder)
        tampered(folder, "PostRequest", lambda f: f.update(imm=f["imm"] + 1), "request-imm")
        tampered(folder, "Complete", lambda f: f.update(permit=f["permit"] + 1), "complete-once")
        tampered(folder, "SendInfoReq", lambda f: f.update({"key.con": 1}), "info-full-set")
        captures(folder)
        not_judged(folder)
        corrupted(folder)
        partial_captures(folder)
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
