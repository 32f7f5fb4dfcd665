#!/usr/bin/env python3
"""Compares failover designs: explores every order of a small world with the real core and with planted variants.

Usage: failover_designs.py BUILD_DIR [--config WORLD] [--write FILE]

Prints a table: states, shortest sequence to a chunk race and to a lost update, requests that can never complete.
--write puts it between the lines "<!-- failover designs -->" and "<!-- end -->" of FILE. WORLD is a world of
urtrs-sim explore (default: small).
Exit code: 0 if every design has the expected result, 1 if not, 2 for wrong usage.

Example: failover_designs.py build/release --write docs/exhaustive.md
"""

import argparse
import os
import pathlib
import subprocess
import sys

BEGIN = "<!-- failover designs -->\n"
END = "<!-- end -->\n"
SHARED = "a chunk has one user at a time: "

# The design, the planted bug that implements it (conformance/mutants), the arguments for explore, and the rules
# that must break.
DESIGNS = [
    ("replay at once, no gate (the kernel)", "M28", ["--fence", "off"], {"race", "lost"}),
    ("replay at once, no gate, late requests dropped by magic", "M28", ["--fence", "off", "--drop-late"], {"race"}),
    ("replay at once, gate", "", ["--fence", "off"], {"race", "lost"}),
    ("replay at once, gate, late requests dropped by magic", "", ["--fence", "off", "--drop-late"], set()),
    ("wait until the server's old path is gone, gate", "M30", ["--fence", "on"], {"stuck"}),
    ("wait until the old incarnation is closed and drained, no gate", "M28", ["--fence", "on"], set()),
    ("wait until the old incarnation is closed and drained, gate (urtrs)", "", ["--fence", "on"], set()),
]

# Proves that READs are checked: the planted bug, the world, and the rule that must break.
READS = ("M20", "crash", "data lands only in the buffer of a request that waits for it")


def steps(cell):
    return int(cell.split()[0]) if cell != "-" else None


def searched(program, world, bug, words):
    """Parses the output of explore: states, and the shortest sequence to each broken rule."""
    environment = {key: value for key, value in os.environ.items() if key != "URTRS_MUTANT"}
    if bug:
        environment["URTRS_MUTANT"] = bug
    ran = subprocess.run([program, "explore", "--config", world, "--markdown", *words], env=environment,
                         capture_output=True, text=True)
    row = next((line for line in ran.stdout.splitlines() if line.startswith(f"| {world} ")), None)
    if row is None or ran.returncode == 4:
        sys.exit(f"explore says nothing about {world}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    _, _, _, states, _, _, race, lost, stuck, other = [cell.strip() for cell in row.strip("| ").split("|")]
    found = {"race": steps(race), "lost": steps(lost), "stuck": steps(stuck)}
    unexpected = []
    for rule in (other.split("; ") if other != "-" else []):
        if rule.startswith(SHARED):
            shared = steps(rule[len(SHARED):])
            found["race"] = min(shared, found["race"] or shared)
        else:
            unexpected.append(rule)
    return states, {name: way for name, way in found.items() if way is not None}, unexpected


def cell(found, name):
    return f"{found[name]} steps" if name in found else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("--config", default="small")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    program = options.build_dir / "conformance/mutants/planted-urtrs-sim"
    if not program.is_file():
        parser.error(f"{program} is not there: build planted-urtrs-sim")
    lines = ["| failover design | states | chunk race | lost update | stuck |", "|---|---|---|---|---|"]
    wrong = []
    for design, bug, words, expected in DESIGNS:
        states, found, unexpected = searched(program, options.config, bug, words)
        lines.append(f"| {design} | {states} | {cell(found, 'race')} | {cell(found, 'lost')} | {cell(found, 'stuck')} |")
        if set(found) != expected or unexpected:
            wrong.append(f"{design}: {sorted(found)} {unexpected}, not {sorted(expected)}")
    bug, world, rule = READS
    _, _, broken = searched(program, world, bug, ["--fence", "on"])
    if not any(one.startswith(rule) for one in broken):
        wrong.append(f"{bug} in world {world}: {broken}, and not {rule!r}")
    table = "\n".join(lines) + "\n"
    print(table, end="")
    for line in wrong:
        print(f"not as it must be: {line}", file=sys.stderr)
    if options.write:
        text = options.write.read_text()
        if BEGIN not in text or END not in text[text.index(BEGIN):]:
            parser.error(f"{options.write} has no place for the table")
        begin = text.index(BEGIN) + len(BEGIN)
        options.write.write_text(text[:begin] + table + text[text.index(END, begin):])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
