"""A sweep that a signal stops: it sums up what it played, and leaves no process behind."""
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_its_summary(sweep, number):
    process, _ = sweep
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 128 + number, err
    assert re.search(r"^[0-9]+ seeds .* seeds/s", out, re.M), out
    assert re.search(r"stopped by a signal \(.*\) after [0-9]+ of 100000000 seeds", err), err


def test_its_workers_end_with_it(sweep):
    process, workers = sweep
    process.kill()
    process.wait(BOUND)
    until("the workers are gone", lambda: not any(map(is_alive, workers)))
