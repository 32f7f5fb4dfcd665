"""urtrs-replay from-json --rehash takes edited lines."""
import json
import subprocess

import pytest

from programs import BOUND, ROOT, TRACES, program

REPLAY = program("urtrs-replay")
CLIENT = TRACES / "seed-420-client1.rtrc"


def run(*arguments, code=0, stdin=None):
    done = subprocess.run([REPLAY, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


def lines_of(trace):
    return [json.loads(line) for line in run("cat", trace, "--json").splitlines()]


def text_of(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_edited_lines(tmp_path):
    lines = lines_of(CLIENT)
    at = next(i for i, line in enumerate(lines) if line.get("event") == "Complete")
    lines[at]["fields"]["result"] = "invalid"
    del lines[at + 10]
    lines.insert(at + 20, lines[at + 20])
    run("from-json", "-", tmp_path / "refused.rtrc", stdin=text_of(lines), code=3)
    run("from-json", "--rehash", "-", tmp_path / "edited.rtrc", stdin=text_of(lines))
    again = lines_of(tmp_path / "edited.rtrc")
    assert [line["seq"] for line in again[1:-1]] == list(range(len(lines) - 2))
    assert [{**line, "seq": 0} for line in again[1:-1]] == [{**line, "seq": 0} for line in lines[1:-1]]
    assert again[-1]["end"]["chain_hash"] != lines[-1]["end"]["chain_hash"]
    assert json.loads(run("stat", tmp_path / "edited.rtrc", "--json"))["complete"]


@pytest.mark.parametrize("name", ["whole/seed-420-client1.rtrc", "seed-0-client1.rtrc"])
def test_without_edits_only_state_hashes_are_missing(tmp_path, name):
    lines = lines_of(ROOT / "tools/dev/traces" / name)
    run("from-json", "--rehash", "-", tmp_path / "same.rtrc", stdin=text_of(lines))
    again = lines_of(tmp_path / "same.rtrc")
    kept = [line for line in lines[1:-1] if line["event"] != "StateHash"]
    assert [{**line, "seq": 0} for line in again[1:-1]] == [{**line, "seq": 0} for line in kept]
    assert (again == lines) == (len(kept) == len(lines) - 2)
    assert "identical" in run("replay", tmp_path / "same.rtrc")
