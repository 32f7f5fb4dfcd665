#!/usr/bin/env python3
"""Folders of the source tree and their include dependencies. The dependencies have no cycle, and docs/tree.md has a
line for each folder.

Usage: folders.py [--root DIR] [--draw]
  (nothing)  lists each folder with its number of C++ files and the folders that it includes
  --draw     prints a Mermaid graph: an arrow points to an included folder; it is dotted if only tests include the
             folder. Arrows that follow from others are omitted
"""

import argparse
import collections
import os
import posixpath
import re
import sys

import layers
from source import Finding, is_code, read, tree_files

PAGE = "docs/tree.md"
_ROW = re.compile(r"^- `([a-z](?:[\w./-]*\w)?)`: ", re.MULTILINE)


def graph(sources):
    """Returns, for each folder, the other folders that its files include. `sources`: text by path."""
    seen = {posixpath.dirname(path): set() for path in sources}
    for path, text in sources.items():
        folder = posixpath.dirname(path)
        for _, _, target in layers.includes(text):
            if target in sources and posixpath.dirname(target) != folder:
                seen[folder].add(posixpath.dirname(target))
    return seen


def without_tests(sources):
    return {path: "" if layers.is_test(path) else text for path, text in sources.items()}


def reachable(edges, start):
    found, todo = set(), [start]
    while todo:
        for folder in edges.get(todo.pop(), ()):
            if folder not in found:
                found.add(folder)
                todo.append(folder)
    return found


def circles(edges):
    """Returns the groups of folders that include each other directly or indirectly."""
    behind = {folder: reachable(edges, folder) for folder in edges}
    groups = {frozenset(other for other in behind[folder] if folder in behind.get(other, ())) for folder in edges
              if folder in behind[folder]}
    return sorted(sorted(group) for group in groups)


def needed(edges):
    """Returns the transitive reduction of the graph, which must not have a cycle."""
    behind = {folder: reachable(edges, folder) for folder in edges}
    return [(folder, target) for folder in sorted(edges) for target in sorted(edges[folder])
            if not any(target in behind[other] for other in edges[folder] if other != target)]


def draw(sources):
    edges, tested = graph(without_tests(sources)), graph(sources)
    arrows = {arrow: "-->" for arrow in needed(edges)}
    for folder, target in needed(tested):
        if target not in reachable(edges, folder):
            arrows[folder, target] = "-.->"

    def name(folder):
        return re.sub(r"\W", "_", folder)
    lines = ["```mermaid", "flowchart TD"]
    for top in sorted({folder.split("/")[0] for folder in edges}):
        lines.append(f"  subgraph {top}")
        lines += [f'    {name(folder)}["{folder}"]' for folder in sorted(edges) if folder.split("/")[0] == top]
        lines.append("  end")
    lines += [f"  {name(folder)} {arrow} {name(target)}" for (folder, target), arrow in sorted(arrows.items())]
    return "\n".join(lines + ["```", ""])


def sources_below(root, paths):
    return {path: read(root, path) for path in paths if is_code(path) and not path.startswith("cmake/")}


def findings(sources, page):
    edges = graph(sources)
    for group in circles(edges):
        yield Finding(PAGE, 1, f"the folders {', '.join(group)} include each other")
    rows = set(_ROW.findall(page))
    for folder in sorted(set(edges) - rows):
        yield Finding(PAGE, 1, f"no line for {folder}")
    for folder in sorted(rows - set(edges)):
        if not any(path.startswith(folder + "/") for path in sources):
            yield Finding(PAGE, 1, f"{folder} has no C++ file any more")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    root = os.path.realpath(given.root)
    sources = sources_below(root, tree_files(root))
    edges = graph(sources)
    if given.draw:
        print(draw(sources), end="")
    else:
        count = collections.Counter(posixpath.dirname(path) for path in sources)
        for folder in sorted(edges):
            print(f"{folder} ({count[folder]}): {' '.join(sorted(edges[folder])) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
