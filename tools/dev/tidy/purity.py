#!/usr/bin/env python3
"""Lists the undefined symbols of the pure archives and fails on any that the allow-list does not name.

Usage: purity.py --nm NM --allow FILE ARCHIVE...
A symbol that one of the archives defines is not reported. FILE has one regular expression per line, for the demangled
name; `#` starts a comment.
"""

import argparse
import os
import re
import subprocess
import sys


def symbols(nm, archive):
    """Yields (object file, mangled name, type letter of nm) for each symbol."""
    output = subprocess.run([nm, "--format=posix", archive], capture_output=True, text=True, check=True).stdout
    member = archive
    for line in output.split("\n"):
        header = re.fullmatch(r".*\[(.*)\]:", line)
        if header:
            member = header.group(1)
        elif line:
            words = line.split()
            yield member, words[0], words[1]


def demangled(names):
    names = sorted(names)
    if not names:
        return {}
    output = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, output.split("\n")))


def read_allowed(path):
    with open(path, encoding="utf-8") as file:
        lines = (line.split("#")[0].strip() for line in file)
        return re.compile("|".join(f"(?:{line})" for line in lines if line) or "(?!)")


def impure(nm, archives, allowed):
    """Returns sorted pairs (object, demangled name): undefined symbols that no archive defines and the allow-list does not
    name."""
    needed, defined = {}, set()
    for archive in archives:
        for member, name, kind in symbols(nm, archive):
            # Includes weak references (w, v), because they are called if the program defines the symbol.
            if kind in "Uwv":
                needed.setdefault(name, member)
            else:
                defined.add(name)
    outside = {name: member for name, member in needed.items() if name not in defined}
    names = demangled(outside)
    return sorted((member, names[name]) for name, member in outside.items() if not allowed.fullmatch(names[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--allow", required=True)
    parser.add_argument("archives", nargs="+")
    arguments = parser.parse_args()
    for archive in arguments.archives:
        if not os.path.exists(archive):
            print(f"purity: {archive} is not built yet")
            return 1
    found = impure(arguments.nm, arguments.archives, read_allowed(arguments.allow))
    for member, name in found:
        print(f"{member}: needs {name}, which the pure core must not use")
    if not found:
        print(f"purity: {len(arguments.archives)} archives need nothing that is not in {arguments.allow}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
