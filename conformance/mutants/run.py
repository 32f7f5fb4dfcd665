#!/usr/bin/env python3
"""Plants every bug of the catalogue in one copy of the tree and says which run finds it.

Usage: run.py [--check] [--only M01,M07] [--seeds N] [--jobs N] [--work DIR] [--shrink] [--matrix FILE]

The copy is built once: each changed place becomes "the bug if it is switched on, else what was there", and the
environment variable URTRS_MUTANT switches one on (urtrs-sim and urtrs-replay of the copy alike). Nothing of this is
in the product. A bug is looked for by a sweep of urtrs-sim, by the unit tests it names when the sweep misses it, and
by the directed scenario it names. --check only tests that every anchor occurs exactly
once, which takes no time. --shrink makes the first failing run of each small. --matrix writes the table.
A canary, which makes every run fail, is planted too: when it is not found the harness is broken.
Exit code: 0 when every bug was found (or every anchor is in place), 1 otherwise, 2 for wrong usage.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "conformance/mutants/catalogue.toml"
SWITCH = "urtrs_mutant"

HEADER = """#pragma once
#include <cstdlib>
#include <cstring>
inline bool %s(const char* id) noexcept {
  static const char* const active = std::getenv("URTRS_MUTANT");
  return active != nullptr && std::strcmp(active, id) == 0;
}
""" % SWITCH


def catalogue():
    with open(CATALOGUE, "rb") as file:
        return tomllib.load(file)["mutant"]


def misplaced(mutants):
    for mutant in mutants:
        for edit in mutant["edit"]:
            text = (ROOT / edit["file"]).read_text()
            count = text.count(edit["anchor"])
            if count != 1:
                yield f"{mutant['id']}: its anchor occurs {count} times in {edit['file']}: {edit['anchor']!r}"
    ids = [mutant["id"] for mutant in mutants]
    for one in {one for one in ids if ids.count(one) > 1}:
        yield f"{one} is in the catalogue twice"


def switched(mutant, edit, former):
    """The text of a place with the bug in it, to be switched on. `former` is what is there without it."""
    active = f'{SWITCH}("{mutant["id"]}")'
    form = edit.get("form", "statement")
    replacement = edit["replacement"]
    if form == "guarded":  # says itself where the switch is and contains what was there
        return replacement.replace("MUTANT", active).replace("FORMER", former)
    if form == "expression":
        return f"({active} ? ({replacement}) : ({former}))"
    return f"{{ if ({active}) {{ {replacement} }} else {{ {former} }} }}"


def places_of(tree, mutants):
    """By file: which bugs change which part of its text. Several bugs may share an anchor."""
    places = {}
    for mutant in mutants:
        for edit in mutant["edit"]:
            text = (tree / edit["file"]).read_text()
            begin = text.index(edit["anchor"])
            places.setdefault(edit["file"], {}).setdefault((begin, begin + len(edit["anchor"])), []).append((mutant, edit))
    return places


def overlaps(mutants):
    for name, ranges in places_of(ROOT, mutants).items():
        ordered = sorted(ranges)
        for one, other in zip(ordered, ordered[1:]):
            if other[0] < one[1]:
                ids = [ranges[place][0][0]["id"] for place in (one, other)]
                yield f"the anchors of {ids[0]} and {ids[1]} overlap in {name}"


def plant(tree, mutants):
    for name, ranges in places_of(tree, mutants).items():
        path = tree / name
        text = path.read_text()
        for begin, end in reversed(sorted(ranges)):
            place = text[begin:end]
            for mutant, edit in ranges[(begin, end)]:
                place = switched(mutant, edit, place)
            text = text[:begin] + place + text[end:]
        path.write_text(f'#include "{SWITCH}.hpp"\n' + text)
    (tree / f"{SWITCH}.hpp").write_text(HEADER)


def copy_tree(tree):
    """Only files whose content differs are written, so that a directory that is used again builds little."""
    fresh = tree.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(ROOT, fresh, ignore=shutil.ignore_patterns(".git", "build", "*.orig"))
    return fresh


def settle(fresh, tree):
    for path in fresh.rglob("*"):
        target = tree / path.relative_to(fresh)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif not target.is_file() or target.read_bytes() != path.read_bytes():
            shutil.copy2(path, target)
            target.touch()
    shutil.rmtree(fresh)


def build(tree, targets, jobs):
    configured = subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                                 "-DCMAKE_CXX_FLAGS=-w"],
                                capture_output=True, text=True)
    if configured.returncode != 0:
        sys.exit(f"the copy cannot be configured:\n{configured.stderr[-2000:]}")
    made = subprocess.run(["ninja", "-C", tree / "build", f"-j{jobs}", *sorted(targets)], capture_output=True, text=True)
    if made.returncode != 0:
        errors = [line for line in made.stdout.splitlines() if "error" in line] or made.stdout.splitlines()[-30:]
        sys.exit("the copy does not build:\n" + "\n".join(errors[:30]))


def program(tree, name):
    return next(path for path in (tree / "build").rglob(name) if path.is_file() and os.access(path, os.X_OK))


class Hunt:
    def __init__(self, tree, options):
        self.tree = tree
        self.options = options
        self.sim = program(tree, "urtrs-sim")

    def run(self, mutant, *command, timeout=600):
        environment = dict(os.environ, URTRS_MUTANT=mutant["id"], RC_PARAMS="seed=20261121")
        try:
            return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment,
                                  cwd=self.tree, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None

    def by_tests(self, mutant):
        for test in mutant.get("tests", []):
            ran = self.run(mutant, program(self.tree, test), "--gtest_brief=1")
            if ran is None:
                return {"oracle": test, "why": "no end"}
            failed = re.search(r"\[  FAILED  \] ([\w./]+)", ran.stdout)
            if ran.returncode != 0:
                return {"oracle": test, "why": failed.group(1) if failed else f"code {ran.returncode}"}
        return None

    def by_sweep(self, mutant):
        ran = self.run(mutant, self.sim, "sweep", "--seeds", f"0..{self.options.seeds}", "--jobs", self.options.jobs,
                       "--check-determinism", 0)
        if ran is None:
            return {"oracle": "no end", "why": "the sweep does not end"}
        found = re.search(r"reproduce: urtrs-sim run --seed (\d+)", ran.stdout)
        if ran.returncode == 0 or not found:
            return None
        oracle = re.search(r"oracle=(\w+)", ran.stdout)
        why = re.search(r"seen: (.*)", ran.stdout)
        return {"seed": int(found.group(1)), "oracle": oracle.group(1) if oracle else "crash",
                "why": why.group(1) if why else ""}

    def by_scenario(self, mutant, scenario):
        for seed in range(self.options.scenario_seeds):
            ran = self.run(mutant, self.sim, "run", "--scenario", scenario, "--seed", seed, timeout=60)
            if ran is None or ran.returncode != 0:
                oracle = re.search(r"oracle=(\w+)", ran.stdout) if ran else None
                return {"seed": seed, "oracle": oracle.group(1) if oracle else "crash"}
        return None

    def shrink(self, mutant, seed):
        ran = self.run(mutant, self.sim, "shrink", "--seed", seed, "--out", "shrunk.tape", "--time", "30s")
        spans = re.search(r"(\d+) spans of (\d+) are left.*; (\d+) runs in ([\d.]+) s", ran.stdout) if ran else None
        if not spans:
            return None
        faults = re.search(r"reduced (\d+) faults to (\d+)", ran.stdout)
        return {"spans": int(spans.group(1)), "of": int(spans.group(2)), "runs": int(spans.group(3)),
                "seconds": float(spans.group(4)), "faults": f"{faults.group(1)} to {faults.group(2)}"}

    def hunt(self, mutant):
        row = {"id": mutant["id"], "bug": mutant["bug"]}
        row["found"] = self.by_sweep(mutant) or self.by_tests(mutant)
        if "scenario" in mutant:
            row["directed"] = self.by_scenario(mutant, mutant["scenario"])
            row["scenario"] = mutant["scenario"]
        if self.options.shrink and row["found"] and "seed" in row["found"]:
            row["shrunk"] = self.shrink(mutant, row["found"]["seed"])
        return row


def described(row):
    found = row["found"]
    text = f"{row['id']:<7}"
    if found is None:
        text += "MISSED"
    else:
        text += f"{found['oracle']:<7}" + (f"seed {found['seed']:<6}" if "seed" in found else found["why"])
    if "scenario" in row:
        directed = row["directed"]
        text += f" {row['scenario']}: " + (f"{directed['oracle']} seed {directed['seed']}" if directed else "MISSED")
    if row.get("shrunk"):
        text += " shrunk to {spans} spans, faults {faults}, {seconds} s".format(**row["shrunk"])
    return text + f"  {row['bug']}"


def is_found(row):
    return bool(row["found"] or row.get("directed"))


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0


def summary(rows):
    found = [row for row in rows if is_found(row)]
    seeds = [row["found"]["seed"] for row in rows if row["found"] and "seed" in row["found"]]
    lines = [f"{len(found)} of {len(rows)} found; first failing seed: median {median(seeds)}, "
             f"at most {max(seeds, default=0)}"]
    shrunk = [row["shrunk"] for row in rows if row.get("shrunk")]
    if shrunk:
        lines.append(f"shrunk: median {median([one['spans'] for one in shrunk])} spans in "
                     f"{median([one['seconds'] for one in shrunk])} s, at most {max(one['spans'] for one in shrunk)} "
                     f"spans and {max(one['seconds'] for one in shrunk)} s")
    return lines


def write_matrix(path, rows):
    lines = ["# Kill matrix", "", "Written by `conformance/mutants/run.py --shrink --matrix "
             "conformance/mutants/matrix.md`. A planted bug, the oracle or test that finds it, the first failing seed of a "
             "sweep from 0, the directed scenario with its first failing seed, and what is left of the failing run.", ""]
    lines += ["| id | bug | oracle | seed | scenario | shrunk to |", "|---|---|---|---|---|---|"]
    for row in rows:
        found = row["found"] or {}
        directed = row.get("directed")
        scenario = ""
        if "scenario" in row:
            scenario = row["scenario"] + (f" {directed['oracle']} seed {directed['seed']}" if directed else " missed")
        shrunk = row.get("shrunk")
        small = f"{shrunk['spans']} spans of {shrunk['of']}, faults {shrunk['faults']}" if shrunk else ""
        where = found.get("seed", found.get("why", ""))
        lines.append(f"| {row['id']} | {row['bug']} | {found.get('oracle', 'missed')} | {where} | {scenario} | {small} |")
    lines += [""] + [line + "  " for line in summary(rows)]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def hunt_all(mutants, options):
    work = pathlib.Path(options.work or tempfile.mkdtemp(prefix="urtrs-mutants-"))
    work.mkdir(parents=True, exist_ok=True)
    tree = work / "tree"
    began = time.monotonic()
    fresh = copy_tree(tree)
    # All of them, whatever is asked for: a directory that is used again then keeps its objects.
    plant(fresh, catalogue())
    settle(fresh, tree)
    targets = {"urtrs-sim", "urtrs-replay"} | {test for mutant in mutants for test in mutant.get("tests", [])}
    build(tree, targets, options.jobs)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    if options.build_only:
        return 0
    hunt = Hunt(tree, options)
    clean = hunt.run({"id": "none"}, hunt.sim, "sweep", "--seeds", "0..200", "--check-determinism", 0)
    if clean is None or clean.returncode != 0:
        sys.exit("the copy fails without any bug switched on:\n" + (clean.stdout[-2000:] if clean else "no end"))
    rows = []
    for mutant in mutants:
        row = hunt.hunt(mutant)
        rows.append(row)
        print(described(row), flush=True)
        if mutant["id"] == "canary" and not is_found(row):
            sys.exit("the canary was not found: the harness does not report what it should")
    rows = [row for row in rows if row["id"] != "canary"]
    for line in summary(rows):
        print(line)
    if options.matrix:
        write_matrix(options.matrix, rows)
    if not options.work:
        shutil.rmtree(work)
    return sum(1 for row in rows if not is_found(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--scenario-seeds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", default="")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--matrix", default="")
    options = parser.parse_args()
    mutants = catalogue()
    problems = list(misplaced(mutants))
    problems = problems or list(overlaps(mutants))
    for problem in problems:
        print(problem)
    if problems or options.check:
        return 1 if problems else 0
    if options.only:
        wanted = options.only.split(",")
        unknown = set(wanted) - {mutant["id"] for mutant in mutants}
        if unknown:
            parser.error("no such bug: " + ", ".join(sorted(unknown)))
        mutants = [mutant for mutant in mutants if mutant["id"] in wanted]
    return 1 if hunt_all(mutants, options) else 0


if __name__ == "__main__":
    sys.exit(main())
