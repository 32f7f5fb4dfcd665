#!/usr/bin/env python3
"""Checks docs/hardware.md: the lab printed its lines of "urtrs doctor --rdma", and its commands exist.

  tools/dev/hardware/hardware_test.py --write      runs case `doctor` of softroce-vm and writes its output into the page
"""
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib/testing"))

from programs import BOUND, ROOT, program  # noqa: E402

PAGE = ROOT / "docs/hardware.md"
SOURCES = ROOT / "tools/lib/control/rdma_probe"
CELL = ROOT / "build/softroce-vm/cells/doctor.urtrs-urtrs.on.1"
GRADES = ("ok", "failed", "not there")
# Names of the checks that the page shows; the program prints more.
SHOWN = {"PCIe and NUMA", "window of type 1", "data before immediates", "invalidation", "registering", "binding", "empty write", "4 KiB writes",
         "128 KiB writes"}
# Names of checks that only the peer prints, or that are printed only if the peer does not answer.
NOT_THERE = {"listening", "peer"}


def block(name):
    found = re.search(rf"<!-- {name} begin -->\n```\n(.*?)```\n<!-- {name} end -->", PAGE.read_text(), re.DOTALL)
    assert found, f"no output between the markers of {name}: {pathlib.Path(__file__).name} --write"
    return found[1].splitlines()


def rows(lines):
    """Returns grade, device, check and finding of each row, split at the columns of the header, and the remedies below
    rows."""
    starts = [lines[0].index(word) for word in ("Result", "Device", "Check", "Finding")] + [None]
    found, remedies = [], {}
    for line in lines[1:]:
        if line.startswith("`- "):
            remedies[len(found) - 1] = line
        else:
            found.append([line[start:end].strip() for start, end in zip(starts, starts[1:])])
    return found, remedies


def excerpt(lines):
    """Returns the header, and the rows of the checks in SHOWN with their remedies."""
    start, end = lines[0].index("Check"), lines[0].index("Finding")
    kept, keep = [lines[0]], False
    for line in lines[1:]:
        keep = keep if line.startswith("`- ") else line[start:end].strip() in SHOWN
        if keep:
            kept.append(line)
    return kept


def checks_of_sources(files, pattern):
    text = "".join((SOURCES / name).read_text() for name in files)
    return set(re.findall(pattern, text)) - NOT_THERE


def test_each_row_has_a_grade_and_a_finding():
    for name, least in (("doctor", 8), ("peer", 5)):
        found, remedies = rows(block(name))
        assert len(found) > least
        for number, (grade, device, check, what) in enumerate(found):
            assert grade in GRADES and grade != "failed", check
            assert device in ("", "rxe1s") and check and what
            assert (number in remedies) == (grade != "ok"), check


def test_page_shows_selected_device_checks_and_all_peer_checks():
    lines = block("doctor")
    assert excerpt(lines) == lines
    assert {check for _, _, check, _ in rows(lines)[0]} == SHOWN
    peer = {check for _, _, check, _ in rows(block("peer"))[0]}
    assert peer == checks_of_sources(["peer.cpp"], r'(?:\btake|\brate)\(\s*"([^"]+)"')


def commands():
    """Returns the commands of the page, each as a list of words."""
    text = PAGE.read_text()
    lines = re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE) + re.findall(r"`((?:urtrs|tools/)[^`]*)`", text)
    return [re.sub(r"\s#.*|[|>].*", "", line).split() for line in lines]


def test_options_in_commands_exist():
    ours = [words for words in commands() if words and re.fullmatch(r"urtrs(-perf|d|-conform)?", words[0])]
    assert len(ours) > 12
    helps = {}
    for words in ours:
        name = words[0]
        if not pathlib.Path(program(name)).exists():
            continue
        if name not in helps:
            helps[name] = subprocess.run([program(name), "--help-all"], capture_output=True, text=True, check=True,
                                         timeout=BOUND).stdout
        options = [re.match(r"--[\w-]+", word)[0] for word in words if re.match(r"--\w", word)]
        assert [option for option in options if option not in helps[name]] == [], " ".join(words)
    assert "urtrs" in helps


def test_named_files_exist():
    for name in (".github/ISSUE_TEMPLATE/hardware.md", "tools/dev/hardware/hardware_test.py", "conformance/contract/verbs_contract_test.cpp"):
        assert (ROOT / name).exists()


def write():
    import jsonschema
    done = subprocess.run([ROOT / "tools/dev/softroce-vm", "run", "doctor"], check=False)
    if done.returncode != 0:
        return done.returncode
    schema = json.loads((ROOT / "docs/schema/urtrs.json").read_text())
    answer = json.loads((CELL / "doctor.json").read_text())
    jsonschema.Draft202012Validator({**schema, "$ref": "#/$defs/doctor_rdma"}).validate(answer)
    text = PAGE.read_text()
    for name in ("doctor", "peer"):
        printed = (CELL / f"{name}.txt").read_text()
        if name == "doctor":
            printed = "\n".join(excerpt(printed.splitlines())) + "\n"
        text = re.sub(rf"(<!-- {name} begin -->\n).*?(<!-- {name} end -->)", lambda at, printed=printed: f"{at[1]}```\n{printed}```\n{at[2]}",
                      text, flags=re.DOTALL)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    sys.exit(write())
