"""nbdkit with the plugin: files, socket and session name."""
import os
import resource
import signal
import stat
import subprocess

import end_to_end_test as e2e
import pytest
from programs import BOUND, PLUGIN, free_port


class TestFiles:
    @pytest.fixture(autouse=True)
    def given(self, tmp_path, urtrsd):
        self.folder, self.urtrsd = tmp_path, urtrsd

    def start_server(self, *options):
        self.server = e2e.start_server(self.urtrsd, "--export=disk=mem:32M", *options)

    def file(self, name):
        return self.folder / name

    def nbdkit(self, *arguments, **more):
        return subprocess.run(["nbdkit", "-f", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=2 * BOUND, **more)

    def test_a_foreign_file_is_rejected_as_status_file_and_kept(self):
        self.start_server()
        precious, fifo = self.file("precious"), self.file("fifo")
        precious.write_text("precious")
        os.mkfifo(fifo)
        for path, why in (precious, "is not a status file of this plugin"), (fifo, "is not a regular file"):
            done = e2e.nbdkit(self.server.port, "nbdinfo $uri", "device=disk", f"status={path}")
            assert done.returncode != 0
            assert f"status={path}: exists and {why}" in done.stderr
        assert precious.read_text() == "precious"
        assert stat.S_ISFIFO(fifo.lstat().st_mode)

    def test_a_status_file_of_an_earlier_run_is_replaced(self):
        self.start_server()
        for _ in range(2):
            done = e2e.nbdkit(self.server.port, "nbdinfo $uri", "device=disk", f"status={self.file('status')}")
            assert done.returncode == 0, done.stderr

    def test_a_failed_trace_is_reported_once_and_io_continues(self):
        self.start_server()
        trace = self.file("trace")
        command = e2e.nbdkit_command(self.server.port, "nbdcopy $uri null: && nbdcopy $uri null:",
                                     "device=disk", f"trace={trace}")
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14)))
        assert done.returncode == 0, done.stderr
        told = f"the trace {trace} ends here: File too large (errno 27); IO continues"
        assert done.stderr.count(told) == 1, done.stderr

    def test_a_failed_start_leaves_no_socket(self):
        self.start_server()
        for arguments in ["-U", "socket"], [f"--unix={self.file('socket')}"]:
            done = self.nbdkit(*arguments, PLUGIN, "path=127.0.0.1", f"port={free_port()}", "device=disk", "connect_timeout=1s",
                               cwd=self.folder)
            assert done.returncode != 0
            assert "no path came up" in done.stderr
            assert not self.file("socket").exists()

    def test_the_start_waits_for_a_name_held_by_a_vanished_client(self):
        self.start_server("--heartbeat-interval=3s")
        os.mkfifo(self.file("pid"))
        # nbdkit runs this command after the device was opened.
        command = e2e.nbdkit_command(self.server.port, f"echo $$ > {self.file('pid')}; exec sleep {4 * BOUND}",
                                     "device=disk", "session=me")
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as vanished:
            try:
                self.file("pid").read_text()
                os.killpg(vanished.pid, signal.SIGSTOP)
                done = e2e.nbdkit(self.server.port, "nbdinfo $uri", "device=disk", "session=me", "connect_timeout=1s")
            finally:
                os.killpg(vanished.pid, signal.SIGKILL)
        assert done.returncode == 0, done.stderr
        assert "another client probably holds the session name 'me'" in done.stderr

