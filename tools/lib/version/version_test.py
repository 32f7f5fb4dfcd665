"""--version of every program that is built."""
import os
import re
import subprocess

import pytest
from programs import BOUND, program

PROGRAMS = [name for name in ("urtrsd", "urtrs-sim", "urtrs-replay", "urtrs-perf", "urtrs-conform")
            if os.path.exists(program(name))]  # some need libraries that a build may lack
FORM = r"{} \d+\.\d+\.\d+( \([\w.+-]+\))?\nfabrics: tcp[^\n]*\ncompiler: (g|clang)\+\+ \d[^\n]*\n"


def version_of(path):
    return subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=BOUND)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_commit_fabrics_and_compiler(name):
    done = version_of(program(name))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert re.fullmatch(FORM.format(name), done.stdout), done.stdout


def test_all_programs_are_of_one_build():
    assert len({version_of(program(name)).stdout.split(" ", 1)[1] for name in PROGRAMS}) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_tells_of_it(name):
    done = subprocess.run([program(name), "--help"], capture_output=True, text=True, check=True, timeout=BOUND)
    assert re.search(r"^  --version ", done.stdout, re.MULTILINE)
