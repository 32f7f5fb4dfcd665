"""urtrs-replay query: its answers are compared with those of a slow program that reads cat --json."""
import functools
import json
import shutil
import subprocess

import pytest

from programs import BOUND, ROOT, TRACES, program
from schemas import fits

REPLAY = program("urtrs-replay")
CORPUS = sorted((ROOT / "tools/dev/traces").rglob("*.rtrc"))
PARTS = {"path": 0, "key.path": 0, "from": 0, "permit": 1, "chunk": 1, "buf_id": 1, "device": 2, "device_id": 2, "operation": 3}


def run(*arguments, code=0):
    done = subprocess.run([REPLAY, *map(str, arguments)], capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done


def query(*arguments, code=0):
    return fits(run("query", *arguments, "--json", code=code).stdout, "urtrs-replay", "query")


def place(record):
    parts = {PARTS[name]: value for name, value in record["fields"].items() if name in PARTS}
    key = record["fields"].get("key.path")
    if key is not None:
        parts[0] = key // 131072 * 8 + key % 8  # docs/trace_format.md
    return parts


def near(one, other):
    here, there = place(one), place(other)
    return one["instance"] == other["instance"] and all(here[part] == there[part] for part in here.keys() & there.keys())


@functools.lru_cache(maxsize=None)
def records_of(trace):
    return [json.loads(line) for line in run("cat", trace, "--json").stdout.splitlines()[1:-1]]


def slow_answer(trace, first, second, form, within):
    """Numbers of the records of `first` that the question asks for."""
    records = records_of(trace)
    seconds = [record for record in records if record["event"] == second]
    found = []
    for one in (record for record in records if record["event"] == first):
        others = [other for other in seconds if near(one, other) and other["seq"] != one["seq"]]
        if "preceded" in form:
            linked = any(other["seq"] < one["seq"] and one["time"] - other["time"] <= within for other in others)
        else:
            linked = any(other["seq"] > one["seq"] and other["time"] - one["time"] <= within for other in others)
            if not linked and records[-1]["time"] - one["time"] <= within:
                continue
        if linked != form.startswith("not"):
            found.append(one["seq"])
    return found


@pytest.mark.parametrize("form", ["preceded by", "not preceded by", "followed by", "not followed by"])
@pytest.mark.parametrize("trace,first,second", [
    ("420-client1", "Submitted", "Complete"), ("420-client1", "Complete", "PostRequest"), ("420-client1", "FailedOver", "PathChanged"),
    ("767-client2", "PathChanged", "Disconnect"), ("767-server", "Storage", "StorageDone"), ("420-server", "Deliver", "Storage")])
def test_answers_are_those_of_a_slow_program(trace, first, second, form):
    file = TRACES / f"seed-{trace}.rtrc"
    for within in (0.02, 5):
        expected = slow_answer(file, first, second, form, within * 1e9)
        answer = query(file, f"{first} {form} {second} within {within}s", code=0 if expected else 1)
        assert answer["found"] == len(expected), within
        records = [one["record"] for group in answer["groups"] for one in group["traces"]]
        assert not expected or min(records) == expected[0], within


def test_path_lost_without_a_missed_heartbeat():
    answer = query(ROOT / "tools/dev/traces", "path_lost not preceded by heartbeat_missed within 1s")
    other = query(ROOT / "tools/dev/traces", "path_lost preceded by heartbeat_missed within 1s")
    assert answer["traces"] == other["traces"] == len(CORPUS)
    assert {group["group"].split("reason=")[1] for group in other["groups"]} == {"heartbeat_lost"}
    assert answer["found"] + other["found"] == query(ROOT / "tools/dev/traces", "path_lost")["found"]
    assert any(trace.get("seed") == 420 for group in other["groups"] for trace in group["traces"])


def test_conditions_on_fields():
    client = TRACES / "seed-420-client1.rtrc"
    count = {text: query(client, text, code=0)["found"] for text in (
        "Disconnect", "Disconnect reason=heartbeat_lost", "Disconnect reason!=heartbeat_lost", "Disconnect path>0",
        "Disconnect path<1", "Disconnect path=0")}
    assert list(count.values()) == [10, 2, 8, 6, 4, 4]
    assert query(client, "PathChanged delay>1ms delay<16ms")["found"] == 1
    assert query(client, "Disconnect reason=none", code=1)["found"] == 0


def test_hostile_files_are_told_and_the_rest_is_answered(tmp_path):
    shutil.copy(TRACES / "seed-420-client1.rtrc", tmp_path / "good.rtrc")
    whole = (TRACES / "seed-420-client1.rtrc").read_bytes()
    (tmp_path / "cut.rtrc").write_bytes(whole[:-20])
    assert query(tmp_path, "path_lost", code=5)["found"] == 2
    (tmp_path / "text.rtrc").write_text("no trace\n", encoding="utf-8")
    (tmp_path / "flipped.rtrc").write_bytes(whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:])
    answer = query(tmp_path, "path_lost", code=3)
    assert answer["found"] == 2 and len(answer["skipped"]) >= 1
    assert "text.rtrc" in run("query", tmp_path, "path_lost", code=3).stderr


def test_a_record_at_the_end_is_undecided():
    client = TRACES / "seed-420-client1.rtrc"
    answer = query(client, "EndSession not followed by PathAdded within 1h", code=1)
    assert (answer["found"], answer["undecided"]) == (0, 1)
    assert query(client, "EndSession not followed by PathAdded")["found"] == 1


@pytest.mark.parametrize("text,why", [("Submited", "did you mean 'Submitted'"), ("path_lots", "did you mean 'path_lost'"),
                                      ("A preceeded by B", "preceded by"), ("PathChanged state", "got 'state'"),
                                      ("PathChanged preceded by", "expected the name"),
                                      ("PathChanged preceded by FailedOver within x", "expected"),
                                      ("PathChanged path<x", "NAME<NUMBER")])
def test_wrong_questions(text, why):
    assert why in run("query", TRACES / "seed-420-client1.rtrc", text, code=2).stderr
