"""A sweep that a signal stops prints a summary and leaves no process behind; other commands do, too. Also tests the
largest seeds."""
import json
import os
import re
import shlex
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
    (signal.SIGINT, os.killpg),  # sent in the same way as by a terminal
    (signal.SIGTERM, os.kill),
    (signal.SIGTERM, os.killpg),  # sent in the same way as by timeout and systemd
])
def test_signal_ends_the_sweep_with_a_summary(sweep, number, send):
    process, _ = sweep
    send(process.pid, number)
    out, err = process.communicate(timeout=BOUND)
    assert "FAIL" not in out, out
    assert process.returncode == 128 + number, err
    assert re.search(r"^[0-9]+ seeds .* seeds/s", out, re.M), out
    assert re.search(r"stopped by a signal \(.*\) after [0-9]+ of 100000000 seeds", err), err


def test_workers_end_with_the_sweep(sweep):
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
def test_signal_ends_other_commands_cleanly(command, done, send, tmp_path):
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


def test_largest_seeds_are_run_once():
    seeds = ["--seeds", "18446744073709551610..18446744073709551615"]
    done = subprocess.run([*SWEEP[:2], *seeds, "--jobs", "2", "--no-block-devices"], stdout=subprocess.PIPE, text=True,
                          timeout=BOUND, check=True)
    assert done.stdout.startswith("5 seeds "), done.stdout
    hashes = {subprocess.run([program("urtrs-sim"), "hash", *seeds, "--jobs", jobs], stdout=subprocess.PIPE, text=True,
                             timeout=BOUND, check=True).stdout for jobs in ("1", "2")}
    assert len(hashes) == 1, hashes


def sweep_of(*arguments, code=0):
    done = subprocess.run([program("urtrs-sim"), "sweep", *map(str, arguments)], capture_output=True, text=True, timeout=BOUND,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_at_least_one_of_a_few_seeds_is_run_twice():
    """Without a minimum of one, a small percentage of a few seeds would select no seed."""
    for seeds, percent, twice in ("6..8", "1", "1"), ("6..8", "0", "0"), ("7..8", "1", "1"):
        said = sweep_of("--seeds", seeds, "--no-block-devices", "--check-determinism", percent)
        assert f" {twice} run twice" in said, said


def played(said):
    return int(re.search(r"^([0-9]+) seeds in ", said, re.M)[1])


def test_stopped_sweep_continues_from_its_state(tmp_path):
    state = tmp_path / "state"
    whole = 100000
    command = ["--seeds", f"0..{whole}", "--no-block-devices", "--check-determinism", "0", "--state", str(state)]
    with subprocess.Popen([program("urtrs-sim"), "sweep", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        # The sweep writes the state file every 2 s.
        until("seeds are done", lambda: state.exists() and json.loads(state.read_text())["next"] > 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130, err
    next_one = json.loads(state.read_text())["next"]
    assert 0 < next_one <= played(out)
    told = shlex.split(re.search(r"^continue with: urtrs-sim (sweep .*)", out, re.M)[1])
    assert told[told.index("--state") + 1] == str(state) and f"0..{whole}" in told
    again = sweep_of(*told[1:], "--time", "1s")
    assert f"{state}: seeds 0..{next_one} are done" in again
    assert json.loads(state.read_text())["next"] > next_one
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_state_of_another_sweep_is_refused_unchanged(tmp_path):
    state = tmp_path / "state"
    sweep_of("--seeds", "0..5", "--state", state)
    before = state.read_bytes()
    assert json.loads(before)["next"] == 5
    assert "seeds 0..5 are done" in sweep_of("--seeds", "0..5", "--state", state)
    assert "it belongs to --seeds 0..5; use another file" in sweep_of("--seeds", "0..6", "--state", state, code=2)
    assert "with the options" in sweep_of("--seeds", "0..5", "--fabric", "tcp", "--state", state, code=2)
    assert state.read_bytes() == before
    state.write_text(before.decode().replace('"version":"urtrs-sim ', '"version":"urtrs-sim of old '))
    assert "whose seeds play other runs" in sweep_of("--seeds", "0..5", "--state", state, code=2)
    for damaged in ("", "{}", "[1]", "x" * 100, before.decode().replace('"next":5', '"next":6'), before.decode()[:-9]):
        state.write_text(damaged)
        assert "not the state of a sweep" in sweep_of("--seeds", "0..5", "--state", state, code=2)
        assert state.read_text() == damaged
    assert "cannot write" in sweep_of("--seeds", "0..5", "--state", tmp_path / "missing/state", code=2)


def test_remaining_seeds_are_printed_without_a_state(tmp_path):
    out = sweep_of("--seeds", "0..100000000", "--time", "1s", "--without", "crash")
    rest = re.search(r"^continue with: urtrs-sim sweep --without crash .*--seeds ([0-9]+)\.\.100000000$", out, re.M)
    assert 0 < int(rest[1]) <= played(out)
    assert "continue with" not in sweep_of("--seeds", "0..3")
    assert "continue with" not in sweep_of("--seeds", "18446744073709551612..18446744073709551615")
