"""Completion of urtrs-mapd for bash, zsh and fish: all options of --help, and file and group names as values."""
import re
import shutil
import subprocess

import pytest

from programs import BOUND, ROOT, program

FOLDER = ROOT / "tools/urtrs-mapd/completion"
SCRIPT = FOLDER / "urtrs-mapd.bash"
# Simulates the Tab key: sets the completion variables of bash, calls the completion function, and prints the
# suggestions.
OFFERED = '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _urtrs_mapd; printf "%s\\n" "${COMPREPLY[@]}"'


def offered(*words):
    done = subprocess.run(["bash", "-c", OFFERED, "bash", SCRIPT, "urtrs-mapd", *words], capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def options():
    """Returns the options listed by --help; an option that takes a value ends with "="."""
    text = subprocess.run([program("urtrs-mapd"), "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    return sorted(re.findall(r"^  (?:-h,)?(--[a-z-]+=?)", text, re.MULTILINE))


def test_each_option_is_offered():
    assert sorted(offered("")) == options()
    assert offered("--st") == ["--state="]


def test_values_of_options_are_offered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-state.json").touch()
    assert offered("--state", "=", "my") == ["my-state.json"]
    assert offered("--state", "=") == ["my-state.json"]
    assert offered("--state", "my") == ["my-state.json"]
    assert "root" in offered("--control-group", "=", "roo")


def test_bash_registers_the_completion_function():
    done = subprocess.run(["bash", "-c", '. "$1"; complete -p urtrs-mapd', "bash", SCRIPT], capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stdout == "complete -F _urtrs_mapd urtrs-mapd\n"


def test_zsh_and_fish_offer_the_same_options():
    """Compares the text of the files, so that neither shell is needed."""
    zsh = (FOLDER / "_urtrs-mapd").read_text()
    assert zsh.startswith("#compdef urtrs-mapd\n")
    assert sorted(re.findall(r"(--[a-z-]+=?)(?=[\[}])", zsh)) == options()
    fish = re.findall(r"^complete -c urtrs-mapd .*-l ([a-z-]+)(?: (-r -F|-x -a))?", (FOLDER / "urtrs-mapd.fish").read_text(), re.MULTILINE)
    assert sorted(f"--{name}{'=' if value else ''}" for name, value in fish) == options()


@pytest.mark.parametrize("shell, file", [("zsh", "_urtrs-mapd"), ("fish", "urtrs-mapd.fish")])
def test_completion_files_are_valid(shell, file):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", FOLDER / file], check=True, timeout=BOUND)
