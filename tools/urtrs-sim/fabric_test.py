"""--fabric tcp runs the same worlds on the tcp fabric: deterministic for each seed, with a command that repeats a failure."""
import os
import re
import subprocess

import pytest
from programs import BOUND, program

SIM = program("urtrs-sim")


def run(*words, tool=SIM, cwd=None, bug=None):
    environment = dict(os.environ, URTRS_MUTANT=bug) if bug else None
    return subprocess.run([tool, *words], capture_output=True, text=True, timeout=BOUND, cwd=cwd, env=environment, check=False)


def digest(*words):
    ran = run("hash", "--seeds", "0..40", "--jobs", "1", *words)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout.strip()


def test_seed_is_deterministic_and_differs_from_sim():
    assert digest("--fabric", "tcp") == digest("--fabric", "tcp") != digest("--fabric", "sim") == digest()


def test_sweep_runs_each_seed_twice_identically():
    ran = run("sweep", "--fabric", "tcp", "--seeds", "0..60", "--check-determinism", "100", "--replay-check",
              "--jobs", "2")
    assert ran.returncode == 0, ran.stdout
    # Each seed runs its own world and a world with streams; one seed in eight also runs a world with block devices.
    assert " 128 run twice" in ran.stdout, ran.stdout


def test_verbose_names_the_network():
    assert "network tcp," in run("run", "--fabric", "tcp", "--seed", "3", "--verbose").stdout
    assert "network tcp," not in run("run", "--seed", "3", "--verbose").stdout


def test_unknown_fabric_is_refused():
    ran = run("run", "--fabric", "rdma", "--seed", "3")
    assert ran.returncode == 2
    assert "rdma" in ran.stderr


def test_failure_is_reproduced_and_shrunk_on_the_same_fabric(tmp_path):
    planted = os.path.join(os.environ["URTRS_BUILD_DIR"], "conformance/mutants/planted-urtrs-sim")
    if not os.path.exists(planted):
        pytest.skip("this build has no planted bugs")
    ran = run("sweep", "--fabric", "tcp", "--seeds", "0..60", "--jobs", "1", tool=planted, cwd=tmp_path, bug="M03")
    assert ran.returncode == 1, ran.stdout
    again = re.search(r"reproduce: urtrs-sim (run .*--fabric tcp)  # urtrs-sim .*$", ran.stdout, re.M)
    small = re.search(r"make small: urtrs-sim (shrink .*--fabric tcp)$", ran.stdout, re.M)
    assert again and small, ran.stdout
    assert run(*again[1].split(), tool=planted, cwd=tmp_path, bug="M03").returncode == 1
    shrunk = run(*small[1].split(), "--time", "5s", "--out", "s.choices", tool=planted, cwd=tmp_path, bug="M03")
    assert shrunk.returncode == 1, shrunk.stdout
    assert '"fabric": "tcp"' in (tmp_path / "s.choices").read_text()
    played = run("run", "--choices", "s.choices", "--verbose", tool=planted, cwd=tmp_path, bug="M03")
    assert played.returncode == 1
    assert "network tcp," in played.stdout
