"""The page of `urtrs-replay seq --html` and `urtrs-sim run --page` opens with the answer: verdict, items, figures over time."""

import json
import os
import re
import shutil
import subprocess

import pytest
from browser import CHROMIUM, dom
from programs import BOUND, TRACES, program

REPLAY, SIM = program("urtrs-replay"), program("urtrs-sim")
CLIENT, SERVER = TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"
EVIL = "</script><img src=x onerror=document.title='owned'>"

SCENARIOS = """
scenario cut
  title both paths are cut for 11 s
  set workload.requests=300 workload.gap=40ms
  completed number=50
  cut path=0
  cut path=1
  pass time=11s
  heal path=0
  heal path=1
  completed number=300

scenario silent
  title storage never completes a write
  set paths=1 workload.requests=0
  connected path=0
  write number=1
  completed number=1
  pass time=300ms
  storage number=1 time=10000s length=10000s
  write number=1 sector=8
  completed number=2
  expect O9
"""


def run(*arguments, code=0):
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done


def kinds(found):
    return {one[1]["data-kind"] for one in found.having("finding")}


def data_of(*traces, arguments=()):
    return json.loads(run(REPLAY, "seq", *traces, "--json", *arguments).stdout)


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory):
    """Runs the scenarios. Returns a function from a scenario to (traces, page of urtrs-sim)."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mine.scenarios").write_text(SCENARIOS)

    def made(name):
        page = folder / f"{name}.html"
        if not page.exists():
            run(SIM, "run", "--file", folder / "mine.scenarios", "--scenario", name, "--seed", "1", "--trace", folder / name,
                "--page", page)
        return [folder / f"{name}.client1.rtrc", folder / f"{name}.server.rtrc"], page
    return made


def test_figures_are_those_of_stat(runs):
    for client, server in ((CLIENT, SERVER), runs("cut")[0]):
        axis = data_of(client, server)["answer"]["axis"]
        stat = json.loads(run(REPLAY, "stat", client, "--json").stdout)["requests"]
        total = sum(one["reads"] + one["writes"] for one in stat)
        assert total > 20
        assert sum(axis["completed"]) == total
        assert sum(axis["failed"]) == sum(one["failed"] for one in stat)
        assert max(axis["longest"]) == max(one["latency_ns"]["max"] for one in stat)
        assert len(axis["completed"]) <= 1024
        told = {(one["instance"], one["path"]): (one["requests"], one["p50"], one["p99"], one["max"]) for one in axis["latency"]}
        assert told == {(one["instance"], one["path"]): (one["reads"] + one["writes"], *(one["latency_ns"][part] for part in
                                                                                         ("p50", "p99", "max"))) for one in stat}
        # A bucket without requests has no latency; in the others, the median does not exceed the maximum.
        for count, median, longest in zip(axis["completed"], axis["p50"], axis["longest"]):
            assert (count > 0) == (longest > 0) and median <= longest


def test_cut_is_in_the_answer(runs):
    traces, _ = runs("cut")
    answer = data_of(*traces)["answer"]
    rows = {row["kind"]: row for row in answer["rows"]}
    assert rows["path"]["count"] == 2 and rows["link"]["count"] == 1
    link = rows["link"]["items"][0]
    assert 9e9 < link["until"] - link["at"] < 16e9
    assert re.match(r"No path was connected for \d+\.\d\d s from", answer["verdict"])
    slowest = rows["slowest"]["items"][0]
    assert slowest["until"] - slowest["at"] == max(answer["axis"]["longest"])
    assert rows["unanswered"]["count"] == rows["failed"]["count"] == rows["violation"]["count"] == 0
    # During the cut no request completes, and neither path is connected (state 3).
    axis = answer["axis"]
    bucket = int(((link["at"] + link["until"]) / 2 - axis["from"]) // axis["width"])
    assert axis["completed"][bucket] == 0 and axis["inFlight"][bucket] > 0
    assert all(states[bucket] and not states[bucket] & 1 << 3 for states in axis["states"])


def test_hang_is_in_the_answer(runs):
    traces, _ = runs("silent")
    answer = data_of(*traces)["answer"]
    rows = {row["kind"]: row for row in answer["rows"]}
    assert rows["unanswered"]["count"] == 1
    assert "has no answer" in answer["verdict"] and answer["tone"] == "bad"
    assert "storage has not completed it" in answer["verdict"]


def test_long_trace_keeps_what_matters(runs):
    traces, _ = runs("cut")
    whole, part = data_of(*traces), data_of(*traces, arguments=("--limit", "600"))
    assert part["answer"]["axis"] == whole["answer"]["axis"], "the figures are of the whole run"
    steps = part["steps"]
    assert len(steps["at"]) <= 600 < len(whole["steps"]["at"])
    assert len(part["gaps"]) > 1
    assert len(steps["at"]) + sum(gap["steps"] for gap in part["gaps"]) == len(whole["steps"]["at"])
    on_page = set(zip(steps["file"], steps["record"]))
    for row in part["answer"]["rows"]:
        for item in row["items"]:
            assert (item["file"], item["record"]) in on_page, item
    times = steps["at"]
    for gap in part["gaps"]:
        assert gap["before"] == len(times) or times[gap["before"]] >= gap["to"]
        assert gap["before"] == 0 or times[gap["before"] - 1] <= gap["from"]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
class TestBrowser:
    def test_first_view(self, runs):
        """The simulator's page has its faults, too."""
        _, page = runs("cut")
        found = dom(page)
        assert found.named("verdict")[2].startswith("No path was connected for ")
        assert {"link", "path", "slowest"} <= kinds(found)
        assert len(found.having("iops")) == len(found.having("latency-max")) == len(found.having("in-flight")) == 1
        assert {one[1]["data-path"] for one in found.having("state") if "data-path" in one[1]} == {"path 0", "path 1"}
        faults = "".join(one[2] for one in found.having("fault"))
        assert "cut" in faults and "heal" in faults and "path=1" in faults
        assert found.having("axis-window")

    def test_item_leads_to_its_step(self, runs):
        _, page = runs("cut")
        found = dom(page, "document.querySelector('tr[data-kind=link] .item').click();")
        assert any("link down" in one[2] for one in found.having("selected") if one[0] == "g")

    def test_click_on_the_axis_goes_there(self, runs, tmp_path):
        traces, _ = runs("cut")
        page = tmp_path / "page.html"
        said = run(REPLAY, "seq", *traces, "--html", page, "--limit", "600").stderr
        assert re.search(r"the page has \d+ of [\d]+ steps", said)
        gap = max(data_of(*traces, arguments=("--limit", "600"))["gaps"], key=lambda one: one["steps"])
        found = dom(page, f"goToTime({gap['from']}); goToTime(({gap['from']} + {gap['to']}) / 2);")
        command = next(one[2] for one in found.having("gap-command"))
        shown = subprocess.run(["sh", "-c", f"PATH={os.path.dirname(REPLAY)}:$PATH; cd {tmp_path}; {command} && ls part-*.html"],
                               capture_output=True, text=True, timeout=4 * BOUND, check=True)
        drawn = json.loads((tmp_path / shown.stdout.strip()).read_text().partition('id="data">')[2].partition("</script>")[0])
        assert len(drawn["steps"]["at"]) >= gap["steps"]
        step = dom(page, f"goToTime({data_of(*traces)['answer']['rows'][-1]['items'][0]['at']});")
        assert not step.having("gap-command") and step.having("step")

    def test_failing_event_of_an_oracle_is_marked(self, tmp_path):
        page = tmp_path / "page.html"
        text = run(SIM, "run", "--scenario", "L01e", "--seed", "3", "--no-fence", "--page", page, code=1).stdout
        oracle, time = re.search(r"oracle=(O\d+) t=(\d+\.\d+) s", text).groups()
        found = dom(page)
        assert found.named("verdict")[2].startswith("The run fails at ") and oracle + ": " in found.named("verdict")[2]
        marked = [one for one in found.having("violation") if one[0] == "g"]
        assert len(marked) == 1 and oracle + ": " in marked[0][2]
        shown = float(re.search(r"\d+\.\d{9}", marked[0][2])[0])
        assert float(time) - 0.001 < shown <= float(time)
        assert "oracle" in kinds(found)

    def test_names_do_not_become_markup(self, tmp_path):
        folder = tmp_path / EVIL.partition("/")[0]
        folder.mkdir()
        name = folder / EVIL.partition("/")[2]
        shutil.copy(CLIENT, name)
        page = tmp_path / "page.html"
        run(REPLAY, "seq", name, "--html", page, "--mark", "17:" + EVIL, "--limit", "200")
        text = page.read_text()
        assert text.count("</script>") == 2 and "<img" not in text
        found = dom(page, "showGap(DATA.gaps[0]);")
        assert not [one for one in found.found if one[0] == "img"]
        assert EVIL in found.named("verdict")[2]
        assert "onerror" in next(one[2] for one in found.having("gap-command"))
