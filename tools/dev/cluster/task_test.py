"""tools/dev/cluster/task: the seeds of a part, its exit codes and its errors."""
import os
import pathlib
import subprocess

import pytest

TASK = pathlib.Path(__file__).resolve().parent / "task"
PROGRAM = """#!/bin/bash
echo "$*"
exit "$CODE"
"""


@pytest.fixture
def task(tmp_path):
    sim = tmp_path / "sim"
    sim.write_text(PROGRAM)
    sim.chmod(0o755)
    without = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}

    def run(*words, code=0, **environment):
        done = subprocess.run([TASK, *map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                              env={**without, "URTRS_SIM": str(sim), "CODE": "0", **environment})
        assert done.returncode == code, done
        return done.stdout + done.stderr
    return run


def test_part_of_a_range(task, tmp_path):
    said = task("--task", 7, tmp_path, 1000, 50, "sweep", "--fabric", "tcp")
    assert f"sweep --fabric tcp --jobs 1 --seeds 1350..1400 --result {tmp_path}/1350..1400.json\n" in said
    said = task(tmp_path, 0, 50, "sweep", SLURM_ARRAY_TASK_ID="0", SLURM_CPUS_PER_TASK="4", SLURM_RESTART_COUNT="2",
                SLURMD_NODENAME="n3")
    assert f"sweep --jobs 4 --seeds 0..50 --result {tmp_path}/0..50.json\n" in said
    assert "task 0: seeds 0..50 on n3, restart 2" in said
    said = task("--task", 1, tmp_path, 0, 5, "scenarios", "--only", "L01")
    assert f"scenarios --only L01 --seeds 5..10 --result {tmp_path}/5..10.json\n" in said
    assert "--task 3" not in task("--task", "3", tmp_path, 0, 50, "sweep", SLURM_ARRAY_TASK_ID="9")


@pytest.mark.parametrize("program, code", [("0", 0), ("1", 0), ("2", 2), ("5", 5), ("143", 143)])
def test_failing_seeds_do_not_fail_the_task(program, code, task, tmp_path):
    task("--task", 0, tmp_path, 0, 50, "sweep", CODE=program, code=code)


def test_wrong_use(task, tmp_path):
    assert "COMMAND are needed" in task(tmp_path, 0, 50, code=2)
    assert "--task N is missing" in task(tmp_path, 0, 50, "sweep", code=2)
    for words in (["x", tmp_path, 0, 50], ["1", tmp_path, -1, 50], ["1", tmp_path, 0, "08"], ["1", tmp_path, 0, 10**17], ["", tmp_path, 0, 5]):
        assert "tools/dev/cluster/task --help" in task("--task", *words, "sweep", code=2)
    assert "too large" in task("--task", 10**16, tmp_path, 0, 10**16, "sweep", code=2)
    assert "too large" in task("--task", 1, tmp_path, 0, 0, "sweep", code=2)
    assert "there is no folder" in task("--task", 1, tmp_path / "missing", 0, 5, "sweep", code=2)
    assert "there is no program" in task("--task", 1, tmp_path, 0, 5, "sweep", code=2, URTRS_SIM="nosuch")
    assert "sbatch --array" in task("--help")
