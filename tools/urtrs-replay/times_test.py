"""All verbs of urtrs-replay show and take the same times."""

import json
import os
import re
import subprocess

import pytest

from programs import TRACES, program

PROGRAM = program("urtrs-replay")
CLIENT = os.path.join(TRACES, "seed-420-client1.rtrc")
SERVER = os.path.join(TRACES, "seed-420-server.rtrc")
BOOT = 751_609_000_000  # the clock of a real host does not begin at 0
WALL = 1_796_032_800_000_000_000  # 2026-11-30T10:00:00Z


def run(*arguments, code=0, stdin=None):
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, input=stdin, timeout=120, check=False)
    # The copies that moved() writes have no trailer, because their chain hash is another one.
    allowed = (code,) if code else (0, 3, 5)
    assert result.returncode in allowed, (arguments, result.returncode, result.stderr)
    return result.stderr if code == 2 else result.stdout


def records(trace):
    return [one for one in map(json.loads, run("cat", trace, "--json").splitlines()) if "event" in one]


def moved(trace, to, header=None, change=lambda one: one):
    """Writes a copy of the trace, recorded on a host whose clock shows BOOT more."""
    lines = []
    for line in run("cat", trace, "--json").splitlines():
        one = json.loads(line)
        if "trace" in one:
            one["trace"].update(header or {})
        if "event" in one:
            one["time"] += BOOT
            one = change(one)
        if one and "end" not in one:
            lines.append(json.dumps(one))
    run("from-json", "-", str(to), stdin="\n".join(lines) + "\n")
    return str(to)


@pytest.fixture
def traces(tmp_path):
    return moved(CLIENT, tmp_path / "client.rtrc"), moved(SERVER, tmp_path / "server.rtrc")


def of_record(text, record):
    """Returns the seconds of the record in an output of cat, grep or seq."""
    line = next(line for line in text.splitlines() if re.search(rf"(^| )A?{record} ", line) and not line.startswith("#"))
    return re.search(r"\d+\.\d{9}", line).group()


def test_one_record_has_one_time_in_every_verb(traces, tmp_path):
    client, _ = traces
    every = records(client)
    one = next(one for one in every if one["event"] == "Complete")
    seconds = f"{(one['time'] - every[0]['time']) / 1e9:.9f}"
    assert of_record(run("grep", client, "--event", "Complete"), one["seq"]) == seconds
    assert of_record(run("seq", client), one["seq"]) == seconds
    assert run("cat", client).splitlines()[one["seq"] + 1].split()[0] == seconds
    merged = [line.split() for line in run("merge", client).splitlines() if line.startswith("A ")]
    assert merged[one["seq"]][1] == seconds

    def twice(record):
        return record if record["seq"] != one["seq"] else {**record, "fields": {**record["fields"], "permit": 7}}

    wrong = moved(CLIENT, tmp_path / "wrong.rtrc", change=twice)
    assert f"record {one['seq']}, {seconds} s" in run("check", wrong, code=1)
    assert f"record {one['seq']}, {seconds} s" in run("replay", wrong, code=1)
    assert f" {seconds} " in run("diff", client, wrong, code=1)
    assert re.search(r"^from +0\.000000000 s$", run("stat", client), re.MULTILINE)


def test_first_line_says_what_the_times_are(traces, tmp_path):
    client, server = traces
    for verb in (("cat", client), ("grep", client), ("stat", client), ("seq", client), ("why", client), ("merge", client, server),
                 ("check", client, server), ("diff", CLIENT, SERVER)):
        first = run(*verb, code=1 if verb[0] == "diff" else 0).splitlines()[0]
        assert "times: seconds since the start of " in first, verb
    dump = moved(CLIENT, tmp_path / "dump.rtrc", {"flags": 1})
    assert "times: seconds since the first record of the trace" in run("cat", dump).splitlines()[0]


def test_a_part_of_a_run_counts_from_the_start_of_the_run(tmp_path):
    start = records(CLIENT)[0]["time"] + BOOT - 5_000_000_000
    part = moved(CLIENT, tmp_path / "part.rtrc", {"flags": 1, "start": start})
    assert re.search(r"^from +5\.000000000 s$", run("stat", part), re.MULTILINE)
    assert of_record(run("seq", part), 0) == "5.000000000"


def test_two_files_have_one_origin(traces):
    client, server = traces
    shown = run("seq", client, server)
    first = {name: re.search(rf"# {name}: .*records from (\S+) s", shown).group(1) for name in "AB"}
    assert min(first.values()) == "0.000000000"
    late = next(one for one in records(client) if one["event"] == "Complete")["seq"]
    merged = [line.split() for line in run("merge", client, server).splitlines() if line.startswith("A ")]
    assert of_record(shown, late) == merged[late][1]


@pytest.mark.parametrize("verb", ["grep", "seq"])
def test_a_range_outside_of_the_trace_is_an_error(traces, verb):
    said = run(verb, traces[0], "--from", "751", code=2)
    last = re.search(r"^to +(\S+) s$", run("stat", traces[0]), re.MULTILINE).group(1)
    assert f"no record is in this range; the trace covers 0.000000000 s to {last} s" in said
    assert "is no time of this trace" in run(verb, traces[0], "--to", "noon", code=2)
    assert "--from is later than --to" in run(verb, traces[0], "--from", "2", "--to", "1", code=2)


def test_wall_time(tmp_path):
    first = records(CLIENT)[0]["time"] + BOOT
    trace = moved(CLIENT, tmp_path / "client.rtrc", {"start": first, "taken": first, "wall": WALL})
    for verb in ("cat", "grep", "seq", "stat", "check"):
        said = run(verb, trace, "--wall")
        assert "times: wall time (UTC)" in said.splitlines()[0]
        assert verb == "check" or "2026-11-30T10:00:00.000000000Z" in said
    assert "seconds since the start of the run (2026-11-30T10:00:00.000000000Z)" in run("stat", trace)
    whole = run("grep", trace, "--count")
    assert run("grep", trace, "--count", "--from", "2026-11-30T10:00:00Z") == whole
    for year in ("1500", "2600", "9999"):  # not in the range of 64 bits
        assert "is no time of this trace" in run("grep", trace, "--wall", "--from", f"{year}-01-01T00:00:00Z", code=2)
    assert "--wall" in run("grep", CLIENT, "--wall", code=2)
