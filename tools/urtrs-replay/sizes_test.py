"""Memory of the verbs for a trace that is much larger than the memory they may use."""

import os
import resource
import subprocess

import pytest
from programs import TRACES, program

PROGRAM = program("urtrs-replay")
SMALL = os.path.join(TRACES, "seed-420-client1.rtrc")
REQUESTS = 40_000
MIB = 1 << 20
# For everything: the program and its libraries take about 100 MiB of addresses.
ADDRESSES = 240 * MIB
SCENARIO = f"""scenario A
 set workload.requests={REQUESTS} workload.window=32 workload.gap=0 server.queue_depth=64 storage.sectors=4096
 delivered number={REQUESTS}
"""


def run(*arguments, code=0):
    ran = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         timeout=600, check=False,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)))
    assert ran.returncode == code, f"{arguments}: exit code {ran.returncode}: {ran.stderr[-500:]}"
    return ran


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    if subprocess.run([PROGRAM, "stat", SMALL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))).returncode:
        pytest.skip("a program with sanitizers needs more addresses")
    subprocess.run([program("urtrs-sim"), "run", "--file", "/dev/stdin", "--seed", "1", "--trace", folder / "w"],
                   input=SCENARIO, text=True, check=True, stdout=subprocess.DEVNULL, timeout=600)
    return str(folder / "w.client1.rtrc"), str(folder / "w.server.rtrc")


@pytest.mark.parametrize("command", (
    "replay C", "diff C C", "merge C S", "seq C S", "seq C S --from 0.01 --to 0.02", "seq C S --html OUT", "check C S"))
def test_verbs_read_long_traces_in_little_memory(traces, tmp_path, command):
    names = {"C": traces[0], "S": traces[1], "OUT": tmp_path / "page.html"}
    run(*(names.get(word, word) for word in command.split()))


def test_pipe_is_read_as_a_file():
    with open(SMALL, "rb") as trace:
        bytes_of_trace = trace.read()
    piped = subprocess.run([PROGRAM, "seq", "-"], input=bytes_of_trace, stdout=subprocess.PIPE, check=True).stdout
    assert piped.decode().splitlines()[2:] == run("seq", SMALL).stdout.splitlines()[2:]


@pytest.mark.parametrize("command", ("merge /dev/zero", "seq C /dev/zero", "check /dev/zero", "why /dev/zero"))
def test_endless_input_that_is_no_trace_is_refused(command):
    done = subprocess.run([PROGRAM, *command.replace("C", SMALL).split()], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (2, 3), done.stdout
    assert "/dev/zero" in done.stdout + done.stderr


def test_failed_command_leaves_no_file(traces, tmp_path):
    lines = run("cat", SMALL, "--json").stdout.splitlines()
    (tmp_path / "wrong").write_text("\n".join(lines[:20] + ["{"]) + "\n", encoding="utf-8")
    out = tmp_path / "out.rtrc"
    run("from-json", tmp_path / "wrong", out, code=3)
    assert not out.exists()
    out.touch()
    run("from-json", tmp_path / "wrong", out, code=3)
    assert out.stat().st_size == 0
    said = run("pcap", *traces, "-o", tmp_path / "out.pcap", "--max-size", "10M", code=2).stderr
    assert "allow more with --max-size" in said
    assert not (tmp_path / "out.pcap").exists()
