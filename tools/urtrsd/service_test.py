"""urtrsd under a service manager: the messages of sd_notify(3)."""
import contextlib
import os
import signal
import socket

import pytest
import iwarp_client
from programs import BOUND, until


@pytest.fixture(name="manager")
def _manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(BOUND)
        yield manager


def start(urtrsd, manager, **environment):
    return urtrsd("--export=a=mem:1M", ready=False,
                  env=dict(os.environ, NOTIFY_SOCKET=manager.getsockname(), **environment))


def next_but_watchdog(manager):
    while (message := manager.recv(4096).decode()) == "WATCHDOG=1\n":
        pass
    return message


def test_ready_sessions_and_stopping(urtrsd, manager):
    server = start(urtrsd, manager)
    assert next_but_watchdog(manager) == "READY=1\nSTATUS=1 exports, 0 sessions\n"
    server.ready()
    with contextlib.closing(iwarp_client.IwarpClient(server.port, "one")):
        assert next_but_watchdog(manager) == "STATUS=1 exports, 1 sessions\n"
    assert next_but_watchdog(manager) == "STATUS=1 exports, 0 sessions\n"
    server.process.send_signal(signal.SIGTERM)
    assert next_but_watchdog(manager) == "STOPPING=1\nSTATUS=SIGTERM: closing 0 sessions\n"
    assert server.end() == 0


def test_the_watchdog_is_answered_again_and_again(urtrsd, manager):
    server = start(urtrsd, manager, WATCHDOG_USEC="20000")
    assert manager.recv(4096).startswith(b"READY=1\n")
    assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1\n"] * 3
    # A daemon that stands still does not answer.
    server.process.send_signal(signal.SIGSTOP)
    until("stopped", lambda: open(f"/proc/{server.process.pid}/stat", encoding="utf-8").read().split()[2] == "T")
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            manager.recv(4096)
    manager.settimeout(BOUND)
    server.process.send_signal(signal.SIGCONT)
    assert manager.recv(4096) == b"WATCHDOG=1\n"


def test_a_busy_loop_answers_too(urtrsd, manager):
    urtrsd("--export=a=mem:1M", "--busy-poll", ready=False,
           env=dict(os.environ, NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="20000"))
    assert manager.recv(4096).startswith(b"READY=1\n")
    assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1\n"] * 3


def test_a_start_that_fails_is_not_ready(urtrsd, manager, tmp_path):
    server = urtrsd(f"--export=a={tmp_path}/missing", ready=False,
                    env=dict(os.environ, NOTIFY_SOCKET=manager.getsockname()))
    assert server.process.wait(BOUND) == 3
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)
