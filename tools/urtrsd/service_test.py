"""Tests the messages of sd_notify(3) that urtrsd sends to a service manager."""
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import time

import pytest
import iwarp_client
from programs import BOUND, free_port, program, until


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


def test_readiness_session_count_and_shutdown_are_reported(urtrsd, manager):
    server = start(urtrsd, manager)
    assert next_but_watchdog(manager) == "READY=1\nSTATUS=1 export, 0 sessions\n"
    server.ready()
    with contextlib.closing(iwarp_client.IwarpClient(server.port, "one")):
        assert next_but_watchdog(manager) == "STATUS=1 export, 1 session\n"
    assert next_but_watchdog(manager) == "STATUS=1 export, 0 sessions\n"
    server.process.send_signal(signal.SIGTERM)
    assert next_but_watchdog(manager) == "STOPPING=1\nSTATUS=SIGTERM: closing 0 sessions\n"
    assert server.end() == 0


def test_watchdog_messages_are_sent_repeatedly(urtrsd, manager):
    server = start(urtrsd, manager, WATCHDOG_USEC="20000")
    assert manager.recv(4096).startswith(b"READY=1\n")
    assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1\n"] * 3
    # A daemon stopped by SIGSTOP must not send a watchdog message.
    server.process.send_signal(signal.SIGSTOP)
    until("stopped", lambda: open(f"/proc/{server.process.pid}/stat", encoding="utf-8").read().split()[2] == "T")
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            manager.recv(4096)
    manager.settimeout(BOUND)
    server.process.send_signal(signal.SIGCONT)
    assert manager.recv(4096) == b"WATCHDOG=1\n"


def test_a_busy_polling_server_sends_watchdog_messages(urtrsd, manager):
    urtrsd("--export=a=mem:1M", "--busy-poll", ready=False,
           env=dict(os.environ, NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="20000"))
    assert manager.recv(4096).startswith(b"READY=1\n")
    assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1\n"] * 3


def test_a_failed_start_does_not_report_ready(urtrsd, manager, tmp_path):
    server = urtrsd(f"--export=a={tmp_path}/missing", "--strict", ready=False,
                    env=dict(os.environ, NOTIFY_SOCKET=manager.getsockname()))
    assert server.process.wait(BOUND) == 3
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)


def test_a_start_with_missing_exports_reports_ready(urtrsd, manager, tmp_path):
    server = urtrsd(f"--export=a={tmp_path}/later", "--export=b=mem:1M", ready=False,
                    env=dict(os.environ, NOTIFY_SOCKET=manager.getsockname()))
    told = manager.recv(4096).decode()
    while "READY=1" not in told:
        told = manager.recv(4096).decode()
    assert "STATUS=2 exports, 0 sessions, 1 missing" in told
    (tmp_path / "later").write_bytes(bytes(4096))
    server.logged('export "a" is available')
    until("the status shows both exports", lambda: "STATUS=2 exports, 0 sessions\n" in manager.recv(4096).decode() + "\n")


def test_watchdog_messages_arrive_within_the_period(urtrsd, manager):
    """Checks the shortest of several intervals, because a busy machine may delay some messages."""
    start(urtrsd, manager, WATCHDOG_USEC="1000000")
    assert manager.recv(4096).startswith(b"READY=1\n")
    times = []
    while len(times) < 5:
        assert manager.recv(4096) == b"WATCHDOG=1\n"
        times.append(time.monotonic())
    assert min(later - before for before, later in zip(times, times[1:])) < 0.9


def test_shutdown_without_a_time_limit_waits_for_storage(urtrsd):
    server = urtrsd("--export=slow=mem:1M,delay_ms=1500", "--shutdown-timeout=never")
    session = iwarp_client.IwarpClient(server.port, "one")
    error, device = session.open("slow")
    assert error == 0
    session.send_read(device, 0, 4096, 1)
    session.beat()
    assert server.end() == 0, server.text()


def test_a_trace_is_complete_after_a_second_signal(urtrsd, tmp_path):
    """After the second signal urtrsd exits immediately, and all records are in the trace file."""
    trace = tmp_path / "t.rtrc"
    server = urtrsd("--export=slow=mem:1M,delay_ms=600000", "--shutdown-timeout=never", f"--trace={trace}", "--trace-detail=payload")
    session = iwarp_client.IwarpClient(server.port, "one")
    error, device = session.open("slow")
    assert error == 0
    until("the first records are in the file", lambda: trace.stat().st_size > 0)
    before = trace.stat().st_size
    for chunk in 1, 2:
        session.send_write(device, 0, bytes(32768), chunk)
    session.beat()
    for words in "closing 1 session;", "second signal: exiting with":
        server.process.send_signal(signal.SIGTERM)
        server.logged(words)
    assert server.process.wait(BOUND) == 1
    assert trace.stat().st_size >= before + 2 * 32768
    done = subprocess.run([program("urtrs-replay"), "replay", trace], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0 and done.stdout.startswith("identical"), done


def test_a_non_blocking_standard_error_loses_no_line(urtrsd, tmp_path):
    """Another process that shares standard error may have set O_NONBLOCK."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * 4096)
    os.set_blocking(writer, False)
    control = tmp_path / "control"
    process = subprocess.Popen([program("urtrsd"), f"--port={free_port()}", "--export=a=mem:1M", f"--control={control}"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=writer)
    try:
        os.close(writer)
        until("the control socket answers", lambda: subprocess.run([program("urtrs"), "stats", f"--socket={control}"], capture_output=True, timeout=BOUND,
                                                check=False).returncode == 0)
        process.terminate()
        with os.fdopen(reader, "rb") as log:
            text = log.read().decode()
    finally:
        process.kill()
        process.wait(BOUND)
    for words in "listening on", 'exporting "a"', "control socket", " ready\n", "SIGTERM: closing", " stopped\n":
        assert words in text, text
