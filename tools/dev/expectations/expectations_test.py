"""Checks docs/expectations.md: the files and tests that it names exist, its commands work, and its totals are right."""
import re
import shlex
import subprocess

import pytest
from programs import BUILD, ROOT, program

PAGE = ROOT / "docs/expectations.md"
PROGRAMS = ("urtrsd", "urtrs", "urtrs-sim", "urtrs-replay", "urtrs-perf", "urtrs-conform", "urtrs-fs", "urtrs-mapd")
ROWS = 54
ROW = re.compile(r"^(\d+)\. .+?: (`[^`]+`(?:, `[^`]+`)*)( \(.+\))?$", re.MULTILINE)


def rows():
    """Returns the rows of the list: number, evidence, note."""
    return [(int(number), re.findall(r"`([^`]+)`", shown), note)
            for number, shown, note in ROW.findall(PAGE.read_text(encoding="utf-8"))]


def counts():
    """Returns the last line of the page."""
    no = sum("**does not hold**: " in note for *_, note in rows())
    return f"{ROWS - no} of {ROWS} hold."


@pytest.fixture(scope="module")
def tests():
    listed = subprocess.run(["ctest", "-N"], cwd=BUILD, capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"Test +#\d+: (\S+)", listed))


def test_each_row_has_evidence():
    assert [number for number, *_ in rows()] == list(range(1, ROWS + 1))


def test_totals_are_correct():
    last = PAGE.read_text(encoding="utf-8").rstrip().splitlines()[-1]
    assert last == counts()


def test_named_files_tests_and_commands_exist(tests):
    wrong = []
    for number, shown, _ in rows():
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
