"""Selects the files to check, and blanks comments and literals in C++ text."""

import os
import re
import subprocess

CODE = (".hpp", ".cpp")
TEXT = CODE + (".py", ".cmake", ".md", ".toml", ".json", ".sh", ".in", ".lua")


class Finding:
    def __init__(self, path, line, message):
        self.path, self.line, self.message = path, line, message

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


def tree_files(root):
    """Returns paths relative to root: tracked and untracked files of a git checkout, or all files of an unpacked archive."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = listed.stdout.split("\n")
    else:
        paths = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith((".git", "build", "out"))]
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(p for p in set(paths) if p and os.path.isfile(os.path.join(root, p)))


def is_code(path):
    return path.endswith(CODE)


def is_text(root, path):
    if path.endswith(TEXT) or os.path.basename(path) in ("CMakeLists.txt", "LICENSE"):
        return True
    if "." in os.path.basename(path):
        return False
    with open(os.path.join(root, path), "rb") as file:
        return file.read(2) == b"#!"


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


_TOKEN = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def blanked(text):
    """Returns the text with comments, string and character literals replaced by spaces, so that line and column numbers stay."""
    return _TOKEN.sub(_blank, text)
