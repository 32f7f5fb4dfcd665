"""An interrupted soak completes every chunk once; each failure is reported, kept and can be repeated."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from programs import BUILD, program

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from soak import report  # noqa: E402
from soak.plan import FUZZ, Plan, items  # noqa: E402
from soak.state import State  # noqa: E402

SOAK = HERE.parent / "soak"
SIM, PLANTED = pathlib.Path(program("urtrs-sim")), BUILD / "conformance/mutants/planted-urtrs-sim"
# The wrapper records every run that finishes, so that the test can compare the report with the runs that
# actually took place.
WRAPPER = """#!/bin/sh
{program} "$@"
code=$?
echo "$@" >>{log}
exit $code
"""


class TestPlans:
    def test_every_fuzzer_and_mutant_has_a_chunk(self):
        keys = {chunk.key for chunk in Plan(hours=0.1).sequence()}
        assert len(FUZZ) >= 13
        for name in FUZZ:
            assert f"fuzz-{name}:1" in keys
        assert sum(key.startswith("mutants:M") for key in keys) >= 58

    def test_each_seed_is_in_one_chunk(self):
        chunks = Plan(only=["sweep"], chunks=5, size=10, first_seed=100).sequence()
        ranges = [word for chunk in chunks for word in chunk.words(1, "b", "w") if ".." in word]
        assert [Plan(size=2000).size_of(item) for item in items() if item.size] == [2000, 500, 2, 150, 100]
        assert ranges == ["100..110", "110..120", "120..130", "130..140", "140..150"]

    def test_hours_are_shared_among_the_selected_items(self):
        for hours in (2, 20):
            for only in ((), ("fuzz",), ("sweep", "netns-faults")):
                plan = Plan(hours=hours, only=only)
                planned = sum(plan.count(item) * item.seconds for item in plan.items() if item.share)
                assert planned / 3600 == pytest.approx(hours, abs=hours * 0.15)

    def test_first_chunks_cover_every_large_item(self):
        first = Plan(hours=4).sequence()[:60]
        large = {item.name for item in items() if item.share >= 0.1}
        assert large <= {chunk.item.name for chunk in first}

    def test_options_of_commands_exist(self):
        for item in items():
            words = next(chunk for chunk in Plan(only=[item.name], chunks=1).sequence()).words(1, "build", "work")
            if not words[0].startswith(str(HERE.parents[2])):
                continue
            verb = [word for word in words[1:2] if not word.startswith("-")]
            known = subprocess.run([words[0], *verb, "--help"], capture_output=True, text=True, check=True).stdout
            for word in words[1:]:
                if word.startswith("--"):
                    assert word in known, item.name

    def test_unknown_item_and_foreign_state_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="no item is called 'swep'"):
            Plan(only=["swep"]).items()
        path = tmp_path / "state.json"
        path.write_text("[]", encoding="utf-8")
        with pytest.raises(ValueError, match="not the state of a soak"):
            State(path)

    def test_remaining_time_uses_measured_durations(self, tmp_path):
        state, plan = State(tmp_path / "s"), Plan(only=["sweep"], chunks=3)
        assert report.remaining(plan, state) == 180
        state.record("sweep:1", {"verdict": "pass", "seconds": 5})
        assert report.remaining(plan, state) == 10

@pytest.mark.skipif(not (SIM.exists() and PLANTED.exists()), reason="needs urtrs-sim and planted-urtrs-sim")
class TestSoaks:
    @pytest.fixture(autouse=True)
    def build(self, tmp_path):
        self.folder = tmp_path
        self.log = self.folder / "log"
        self.use(SIM)

    def use(self, program):
        wrapper = self.folder / "build/release/tools/urtrs-sim/urtrs-sim"
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(WRAPPER.format(program=program, log=self.log), encoding="utf-8")
        wrapper.chmod(0o755)

    def command(self, *words):
        return [sys.executable, "-B", str(SOAK), "run", "--no-build", "--build-root", str(self.folder / "build"), "--work-dir",
                str(self.folder / "work"), "--jobs", "1", *words]

    def soak(self, *words, **more):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=240, **more)

    PLAN = ("sweep", "scenarios", "--chunks", "4", "--size", "3")

    def test_resumed_soak_runs_each_chunk_once(self):
        child = subprocess.Popen(self.command(*self.PLAN), stdout=subprocess.PIPE, text=True)
        for line in child.stdout:
            if " pass  sweep 2 " in line:
                child.send_signal(signal.SIGINT)
                break
        rest = child.stdout.read()
        assert child.wait() == 1, rest
        child.stdout.close()
        assert "interrupted" in rest
        before = len(json.loads((self.folder / "work/state.json").read_text())["done"])
        assert 2 <= before < 8, before
        done = self.soak()
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"continuing: {before} of 8" in done.stdout
        assert "8 of 8 chunks done\n8 passed, 0 failed, 0 skipped" in done.stdout
        seen = [line.split("--seeds ")[1].split()[0] + line.split()[0] for line in self.log.read_text().splitlines()]
        expected = [f"{at * size}..{at * size + size}{verb}" for verb, size in (("sweep", 3), ("scenarios", 1))
                    for at in range(4)]
        # The interrupted chunk is started twice. The chunk finishes twice only if the signal arrives just
        # after its end, so the test ignores duplicates.
        assert sorted(set(seen)) == sorted(expected)
        assert len(seen) <= len(expected) + 1
        again = self.soak()
        assert "this soak is complete" in again.stdout
        assert len(self.log.read_text().splitlines()) == len(seen)

    def test_commands_are_accepted_by_the_program(self):
        done = self.soak("sweep", "determinism", "scenarios", "--chunks", "1", "--size", "2")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "3 of 3 chunks done\n3 passed, 0 failed, 0 skipped" in done.stdout

    def test_failure_is_reported_and_kept_and_other_chunks_run(self):
        self.use(PLANTED)
        environment = {**os.environ, "URTRS_MUTANT": "M15"}
        done = self.soak("sweep", "--chunks", "2", "--size", "20", env=environment)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "2 of 2 chunks done" in done.stdout
        failed = json.loads((self.folder / "work/state.json").read_text())["done"]["sweep:1"]
        assert failed["verdict"] == "fail"
        kept = pathlib.Path(failed["folder"])
        assert "urtrs-sim" in (kept / "output").read_text()
        again = subprocess.run(failed["repeat"], shell=True, env=environment, capture_output=True, text=True, timeout=240)
        assert again.returncode == 1, "the repeat command must fail again"
        healed = self.soak("--again")  # runs again without the planted bug
        assert healed.returncode == 0, healed.stdout + healed.stderr

    def test_different_plan_needs_fresh(self):
        assert self.soak("sweep", "--chunks", "1", "--size", "2").returncode == 0
        other = self.soak("--chunks", "2")
        assert other.returncode == 2
        assert "--fresh" in other.stderr
        assert self.soak("--fresh", "sweep", "--chunks", "2", "--size", "2").returncode == 0

    def test_missing_program_is_a_failure(self):
        done = self.soak("asan-sweep", "--chunks", "1")
        assert done.returncode == 1
        assert "No such file" in done.stdout
