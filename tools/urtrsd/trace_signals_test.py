"""Recordings that are started and stopped by signals can be replayed."""
import resource
import signal
import subprocess

from iwarp_client import IwarpClient
from programs import program, until


def replays(path):
    result = subprocess.run([program("urtrs-replay"), "replay", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60, check=False)
    return result.returncode == 0 and result.stdout.startswith("identical")


def test_signals_start_and_stop_traces(urtrsd, tmp_path):
    server = urtrsd("--export=a=mem:1M", "--trace=whole.rtrc", "--trace-detail=wire", "--trace-size=1M", cwd=tmp_path)
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


def test_a_recording_is_not_a_configuration_change(urtrsd, tmp_path):
    """A recording started or stopped by an operator is not a change of the setting `trace`."""
    config, control = tmp_path / "urtrsd.toml", tmp_path / "control"
    text = f'trace = "{tmp_path}/whole.rtrc"\n[[export]]\nname = "a"\nmem = "1M"\n'
    config.write_text(text)
    server = urtrsd(f"--config={config}", f"--control={control}", cwd=tmp_path)

    def urtrs(*words):
        return subprocess.run([program("urtrs"), f"--socket={control}", *words], capture_output=True, text=True, timeout=60, check=True).stdout

    urtrs("trace", "stop")
    assert urtrs("reload") == ""
    urtrs("trace", "start", str(tmp_path / "live.rtrc"))
    assert urtrs("reload") == ""
    urtrs("trace", "stop")
    for words in "recording to", "the trace is complete":
        server.process.send_signal(signal.SIGUSR2)
        server.logged(words)
        assert urtrs("reload") == ""
    config.write_text(text.replace("whole", "other"))
    assert urtrs("reload") == "trace is read at the start only; restart urtrsd to change it\n"
    assert replays(tmp_path / "live.rtrc") and replays(tmp_path / f"urtrsd-{server.process.pid}-1.rtrc")


def test_each_recording_has_its_own_file(urtrsd, tmp_path):
    server = urtrsd("--export=a=mem:1M", cwd=tmp_path)
    for number in 1, 2:
        server.process.send_signal(signal.SIGUSR2)
        server.logged(f"recording to urtrsd-{server.process.pid}-{number}.rtrc")
        server.process.send_signal(signal.SIGUSR2)
        server.logged(f"(?s)-{number}.rtrc.*the trace is complete")
        assert replays(tmp_path / f"urtrsd-{server.process.pid}-{number}.rtrc")


def test_a_failed_recording_is_logged_once_and_cannot_be_stopped(urtrsd, tmp_path):
    """The recording fails, because RLIMIT_FSIZE limits the file to 64 KiB."""
    control, trace = tmp_path / "control", tmp_path / "live.rtrc"
    server = urtrsd("--export=a=mem:1M", f"--control={control}",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16)))
    subprocess.run([program("urtrs"), f"--socket={control}", "trace", "start", trace], timeout=60, check=True)
    session = IwarpClient(server.port, "busy")
    error, device = session.open("a")
    assert error == 0
    told = f'the trace "{trace}" ends here: File too large'

    def goes_on():
        return {session.write_device(device, sector, bytes(512)) for sector in range(100)} == {0}
    until("the recording ends", lambda: goes_on() and told in server.text())
    assert all(goes_on() for _ in range(10))
    session.close()
    done = subprocess.run([program("urtrs"), f"--socket={control}", "trace", "stop"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "no trace is being recorded" in done.stderr, done
    assert server.text().count(told) == 1


def test_stopping_an_incomplete_recording_fails(urtrsd, tmp_path):
    """The file cannot grow any more when the recording is stopped."""
    control, trace = tmp_path / "control", tmp_path / "live.rtrc"
    server = urtrsd("--export=a=mem:1M", f"--control={control}")

    def record(*words):
        return subprocess.run([program("urtrs"), f"--socket={control}", "trace", *words], capture_output=True, text=True, timeout=60, check=False)
    assert record("start", trace).returncode == 0
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (trace.stat().st_size, resource.RLIM_INFINITY))
    done = record("stop")
    assert done.returncode == 1 and "could not be completed: File too large" in done.stderr, done


def test_a_trace_is_readable_while_recorded_and_rotates_at_its_size(urtrsd, tmp_path):
    trace = tmp_path / "t.rtrc"
    server = urtrsd("--export=a=mem:1M", f"--trace={trace}", "--trace-detail=payload", "--trace-size=1M", "--trace-files=6")
    session = IwarpClient(server.port, "busy")
    error, device = session.open("a")
    assert error == 0
    begun = trace.stat().st_size
    assert session.write_device(device, 0, bytes(4096)) == 0
    until("the record is in the file", lambda: trace.stat().st_size >= begun + 4096)
    for _ in range(100):
        assert session.write_device(device, 0, bytes(4096)) == 0
    assert [file.name for file in tmp_path.glob("t.rtrc*")] == ["t.rtrc"], "400 KiB do not start the next file"
    for _ in range(20 * 256):
        assert session.write_device(device, 0, bytes(4096)) == 0
    session.close()
    assert server.end() == 0
    files = sorted(tmp_path.glob("t.rtrc*"))
    assert [file.name for file in files] == ["t.rtrc", *(f"t.rtrc.{number}" for number in range(1, 6))]
    assert all(1 << 19 < file.stat().st_size < 2 << 20 for file in files[1:]), [file.stat().st_size for file in files]
    assert all(replays(file) for file in files)


def test_several_lost_paths_cause_one_dump(urtrsd, tmp_path):
    server = urtrsd("--export=a=mem:1M", f"--trace-dump={tmp_path / 'dump'}")
    for number in range(3):
        session = IwarpClient(server.port, f"bad{number}")
        session.sockets[0].sendall(bytes(range(64)))
        server.logged(f'name="bad{number}" .* state=closing')
        session.close()
    assert server.text().count("wrote the last records") == 1, server.text()
