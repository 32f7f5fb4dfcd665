"""The ledger keeps failing seeds with the versions that showed and fixed them, runs them before a sweep, and becomes a page."""
import html.parser
import json
import os
import re
import subprocess

import pytest
from programs import BOUND, BUILD, program

SIM = program("urtrs-sim")
PLANTED = str(BUILD / "conformance/mutants/planted-urtrs-sim")
needs_bugs = pytest.mark.skipif(not os.path.exists(PLANTED), reason="needs planted-urtrs-sim")
BUG = "M09"
LINE = {"seed": 3, "worlds": "", "world": "", "rule": "O4", "place": "<script>\x1b", "shown": "urtrs-sim 0.1.0 (abc)", "fixed": ""}
SWEEP = {"version": "urtrs-sim 0.1.0 (abc)", "seeds": "0..9", "worlds": "", "checks": "", "rate": 80.5, "marks": 1, "all_marks": 2, "pairs": 3,
         "all_pairs": 4, "failures": 0}


@pytest.fixture
def sim(tmp_path):
    """Runs urtrs-sim in a folder of its own, if wanted with a planted bug."""
    def run(*arguments, code=0, bug=None):
        environment = {key: value for key, value in os.environ.items() if key != "URTRS_MUTANT"}
        done = subprocess.run([PLANTED if os.path.exists(PLANTED) else SIM, *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=2 * BOUND, cwd=tmp_path, stdin=subprocess.DEVNULL,
                              env=environment if bug is None else {**environment, "URTRS_MUTANT": bug})
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr
    return run


def write(file, *lines):
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@needs_bugs
def test_failing_seeds_are_kept_run_first_and_fixed(sim, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    sim("sweep", "--seeds", "0..60", "--result", "bad.json", code=1, bug=BUG)
    groups = json.loads((tmp_path / "bad.json").read_text())["failures"]["groups"]
    assert f"{len(groups)} new cases" in sim("ledger", "add", "bad.json").replace("1 new case ", "1 new cases ")
    cases = [line for line in lines_of(ledger) if "rule" in line]
    assert [case["seed"] for case in cases] == [group["seeds"][0] for group in groups]
    before = ledger.read_bytes()
    assert "0 new cases" in sim("ledger", "add", "bad.json") and ledger.read_bytes() == before
    # The same failure in other worlds is another case.
    (tmp_path / "tcp.json").write_text((tmp_path / "bad.json").read_text().replace('"worlds": ""', '"worlds": " --fabric tcp"'))
    (tmp_path / "both.jsonl").write_bytes(before)
    assert f"{len(groups)} new case" in sim("ledger", "add", "tcp.json", "--ledger", "both.jsonl")

    said = sim("sweep", "--seeds", "0..3", "--ledger", "ledger.jsonl", code=1, bug=BUG)
    assert "FAIL case 1, still open: FAIL seed=" in said and f"urtrs-sim: 0 of {len(cases)} cases of ledger.jsonl pass" in said
    error = json.loads(sim("sweep", "--seeds", "0..3", "--ledger", "ledger.jsonl", "--json", code=1, bug=BUG).splitlines()[0])["error"]
    assert error == {"code": "failed", "message": f"0 of {len(cases)} cases of ledger.jsonl pass"}
    assert "seeds/s" not in said  # the sweep itself is not run
    assert "case 1 still fails" in sim("ledger", "fix", "1", code=1, bug=BUG) and ledger.read_bytes() == before

    said = sim("sweep", "--seeds", "0..3", "--ledger", "ledger.jsonl")
    assert "case 1 passes; record the version that fixed it: urtrs-sim ledger fix 1" in said and "\n3 seeds in" in said
    assert "case 1 passes: fixed by urtrs-sim " in sim("ledger", "fix", "1")
    assert [bool(case["fixed"]) for case in lines_of(ledger) if "rule" in case] == [True] + [False] * (len(cases) - 1)
    said = sim("sweep", "--seeds", "0..3", "--ledger", "ledger.jsonl", code=1, bug=BUG)
    assert re.search(r"^FAIL case 1, fixed by urtrs-sim .*, fails again: FAIL seed=", said, re.MULTILINE), said
    # The same failure after its fix is a new case.
    assert "1 new case " in sim("ledger", "add", "bad.json")


def test_result_older_than_the_fix_makes_no_case(sim, tmp_path):
    def git(*words):
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=tmp_path, check=True, timeout=BOUND,
                              capture_output=True, text=True).stdout.strip()
    git("init", "-q", "-b", "main")
    commits = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git("rev-parse", "--short=10", "HEAD"))
    sim("sweep", "--seeds", "0..2", "--result", "r")
    result = json.loads((tmp_path / "r").read_text())
    result["failures"] = {"total": 1, "groups": [{"rule": "O4", "place": "p", "world": "", "failures": 1, "seeds": [1], "seen": "p"}]}
    fixed = {**LINE, "place": "p", "fixed": f"urtrs-sim 0.1.0 ({commits[1]})"}
    for commit, said, cases in ((commits[0], "which is newer: no new case", 1), (commits[1], "is not newer: a new case", 2),
                                (commits[2] + "-dirty", "is not newer: a new case", 2), ("0123456789", "git does not know", 2)):
        write(tmp_path / "l", fixed)
        (tmp_path / "r").write_text(json.dumps({**result, "version": f"urtrs-sim 0.1.0 ({commit})"}))
        assert said in sim("ledger", "add", "r", "--ledger", "l"), commit
        assert len([line for line in lines_of(tmp_path / "l") if "rule" in line]) == cases


