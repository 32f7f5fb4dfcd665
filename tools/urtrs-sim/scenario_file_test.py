"""Scenario files as documented in docs/simulation.md: selection, `expect`, and errors."""
import re
import shlex
import subprocess

import pytest
from programs import program

SIM = program("urtrs-sim")
EXAMPLE = "setup late: busy\n  set clients=2\nscenario A: late\n  delivered number=20\n"
# The run breaks no rule, but the scenario expects that oracle O9 fires.
UNMET = "scenario U\n  delivered number=20\n  expect O9\n"


def sim(*arguments, code=0):
    ran = subprocess.run([SIM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == code, (arguments, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


@pytest.fixture
def write(tmp_path):
    def writes(text):
        path = tmp_path / "mine.scenarios"
        path.write_bytes(text.encode())
        return str(path)
    return writes


def test_run_and_shrink_need_the_scenario_if_there_are_several(write):
    path = write(EXAMPLE + "scenario B\n  delivered number=1\n")
    for verb in ("run", "shrink"):
        assert "choose with --scenario one of A,B" in sim(verb, "--file", path, "--seed", "3", code=2)
    assert "ok seed=3" in sim("run", "--file", path, "--scenario", "B", "--seed", "3")
    assert "2 scenarios with 3 seeds each, 0 failed" in sim("scenarios", "--file", path, "--seeds", "0..3")


def test_command_printed_by_shrink_repeats_the_run(write, tmp_path):
    """The command for a block device scenario names the scenario file, which may contain other scenarios."""
    path = write("scenario A\n  disks a\n  open a\n  write a is=EIO\nscenario B\n  delivered number=1\n")
    said = sim("shrink", "--file", path, "--scenario", "A", "--seed", "3", "--out", str(tmp_path / "c"), code=1)
    again = re.search(r"play it: urtrs-sim (.*)", said)[1]
    assert "seen: line 4 'write a is=EIO': it ended with success" in sim(*shlex.split(again), code=1)
    assert "needs --file FILE too" in sim("run", "--choices", str(tmp_path / "c"), code=2)


def test_io_result_is_shown_as_one_errno(write):
    path = write("scenario A\n  disks a\n  open a\n  write a is=ok\n  write a sector=64 is=EIO\n")
    told = re.findall(r"IO \d of a is over: (.*)", sim("run", "--file", path, "--seed", "3", "--verbose"))
    assert told == ["success", "EIO (errno 5), because: invalid argument"]


def test_help_of_each_command_has_only_its_examples():
    for command in ("run", "shrink", "sweep", "hash", "scenarios", "coverage", "explore", "list"):
        assert set(re.findall(r"^  urtrs-sim (\w+)", sim(command, "--help"), re.MULTILINE)) == {command}
        assert f"  urtrs-sim {command}" in sim("--help")


def test_expected_failure_must_occur_with_each_seed(write):
    path = write(UNMET)
    said = sim("scenarios", "--file", path, "--seeds", "0..2", code=1)
    assert "every rule holds, and O9 should fail" in said
    again = re.search(r"reproduce: urtrs-sim (.*)", said)[1]
    assert "the scenario expects O9" in sim(*shlex.split(again, comments=True), code=1)
    assert again.endswith("  # " + sim("--version").splitlines()[0])


def test_crlf_and_missing_final_newline_are_accepted(write):
    for text in (EXAMPLE.replace("\n", "\r\n"), EXAMPLE.rstrip("\n")):
        assert "1 scenario with 2 seeds, 0 failed" in sim("scenarios", "--file", write(text), "--seeds", "0..2")


def test_redefined_setup_applies_to_later_scenarios(write):
    twice = "".join(f"setup s\n set workload.requests={requests}\nscenario {name}: s\n  delivered number=20\n"
                    for name, requests in (("A", 40), ("B", 1)))
    said = sim("scenarios", "--file", write(twice), "--seeds", "0..1", code=1)
    assert "FAIL B" in said and "FAIL A" not in said, said


@pytest.mark.parametrize("text, why", [
    ("scenario A\n  delverd number=20\n", "line 2: unknown verb 'delverd'"),
    ("scenario A\n  set clients=x\n", "line 2: 'x' is not a value of clients"),
    ("scenario A: late\n", "line 1: unknown setup 'late': define it above this line"),
    ("scenario A\n  expect O99\n", "line 2: 'expect' needs ok or the id of an oracle"),
    ("scenario A\nscenario A\n", "line 2: duplicate scenario 'A'"),
    ("scenario L01a\n  delivered number=20\n", "duplicate scenario 'L01a'"),
    ("", "no scenario in it"),
    ("# a\nscenario A\n  title t\n  set paths=129\n  cut path=5\n", 'line 4: A: "paths" of the scenario is out of range'),
    ("scenario A\n  set server.max_sessions=0\n", 'line 2: A: "max_sessions" of the scenario must be 1 or more'),
])
def test_invalid_file_is_refused_with_a_reason(write, text, why):
    assert why in sim("scenarios", "--file", write(text), code=2)


def test_heartbeats_can_be_off(write):
    sim("scenarios", "--file", write("scenario A\n  set client.heartbeat.interval=never server.heartbeat.interval=never\n"
                                     "  delivered number=5\n  cut path=0\n  pass time=1s\n  heal path=0\n  completed number=20\n"),
        "--seeds", "0..20", code=0)


def test_seed_range_excludes_its_end(write):
    path = write(EXAMPLE)
    assert "1 scenario with 1 seed, 0 failed" in sim("scenarios", "--file", path, "--seeds", "0..1")
    assert "1 scenario with 1 seed, 0 failed" in sim("scenarios", "--file", path, "--seeds", "7")
    assert "--seeds takes A..B with A < B, or A, below 2^64 - 1" in sim("scenarios", "--file", path, "--seeds", "3..3", code=2)


@pytest.mark.parametrize("timeout", ["never", "0", "1us"])
def test_extreme_fence_timeout_does_not_hang_a_run(write, timeout):
    path = write(f"scenario A\n set client.fence_timeout={timeout}\n delivered number=2\n cut path=0\n"
                 " pass time=2s\n heal path=0\n")
    assert "1 scenario with 3 seeds, 0 failed" in sim("scenarios", "--file", path, "--seeds", "0..3")
