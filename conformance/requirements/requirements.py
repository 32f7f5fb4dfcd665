#!/usr/bin/env python3
"""Checks conformance/requirements/requirements.toml: no row is missing or empty, and every name exists.

Usage: requirements.py [--sim URTRS-SIM] [--print]

`URTRS-SIM list` must print the scenarios; without --sim they are read from the sources. --print writes the table of
rows and their checks. Exit code: 0 on success, 1 on errors, 2 for wrong usage.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [f"R{number:02}" for number in range(1, 87)] + [f"L{number:02}" for number in range(1, 37)]
FIELDS = {"weight", "what", "scenarios", "tests", "cases", "instead", "not_applicable"}


def scenarios(sim):
    if sim:
        listed = subprocess.run([sim, "list"], capture_output=True, text=True, check=True).stdout
        part = listed.split("scenarios:\n", 1)[1].split("marks:\n", 1)[0]
        return {line.split()[0] for line in part.splitlines() if line.startswith("  ")}
    text = "".join(path.read_text() for path in (ROOT / "sim/scenarios").glob("*.scenarios"))
    blocks = (ROOT / "sim/blocks/block_scenarios.cpp").read_text()
    return set(re.findall(r"^scenario (\w+)", text, re.MULTILINE)) | set(re.findall(r'^ {4}\{"(\w+)",', blocks, re.MULTILINE))


def unit_tests():
    names = set()
    for folder in ("core", "conformance", "sim", "tools", "backends"):
        for path in (ROOT / folder).rglob("*.cpp"):
            for suite, case in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE):
                names.add(f"{suite}.{case}")
    return names


def cases():
    text = "".join(path.read_text() for path in (ROOT / "conformance/cases").glob("*_cases_*.cpp"))
    return set(re.findall(r'"(C\d{3}-[a-z0-9-]+)"', text))


def problems(table, known):
    for row in ROWS:
        if row not in table:
            yield f"{row} is missing"
    for row, entry in table.items():
        if row not in ROWS:
            yield f"{row} is no row"
        for field in set(entry) - FIELDS:
            yield f"{row}: no field {field}"
        if not entry.get("what"):
            yield f"{row} does not say what it is about"
        if entry.get("weight") not in ("high", "medium", "low"):
            yield f"{row}: its weight is high, medium or low"
        if not any(entry.get(field) for field in (*known, "not_applicable")):
            yield f"{row} is held by nothing and does not say why"
        weighty = entry.get("weight") != "low" and "not_applicable" not in entry
        if weighty and not entry.get("scenarios") and not entry.get("instead"):
            yield f"{row} has no scenario and does not say what there is instead"
        for field, names in known.items():
            for name in entry.get(field, []):
                if name not in names:
                    yield f"{row}: there is no {name} among the {field}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sim", default="")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    with open(ROOT / "conformance/requirements/requirements.toml", "rb") as file:
        table = tomllib.load(file)
    known = {"scenarios": scenarios(options.sim), "tests": unit_tests(), "cases": cases()}
    found = list(problems(table, known))
    for problem in found:
        print(problem)
    if options.print:
        for row, entry in table.items():
            held = [name for field in known for name in entry.get(field, [])]
            print(f"{row} {entry['weight']:<6} {entry['what']}: {', '.join(held) or entry['not_applicable']}")
    counted = {field: len({name for entry in table.values() for name in entry.get(field, [])}) for field in known}
    with_scenario = sum(1 for entry in table.values() if entry.get("scenarios"))
    none = sum(1 for entry in table.values() if "not_applicable" in entry)
    print(f"{len(table)} rows: {with_scenario} with scenarios, {none} not applicable; {counted['scenarios']} of "
          f"{len(known['scenarios'])} scenarios, {counted['tests']} unit tests, {counted['cases']} wire cases")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
