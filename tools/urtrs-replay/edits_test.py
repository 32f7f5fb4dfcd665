"""Single edits of traces and captures are found as tools/dev/edits/edits.md says; its traces before the edits conform."""
import sys

from programs import ROOT

sys.path.append(str(ROOT / "tools/dev/edits"))
import edits  # noqa: E402  # pylint: disable=wrong-import-position


def test_the_page_says_what_is_found():
    said = edits.PAGE.read_text(encoding="utf-8").splitlines()
    found = edits.current_page().splitlines()
    wrong = [f"- {line}" for line in said if line not in found] + [f"+ {line}" for line in found if line not in said]
    assert said == found, "tools/dev/edits/edits.py --write makes tools/dev/edits/edits.md:\n" + "\n".join(wrong)


def test_few_edits_are_silent():
    names = {edit.name for edit in edits.all_edits()}
    silent = edits.trace_edits.REASONS
    assert len(names) >= 120
    assert len([name for name in silent if name in names]) <= 3, silent
