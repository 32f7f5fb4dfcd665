#!/usr/bin/env python3
"""Writes copies of sources with all bugs of the catalogue in them, each to be switched on by URTRS_MUTANT.

Usage: plant.py OUT FILE...

The files are named from the top of the tree, and so they are in OUT. Every place that the catalogue changes must be in
one of them. bugs.txt in OUT lists the bugs of core/proto: "id, tab, the bug" a line.
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
    mutants = run.catalogue()
    for name in sorted({edit["file"] for mutant in mutants for edit in mutant["edit"]} - files):
        sys.exit(f"a bug changes {name}, which is not in the list of conformance/mutants/CMakeLists.txt")
    places = run.places_of(run.ROOT, mutants)
    for name in sorted(files):
        copy = out / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        write(copy, f'#include "{run.SWITCH}.hpp"\n' + run.planted((run.ROOT / name).read_text(), places.get(name, {})))
    write(out / f"{run.SWITCH}.hpp", run.HEADER)
    protocol = [mutant for mutant in mutants if mutant["id"] != "canary"
                and all(edit["file"].startswith("core/proto/") for edit in mutant["edit"])]
    # Always, to be newer than what it is made of.
    (out / "bugs.txt").write_text("".join(f"{mutant['id']}\t{mutant['bug']}\n" for mutant in protocol))
    return 0


if __name__ == "__main__":
    sys.exit(main())
