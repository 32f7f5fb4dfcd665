"""urtrs-sim hunt and blame: the search depends only on its seed, can be continued, and saves a run that other commands take."""
import json
import os
import re
import signal
import subprocess

import pytest
from programs import BOUND, program, until

SIM = program("urtrs-sim")
LOST = ["--scenario", "L01e", "--seed", "3", "--no-fence"]


def sim(*words, code=0, cwd=None, tool=SIM, bug=None):
    environment = dict(os.environ, URTRS_MUTANT=bug) if bug else None
    ran = subprocess.run([tool, *map(str, words)], capture_output=True, text=True, timeout=2 * BOUND, cwd=cwd, env=environment, check=False)
    assert ran.returncode == code, (words, ran.stdout, ran.stderr)
    return ran


def hunt(*words, **more):
    return json.loads(sim("hunt", *words, "--json", **more).stdout)


@pytest.fixture(name="planted")
def _planted():
    tool = os.path.join(os.environ["URTRS_BUILD_DIR"], "conformance/mutants/planted-urtrs-sim")
    if not os.path.exists(tool):
        pytest.skip("this build has no planted bugs")
    return tool


def test_search_does_not_depend_on_the_number_of_processes():
    one = hunt("--seed", 5, "--jobs", 1, "--events", 600_000)
    assert one == hunt("--seed", 5, "--jobs", 3, "--events", 600_000)
    assert one["runs"] > one["new_seeds"] > 64, "it forks runs, too"
    assert one != hunt("--seed", 6, "--events", 600_000)


def test_interrupted_search_continues_as_if_it_had_not_stopped(tmp_path):
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    hunt("--events", 900_000, "--state", whole)
    hunt("--events", 400_000, "--state", parts)
    command = [SIM, "hunt", "--state", str(parts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        runs = json.loads(parts.read_text())["corpus"]["runs"]
        until("more runs are done", lambda: json.loads(parts.read_text())["corpus"]["runs"] > runs)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130 and "stopped by a signal" in err
    events = json.loads(parts.read_text())["corpus"]
    # The two searches are compared where the interrupted one happened to stop.
    reached = events["new_events"] + events["fork_events"]
    hunt("--events", max(reached, 900_000), "--state", parts)
    hunt("--events", max(reached, 900_000), "--state", whole)
    assert json.loads(parts.read_text()) == json.loads(whole.read_text())


def test_state_of_another_search_is_refused_unchanged(tmp_path):
    state = tmp_path / "state"
    hunt("--events", 1, "--state", state)
    before = state.read_text()
    assert "another --seed" in sim("hunt", "--seed", 1, "--state", state, code=2).stderr
    assert "other options" in sim("hunt", "--fabric", "tcp", "--state", state, code=2).stderr
    assert state.read_text() == before
    for damaged in ("", "{}", "[1]", "x" * 100, before[:-9], before.replace('"runs":', '"ruins":'), "[" * 100_000,
                    re.sub(r'"features":\[\[\d+', '"features":[[4294967296', before), before.replace('"runs":16', '"runs":0')):
        assert damaged != before
        state.write_text(damaged)
        assert f"{state}: it is" in sim("hunt", "--state", state, code=2).stderr
        assert state.read_text() == damaged


def test_failing_run_is_repeated_and_shrunk(planted, tmp_path):
    found = sim("hunt", "--jobs", 2, code=1, cwd=tmp_path, tool=planted, bug="M29").stdout
    signature = re.search(r"^FAIL (.*) t=", found, re.M)[1]
    again = re.search(r"reproduce: urtrs-sim (run --choices \S+)$", found, re.M)[1].split()
    small = re.search(r"make small: urtrs-sim (shrink --choices \S+)$", found, re.M)[1].split()
    assert f"oracle={signature.split()[0]} " in sim(*again, code=1, cwd=tmp_path, tool=planted, bug="M29").stdout
    sim(*again, cwd=tmp_path, tool=planted)  # the run holds without the bug
    shrunk = json.loads(sim(*small, "--time", "3s", "--out", "small", "--json", code=1, cwd=tmp_path, tool=planted, bug="M29").stdout)
    assert shrunk["signature"] == signature and sum(shrunk["after"].values()) < sum(shrunk["before"].values())


def test_blame_names_the_lost_message_of_a_lost_update(tmp_path):
    """Without the fence, a write that is still in flight when its path is lost overwrites a later one (L01e)."""
    page = tmp_path / "why.html"
    blamed = json.loads(sim("blame", *LOST, "--page", page, "--json", code=1).stdout)
    step = blamed["step"]
    assert step["rate_before"] < 0.6 and step["rate_after"] > 0.9
    assert step["choice"]["label"] in ("ghost_count", "ghost_delay"), "the choices by which a message outlives its connection"
    draws = [point["draw"] for point in blamed["points"]]
    assert draws == sorted(draws) and draws[0] == 0 and draws[-1] == blamed["draws"]
    assert blamed["points"][-1]["failed"] == blamed["points"][-1]["redraws"]
    text = page.read_text(encoding="utf-8")
    assert text.count("<circle ") == len(draws) and 'class="step"' in text and "srcdoc=" in text and "CON_REQ" in text
    assert blamed == json.loads(sim("blame", *LOST, "--page", page, "--jobs", 3, "--json", code=1).stdout)


def test_blame_takes_a_shrunk_choice_log(tmp_path):
    sim("shrink", *LOST, "--time", "2s", "--out", tmp_path / "small", code=1)
    said = sim("blame", "--choices", tmp_path / "small", code=1).stdout
    assert "step: event " in said and re.search(r"^-> +\d+ ", said, re.M)


def test_blame_of_a_passing_run():
    assert sim("blame", "--seed", 3).stdout == "ok seed=3: every rule held, nothing to blame\n"
