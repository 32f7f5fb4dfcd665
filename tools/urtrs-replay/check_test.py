"""Tests urtrs-replay check with traces: simulated traces conform, captures of kernel peers get the expected verdicts, a
modified trace is detected, and an incomplete trace is inconclusive."""
import json
import struct
import subprocess
from random import Random

import pytest
from programs import CAPTURES, TRACES, program


def run(*arguments):
    return subprocess.run([program("urtrs-replay"), *map(str, arguments)], capture_output=True, text=True)


def check(what, files, code, rule=None, *options):
    result = run("check", "--json", *options, *files)
    verdict = json.loads(result.stdout)
    rules = {finding["rule"] for trace in verdict["traces"] for finding in trace["findings"]}
    assert result.returncode == code and (not rule or rule in rules), (what, sorted(rules), result.stdout[:2000])
    return verdict


def test_traces_of_both_sides_conform():
    for server in sorted(TRACES.glob("*-server.rtrc")):
        stem = server.name[: -len("-server.rtrc")]
        verdict = check(stem, sorted(TRACES.glob(stem + "-*.rtrc")), 0)
        assert all(trace["most_states"] <= 64 for trace in verdict["traces"]), stem
    assert verdict["laws"]["connections"] > 0, "no connection was matched between the two sides"


def test_traces_of_killed_processes_are_inconclusive(tmp_path):
    """The trace of a killed process may end anywhere, even within a step. Missing records are not violations."""
    text, cut, judged = tmp_path / "killed.jsonl", tmp_path / "killed.rtrc", 0
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
    assert judged > 0, "no connection of a cut trace was judged"


def tampered(folder, event, change, rule):
    """Checks a trace of the corpus whose first `event` was modified: it must violate `rule`."""
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
    assert made.returncode == 0, made.stderr
    check(f"tampered {event}", [trace], 1, rule)


def test_captures_have_the_expected_verdict(tmp_path):
    for name, code, rule in (("rnr_nak", 0, None), ("path_loss", 0, None), ("invalidation", 1, "io-req-header")):
        trace = tmp_path / f"{name}.rtrc"
        run("import", CAPTURES / f"{name}.pcapng", trace)
        check(name, [trace], code, rule, "--heartbeat-interval-ms", "5000")


def without_frames(capture, dropped):
    """Returns the pcapng capture without the frames `dropped` (numbered from 0), and its number of frames."""
    kept, at, frame = [], 0, 0
    while at < len(capture):
        kind, size = struct.unpack_from("<II", capture, at)
        packet = kind == 6
        if not packet or frame not in dropped:
            kept.append(capture[at:at + size])
        frame += packet
        at += size
    return b"".join(kept), frame


def test_missing_frames_are_no_violation(tmp_path):
    """Missing frames in a capture must not cause a violation."""
    random = Random(20261121)
    capture, trace = tmp_path / "gaps.pcapng", tmp_path / "gaps.rtrc"
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
            assert not found, (name, sorted(dropped), found[:3])
            doubted += verdict["verdict"] == "inconclusive"
    assert doubted >= 50, "captures with gaps are inconclusive"


def strip(trace, folder, keeps):
    """Returns a copy of the trace with only the records that `keeps` selects, and without a trailer."""
    lines = run("cat", "--json", trace).stdout.splitlines()
    text, made = folder / "stripped.jsonl", folder / f"stripped-{trace.name}"
    kept = lines[:1] + [line for line in lines[1:] if "event" in json.loads(line) and keeps(json.loads(line))]
    for at, line in enumerate(kept[1:]):
        kept[at + 1] = json.dumps({**json.loads(line), "seq": at})
    text.write_text("\n".join(kept) + "\n")
    made.unlink(missing_ok=True)
    done = run("from-json", text, made)
    assert done.returncode == 0, (trace.name, done.stderr)
    return made


def says(what, verdict, words):
    doubts = [doubt for trace in verdict["traces"] for doubt in trace["not_judged"]] + verdict["laws"]["not_judged"]
    assert any(words in doubt for doubt in doubts), (what, words, doubts)


def test_unchecked_parts_are_not_conforming(tmp_path):
    """A trace with a part that cannot be checked is never reported as conforming."""
    client, server = TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"
    other = next(trace for trace in sorted(TRACES.glob("*-server.rtrc")) if trace != server)
    says("two runs", check("traces of two runs", [client, other], 3), "other end")
    silent = strip(client, tmp_path, lambda record: not record["event"].startswith("Wire"))
    says("no notes", check("no wire notes", [silent], 3), "no wire notes")
    says("one without notes", check("one side without wire notes", [silent, server], 3), "no wire notes")
    said = run("check", silent, server).stdout
    assert f"both sides: not compared, because {silent} has the setup of no connection" in said, said


def test_machines_without_a_beginning_are_counted(tmp_path):
    """If `urtrs trace start` started the trace during a run, the report must count the machines that it judged."""
    begun = strip(TRACES / "seed-420-client1.rtrc", tmp_path, lambda record: not record["event"].startswith("Begin"))
    verdict = check("no beginning", [begun], 3)["traces"][0]
    says("no beginning", {"traces": [verdict], "laws": {"not_judged": []}}, "began before the trace")
    assert verdict["machines"] == 1
    assert any(judged.endswith("of 1 machines") for judged in verdict["judged"]), verdict["judged"]
    assert ", 1 machines, " in run("check", begun).stdout


