"""What urtrsd records when signals ask for it can be replayed.

usage: trace_signals_test.py URTRSD URTRS_REPLAY
"""

import os
import signal
import subprocess
import sys
import tempfile


def wait_for(daemon, words):
    seen = []
    for line in daemon.stdout:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"urtrsd ended without '{words}':\n{''.join(seen)}")


def replay(program, path):
    result = subprocess.run([program, "replay", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=60, check=False)
    assert result.returncode == 0 and result.stdout.startswith("identical"), result.stdout


def check(urtrsd, urtrs_replay, folder):
    daemon = subprocess.Popen([urtrsd, "--listen", "127.0.0.1", "--port", "0", "--export", "a=mem:1M",
                               "--trace", "whole.rtrc", "--trace-detail", "wire", "--trace-size-mb", "1"],
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for(daemon, "ready")
        daemon.send_signal(signal.SIGUSR1)
        wait_for(daemon, "wrote the last records")
        replay(urtrs_replay, os.path.join(folder, f"urtrsd-{daemon.pid}.rtrc"))

        daemon.send_signal(signal.SIGUSR2)
        wait_for(daemon, "the trace is complete")
        replay(urtrs_replay, os.path.join(folder, "whole.rtrc"))

        daemon.send_signal(signal.SIGUSR2)
        wait_for(daemon, "recording to")
        daemon.send_signal(signal.SIGUSR2)
        wait_for(daemon, "the trace is complete")
        replay(urtrs_replay, os.path.join(folder, f"urtrsd-{daemon.pid}-1.rtrc"))
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert daemon.returncode == 0, daemon.returncode


def main():
    urtrsd, urtrs_replay = (os.path.abspath(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        check(urtrsd, urtrs_replay, folder)
    print("ok")


if __name__ == "__main__":
    main()
