"""What urtrsd records when signals ask for it can be replayed."""
import signal
import subprocess

from programs import program


def replays(path):
    result = subprocess.run([program("urtrs-replay"), "replay", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60, check=False)
    return result.returncode == 0 and result.stdout.startswith("identical")


def test_traces_that_signals_ask_for(urtrsd, tmp_path):
    server = urtrsd("--export=a=mem:1M", "--trace=whole.rtrc", "--trace-detail=wire", "--trace-size-mb=1", cwd=tmp_path)
    pid = server.process.pid
    server.process.send_signal(signal.SIGUSR1)
    server.logged("wrote the last records")
    assert replays(tmp_path / f"urtrsd-{pid}.rtrc")

    server.process.send_signal(signal.SIGUSR2)
    server.logged("the trace is complete")
    assert replays(tmp_path / "whole.rtrc")

    server.process.send_signal(signal.SIGUSR2)
    server.logged("the trace is complete(?s:.*)recording to")
    server.process.send_signal(signal.SIGUSR2)
    server.logged("the trace is complete(?s:.*)the trace is complete")
    assert replays(tmp_path / f"urtrsd-{pid}-1.rtrc")
