"""Shell completion: suggestions in bash, and syntax of the files for zsh and fish."""
import os
import shutil
import subprocess

import pytest
from programs import BOUND, ROOT, program

FOLDER = ROOT / "tools/urtrs/completion"
URTRS = program("urtrs")

# Simulates the Tab key: sets the completion variables of bash, calls the completion function, and prints the
# suggestions.
OFFERED = r"""
COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:'
. "$1"
COMP_LINE=$2 COMP_POINT=${#2}
COMP_WORDS=("$3") COMP_CWORD=1
_urtrs
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(name="daemon")
def _daemon(urtrsd, tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    return urtrsd("--export=disk0=mem:1M", "--export=di:sk=mem:1M", "--export=a b=mem:1M", "--export=x@y=mem:1M")


def offered(line):
    done = subprocess.run(["bash", "-c", OFFERED, "bash", FOLDER / "urtrs.bash", line, URTRS], capture_output=True, text=True,
                          timeout=BOUND, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_commands_and_options(tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path))
    assert offered("urtrs se") == ["session"]
    assert offered("urtrs session ") == ["list", "show", "disconnect"]
    assert offered("urtrs session list --js") == ["--json"]
    assert offered("urtrs log w") == ["warn"]
    assert offered("urtrs path list --unit=K") == ["K"], "bash splits words after an equals sign"
    assert offered("urtrs session show ") == [], "no daemon is running"


def test_bash_offers_names_of_existing_objects(daemon):
    assert sorted(offered("urtrs export remove ")) == ["di:sk", "disk0", "x@y"], "names with a space cannot be offered"
    assert offered("urtrs export remove di:s") == ["sk"], "bash splits words after a colon"
    assert offered(f"urtrs --socket={os.environ['URTRS_RUNTIME_DIR']}/urtrsd") != []


def test_bash_completes_words_with_an_at_sign(daemon):
    assert offered("urtrs export remove x@") == ["@y"]


def test_bash_offers_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now.rtrc").touch()
    assert offered("urtrs trace start no") == ["now.rtrc"]


def test_bash_registers_the_completion_function():
    done = subprocess.run(["bash", "-c", '. "$1"; complete -p urtrs', "bash", FOLDER / "urtrs.bash"], capture_output=True,
                          text=True, timeout=BOUND, check=True)
    assert done.stdout == "complete -F _urtrs urtrs\n"


@pytest.mark.parametrize("shell, script", [("zsh", "_urtrs"), ("fish", "urtrs.fish")])
def test_completion_files_of_other_shells_are_valid(shell, script):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", FOLDER / script], check=True, timeout=BOUND)
