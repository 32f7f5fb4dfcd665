"""Runs tools of this machine."""
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent.parent
GUEST = HERE / "guest"


def run(command, log, **more):
    """Runs a command with its output in `log`. Raises RuntimeError with the last lines if the command fails."""
    with open(log, "ab") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False, **more)
    if done.returncode != 0:
        tail = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise RuntimeError(f"{' '.join(map(str, command))} failed; whole output in {log}\n  " + "\n  ".join(tail))


def which(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
