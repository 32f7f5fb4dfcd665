#!/usr/bin/env python3
"""Writes sources of the core with all bugs of the catalogue in them, each to be switched on by URTRS_MUTANT.

Usage: plant.py OUT FILE...

A bug is planted when all places that it changes are in the given files. The files are named from the top of the tree;
in OUT they keep their last name. bugs.txt in OUT lists what was planted: "id, tab, the bug" a line.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

_LOADER = importlib.machinery.SourceFileLoader("run", str(pathlib.Path(__file__).resolve().parent / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", _LOADER))
_LOADER.exec_module(run)


def write(path, text):
    """Leaves alone what is the same, which need not be compiled again."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    out = pathlib.Path(sys.argv[1])
    files = set(sys.argv[2:])
    out.mkdir(parents=True, exist_ok=True)
    mutants = [mutant for mutant in run.catalogue()
               if mutant["id"] != "canary" and all(edit["file"] in files for edit in mutant["edit"])]
    places = run.places_of(run.ROOT, mutants)
    for name in sorted(files):
        text = run.planted((run.ROOT / name).read_text(), places.get(name, {}))
        write(out / pathlib.Path(name).name, f'#include "{run.SWITCH}.hpp"\n' + text)
    write(out / f"{run.SWITCH}.hpp", run.HEADER)
    # Always, to be newer than what it is made of.
    (out / "bugs.txt").write_text("".join(f"{mutant['id']}\t{mutant['bug']}\n" for mutant in mutants))
    return 0


if __name__ == "__main__":
    sys.exit(main())
