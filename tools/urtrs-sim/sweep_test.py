"""A sweep that a signal stops: it sums up what it played, and leaves no process behind. So do other commands. And the
last seeds there are."""
import os
import re
import signal
import subprocess

import pytest
from programs import BOUND, program, until

SWEEP = [program("urtrs-sim"), "sweep", "--seeds", "0..100000000", "--jobs", "2", "--no-block-devices"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def sweep():
    process = subprocess.Popen(SWEEP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        workers = until("two workers", lambda: len(children(process.pid)) == 2 and children(process.pid))
        yield process, workers
    finally:
        process.kill()
        process.communicate()
    until("the workers are gone", lambda: not any(map(is_alive, workers)))


@pytest.mark.parametrize("number, send", [
    (signal.SIGINT, os.killpg),  # as a terminal sends it
    (signal.SIGTERM, os.kill),
    (signal.SIGTERM, os.killpg),  # as timeout and systemd do
])
def test_a_signal_ends_it_with_its_summary(sweep, number, send):
    process, _ = sweep
    send(process.pid, number)
    out, err = process.communicate(timeout=BOUND)
    assert "FAIL" not in out, out
    assert process.returncode == 128 + number, err
    assert re.search(r"^[0-9]+ seeds .* seeds/s", out, re.M), out
    assert re.search(r"stopped by a signal \(.*\) after [0-9]+ of 100000000 seeds", err), err


def test_its_workers_end_with_it(sweep):
    process, workers = sweep
    process.kill()
    process.wait(BOUND)
    until("the workers are gone", lambda: not any(map(is_alive, workers)))


@pytest.mark.parametrize("send", [os.kill, os.killpg])
@pytest.mark.parametrize("command, done", [
    (["hash", "--seeds", "0..100000000"], r"after [0-9]+ of 100000000 seeds"),
    (["scenarios", "--only", "L01e", "--seeds", "0..100000000"], r"in number 1 of 1 scenarios, 0 failed"),
    (["explore"], r"in search [0-9]+"),
    (["shrink", "--scenario", "L01e", "--seed", "3", "--no-fence", "--time", "1h", "--out", "small.choices"],
     r"after [0-9]+ runs"),
])
def test_a_signal_ends_other_commands_in_good_order(command, done, send, tmp_path):
    with subprocess.Popen([program("urtrs-sim"), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, cwd=tmp_path) as process:
        if command[0] == "explore":
            until("threads", lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1)
        else:
            until("a run", lambda: children(process.pid))
        send(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 143, out + err
    assert re.search(rf"stopped by a signal \(Terminated\) {done}", err), err
    assert (tmp_path / "small.choices").exists() == (command[0] == "shrink")


def test_the_last_seeds_are_played_once():
    seeds = ["--seeds", "18446744073709551610..18446744073709551615"]
    done = subprocess.run([*SWEEP[:2], *seeds, "--jobs", "2", "--no-block-devices"], stdout=subprocess.PIPE, text=True,
                          timeout=BOUND, check=True)
    assert done.stdout.startswith("5 seeds "), done.stdout
    hashes = {subprocess.run([program("urtrs-sim"), "hash", *seeds, "--jobs", jobs], stdout=subprocess.PIPE, text=True,
                             timeout=BOUND, check=True).stdout for jobs in ("1", "2")}
    assert len(hashes) == 1, hashes
