"""Runs every example in the help of urtrs-replay, in a folder with files of the names that the examples use."""
import json
import os
import re
import shutil
import subprocess

import pytest
from programs import CAPTURES, TRACES, program

PROGRAM = program("urtrs-replay")


def help_of(*command):
    return subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True).stdout


def commands():
    text = help_of()
    return re.findall(r"^  ([a-z][a-z-]*) ", text[text.index("Subcommands:"):text.index("Example")], re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    for name, source in (("run", "seed-420-client1"), ("client", "seed-420-client1"), ("server", "seed-420-server"),
                         ("storage", "seed-767-server"), ("other", "seed-0-client1")):
        shutil.copy(TRACES / f"{source}.rtrc", folder / f"{name}.rtrc")
    with (folder / "edited.jsonl").open("w") as edited:
        subprocess.run([PROGRAM, "cat", "run.rtrc", "--json"], cwd=folder, check=True, stdout=edited)
    for capture in sorted([*CAPTURES.glob("*.pcap"), *CAPTURES.glob("*.pcapng")]):
        shutil.copy(capture, folder)
        shutil.copy(capture, folder / "capture.pcapng")
        (folder / "capture.rtrc").unlink(missing_ok=True)
        subprocess.run([PROGRAM, "import", "capture.pcapng", "capture.rtrc"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def run(line, folder):
    for part in line.split("|")[1:]:
        if not shutil.which(part.split()[0]):
            return
    environment = dict(os.environ, PATH=os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"])
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment, capture_output=True, text=True,
                         timeout=120, check=False)
    assert ran.returncode in (0, 1), (line, ran.stderr)
    assert "cannot open" not in ran.stderr, (line, "it names a file that the test does not provide")
    if "--json" in line and "|" not in line and ">" not in line:
        assert ran.stdout, line
        for text in ran.stdout.splitlines():
            json.loads(text)


@pytest.mark.parametrize("command", commands())
def test_example_runs(folder, command):
    text = help_of(command)
    lines = re.findall(r"^  (urtrs-replay .*)$", text[text.index("Example"):].replace("\\\n", " "), re.MULTILINE)
    assert lines, "--help shows no example"
    for line in lines:
        if command == "live":  # needs a server; tested by live_test.py
            continue
        if command == "import":  # `import` does not replace an existing output file
            (folder / "capture.rtrc").unlink()
        # seed-420-server has no block devices.
        run(line.replace("server.rtrc --as fio", "storage.rtrc --as fio"), folder)


def test_there_are_examples():
    assert len(commands()) >= 10