def test_trace_without_messages_is_not_called_one_sided(tmp_path):
    client = TRACES / "seed-420-client1.rtrc"
    attempts = strip(client, tmp_path, lambda record: record["event"] == "WireCm" or not record["event"].startswith("Wire"))
    said = run("check", attempts).stdout
    assert "both sides: not compared, because no connection has a message" in said, said
    assert "because no trace of a server was given" in run("check", client).stdout


def test_changed_message_content_violates_the_laws(tmp_path):
    """Receiving a message with other content than the peer sent violates the laws of the fabric."""
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
            pytest.fail("no write with data in the trace")
        text, made = tmp_path / "corrupted.jsonl", tmp_path / "corrupted.rtrc"
        text.write_text("\n".join(line for line in lines if '"end"' not in line[:8]) + "\n")
        made.unlink(missing_ok=True)
        run("from-json", text, made)
        verdict = check(f"another {field} than was sent", [client, made], 1)
        assert verdict["laws"]["violations"] > 0, f"another {field} than was sent"
    assert check("both sides", [client, server], 0)["laws"]["contents"] > 0


class Frame:
    """A frame in an enhanced packet block of a pcapng capture: Ethernet, IPv4, UDP, BTH."""

    def __init__(self, block):
        self.block = block
        high, low = struct.unpack_from("<II", block, 12)
        self.time = high << 32 | low
        self.source = block[28 + 26:28 + 30]
        self.acknowledges = block[28 + 42] == 0x11

    def at(self, time):
        return self.block[:12] + struct.pack("<II", time >> 32, time & 0xFFFFFFFF) + self.block[20:]


def rewritten(capture, folder, change):
    """Imports the capture after change(frames, unit) has modified its frames. `unit`: 1 ms in units of the capture's clock."""
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


def test_late_one_way_and_ackless_captures(tmp_path):
    """Checks captures that start late, contain only one direction, or contain no ACK frames."""
    heartbeat = ("--heartbeat-interval-ms", "5000")
    for name, code in (("rnr_nak", 0), ("path_loss", 0), ("invalidation", 1)):
        capture = CAPTURES / f"{name}.pcapng"
        def blind(frames, _):
            return [frame.block for frame in frames if not frame.acknowledges]
        trace, counts = rewritten(capture, tmp_path, blind)
        assert counts["acknowledgements"] == 0, name
        verdict = check(f"{name} without ACK frames", [trace], 3 if code == 0 else 1, None, *heartbeat)
        assert len(verdict["traces"][0]["findings"]) <= 3, name
        servers = {}
        def sources(frames, _):
            for frame in frames:
                servers.setdefault(frame.source, len(servers))
            return [frame.block for frame in frames]
        rewritten(capture, tmp_path, sources)
        client = min(servers, key=servers.get)  # the client sends the first frame
        for side in (True, False):
            def one_direction(frames, _):
                return [frame.block for frame in frames if (frame.source == client) == side]
            trace, counts = rewritten(capture, tmp_path, one_direction)
            assert trace.exists() == (counts["connections"] != 0) == side, name  # only the client's has connect requests
            if side:
                check(f"{name}, client only", [trace], 3, None, *heartbeat)
    # The remaining frames contain only one complete connection setup, the reconnect of a path.
    trace, counts = rewritten(CAPTURES / "path_loss.pcapng", tmp_path, lambda frames, _: [one.block for one in frames[60:]])
    verdict = check("begun late", [trace], 3, None, *heartbeat)
    assert counts["connections"] > 0, "no connection is set up in the rest"
    says("begun late", verdict, "setup")


@pytest.mark.parametrize("event, change, rule", [
    ("PostRequest", lambda fields: fields.update(imm=fields["imm"] + 1), "request-imm"),
    ("Complete", lambda fields: fields.update(permit=fields["permit"] + 1), "complete-once"),
    ("SendInfoReq", lambda fields: fields.update({"key.con": 1}), "info-full-set")])
def test_modified_record_violates_a_rule(tmp_path, event, change, rule):
    tampered(tmp_path, event, change, rule)


def test_truncated_trace_is_inconclusive(tmp_path):
    cut = tmp_path / "cut.rtrc"
    whole = (TRACES / "seed-420-client1.rtrc").read_bytes()
    cut.write_bytes(whole[: len(whole) * 9 // 10])
    check("a cut trace", [cut], 3)


@pytest.mark.parametrize("scenario", ("F52a", "F52b", "F52c"))
def test_client_that_restarts_with_its_uuids_conforms(scenario, tmp_path):
    done = subprocess.run([program("urtrs-sim"), "run", "--scenario", scenario, "--seed", "0", "--trace", tmp_path / "run"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for trace in sorted(tmp_path.glob("*.rtrc")):
        verdict = check(f"{scenario} {trace.name}", [trace], 0)
        assert verdict["verdict"] == "conforming"
