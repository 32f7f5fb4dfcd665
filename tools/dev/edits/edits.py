#!/usr/bin/env python3
"""Makes single edits of recorded runs and prints which verb of urtrs-replay finds each."""
import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import runs
import trace_edits

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("URTRS_BUILD_DIR", ROOT / "build/release"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="edits whose name has these words")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tool = runs.Tool(BUILD / "tools/urtrs-replay/urtrs-replay", BUILD / "tools/urtrs-sim/urtrs-sim", folder)
        edits = [edit for group in trace_edits.GROUPS for edit in group.edits if options.only in edit.name]
        for run in {edit.run for edit in edits}:
            tool.run(run)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for edit, found in zip(edits, pool.map(lambda edit: tool.find(edit, f"e{id(edit)}"), edits)):
                if found is None:
                    print("NO RECORD", edit.name)
                    continue
                marks = " ".join("x" if one else "-" for one in found.verbs)
                print(f"{marks}  {edit.name:60} {found.first} {found.text[:90]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
