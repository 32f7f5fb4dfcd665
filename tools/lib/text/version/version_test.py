"""Tests --version of every program that was built."""
import json
import os
import re
import subprocess

import pytest
from programs import BOUND, program

PROGRAMS = [name for name in ("urtrsd", "urtrs-sim", "urtrs-replay", "urtrs-perf", "urtrs-conform")
            if os.path.exists(program(name))]  # some programs are not built if a library is missing
FORM = r"{} \d+\.\d+\.\d+( \([\w.+-]+\))?\nfabrics: tcp[^\n]*\ncompiler: (g|clang)\+\+ \d[^\n]*\n"


def version_of(path):
    return subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=BOUND)


@pytest.mark.parametrize("name", PROGRAMS)
def test_version_has_program_commit_fabrics_and_compiler(name):
    done = version_of(program(name))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert re.fullmatch(FORM.format(name), done.stdout), done.stdout


def test_all_programs_have_the_same_build():
    assert len({version_of(program(name)).stdout.split(" ", 1)[1] for name in PROGRAMS}) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_lists_version(name):
    done = subprocess.run([program(name), "--help"], capture_output=True, text=True, check=True, timeout=BOUND)
    assert re.search(r"^  --version ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in ("urtrsd", "urtrs", "urtrs-mapd", "urtrs-fs") if os.path.exists(program(name))])
def test_json_has_the_same_version(name):
    done = subprocess.run([program(name), "--version", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                          timeout=BOUND)
    answer = json.loads(done.stdout)
    assert answer["schema_version"] == 1
    assert version_of(program(name)).stdout.startswith(answer["version"] + "\n")


@pytest.mark.parametrize("name", [name for name in ("urtrs-mapd", "urtrs-fs") if os.path.exists(program(name))])
def test_usage_errors_with_json_are_json(name):
    done = subprocess.run([program(name), "--json", "--frobnicate"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=BOUND)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (2, "usage")
    assert done.stderr == f"{name}: {error['message']}\n"
