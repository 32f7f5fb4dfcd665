"""All output of urtrs-replay with --json, including errors, matches docs/schema/urtrs-replay.json."""
import json
import re
import subprocess

import pytest

from programs import BOUND, TRACES, program
from schemas import fits, is_schema, schema

REPLAY = program("urtrs-replay")
CLIENT, SERVER, OTHER = (TRACES / f"seed-{name}.rtrc" for name in ("420-client1", "420-server", "0-client1"))
# Parts of the schema that have another name than the command.
PARTS = {"cat": {"header", "record", "end"}, "grep": {"record"}, "merge": {"merged"}}


def run(*arguments, code=0, stdin=None):
    done = subprocess.run([REPLAY, *map(str, arguments), "--json"], input=stdin, capture_output=True, text=True, timeout=4 * BOUND,
                          check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


def replay(part, *arguments, code=0):
    text = run(*arguments, code=code)
    assert text.count("\n") == 1, text
    return fits(text, "urtrs-replay", part)


def lines(text):
    """Checks that each line matches a part of the schema. Returns the number of lines for each part."""
    seen = {}
    for line in text.splitlines():
        part, = json.loads(line).keys() & {"trace", "end"} or {"record"}
        part = {"trace": "header"}.get(part, part)
        fits(line, "urtrs-replay", part)
        seen[part] = seen.get(part, 0) + 1
    return seen


def changed(file, event, change):
    """Copies the client's trace with the first `event` replaced by the result of change(); None removes it."""
    header, *records = (json.loads(line) for line in run("cat", CLIENT).splitlines()[:-1])
    at = next(number for number, record in enumerate(records) if record["event"] == event)
    records[at:at + 1] = filter(None, [change(records[at])])
    text = [json.dumps(header), *(json.dumps({**record, "seq": seq}) for seq, record in enumerate(records))]
    run("from-json", "-", file, stdin="\n".join(text) + "\n")
    return file


def test_each_command_has_a_schema_part():
    is_schema("urtrs-replay")
    text = subprocess.run([REPLAY, "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    commands = re.findall(r"^  ([a-z-]+)[ ,]", text.partition("Subcommands:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(commands) == 17
    for command in commands:
        assert PARTS.get(command, {command}) <= set(schema("urtrs-replay")["$defs"]), command
        help_text = subprocess.run([REPLAY, command, "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
        assert "  --json " in help_text, command


def test_output_of_cat_grep_and_merge():
    assert lines(run("cat", CLIENT)) == {"header": 1, "record": 1622, "end": 1}
    assert lines(run("grep", CLIENT, "--event", "Complete")) == {"record": 69}
    merged = [fits(line, "urtrs-replay", "merged") for line in run("merge", CLIENT, SERVER).splitlines()]
    assert {one["file"] for one in merged} == {0, 1}


def test_output_of_check_replay_and_diff(tmp_path):
    assert replay("check", "check", CLIENT, SERVER)["laws"]["messages"] > 0
    wrong = changed(tmp_path / "wrong", "Complete", lambda one: {**one, "fields": {**one["fields"], "result": "invalid"}})
    assert replay("replay", "replay", wrong, code=1)["divergence"]["recorded"]
    assert replay("replay", "replay", CLIENT)["verdict"] == "identical"
    at = replay("replay", "replay", CLIENT, "--stop-at", "100", "--state", "--diff-state", "50")["at"]
    assert at["state"]["0"] and at["changes"]["0"] and at["from_record"] == 50
    (tmp_path / "cut.rtrc").write_bytes(CLIENT.read_bytes()[:-20])
    assert replay("replay", "replay", tmp_path / "cut.rtrc", code=5)["stop"]["reason"]
    assert replay("diff", "diff", CLIENT, CLIENT)["equal"]
    assert replay("diff", "diff", CLIENT, OTHER, code=1)["first"]["machine"]
    assert replay("diff", "diff", CLIENT, wrong, code=1)["first"]["before"]


def test_output_of_check_min_and_simulate_for_a_violation(tmp_path):
    lost = changed(tmp_path / "lost", "WireSent", lambda _: None)
    answer = replay("check", "check", lost, code=1)
    assert answer["verdict"] == "violating" and answer["traces"][0]["findings"]
    assert replay("min", "min", lost, "--out", tmp_path / "short.rtrc", "--time", "5s", code=1)["fails"]
    assert not replay("min", "min", CLIENT, "--out", tmp_path / "none.rtrc", "--time", "2s")["fails"]
    found = json.loads(run("simulate", CLIENT, "--out", tmp_path / "log", "--seeds", "1"))
    assert not fits(json.dumps(found), "urtrs-replay", "simulate")["fails"] and found["why"]


def test_output_of_stat_seq_and_conversions(tmp_path):
    assert replay("stat", "stat", CLIENT)["seed"] == 420
    assert replay("seq", "seq", CLIENT, SERVER)["steps"]["strings"]
    assert replay("why", "why", CLIENT, SERVER)["sentences"]
    assert len(replay("why", "why", CLIENT, "--slowest", "3")["requests"]) == 3
    assert replay("pcap", "pcap", CLIENT, SERVER, "-o", tmp_path / "both.pcapng")["both_ends"] == 10
    assert replay("import", "import", tmp_path / "both.pcapng", tmp_path / "again.rtrc", code=0)["connections"] == 10
    text = run("cat", CLIENT)
    assert fits(run("from-json", "-", tmp_path / "same.rtrc", stdin=text), "urtrs-replay", "from-json")["records"] == 1622


@pytest.mark.parametrize("words", [["frob"], ["check"], ["check", "/nonexistent"], ["cat", CLIENT, "--last", "x"], ["diff", CLIENT],
                                   ["replay", CLIENT, "--nosuch"], ["pcap", CLIENT, "-o", "/nonexistent/x"]])
def test_usage_errors(words):
    error = replay("error", *words, code=2)["error"]
    assert error["code"] == "usage" and "urtrs-replay:" not in error["message"]
