#!/usr/bin/env python3
"""Checks the source tree against its rules. Prints `file:line: message` for each violation and fails if there is any.

Usage: tidy.py [--root DIR] [rules] [format]
  rules   includes, folders and docs/tree.md, namespaces, purity of includes, length of files and functions, text (the default, with format)
  format  clang-format on every C++ file
"""

import argparse
import os
import subprocess
import sys

import folders
import layers
import namespaces
import shape
from source import Finding, is_code, is_text, read, tree_files


def rule_findings(root, paths):
    ratchet_path = "tools/dev/tidy/long_functions.txt"
    ratchet = shape.read_ratchet(read(root, ratchet_path)) if ratchet_path in paths else {}
    for path in paths:
        if not is_text(root, path):
            continue
        text = read(root, path)
        yield from layers.check(path, text)
        yield from shape.text_findings(path, text)
        yield from shape.function_findings(path, text, ratchet)
    sources = folders.sources_below(root, paths)
    yield from namespaces.findings(sources)
    if folders.PAGE in paths:
        yield from folders.findings(sources, read(root, folders.PAGE))
    for path, name in ratchet:
        yield Finding(ratchet_path, 1, f"no function {name} in {path} any more: drop the entry")


def format_failures(root, paths):
    """Returns the output of clang-format for files that are not formatted. Checks the files in parallel batches."""
    code = [path for path in paths if is_code(path)]
    jobs = os.cpu_count() or 1
    batches = [code[i::jobs] for i in range(jobs) if code[i::jobs]]
    running = [
        subprocess.Popen(["clang-format", "--style=file", "--dry-run", "-Werror", "--ferror-limit=1", *batch], cwd=root,
                         stderr=subprocess.PIPE, text=True)
        for batch in batches
    ]
    outputs = [process.communicate()[1] for process in running]
    return "".join(out for out, process in zip(outputs, running) if process.returncode != 0 or out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
    parser.add_argument("checks", nargs="*", default=["rules", "format"])
    arguments = parser.parse_args()
    unknown = set(arguments.checks) - {"rules", "format"}
    if unknown:
        parser.error(f"unknown check {', '.join(sorted(unknown))}")
    root = os.path.realpath(arguments.root)
    paths = tree_files(root)
    failed = False
    if "rules" in arguments.checks:
        findings = [str(finding) for finding in rule_findings(root, paths)]
        print("\n".join(findings) if findings else f"tidy: {len(paths)} files, nothing to complain about")
        failed |= bool(findings)
    if "format" in arguments.checks:
        failures = format_failures(root, paths)
        print(failures + "tidy: run clang-format -i on the files above" if failures else "tidy: formatting is right")
        failed |= bool(failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
