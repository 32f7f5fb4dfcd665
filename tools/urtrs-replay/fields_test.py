"""Readers must work with traces that lack a field: a trace describes its own record types, so fields may be missing."""
import json
import subprocess

import pytest
from programs import TRACES, program

REPLAY = program("urtrs-replay")


def replay(*arguments):
    return subprocess.run([REPLAY, *arguments], capture_output=True, text=True, timeout=120, check=False)


def records(trace):
    head, *rest = (json.loads(line) for line in replay("cat", trace, "--json").stdout.splitlines())
    return head, [one for one in rest if "end" not in one]


def without(head, rest, event, field):
    """Returns the JSON lines of a trace whose `event` lacks `field`."""
    head = json.loads(json.dumps(head))
    for one in head["trace"]["events"]:
        if one["name"] == event:
            one["fields"] = [each for each in one["fields"] if each["name"] != field]
    lines = [head]
    for one in rest:
        if one.get("event") == event:
            one = dict(one, fields={name: value for name, value in one["fields"].items() if name != field})
        lines.append(one)
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("trace", ["seed-0-client1", "seed-767-server"])
def test_missing_field_does_not_crash_seq_or_merge(trace, tmp_path):
    head, rest = records(TRACES / f"{trace}.rtrc")
    few = rest[:500]
    seen = {one.get("event") for one in few}
    tried = 0
    for event in head["trace"]["events"]:
        for field in event["fields"] if event["name"] in seen else ():
            lines, made = tmp_path / "trace.json", tmp_path / f"{tried}.rtrc"
            lines.write_text(without(head, few, event["name"], field["name"]))
            done = replay("from-json", lines, made)
            assert done.returncode == 0, (event["name"], field["name"], done.stderr)
            for command in ("seq", made), ("merge", made, TRACES / "seed-420-server.rtrc"):
                done = replay(*command)
                assert done.returncode >= 0, (command, event["name"], field["name"])
            tried += 1
    assert tried > 50
