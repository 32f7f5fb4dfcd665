"""SIGTERM during a run of tools/dev/softroce-vm; ordinary processes replace the guests."""
import argparse
import pathlib
import signal
import subprocess
import sys
import types
from unittest import mock

import pytest
from programs import BOUND, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lab import cells, runner  # noqa: E402

RUN_OF_SLEEPERS = """
import argparse, concurrent.futures, os, pathlib, sys, time, types
sys.path.insert(0, sys.argv[1])
from lab import cells, machine, runner
import labs

work = pathlib.Path(sys.argv[2])
submit = concurrent.futures.ThreadPoolExecutor.submit

def submit_slowly(*arguments):
    future = submit(*arguments)
    time.sleep(float(sys.argv[3]))
    return future

concurrent.futures.ThreadPoolExecutor.submit = submit_slowly
machine.command = lambda lab, image, out, script, possible: ["sh", "-c", f"echo $$ >>{work}/guests; exec sleep 600"]
options = argparse.Namespace(build_dir=work, fast=False, minutes=None, seconds=None, jobs=2, set=[], fabric="verbs",
                             capture=False, verbose=False)
image = types.SimpleNamespace(kernel=types.SimpleNamespace(name="6.12"), version="6.12.99", modules=work)
lab = types.SimpleNamespace(work=work, images={"6.12": image}, programs=work, noise=work, counted=False,
                            programs_digest=lambda: "")
cases = cells.all_cases()
plan = cells.select(cases, ["connect"], (cells.PEERS, cells.PEERS, ("on", "off"), (1, 2), ("on",)))
line = types.SimpleNamespace(lab="x", top=types.SimpleNamespace(parse_args=lambda: options))
sys.exit(labs.main(line, lambda options: runner.Runner(lab, cases, options, print).run(plan) and 0))
"""


class TestSignals:
    @pytest.mark.parametrize("interrupts, delay", [(signal.SIG_DFL, 0), (signal.SIG_IGN, 0), (signal.SIG_DFL, 1)])
    def test_sigterm_kills_the_guests_and_starts_no_more(self, tmp_path, interrupts, delay):
        """SIGTERM works even if SIGINT is ignored, as in a background job of a shell, and even if it arrives while the main
        thread still starts the guests. `delay` makes this likely."""
        guests = tmp_path / "guests"
        arguments = [sys.executable, "-B", "-c", RUN_OF_SLEEPERS, str(pathlib.Path(__file__).parent), str(tmp_path),
                     str(delay)]
        with subprocess.Popen(arguments, preexec_fn=lambda: signal.signal(signal.SIGINT, interrupts)) as running:
            until("two guests run", lambda: guests.exists() and len(guests.read_text().split()) == 2)
            running.send_signal(signal.SIGTERM)
            try:
                assert running.wait(BOUND) == 130
            finally:
                running.kill()
        pids = guests.read_text().split()
        assert len(pids) == 2
        assert not [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]

    def test_no_guest_starts_after_the_end_of_the_run(self, tmp_path):
        lab = types.SimpleNamespace(work=tmp_path, images={"6.12": mock.Mock()}, programs=tmp_path, noise=tmp_path, counted=False)
        options = argparse.Namespace(fast=False, seconds=None, set=[], fabric="verbs", capture=False)
        judging = runner.Runner(lab, cells.all_cases(), options, print)
        judging.ended = True
        with mock.patch.object(runner, "Boot") as boot:
            assert judging._boot([cells.Cell("connect", "kernel", "kernel", "on", 1)], tmp_path / "boot") == 0
        boot.assert_not_called()
