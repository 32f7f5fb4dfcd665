"""Runs every example that urtrs-replay's help shows, beside files of the names that the examples use.

usage: examples_test.py URTRS_REPLAY TRACES CAPTURES
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def shell(command, folder, program):
    environment = dict(os.environ, PATH=os.path.dirname(program) + os.pathsep + os.environ["PATH"])
    return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


def commands(program):
    text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    listed = text[text.index("Subcommands:"):text.index("Example")]
    return re.findall(r"^  ([a-z][a-z-]*) ", listed, re.MULTILINE)


def examples(program, command):
    text = subprocess.run([program, command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"^  (urtrs-replay .*)$", text[text.index("Example"):], re.MULTILINE)


def can_run(line):
    """Whether the programs behind the pipes are there."""
    return all(shutil.which(part.split()[0]) for part in line.split("|")[1:])


def remove(folder, name):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, name))


def lay_out(folder, program, traces, captures):
    sides = {"run.rtrc": "seed-420-client1.rtrc", "client.rtrc": "seed-420-client1.rtrc",
             "server.rtrc": "seed-420-server.rtrc", "other.rtrc": "seed-0-client1.rtrc"}
    for name, source in sides.items():
        shutil.copy(os.path.join(traces, source), os.path.join(folder, name))
    for name in os.listdir(captures) if os.path.isdir(captures) else []:
        if name.endswith((".pcap", ".pcapng")):
            shutil.copy(os.path.join(captures, name), folder)
            shutil.copy(os.path.join(captures, name), os.path.join(folder, "capture.pcapng"))
            remove(folder, "capture.rtrc")
            subprocess.run([program, "import", "capture.pcapng", "capture.rtrc"], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)


def wrong_with(line, result):
    if result.returncode not in (0, 1):
        return f"exit code {result.returncode}"
    if "cannot open" in result.stderr:
        return "it names a file that the test does not provide"
    if "--json" in line and "|" not in line and ">" not in line:
        for text in result.stdout.splitlines():
            try:
                json.loads(text)
            except ValueError:
                return f"no JSON: {text[:200]}"
        if not result.stdout:
            return "--json prints nothing"
    return None


def main():
    program, traces, captures = (os.path.abspath(argument) for argument in sys.argv[1:4])
    failures = []
    ran = 0
    with tempfile.TemporaryDirectory() as folder:
        lay_out(folder, program, traces, captures)
        for command in commands(program):
            lines = examples(program, command)
            if not lines:
                failures.append(f"{command}: --help shows no example")
            for line in lines:
                if not can_run(line):
                    print(f"left out, for want of a program: {line}")
                    continue
                # An output that is there already is left alone.
                if command == "import":
                    remove(folder, "capture.rtrc")
                result = shell(line, folder, program)
                ran += 1
                why = wrong_with(line, result)
                if why:
                    failures.append(f"{line}\n  {why}\n  {result.stderr.strip()[:500]}")
    print(f"{ran} examples")
    for failure in failures:
        print(f"FAILED {failure}")
    return 1 if failures or ran < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
