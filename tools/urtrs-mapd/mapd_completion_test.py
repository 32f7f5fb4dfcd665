"""The completion of urtrs-mapd for bash: each option of --help, and files and groups behind them."""
import re
import subprocess

from programs import BOUND, ROOT, program

SCRIPT = ROOT / "tools/urtrs-mapd/completion/urtrs-mapd.bash"
# Plays a key: sets what bash sets, calls the function, and prints what it offers.
OFFERED = '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _urtrs_mapd; printf "%s\\n" "${COMPREPLY[@]}"'


def offered(*words):
    done = subprocess.run(["bash", "-c", OFFERED, "bash", SCRIPT, "urtrs-mapd", *words], capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_each_option_is_offered():
    text = subprocess.run([program("urtrs-mapd"), "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    options = re.findall(r"^  (?:-h,)?(--[a-z-]+=?)", text, re.MULTILINE)
    assert sorted(offered("")) == sorted(options)
    assert offered("--st") == ["--state="]


def test_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-state.json").touch()
    assert offered("--state", "=", "my") == ["my-state.json"]
    assert offered("--state", "=") == ["my-state.json"]
    assert offered("--state", "my") == ["my-state.json"]
    assert "root" in offered("--control-group", "=", "roo")


def test_bash_has_the_function_for_urtrs_mapd():
    done = subprocess.run(["bash", "-c", '. "$1"; complete -p urtrs-mapd', "bash", SCRIPT], capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stdout == "complete -F _urtrs_mapd urtrs-mapd\n"
