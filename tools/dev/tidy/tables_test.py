"""Each function in a list of calls of docs/architecture.md is defined in a file of the same line."""
import pathlib
import re

import pytest

import shape

TREE = pathlib.Path(__file__).resolve().parents[3]
PAGE = TREE / "docs/architecture.md"
LIST = re.compile(r"(?:^\d+\. `\w+/.*\n)+", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
FUNCTION = re.compile(r"([\w:~]+)(?:\((\w+)\))?")


def tables(page):
    """Returns the lines of each list as (files, functions). A file name without a folder is in the folder of the previous file;
    text after a second colon is a description."""
    for lines in LIST.findall(page):
        rows = []
        for line in lines.splitlines():
            left, right = line.split(": ", 1)
            files, folder = [], pathlib.PurePosixPath()
            for name in NAME.findall(left):
                folder = folder if "/" not in name else pathlib.PurePosixPath(name).parent
                files.append(str(folder / pathlib.PurePosixPath(name).name))
            rows.append((files, NAME.findall(re.split(r": ", right)[0])))
        yield rows


def defines(text, function):
    """Returns True if the text defines `function`: a name, optionally with classes in front and the type of an argument."""
    name, argument = FUNCTION.fullmatch(function).groups()
    *classes, last = name.split("::")
    lines = text.splitlines()
    for found, line, _ in shape.functions(text):
        *around, own = found.split("::")
        inside = [one for one in classes if re.search(rf"\b(?:class|struct) {one}\b", text)]
        if own != last or (classes != around[len(around) - len(classes):] and (around or inside != classes)):
            continue
        head = " ".join(lines[line - 1:line + 3]).split("{")[0]
        if argument is None or re.search(rf"\b{argument}\b", head[head.index(last):]):
            return True
    return False


def findings(rows, read):
    for files, functions in rows:
        texts = {file: read(file) for file in files}
        for function in functions:
            if not any(defines(text, function) for text in texts.values()):
                yield f"{function} is not defined in {', '.join(files)}"
        for file, text in texts.items():
            if not any(defines(text, function) for function in functions):
                yield f"{file} defines none of {', '.join(functions)}"


def test_functions_are_defined_in_the_listed_files():
    found = list(tables(PAGE.read_text(encoding="utf-8")))
    assert len(found) == 2
    for rows in found:
        assert list(findings(rows, lambda name: (TREE / name).read_text(encoding="utf-8"))) == []


SOURCES = {
    "a/one.cpp": "void A::go(Left) {\n  other();\n}\nint alone() {\n  return 1;\n}\n",
    "a/two.hpp": "class B {\n  void run() {}\n};\n",
}


@pytest.mark.parametrize("row, expected", [
    ("1. `a/one.cpp`, `two.hpp`: `A::go`, `go(Left)`, then `B::run`: calls `other`", []),
    ("1. `a/one.cpp`: `go`, `alone`, at once", []),
    ("1. `a/one.cpp`: `go`, `other`", ["other is not defined in a/one.cpp"]),
    ("1. `a/one.cpp`: `go(Right)`, `alone`", ["go(Right) is not defined in a/one.cpp"]),
    ("1. `a/one.cpp`: `C::go`, `alone`", ["C::go is not defined in a/one.cpp"]),
    ("1. `a/two.hpp`: `A::run`, `run`", ["A::run is not defined in a/two.hpp"]),
    ("1. `a/one.cpp`, `two.hpp`: `A::go`", ["a/two.hpp defines none of A::go"]),
])
def test_missing_functions_are_reported(row, expected):
    rows = next(tables(f"{row}\n"))
    assert list(findings(rows, SOURCES.get)) == expected
