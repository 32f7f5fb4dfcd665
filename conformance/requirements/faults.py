#!/usr/bin/env python3
"""Checks conformance/requirements/faults.toml: no row is missing or empty, every name exists, and every label is in a row.

Usage: faults.py --sim URTRS-SIM [--print]

`URTRS-SIM list` must print scenarios, fault classes and labels. --print prints the faults that the simulator cannot inject
completely, with the reason.
Exit code: 0 on success, 1 on errors, 2 for wrong usage.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tomllib

import requirements

ROOT = requirements.ROOT
ROWS = [f"F{number:02}" for first, last in ((1, 20), (21, 28), (31, 45), (51, 55), (61, 64), (71, 75))
        for number in range(first, last + 1)]
HELD = ("classes", "labels", "options", "scenarios", "cases", "tests")
SETS = {"other_labels": {"labels", "driver"}}


def listed(sim, section):
    """Returns the first word of each line in one section of `urtrs-sim list`."""
    words, inside = set(), False
    for line in subprocess.run([sim, "list"], capture_output=True, text=True, check=True).stdout.splitlines():
        if not line.startswith(" "):
            inside = line == section + ":"
        elif inside:
            words.add(line.split()[0])
    return words


def options():
    text = "".join((ROOT / path).read_text() for path in ("sim/world/scenario.hpp", "sim/net/basic/network_config.hpp", "core/proto/config.hpp"))
    return set(re.findall(r"\b(\w+)(?: = [^;,]*)?[;,]", text))


def ctests():
    text = "".join(path.read_text() for path in ROOT.rglob("CMakeLists.txt") if "build" not in path.parts)
    return set(re.findall(r"(?:NAME|lint_test\(|urtrs_test\(|urtrs_python_test\()\s*(\w+)", text))


def problems(table, known):
    for row in ROWS:
        if row not in table:
            yield f"{row} is missing"
    named = {"labels": set(table["other_labels"]["labels"]) | set(table["other_labels"]["driver"])}
    for label in sorted(named["labels"] - known["labels"]):
        yield f"other_labels: there is no {label}"
    for row, entry in table.items():
        if row in SETS:
            continue
        for field in set(entry) - {"what", "cannot", *HELD}:
            yield f"{row}: no field {field}"
        if not entry.get("what"):
            yield f"{row} does not say what it is"
        if not any(entry.get(field) for field in (*HELD, "cannot")):
            yield f"{row}: nothing makes it, and it does not say why"
        for field in HELD:
            for name in entry.get(field, []):
                if name not in known[field]:
                    yield f"{row}: there is no {name} among the {field}"
        for field in named:
            named[field] |= set(entry.get(field, []))
    for field, names in named.items():
        for name in sorted(known[field] - names):
            yield f"{name} is in no row's {field}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sim", required=True)
    parser.add_argument("--print", action="store_true")
    given = parser.parse_args()
    with open(ROOT / "conformance/requirements/faults.toml", "rb") as file:
        table = tomllib.load(file)
    known = {"classes": listed(given.sim, "faults"), "labels": listed(given.sim, "labels"), "options": options(),
             "scenarios": listed(given.sim, "scenarios"), "cases": requirements.cases(),
             "tests": requirements.unit_tests() | ctests()}
    rows = {row: entry for row, entry in table.items() if row not in SETS}
    if given.print:
        print("| row | fault | what is not made |\n|---|---|---|")
        for row, entry in rows.items():
            if "cannot" in entry:
                print(f"| {row} | {entry['what']} | {entry['cannot']} |")
    found = list(problems(table, known))
    for problem in found:
        print(problem)
    if not given.print:
        part = sum(1 for entry in rows.values() if "cannot" in entry)
        none = sum(1 for entry in rows.values() if not any(entry.get(field) for field in HELD))
        print(f"{len(rows)} rows: {len(rows) - part} in full, {part - none} in part, {none} not at all; "
              f"{len(known['classes'])} classes of faults, {len(known['labels'])} labels")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
