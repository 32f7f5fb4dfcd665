#!/usr/bin/env python3
"""Plants each bug of the catalogue in a copy of the tree, builds urtrs-sim there and sweeps until the bug is found.

Usage: run.py [--check] [--only M01,M07] [--seeds N] [--jobs N] [--work DIR]

--check only tests that every anchor occurs exactly once, which is what keeps the catalogue alive; it takes no time.
Exit code: 0 when every bug was found (or every anchor is in place), 1 otherwise, 2 for wrong usage.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def catalogue():
    with open(ROOT / "conformance/mutants/catalogue.toml", "rb") as file:
        return tomllib.load(file)["mutant"]


def misplaced(mutants):
    for mutant in mutants:
        for edit in mutant["edit"]:
            count = (ROOT / edit["file"]).read_text().count(edit["anchor"])
            if count != 1:
                yield f"{mutant['id']}: its anchor occurs {count} times in {edit['file']}: {edit['anchor']!r}"


def plant(tree, mutant):
    """The former texts of the files it changed."""
    former = {}
    for edit in mutant["edit"]:
        path = tree / edit["file"]
        text = path.read_text()
        former.setdefault(path, text)
        path.write_text(text.replace(edit["anchor"], edit["replacement"]))
    return former


def build(tree, jobs):
    made = subprocess.run(["ninja", "-C", tree / "build", f"-j{jobs}", "urtrs-sim"], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"the copy does not build:\n{made.stdout[-4000:]}")
    return next((tree / "build").rglob("urtrs-sim/urtrs-sim"))


def sweep(tool, seeds, jobs, where):
    command = [tool, "sweep", "--seeds", f"0..{seeds}", "--jobs", str(jobs), "--check-determinism", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=where)
    found = re.search(r"reproduce: urtrs-sim run --seed (\d+)", ran.stdout)
    oracle = re.search(r"oracle=(\w+)", ran.stdout)
    why = re.search(r"seen: (.*)", ran.stdout)
    if ran.returncode == 0 or not found:
        return None
    return int(found.group(1)), oracle.group(1) if oracle else "crash", why.group(1) if why else ""


def hunt(mutants, options):
    work = pathlib.Path(options.work or tempfile.mkdtemp(prefix="urtrs-mutants-"))
    tree = work / "tree"
    shutil.copytree(ROOT, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", "build"))
    # A tree that is used again may hold objects of the last bug.
    for mutant in catalogue():
        for edit in mutant["edit"]:
            (tree / edit["file"]).touch()
    subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja"], check=True, capture_output=True)
    missed = 0
    for mutant in mutants:
        former = plant(tree, mutant)
        result = sweep(build(tree, options.jobs), options.seeds, options.jobs, work)
        for path, text in former.items():
            path.write_text(text)
        if result is None:
            missed += 1
            print(f"{mutant['id']}  MISSED in {options.seeds} seeds   {mutant['bug']}", flush=True)
        else:
            seed, oracle, why = result
            print(f"{mutant['id']}  seed {seed:<6} {oracle:<6} {mutant['bug']}: {why}", flush=True)
    if not options.work:
        shutil.rmtree(work)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", default="")
    options = parser.parse_args()
    mutants = catalogue()
    if options.only:
        mutants = [mutant for mutant in mutants if mutant["id"] in options.only.split(",")]
    problems = list(misplaced(mutants))
    for problem in problems:
        print(problem)
    if problems or options.check:
        return 1 if problems else 0
    return 1 if hunt(mutants, options) else 0


if __name__ == "__main__":
    sys.exit(main())
