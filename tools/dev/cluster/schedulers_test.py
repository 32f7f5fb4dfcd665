"""Parts of a range of seeds, run by Slurm and by GNU parallel, add up to the result of one process byte for byte, also if
a node or a process is killed in the middle of a part. For the stage `cluster` of tools/test."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

import pytest
from programs import BUILD, program, until

HERE = pathlib.Path(__file__).resolve().parent
BOUND = 600  # seconds, for a whole range
PARTS, SIZE = 9, 400
PLANTED = BUILD / "conformance/mutants/planted-urtrs-sim"
# A planted bug that some seeds show, so that the results have failures, too.
BUG = {"URTRS_SIM": str(PLANTED), "URTRS_MUTANT": "M01"}
COMMAND = ["sweep", "--check-determinism", "2"]


def environment():
    return {**os.environ, **BUG}


def sim(*arguments, code):
    done = subprocess.run([str(PLANTED), *map(str, arguments)], capture_output=True, text=True, timeout=BOUND, check=False,
                          env=environment())
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """The result of one process."""
    file = tmp_path_factory.mktemp("serial") / "all.json"
    sim(*COMMAND, "--seeds", f"0..{PARTS * SIZE}", "--jobs", "1", "--result", file, code=1)
    return file.read_bytes()


def check(parts, serial):
    merged = parts.parent / "all.json"
    sim("merge", parts, "--seeds", f"0..{PARTS * SIZE}", "--out", merged, code=1)
    assert merged.read_bytes() == serial
    assert len(list(parts.glob("*.json"))) == PARTS


SCRIPT = """
set -euo pipefail
sbatch --array=0-{last} --output={folder}/task-%a.out {task} {parts} 0 {size} {command}
# The first task of the node n2 that has not written its result.
running_on_n2() {{
  local task
  for task in $(squeue --noheader --nodelist=n2 --states=running --format=%K); do
    [[ -e {folder}/task-$task.out && ! -e {parts}/$((task * {size}))..$(((task + 1) * {size})).json ]] && return
  done
  return 1
}}
for ((tries = 0; tries < 600; ++tries)); do
  if [[ -e {parts}/0..{size}.json ]] && running_on_n2; then break; fi
  sleep 0.1
done
kill -KILL "$(cat {cluster}/n2.pid)"
for ((tries = 0; tries < {bound}; ++tries)); do
  [[ -n "$(squeue --noheader)" ]] || exit 0
  sleep 1
done
squeue
exit 1
"""


def test_slurm_with_a_killed_node(tmp_path, serial):
    if os.geteuid() != 0 or not shutil.which("sbatch"):
        pytest.skip("needs root and the packages of `tools/install-deps --for cluster`")
    parts, cluster = tmp_path / "parts", tmp_path / "cluster"
    parts.mkdir()
    script = SCRIPT.format(last=PARTS - 1, folder=tmp_path, task=HERE / "task", parts=parts, size=SIZE, command=" ".join(COMMAND),
                           cluster=cluster, bound=BOUND)
    with subprocess.Popen([HERE / "slurm", cluster, "bash", "-c", script], env=environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=2 * BOUND)
        finally:
            process.kill()
    assert process.returncode == 0, said
    outputs = [(tmp_path / f"task-{task}.out").read_text() for task in range(PARTS)]
    again = [text for text in outputs if re.search(r"on n2, restart 0\n(?s:.*)on n[13], restart 1\n", text)]
    assert len(again) == 1, outputs
    check(parts, serial)


def descendants(pid):
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            found += map(int, pathlib.Path(f"/proc/{one}/task/{one}/children").read_text(encoding="ascii").split())
    return found


def test_parallel_with_a_killed_process(tmp_path, serial):
    if not shutil.which("parallel"):
        pytest.skip("needs GNU parallel, a package of `tools/install-deps --for cluster`")
    parts = tmp_path / "parts"
    parts.mkdir()
    command = ["parallel", "--will-cite", "--line-buffer", "--jobs", "3", "--retries", "3", HERE / "task", "--task", "{}", parts, "0", str(SIZE), *COMMAND,
               ":::", *map(str, range(PARTS))]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:
        said = []
        reader = threading.Thread(target=lambda: said.append(process.stdout.read()))
        reader.start()

        def programs():
            """The processes of urtrs-sim that run, without their workers."""
            found = []
            for pid in descendants(process.pid):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/exe") == str(PLANTED) and os.readlink(f"/proc/{parent(pid)}/exe") != str(PLANTED):
                        found.append(pid)
            return found
        try:
            until("a part is done and others run", lambda: list(parts.glob("*.json")) and len(programs()) > 1, BOUND)
            os.kill(programs()[-1], signal.SIGKILL)
            process.wait(BOUND)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        reader.join(BOUND)
    assert process.returncode == 0, said
    starts = re.findall(r"^task ([0-9]+): seeds ", said[0], re.MULTILINE)
    assert len(starts) == PARTS + 1 and len(set(starts)) == PARTS, said
    check(parts, serial)


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])


def test_programs_are_built():
    assert PLANTED.exists() and pathlib.Path(program("urtrs-sim")).exists(), "build the preset release"
