"""--artifacts: the files of a failing run exist and can be read by the programs that use them."""
import os
import re
import signal
import subprocess

import pytest
from programs import BOUND, program, until

SIM = program("urtrs-sim")
LOST = ["--scenario", "L01e", "--seed", "3", "--no-fence"]
ENDINGS = {".client1.rtrc", ".server.rtrc", ".txt", ".pcapng", ".html"}


def sim(*arguments, code):
    done = subprocess.run([SIM, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done


def named(said):
    return re.findall(r"^  (/\S+)$", said.partition("artifacts:\n")[2], re.MULTILINE)


def check(folder, name, files):
    """Checks that all files exist and have the right format."""
    assert {os.path.relpath(file, folder) for file in files} == {name + ending for ending in ENDINGS}
    assert sorted(os.listdir(folder)) == sorted(os.path.basename(file) for file in files)
    traces = [str(folder / (name + ending)) for ending in sorted(ENDINGS) if ending.endswith(".rtrc")]
    for trace in traces:
        subprocess.run([program("urtrs-replay"), "stat", trace], check=True, timeout=BOUND, stdout=subprocess.DEVNULL)
    back = subprocess.run([program("urtrs-replay"), "import", folder / f"{name}.pcapng", folder / "back.rtrc"], capture_output=True,
                          text=True, timeout=BOUND, check=False)
    assert back.returncode == 0, back.stderr
    page = (folder / f"{name}.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "CON_REQ" in page
    report = (folder / f"{name}.txt").read_text(encoding="utf-8")
    assert f"FAIL seed={name.split('-')[-1]}" in report
    assert all(f"{trace}: " in report for trace in traces)


@pytest.fixture(name="folder")
def _folder(tmp_path):
    return tmp_path / "of/runs"  # folder that urtrs-sim must create


def test_failing_run_writes_all_files(folder):
    said = sim("run", *LOST, "--artifacts", folder, code=1).stdout
    assert re.search(r"^FAIL seed=3 oracle=", said, re.MULTILINE)
    check(folder, "urtrs-sim-L01e-3", named(said))


def test_passing_run_writes_no_files(folder):
    said = sim("run", "--seed", "3", "--artifacts", folder, code=0).stdout
    assert said.startswith("ok seed=3 ") and "traces" not in said
    assert os.listdir(folder) == []


def test_files_are_named_after_the_choice_log(folder, tmp_path):
    sim("shrink", *LOST, "--time", "2s", "--out", tmp_path / "small.choices", code=1)
    said = sim("run", "--choices", tmp_path / "small.choices", "--artifacts", folder, code=1).stdout
    assert {os.path.basename(file) for file in named(said)} >= {"small.txt", "small.pcapng", "small.html"}


def test_crashed_worker_of_a_sweep_keeps_its_files(folder):
    """The files of the crashed seed are kept, although the seed succeeds when it runs again alone."""
    command = [SIM, "sweep", "--seeds", "0..100000000", "--jobs", "1", "--no-block-devices", "--artifacts", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        def children():
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                return file.read().split()
        worker = int(until("a worker", children)[0])
        os.kill(worker, signal.SIGSEGV)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 5, err
    seed = re.search(r"^FAIL seed=(\d+) failed in the sweep, but not alone$", out, re.MULTILINE)[1]
    assert f"reproduce: urtrs-sim run --seed {seed} " in out
    files = named(out)
    assert {f"urtrs-sim-{seed}{ending}" for ending in ENDINGS} <= {os.path.basename(file) for file in files}
    assert sorted(os.listdir(folder)) == sorted(os.path.basename(file) for file in files)


def test_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "cannot make" in sim("run", "--seed", "3", "--artifacts", tmp_path / "file/below", code=2).stderr
