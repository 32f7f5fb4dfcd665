"""urtrs-sim blame names the step of a failing run from which on the failure is nearly certain."""
import json
import re
import subprocess

from programs import BOUND, program

SIM = program("urtrs-sim")
LOST = ["--scenario", "L01e", "--seed", "3", "--no-fence"]


def sim(*words, code=0):
    ran = subprocess.run([SIM, *map(str, words)], capture_output=True, text=True, timeout=2 * BOUND, check=False)
    assert ran.returncode == code, (words, ran.stdout, ran.stderr)
    return ran


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
