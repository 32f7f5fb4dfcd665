"""urtrs-mapd --kernel-devices: only one process runs at a time, notifies the service manager, and exits on a signal."""
import os
import re
import signal
import socket
import subprocess

import pytest
from programs import BOUND, program

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} "


def start(ends, folder, manager):
    process = ends.enter_context(subprocess.Popen(
        [program("urtrs-mapd"), "--kernel-devices"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, URTRS_RUNTIME_DIR=str(folder / "run"), NOTIFY_SOCKET=manager.getsockname())))
    ends.callback(process.kill)
    return process


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_kernel_devices_runs_until_a_signal(tmp_path, ends, how):
    manager = ends.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(BOUND)
    first = start(ends, tmp_path, manager)
    line = first.stderr.readline()
    if "without libnl" in line:
        pytest.skip("built without libnl")
    assert re.fullmatch(TIME + "urtrs-mapd: ready\n", line), line
    assert manager.recv(100) == b"READY=1\n"
    second = start(ends, tmp_path, manager)
    assert second.wait(BOUND) == 3
    assert second.stderr.read() == (f'urtrs-mapd: another urtrs-mapd --kernel-devices uses "{tmp_path}/run/kernel-devices.lock"; '
                                    "one is enough for all devices\n")
    first.send_signal(how)
    assert first.wait(BOUND) == 0
    assert manager.recv(100) == b"STOPPING=1\n"
    assert re.fullmatch(TIME + "urtrs-mapd: stopped; devices stay available\n", first.stderr.read())
    third = start(ends, tmp_path, manager)
    assert manager.recv(100) == b"READY=1\n"
    third.send_signal(how)
    assert third.wait(BOUND) == 0
