"""tools/dev/fabric-bench runs and prints its table. The results are not checked."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from programs import BOUND, BUILD, ROOT

BENCH = ROOT / "tools/dev/fabric-bench"


def bench(*arguments, code=0, **options):
    done = subprocess.run([BENCH, "--build", BUILD, "--rounds", "1", "--seconds", "0.3", "--loads", "4k:4", *arguments],
                          capture_output=True, text=True, timeout=4 * BOUND, check=False, **options)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize("other", ["raw", "libfabric", "tls", "floor"])
def test_the_table_has_a_row_for_each_load_and_direction(other):
    rows = [line.split(" | ") for line in bench("--beside", other).splitlines()[2:]]
    assert [row[:3] for row in rows] == [[f"| {other}", "4k:4", "write"], [f"| {other}", "4k:4", "read"]]
    assert all(re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", row[4]) for row in rows)


@pytest.mark.skipif(shutil.which("ucx_perftest") is None, reason="ucx_perftest is not installed; apt-get install ucx-utils")
def test_ucx_is_measured_or_reported_as_hanging():
    """A hanging UCX run is reported and not counted."""
    done = subprocess.run([BENCH, "--build", BUILD, "--rounds", "1", "--seconds", "0.3", "--loads", "4k:32", "--beside", "ucx",
                           "--ucx-ios", "500"], capture_output=True, text=True, timeout=4 * BOUND, check=True)
    for rw in ("write", "read"):
        assert f"| ucx | 4k:32 | {rw} | " in done.stdout or f"4k:32 {rw}: ucx did not end" in done.stderr


def test_usage_errors_are_explained(tmp_path):
    assert "none of raw, libfabric, tls, floor, ucx" in bench("--beside", "pigeon", code=2)
    with_python_alone = tmp_path / "bin"
    with_python_alone.mkdir()
    (with_python_alone / "python3").symlink_to(sys.executable)
    assert "apt-get install ucx-utils" in bench("--beside", "ucx", code=2, env={**os.environ, "PATH": f"{with_python_alone}"})
    if shutil.which("ucx_perftest"):
        assert "--rw can be read and write" in bench("--beside", "ucx", "--rw", "randread", code=2)
