"""Mounted urtrs-fs with a real urtrsd and a real client, used like /sys of Linux."""
import errno
import os
import pathlib
import signal
import subprocess

import pytest
from programs import BOUND, program, until

URTRS_FS = program("urtrs-fs")


@pytest.fixture(name="system")
def _system(mount, client, urtrsd, tmp_path):
    """Returns the mounted tree of a server with the export disk0 and the session web1, and the server."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    server = urtrsd(f"--export=disk0={image}")
    server.image = image
    client("web1", f"path=127.0.0.1:{server.port}", "device=disk0", "control=")
    mounted = mount()
    until("the session is shown", (mounted / "class/rtrs-server/web1").exists)
    until("the device is shown", lambda: list((mounted / "class/rnbd-server/ctl/devices").iterdir()))
    server.uri = f"nbd+unix:///?socket={tmp_path / 'web1.sock'}"
    return mounted, server


def path_folder(mounted):
    path, = (mounted / "class/rtrs-server/web1/paths").iterdir()
    return path


def test_files_are_in_the_layout_of_linux(system):
    mounted, server = system
    path = path_folder(mounted)
    assert path.name == "ip:127.0.0.1@ip:127.0.0.1"
    assert sorted(entry.name for entry in path.iterdir()) == ["disconnect", "dst_addr", "hca_name", "hca_port", "src_addr",
                                                              "stats"]
    assert (path / "src_addr").read_text() == "ip:127.0.0.1\n"
    assert (path / "hca_port").read_text() == "1\n"
    assert os.readlink(mounted / "class/rtrs-server/web1") == "../../devices/virtual/rtrs-server/web1"
    assert (path / "stats/rdma").stat().st_mode & 0o777 == 0o644
    assert (path / "src_addr").stat().st_mode & 0o777 == 0o444
    device, = (mounted / "class/rnbd-server/ctl/devices").iterdir()
    assert os.readlink(device / "block_dev") == str(server.image)
    assert (device / "sessions/web1/mapping_path").read_text() == "disk0\n"
    assert (device / "sessions/web1/access_mode").read_text() in ("rw\n", "ro\n")
    assert (mounted / "module/rnbd_server/parameters/port_nr").read_text() == f"{server.port}\n"


def test_counters_can_be_reset(system):
    mounted, server = system
    rdma = path_folder(mounted) / "stats/rdma"
    subprocess.run(["nbdcopy", server.uri, "null:"], check=True, timeout=BOUND)
    reads, read_bytes, _, _ = map(int, rdma.read_text().split())
    assert reads >= 8 and read_bytes >= 1 << 20
    rdma.write_text("1\n")
    assert rdma.read_text() == "0 0 0 0\n"


@pytest.mark.parametrize("text", ["0", "", "2\n", "yes"])
def test_values_other_than_one_are_rejected(system, text):
    mounted, _ = system
    for name in ("disconnect", "stats/rdma"):
        fd = os.open(path_folder(mounted) / name, os.O_WRONLY)
        try:
            if not text:
                assert os.write(fd, b"") == 0
                continue
            with pytest.raises(OSError) as refused:
                os.write(fd, text.encode())
            assert refused.value.errno == errno.EINVAL
        finally:
            os.close(fd)


def test_a_shell_script_disconnects_a_path_and_closes_a_device(system):
    mounted, server = system
    subprocess.run(["sh", "-c", 'echo 1 > "$1"', "sh", path_folder(mounted) / "disconnect"], check=True, timeout=BOUND)
    server.logged("reason=requested")
    until("the path is connected again", lambda: (mounted / "class/rtrs-server/web1").exists() and
          any((mounted / "class/rtrs-server/web1/paths").iterdir()))
    device, = until("the device is shown", lambda: list((mounted / "class/rnbd-server/ctl/devices").iterdir()))
    (device / "sessions/web1/force_close").write_text("1")
    subprocess.run(["nbdcopy", server.uri, "null:"], check=True, timeout=BOUND)


def test_access_without_a_daemon_fails_until_the_next_one_runs(system):
    mounted, server = system
    assert server.end() == 0
    with pytest.raises(OSError) as refused:
        list((mounted / "class").iterdir())
    assert refused.value.errno == errno.ENOTCONN
    server.start().ready()
    assert sorted(entry.name for entry in (mounted / "class").iterdir()) == ["rnbd-server", "rtrs-server"]


def test_unknown_names_do_not_exist(system):
    mounted, _ = system
    assert not (mounted / "class/rtrs-server/nobody").exists()
    assert not pathlib.Path(mounted / "x").exists()


def test_a_signal_unmounts_and_exits(system, tmp_path):
    """The fixture `system` skips the test if FUSE is not available, and starts a server."""
    folder = tmp_path / "second"
    folder.mkdir()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # A background job of a shell ignores SIGINT, and the process would inherit that.
        process = subprocess.Popen([URTRS_FS, "-f", folder], stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        until("the file system is mounted", folder.is_mount)
        process.send_signal(number)
        assert (process.wait(BOUND), folder.is_mount(), process.stderr.read()) == (0, False, b"")


def test_usage_errors_and_missing_daemons_are_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "none"))
    asked = [([], 2, "name the folder"), ([tmp_path], 3, "no urtrsd or client has a control socket"),
             (["--socket=/nonexistent", tmp_path], 3, "cannot reach")]
    for arguments, code, words in asked:
        done = subprocess.run([URTRS_FS, *arguments], capture_output=True, text=True, timeout=BOUND, check=False)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr
