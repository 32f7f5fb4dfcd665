"""Changes example commands of help texts and documents so that a test can run them on this host, in its own folder."""
import os
import re
import subprocess

from programs import BUILD

LIMIT = 120  # maximum duration of one command, in seconds
TOOLS = ("urtrs", "urtrsd", "urtrs-mapd", "urtrs-sim", "urtrs-perf", "urtrs-conform", "urtrs-replay", "nbdkit")


def here(line, folder):
    """Replaces addresses by loopback addresses, ranges of seeds by three seeds, and paths by paths below `folder`."""
    line = re.sub(r"\b10\.0\.(\d)\.(\d+)\b", r"127.0.\1.\2", line)
    line = re.sub(r"0\.\.\d+", "0..3", line)
    return re.sub(r"(?<![\w$./])(/etc/urtrs|/srv/images|/srv|/var/lib/urtrs|/tmp/run|/run)\b", str(folder), line)


def ended(line):
    """Changes a command that runs until Ctrl-C, so that it shows one screen or event and exits."""
    if re.match(r"urtrs (client )?(top|monitor)", line):
        return "timeout -s INT 1 " + re.sub(r"--(interval|count)=\d+", "", line) + " --count=1 --interval=0.1"
    return line


def shell(line, folder, **variables):
    path = os.pathsep.join([str(BUILD / "tools" / name) for name in TOOLS] + [os.environ["PATH"]])
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, capture_output=True, text=True, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, check=False, env=dict(os.environ, PATH=path, **variables))
