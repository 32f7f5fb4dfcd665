#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md, one after another in one shell, and compares their output with the page.

`tutorial_test.py --write` updates the output in the page. Numbers, times and the state of a path that is not connected
differ between runs and are not compared.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib/testing"))

from programs import BUILD, ROOT, free_port  # noqa: E402

PAGE = ROOT / "docs/tutorial.md"
PORT = 1234  # port in the page; the test replaces it by a free one
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DONE = "-- tutorial: done"
BOUND = 60  # time limit for a command in seconds; the longest one waits for the load


class Shell:
    """A bash process that runs one command at a time; closing it ends all processes that it started."""

    def __init__(self, folder):
        self.port = free_port()
        self.folder = folder
        path = os.pathsep.join([*(str(BUILD / "tools" / name) for name in ("urtrs", "urtrsd", "nbdkit")), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(["bash"], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run(self, command):
        """Runs a command and returns its output."""
        if command == f"port={PORT}":
            command = f"port={self.port}"
        late = threading.Timer(BOUND, self.end)
        late.start()
        self.process.stdin.write(f"{command}\nprintf '%s %s\\n' '{DONE}' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(DONE):
                break
            lines.append(line)
        else:
            raise AssertionError(f"{command}: no end within {BOUND} s: {''.join(lines)}")
        late.cancel()
        if line.split()[-1] != "0":
            raise AssertionError(f"{command}: ended with {line.split()[-1]}: {''.join(lines)}")
        return "".join(lines).replace(str(self.port), str(PORT)).replace(str(self.folder), "/tmp")

    def end(self):
        # A stopped process handles SIGTERM only after SIGCONT.
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
        self.process.wait()


def commands(block):
    """Returns (command, output in the page) for each command of the block."""
    return [(command, below) for command, below in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


def stable(text):
    """Replaces text that differs between runs."""
    text = re.sub(r"127\.0\.0\.(\d)", lambda match: "host" + "_abc"[int(match[1])], text)
    text = re.sub(r"rtt \S+", "", text)  # `rtt` is not printed before the first heartbeat
    text = re.sub(r"\b(connecting|waiting|draining|closing)\b", "down", text)
    text = re.sub(r"\(\d+ attempts?\)", "(N attempts)", text)
    text = re.sub(r"\d[\d.,:TZ-]*(us|ms|s|[BKMGTPE])?(?=\W|$)", "N", text)
    text = re.sub(r"(down) +N +N +N +N", r"\1 N N N N", text)
    return [re.sub(r"[ -]+", " ", line).strip() for line in text.splitlines()]


def play(use):
    """Runs each command of the page and calls use(command, printed, expected)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="urtrs-tutorial-"))
    shell = Shell(folder)
    try:
        for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            for command, expected in commands(block):
                use(command, shell.run(command), expected)
    finally:
        shell.end()
        shutil.rmtree(folder)


def missing():
    return next((name for name in ("nbdkit", "nbdinfo", "fio") if shutil.which(name) is None), None)


def test_page_shows_the_output_of_its_commands():
    import pytest
    if missing():
        pytest.skip(f"{missing()} is not installed")
    number = 0

    def compare(command, printed, expected):
        nonlocal number
        number += 1
        assert stable(printed) == stable(expected), (command, printed, expected)
    play(compare)
    assert number > 25


def test_comparison_notices_changes():
    line = "web1  ip:127.0.0.1@ip:127.0.0.2  waiting  heartbeat_lost  4\n"
    assert stable(line) == stable(line.replace("waiting", "connecting").replace("4", "17"))
    assert stable(line) != stable(line.replace("waiting", "connected"))
    assert stable(line) != stable(line.replace("heartbeat_lost", ""))
    assert stable(line) != stable(line.replace("127.0.0.2", "127.0.0.3"))
    assert stable(line) != stable(line + line)


def write():
    printed = []
    play(lambda command, text, _: printed.append((command, text)))
    answers = iter(printed)

    def block(match):
        text = "".join(f"$ {command}\n{next(answers)[1]}" for command, _ in commands(match[1]))
        return f"```console\n{text}```"
    PAGE.write_text(BLOCK.sub(block, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
