"""All output of urtrs-perf with --json, including errors, matches docs/schema/urtrs-perf.json."""
import subprocess

import pytest

from programs import BOUND, program
from schemas import fits, is_schema

PERF = program("urtrs-perf")


def perf(part, *arguments, code=0):
    done = subprocess.run([PERF, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return fits(done.stdout, "urtrs-perf", part)


@pytest.fixture(name="port")
def _port():
    server = subprocess.Popen([PERF, "-p", "0"], stdout=subprocess.PIPE, text=True)
    yield server.stdout.readline().split()[-1]
    server.kill()
    server.wait()
    server.stdout.close()


def test_measurement_output_fits_the_schema(port):
    is_schema("urtrs-perf")
    assert perf("measured", "127.0.0.1", "-p", port, "-n", "50", "--verify")["results"][0]["iterations"] == 50
    both = perf("measured", "127.0.0.1", "127.0.0.2", "-p", port, "-n", "50", "-q", "4")
    assert len(both["paths"]) == 2 and both["error"] is None


def test_output_to_a_file_fits_the_schema(port, tmp_path):
    subprocess.run([PERF, "127.0.0.1", "-p", port, "-n", "50", f"--json={tmp_path}/result"], capture_output=True, check=True,
                   timeout=BOUND)
    assert fits((tmp_path / "result").read_text(), "urtrs-perf", "measured")["exit_code"] == 0


def test_output_of_comparisons_fits_the_schema():
    """A busy machine may give no verdict, but the output must still match the schema."""
    with subprocess.Popen([PERF, "-p", "0", "--fabric", "libfabric", "--raw"], stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().split()[-1]
        assert perf("measured", "127.0.0.1", "-p", port, "--fabric", "libfabric", "--raw", "-n", "50")["kind"] == "raw"
        server.kill()
    done = subprocess.run([PERF, "--compare-raw", "--fabric", "libfabric", "--rounds", "1", "-n", "200", "--json"], capture_output=True,
                          text=True, timeout=2 * BOUND, check=False)
    assert done.stdout, (done.returncode, done.stderr)
    compared = fits(done.stdout, "urtrs-perf", "compared")
    assert compared["metrics"] and all(len(metric["rounds"]) == 1 for metric in compared["metrics"])


def test_output_of_a_failed_comparison_fits_the_schema(tmp_path):
    error = perf("error", "--compare-raw", "--provider", "nosuch", code=1)["error"]
    assert error["code"] == "failed" and "did not start" in error["message"]
    done = subprocess.run([PERF, "--compare-raw", "--provider", "nosuch", f"--json={tmp_path / 'file'}"], capture_output=True, text=True,
                          timeout=BOUND, check=False)
    assert done.returncode == 1 and "{" not in done.stdout and "did not start" in done.stderr, done


def test_a_missing_server_is_a_timeout():
    answer = perf("measured", "127.0.0.1", "-p", "1", "-n", "5", "--connect-timeout", "1", code=4)
    assert answer["error"]["code"] == "timeout" and answer["results"] == []


def test_each_path_shows_its_device(port):
    paths = perf("measured", "0.0.0.1", "127.0.0.1", "-p", port, "-n", "5", "--connect-timeout", "3", code=4)["paths"]
    # The dead path is connecting, or waiting for its next attempt.
    assert paths[0]["state"] in ("waiting", "connecting") and paths[0]["device"] == ""
    assert (paths[1]["state"], paths[1]["device"]) == ("connected", "tcp")


@pytest.mark.parametrize("words", [["--nosuch"], ["127.0.0.1", "--rw", "sideways"], ["127.0.0.1", "-n", "x"], ["127.0.0.1", "-s", "x"]])
def test_error_output_fits_the_schema(words):
    error = perf("error", *words, code=2)["error"]
    assert error["code"] == "usage" and "urtrs-perf:" not in error["message"]
