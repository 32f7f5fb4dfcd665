"""Porcupine accepts the histories of correct worlds, and rejects every kind of lost or falsified data. Needs Debian's
golang-go and a checkout of github.com/anishathalye/porcupine, which the environment variable URTRS_PORCUPINE names."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from programs import BOUND, BUILD, ROOT, program

RUN = ROOT / "tools/dev/porcupine/run"
pytestmark = [
    pytest.mark.skipif(not os.environ.get("URTRS_PORCUPINE"),
                       reason="URTRS_PORCUPINE names no checkout of github.com/anishathalye/porcupine"),
    pytest.mark.skipif(shutil.which("go") is None, reason="golang-go is not installed"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return tmp_path_factory.mktemp("judge")


def judge(built, *files):
    done = subprocess.run([RUN, "--build", built, "--json", *files], capture_output=True, text=True, timeout=10 * BOUND, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


class Story:
    """A history of one sector."""
    def __init__(self):
        self.lines = [{"format": "urtrs-history-1", "seed": 0, "world": "session"}]

    def add(self, event, client=1, **more):
        self.lines.append({"at": len(self.lines), "client": client, "event": event, **more})
        return self

    def write(self, op, client=1, kind="write"):
        return self.add("invoke", client, disk="d", op=op, type=kind, sector=3, sectors=1)

    def read(self, op, client=1):
        return self.write(op, client, "read")

    def ok(self, op, client=1):
        return self.add("ok", client, disk="d", op=op)

    def got(self, op, value, client=1):
        return self.add("ok", client, disk="d", op=op, read=[value])

    def unknown(self, op, client=1):
        return self.add("unknown", client, disk="d", op=op, error="no path")

    def failed(self, op, client=1):
        return self.add("failed", client, disk="d", op=op, error="EIO")

    def reads(self, value, op, client=1):
        return self.read(op, client).got(op, value, client)


def one_then_two():
    return Story().write(1).ok(1).write(2).ok(2)


LEGAL = {
    "never_written": Story().reads(0, 1),
    "overwritten": one_then_two().reads(2, 3),
    "concurrent_read_sees_the_old_content": Story().write(1).ok(1).write(2).reads(1, 3, 2).ok(2),
    "resent_write_takes_effect_twice": Story().write(1).reads(1, 3, 2).write(2, 2).ok(2, 2).reads(2, 4, 2).reads(1, 5, 2).ok(1),
    "hidden_by_a_concurrent_write": Story().write(1).write(2, 2).ok(2, 2).reads(2, 3, 2).ok(1).reads(2, 4),
    "failed_write_took_effect": Story().write(1).failed(1).reads(1, 2),
    "failed_write_took_no_effect": Story().write(1).failed(1).reads(0, 2),
    "unanswered_write_takes_effect_late": Story().write(1).unknown(1).reads(0, 2, 2).reads(1, 3, 2),
    "write_of_a_dead_process_takes_effect_late": Story().write(1).add("crash").reads(0, 2).reads(1, 3),
    "discarded": Story().write(1).ok(1).write(2, kind="discard").ok(2).reads(0, 3),
    "never_answered": Story().write(1).reads(1, 2, 2).reads(1, 3, 2),
    "flushed": Story().write(1).ok(1).add("invoke", disk="d", op=2, type="flush", sector=0, sectors=0).ok(2).reads(1, 3),
}
ILLEGAL = {
    "lost_write": Story().write(1).ok(1).reads(0, 2),
    "old_content": one_then_two().reads(1, 3),
    "broken_sector": Story().write(1).ok(1).reads(-1, 2),
    "read_before_it_was_written": Story().reads(1, 2).write(1).ok(1),
    "content_returns_to_the_old_one": Story().write(1).ok(1).write(2).reads(2, 3, 2).reads(1, 4, 2).ok(2),
    "failed_write_takes_effect_after_the_answer": Story().write(1).failed(1).reads(0, 2).reads(1, 3),
    "unanswered_write_after_a_later_success":
        Story().write(1).unknown(1).write(2).ok(2).reads(2, 3).reads(1, 4),
    "write_of_a_dead_process_after_its_session":
        Story().write(1).add("crash").add("session_ended").reads(0, 2).reads(1, 3),
    "discard_without_effect": Story().write(1).ok(1).write(2, kind="discard").ok(2).reads(1, 3),
    "acknowledged_write_left_no_trace": Story().write(1).ok(1).write(2).reads(1, 3, 2).ok(2).reads(1, 4, 2),
}


def write(folder, stories):
    for name, story in stories.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in story.lines))


def test_each_small_history_gets_its_verdict(built, tmp_path):
    write(tmp_path, {**LEGAL, **ILLEGAL})
    code, verdicts, err = judge(built, tmp_path)
    assert {pathlib.Path(one["file"]).stem: one["verdict"] for one in verdicts} == {
        **dict.fromkeys(LEGAL, "legal"), **dict.fromkeys(ILLEGAL, "illegal")}
    assert (code, err) == (1, "")
    assert {one["where"] for one in verdicts if one["verdict"] == "illegal"} == {"sector 3 of d"}


def test_unreadable_histories_are_reported(built, tmp_path):
    good = json.dumps(Story().lines[0]) + "\n"
    for name, text in {"empty": "", "other": '{"format":"x"}\n', "cut": good + '{"event":', "event": good + '{"event":"x"}\n',
                       "op": good + '{"event":"ok","op":7}\n',
                       "huge": good + '{"event":"invoke","op":1,"type":"read","sectors":9999999999}\n'}.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    code, verdicts, _ = judge(built, tmp_path)
    assert (code, len(verdicts)) == (2, 6)
    assert {one["verdict"] for one in verdicts} == {"unreadable"}
    assert judge(built, tmp_path / "none")[0] == 2


def test_histories_of_a_sweep_are_legal(built, tmp_path):
    subprocess.run([program("urtrs-sim"), "sweep", "--seeds", "0..300", "--no-specification", "--histories", tmp_path],
                   capture_output=True, timeout=10 * BOUND, check=True)
    code, verdicts, err = judge(built, tmp_path)
    assert [one for one in verdicts if one["verdict"] != "legal"] == []
    assert code == 0, err
    assert len(verdicts) > 150
    assert sum(one["operations"] for one in verdicts) > 10000


@pytest.mark.parametrize("bug", ["M13", "M29"])
def test_a_planted_bug_is_found_by_the_oracles_and_by_porcupine(built, tmp_path, bug):
    planted = BUILD / "conformance/mutants/planted-urtrs-sim"
    if not planted.exists():
        pytest.skip(f"{planted} is not built")

    def sweep(*options):
        return subprocess.run([planted, "sweep", "--seeds", "0..200", "--no-specification", "--check-determinism", "0",
                               "--traces", tmp_path, *options],
                              env={**os.environ, "URTRS_MUTANT": bug}, capture_output=True, text=True, timeout=10 * BOUND, check=False)

    assert sweep().returncode == 1
    done = sweep("--excuse", "all", "--histories", tmp_path / "histories")
    assert done.returncode == 0, done.stdout
    assert judge(built, tmp_path / "histories")[0] == 1