@needs_bugs
def test_result_does_not_depend_on_the_ledger(sim, tmp_path):
    sim("sweep", "--seeds", "0..60", "--result", "bad.json", code=1, bug=BUG)
    sim("ledger", "add", "bad.json")
    assert "FAIL case 1" in sim("sweep", "--seeds", "0..60", "--result", "again.json", "--ledger", "ledger.jsonl", code=1, bug=BUG)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "bad.json").read_bytes()


def test_choice_log_beside_the_ledger_is_run(sim, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    sim("shrink", "--scenario", "L01e", "--seed", "3", "--no-fence", "--time", "2s", "--out", folder / "lost.choices", code=1)
    case = {key: value for key, value in LINE.items() if key != "seed"}
    write(folder / "l", {"choices": "lost.choices", **case})
    assert "FAIL case 1, still open: FAIL seed=3 oracle=O4" in sim("sweep", "--seeds", "0..3", "--ledger", "kept/l", code=1)
    write(folder / "odd", {"choices": "it's; reboot", **case})
    assert r"urtrs-sim run --choices 'it'\''s; reboot'" in sim("ledger", "--ledger", "kept/odd")
    # A case that cannot be run does not hide the others.
    write(folder / "l", {"choices": "missing", **case}, {"choices": "lost.choices", **case})
    said = sim("sweep", "--seeds", "0..3", "--ledger", "kept/l", code=1)
    assert "FAIL case 2, still open" in said and "0 of 2 cases of kept/l pass; case 1 cannot be run: urtrs-sim: " in said
    write(folder / "l", {"choices": "missing", **case}, LINE)
    said = sim("sweep", "--seeds", "0..3", "--ledger", "kept/l", code=2)
    assert "case 2 passes" in said and "1 of 2 cases of kept/l pass; case 1 cannot be run" in said and "seeds/s" not in said


def test_sweep_is_replaced_by_one_of_the_same_version(sim, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    write(ledger, SWEEP)
    sim("sweep", "--seeds", "0..9", "--result", "r")
    sim("ledger", "add", "r")
    first = lines_of(ledger)
    assert first[0] == SWEEP and len(first) == 2 and first[1]["rate"] > 0 and 0 < first[1]["marks"] < first[1]["all_marks"]
    (tmp_path / "r.times").unlink()
    sim("ledger", "add", "r")
    assert lines_of(ledger) == [SWEEP, {**first[1], "rate": 0.0}]


class Page(html.parser.HTMLParser):
    """Checks that tags are balanced, and keeps their names and the text."""
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_page(sim, tmp_path):
    write(tmp_path / "ledger.jsonl", SWEEP, {**SWEEP, "version": "later", "rate": 70}, {**SWEEP, "worlds": " --fabric tcp"}, LINE,
          {**LINE, "fixed": "later"})
    assert "page: p.html" in sim("ledger", "--html", "p.html")
    text = (tmp_path / "p.html").read_text()
    page = Page(text)
    # Two kinds of worlds with four charts each; a point for each sweep in each chart.
    assert page.tags.count("svg") == 8 and page.tags.count("circle") == 4 * 3 and "script" not in page.tags
    assert "later, seeds 0..9: 70" in page.text and "<script>\\x1b" in page.text and "\x1b" not in text
    assert "http" not in text  # the page needs no server
    assert page.tags.count("tr") == 2 + 3 + 1 + 2 and text.count('class="open"') == 1
    assert "cannot write" in sim("ledger", "--html", "missing/p", code=2)
    # Only sweeps of the same size and options are joined by a line.
    write(tmp_path / "ledger.jsonl", SWEEP, {**SWEEP, "seeds": "0..90"}, {**SWEEP, "seeds": "10..19"}, {**SWEEP, "checks": " --excuse O3"})
    sim("ledger", "--html", "p.html")
    lines = [len(points.split()) for points in re.findall(r'<polyline points="([^"]*)"', (tmp_path / "p.html").read_text())]
    assert sorted(lines) == 4 * [1] + 4 * [1] + 4 * [2]


def test_damaged_ledger_is_refused_unchanged(sim, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    for damaged in ("x", "[]", "{}", "[" * 100000, json.dumps({**LINE, "seed": -1}), json.dumps({**LINE, "shown": ""}),
                    json.dumps({**LINE, "worlds": " --fabric tcp; reboot"}), json.dumps({**LINE, "choices": 3, "seed": "4"}),
                    json.dumps({**LINE, "choices": ""}), json.dumps({**LINE, "worlds": " --ledger ledger.jsonl"}),
                    json.dumps({**LINE, "worlds": " --without --trace"}), json.dumps({**LINE, "world": "L01 --trace x"}),
                    json.dumps({**LINE, "world": "--help"}), json.dumps({**SWEEP, "rate": 1e300}),
                    json.dumps({**SWEEP, "marks": 3}), json.dumps({**SWEEP, "rate": -1}), json.dumps({**SWEEP, "seeds": "9..0"}),
                    json.dumps({**SWEEP, "failures": 2**64})):
        ledger.write_text(json.dumps(SWEEP) + "\n" + damaged + "\n")
        before = ledger.read_bytes()
        for words in (["ledger"], ["ledger", "fix", "1"], ["sweep", "--seeds", "0..3", "--ledger", "ledger.jsonl"]):
            assert "ledger.jsonl: line 2 is neither a case nor a sweep" in sim(*words, code=2), damaged[:200]
        assert ledger.read_bytes() == before


def test_wrong_use(sim, tmp_path):
    assert "cannot read ledger.jsonl: No such file" in sim("ledger", code=2)
    assert "cannot read l: No such file" in sim("sweep", "--ledger", "l", code=2)
    assert "add or fix" in sim("ledger", "remove", "1", code=2)
    assert "needs results" in sim("ledger", "add", code=2)
    assert "No such file" in sim("ledger", "add", "missing", code=2)
    write(tmp_path / "ledger.jsonl", SWEEP)
    for number in ("0", "1", "x", "1..2", "99999999999999999999"):
        assert f"there is no case {number}" in sim("ledger", "fix", number, code=2)
    assert lines_of(tmp_path / "ledger.jsonl") == [SWEEP]


def test_processes_that_add_at_once_lose_nothing(sim, tmp_path):
    sim("sweep", "--seeds", "0..2", "--result", "r")
    result = json.loads((tmp_path / "r").read_text())
    adds = []
    for number in range(12):
        (tmp_path / f"r{number}").write_text(json.dumps({**result, "version": f"urtrs-sim {number}"}))
        adds.append(subprocess.Popen([SIM, "ledger", "add", f"r{number}"], cwd=tmp_path, stdout=subprocess.DEVNULL))
    assert [add.wait(timeout=BOUND) for add in adds] == [0] * 12
    assert {line["version"] for line in lines_of(tmp_path / "ledger.jsonl")} == {f"urtrs-sim {number}" for number in range(12)}


def test_only_the_ledger_itself_is_replaced(sim, tmp_path):
    sim("sweep", "--seeds", "0..2", "--result", "r")
    real = tmp_path / "real.jsonl"
    write(real, SWEEP)
    real.chmod(0o660)
    (tmp_path / "ledger.jsonl").symlink_to(real)
    sim("ledger", "add", "r")
    assert (tmp_path / "ledger.jsonl").is_symlink() and len(lines_of(real)) == 2 and real.stat().st_mode & 0o777 == 0o660
    before = real.read_bytes()
    for page in ("real.jsonl", "./ledger.jsonl"):
        assert "would replace the ledger" in sim("ledger", "--html", page, code=2)
    assert real.read_bytes() == before
    os.mkfifo(tmp_path / "pipe")
    assert "cannot write pipe" in sim("ledger", "--html", "pipe", code=2) and (tmp_path / "pipe").is_fifo()
