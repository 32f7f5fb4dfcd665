#!/usr/bin/env python3
"""Writes copies of source files with all planted bugs in them; URTRS_MUTANT selects the bug to run.

Usage: plant.py OUT FILE...

FILEs are relative to the top of the tree, and so are the copies in OUT. They must contain every anchor of the
catalogue. bugs.txt in OUT lists the bugs of core/proto, one "id<TAB>bug" per line.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

_LOADER = importlib.machinery.SourceFileLoader("run", str(pathlib.Path(__file__).resolve().parent / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", _LOADER))
_LOADER.exec_module(run)


def write(path, text):
    """Writes the file unless the text is unchanged, so that an unchanged file is not compiled again."""
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
    # Always written, so that the file is newer than its inputs.
    (out / "bugs.txt").write_text("".join(f"{mutant['id']}\t{mutant['bug']}\n" for mutant in protocol))
    return 0


if __name__ == "__main__":
    sys.exit(main())
