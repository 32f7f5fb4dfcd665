"""--fabric verbs-mock runs the same worlds on simulated adapters: deterministic for each seed, without libibverbs."""
import os
import re
import subprocess

import pytest
from programs import BOUND, program

SIM = program("urtrs-sim")
OVER = ("--fabric", "verbs-mock")


def run(*words, tool=SIM, cwd=None, bug=None):
    environment = dict(os.environ, URTRS_MUTANT=bug) if bug else None
    return subprocess.run([tool, *words], capture_output=True, text=True, timeout=BOUND, cwd=cwd, env=environment, check=False)


def digest(*words):
    ran = run("hash", "--seeds", "0..40", "--jobs", "1", *words)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout.strip()


def test_seed_is_deterministic_and_differs_from_other_fabrics():
    assert digest(*OVER) == digest(*OVER)
    assert len({digest(*OVER), digest(), digest("--fabric", "tcp")}) == 3


def test_sweep_runs_each_seed_twice_identically():
    ran = run("sweep", *OVER, "--seeds", "0..60", "--check-determinism", "100", "--replay-check", "--jobs", "2")
    assert ran.returncode == 0, ran.stdout
    # Each seed runs its own world; one seed in eight also runs a world with block devices.
    assert " 68 run twice" in ran.stdout, ran.stdout


def test_traces_of_one_seed_are_equal(tmp_path):
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        assert run("run", *OVER, "--seed", "102", "--trace", "run", cwd=tmp_path / folder).returncode == 0
    names = sorted(os.listdir(tmp_path / "one"))
    assert len(names) >= 2
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name


def test_verbose_names_the_network_and_adapters():
    told = run("run", *OVER, "--seed", "3", "--verbose").stdout
    assert "network verbs-mock," in told
    assert re.search(r"; adapters: n0 \w+ \((auto|windows|registration) (send|auto)\), n1 \w+ \(", told), told


def test_program_links_no_rdma_library():
    needed = subprocess.run(["readelf", "-d", SIM], capture_output=True, text=True, check=True).stdout
    assert "libc.so" in needed
    assert "libibverbs" not in needed and "librdmacm" not in needed


def test_failure_is_reproduced_and_shrunk_on_the_same_fabric(tmp_path):
    planted = os.path.join(os.environ["URTRS_BUILD_DIR"], "conformance/mutants/planted-urtrs-sim")
    if not os.path.exists(planted):
        pytest.skip("this build has no planted bugs")
    ran = run("sweep", *OVER, "--seeds", "0..60", "--jobs", "1", tool=planted, cwd=tmp_path, bug="M03")
    assert ran.returncode == 1, ran.stdout
    again = re.search(r"reproduce: urtrs-sim (run .*--fabric verbs-mock)  # urtrs-sim .*$", ran.stdout, re.M)
    small = re.search(r"make small: urtrs-sim (shrink .*--fabric verbs-mock)$", ran.stdout, re.M)
    assert again and small, ran.stdout
    assert run(*again[1].split(), tool=planted, cwd=tmp_path, bug="M03").returncode == 1
    shrunk = run(*small[1].split(), "--time", "5s", "--out", "s.choices", tool=planted, cwd=tmp_path, bug="M03")
    assert shrunk.returncode == 1, shrunk.stdout
    assert '"fabric": "verbs-mock"' in (tmp_path / "s.choices").read_text()
    played = run("run", "--choices", "s.choices", "--verbose", tool=planted, cwd=tmp_path, bug="M03")
    assert played.returncode == 1
    assert "network verbs-mock," in played.stdout
