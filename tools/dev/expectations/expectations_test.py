"""Checks docs/expectations.md: the files and tests that it names exist, its commands work, and its totals are right."""
import re
import shlex
import subprocess

import pytest
from programs import BUILD, ROOT, program

PAGE = ROOT / "docs/expectations.md"
PROGRAMS = ("urtrsd", "urtrs", "urtrs-sim", "urtrs-replay", "urtrs-perf", "urtrs-conform", "urtrs-fs", "urtrs-mapd")
STATES = ("holds", "partly", "no")
ROWS = 54


def rows():
    """Returns the rows of the table: number, expectation, evidence, verdict."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0].isdigit():
            assert len(cells) == 4, line
            found.append((int(cells[0]), cells[1], re.findall(r"`([^`]+)`", cells[2]), cells[3]))
    return found


def state(verdict):
    return verdict.split(":")[0]


def counts():
    """Checks the totals in the last line of the page."""
    number = {name: sum(state(verdict) == name for *_, verdict in rows()) for name in STATES}
    return f"Of {ROWS}, {number['holds']} hold, {number['partly']} hold partly, {number['no']} do not."


@pytest.fixture(scope="module")
def tests():
    listed = subprocess.run(["ctest", "-N"], cwd=BUILD, capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"Test +#\d+: (\S+)", listed))


def test_each_row_has_a_verdict_and_evidence():
    assert [number for number, *_ in rows()] == list(range(1, ROWS + 1))
    for number, _, shown, verdict in rows():
        assert state(verdict) in STATES, (number, verdict)
        assert shown, number
        assert (verdict == "holds") == (":" not in verdict), f"{number}: only what does not hold says why"


def test_totals_are_correct():
    last = PAGE.read_text(encoding="utf-8").rstrip().splitlines()[-1]
    assert last == counts()


def test_named_files_tests_and_commands_exist(tests):
    wrong = []
    for number, _, shown, _ in rows():
        for what in shown:
            words = shlex.split(what)
            if words[0] in PROGRAMS:
                ran = subprocess.run([program(words[0]), *words[1:]], cwd=ROOT, stdin=subprocess.DEVNULL,
                                     capture_output=True, text=True, timeout=60, check=False)
                if ran.returncode != 0 or not ran.stdout:
                    wrong.append(f"{number}: {what}: exit code {ran.returncode}: {ran.stderr}")
            elif "/" in what:
                if not (ROOT / what).exists():
                    wrong.append(f"{number}: there is no {what}")
            elif what not in tests:
                wrong.append(f"{number}: ctest has no test {what}")
    assert not wrong, "\n".join(wrong)
