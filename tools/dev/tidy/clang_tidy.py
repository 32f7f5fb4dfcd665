#!/usr/bin/env python3
"""Runs clang-tidy over the product sources of a build directory that was configured with clang.

Usage: clang_tidy.py [--all] BUILD_DIR [PATH...]
  --all   tests too
  PATH    only sources below these folders (relative to the root of the tree)

A file that passed is not looked at again until it, a header it includes, its flags or .clang-tidy change.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))


def compile_commands(build, with_tests, below):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    generated = os.path.realpath(build) + "/"
    for entry in entries:
        path = os.path.relpath(entry["file"], ROOT)
        if path.startswith("..") or entry["file"].startswith(generated):
            continue
        wanted = with_tests or not path.endswith("_test.cpp")
        if wanted and (not below or any((path + "/").startswith(folder.rstrip("/") + "/") for folder in below)):
            yield path, entry


def inputs_hash(entry):
    """Over everything that decides the outcome; None when the file does not even preprocess."""
    words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    words = re.sub(r" -o \S+| -c\b", "", " ".join(shlex.quote(word) for word in words))
    listed = subprocess.run(shlex.split(words) + ["-MM"], cwd=entry["directory"], capture_output=True, text=True,
                            check=False)
    if listed.returncode != 0:
        return None
    digest = hashlib.sha256(words.encode())
    paths = listed.stdout.replace("\\\n", " ").split()[1:]
    for path in sorted(set(paths)) + [os.path.join(ROOT, ".clang-tidy")]:
        with open(os.path.join(entry["directory"], path), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def check(build, stamps, path, entry):
    """(path, output); output is empty when the file is clean."""
    key = inputs_hash(entry)
    stamp = os.path.join(stamps, key) if key else None
    if stamp and os.path.exists(stamp):
        return path, ""
    run = subprocess.run(["clang-tidy", "--quiet", "-p", build, entry["file"]], cwd=ROOT, capture_output=True,
                         text=True, check=False)
    if run.returncode == 0:
        if stamp:
            with open(stamp, "w", encoding="utf-8") as file:
                file.write(path + "\n")
        return path, ""
    return path, run.stdout or run.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("build")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    build = os.path.realpath(arguments.build)
    stamps = os.path.join(build, "clang-tidy-stamps")
    os.makedirs(stamps, exist_ok=True)
    work = list(compile_commands(build, arguments.all, arguments.paths))
    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        done = pool.map(lambda item: check(build, stamps, *item), work)
        for number, (path, output) in enumerate(done, 1):
            print(f"[{number}/{len(work)}] {path}{': FAILED' if output else ''}", flush=True)
            if output:
                failed += 1
                print(output, flush=True)
    print(f"clang-tidy: {len(work) - failed} files clean, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
