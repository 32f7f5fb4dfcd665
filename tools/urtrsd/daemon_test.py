"""Tests urtrsd as a process: exports, signals, the log, and a hanging disk."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest
import iwarp_client
from programs import BOUND, PLUGIN, free_port, listens, program, stand_still, until

URTRSD = program("urtrsd")
NOBODY = 65534


class Case:
    @pytest.fixture
    def open_folder(self):
        """Directory that the user nobody can enter. It is not below tmp_path, because pytest makes the parent of tmp_path private."""
        with tempfile.TemporaryDirectory(prefix="urtrs-") as name:
            os.chmod(name, 0o755)
            yield pathlib.Path(name)

    @pytest.fixture(autouse=True)
    def given(self, open_folder, urtrsd, ends):
        self.folder, self.urtrsd, self.ends = open_folder, urtrsd, ends

    def file(self, name, size=None):
        path = self.folder / name
        if size is not None:
            path.write_bytes(os.urandom(size))
        return path

    def start(self, *arguments, **options):
        return self.urtrsd(*arguments, ready=False, **options)


class TestDaemon(Case):
    def test_a_json_log_has_one_object_per_line(self):
        server = self.start("--export=a=mem:1M", "--log-format=json").logged('"message":"ready"')
        client = iwarp_client.IwarpClient(server.port, 'we"b')
        assert client.open("nothing")[0] == errno.ENOENT
        client.close()
        server.logged('"state=closing|"reason":"peer_closed"')
        assert server.end() == 0
        lines = [json.loads(line) for line in server.text().splitlines()]
        assert all({"time", "level", "message"} <= line.keys() for line in lines)
        refused = next(line for line in lines if "nothing" in line["message"])
        assert (refused["session"], refused["errno"], refused["level"]) == ('we"b', errno.ENOENT, "warning")
        lost = next(line for line in lines if line.get("reason") == "peer_closed")
        assert (lost["session"], lost["path"], lost["errno"]) == ('we"b', "ip:127.0.0.1@ip:127.0.0.1", errno.ECONNRESET)

    def test_log_lines_for_the_journal_have_priorities(self):
        log = self.folder / "journal"
        with log.open("wb") as sink:
            numbers = os.fstat(sink.fileno())
            environment = dict(os.environ, JOURNAL_STREAM=f"{numbers.st_dev}:{numbers.st_ino}")
            process = subprocess.Popen([URTRSD, "--export=a=mem:1M", f"--port={free_port()}", "--fabric=libfabric", "--listen=0.0.0.0"],
                                       stderr=sink, env=environment)
        self.ends.callback(process.kill)
        until("urtrsd is ready or has exited", lambda: b" ready\n" in log.read_bytes() or process.poll() is not None)
        process.terminate()
        assert process.wait(BOUND) == 0
        lines = log.read_text().splitlines()
        assert all(re.match("<[0-7]>", line) for line in lines), lines
        assert any(line.startswith("<4>") and "0.0.0.0" in line for line in lines)

    def test_always_invalidate_is_off_by_default_where_it_does_not_protect(self):
        # On the fabric tcp, a write with an invalidated rkey cannot change memory. On libfabric, a write that
        # is in progress when its rkey is invalidated still can.
        self.start("--export=a=mem:1M").ready().logged("always_invalidate is on")
        self.start("--fabric=libfabric", "--export=a=mem:1M").ready().logged("always_invalidate is off")
        asked = self.start("--fabric=libfabric", "--export=a=mem:1M", "--always-invalidate=yes")
        asked.ready().logged("always_invalidate is on")

    def test_sighup_does_not_end_the_server(self):
        server = self.start("--export=a=mem:1M").ready()
        server.process.send_signal(signal.SIGHUP)
        server.logged("reload: nothing has changed")
        assert server.end() == 0

    def test_an_image_locked_by_another_process_is_not_exported(self):
        image = self.file("disk.img", 1 << 20)
        first = self.start(f"--export=a={image}")
        first.ready()
        # A server locks an image while a session has it open. In this test, the test process holds the lock
        # instead.
        with open(image, "r+b") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)
            second = self.start(f"--export=b={image}", "--strict")
            assert second.process.wait(BOUND) == 3
            assert re.search(rf'export "b" .* is in use by process {os.getpid()} \(', second.text())
        self.start(f"--export=b={image}").ready()

    def test_a_read_only_file_requires_a_read_only_export(self):
        image = self.file("disk.img", 1 << 20)
        os.chmod(image, 0o444)
        user = {}
        if os.geteuid() == 0:
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            probe = subprocess.run(["test", "-x", URTRSD], check=False, **user)
            if probe.returncode != 0:
                pytest.skip("nobody cannot execute urtrsd here")
        server = self.start(f"--export=a={image}", "--strict", **user)
        assert server.process.wait(BOUND) == 3
        assert "cannot be opened for writing: Permission denied (13); to export it read-only" in server.text()
        self.start(f"--export=a={image},ro", **user).ready()

    def test_an_unread_log_does_not_block_the_server(self):
        reader, writer = os.pipe()
        self.ends.callback(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * 4096)
        port = free_port()
        process = subprocess.Popen([URTRSD, f"--port={port}", "--export=a=mem:1M"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        try:
            until("urtrsd listens", lambda: listens(port))
            process.send_signal(signal.SIGHUP)  # causes one more log line
            process.terminate()
            assert process.wait(BOUND) == 0
        finally:
            process.kill()
            process.wait()

    def test_dropped_log_lines_are_counted_once(self):
        reader, writer = os.pipe()
        self.ends.callback(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        control = self.file("control.sock")
        process = subprocess.Popen([URTRSD, f"--port={free_port()}", "--export=a=mem:1M", f"--control={control}"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
        self.ends.callback(process.wait)
        self.ends.callback(process.kill)
        os.close(writer)
        text = ""

        def read():
            nonlocal text
            if select.select([reader], [], [], 1)[0]:
                part = os.read(reader, 65536).decode()
                text += part
                return part
            return None

        def told():
            return [int(lines) for lines in re.findall(r"this log dropped (\d+) lines?", text)]

        def log_a_line(connection):  # the line is in the log queue before the response is sent
            connection.write('{"jsonrpc":"2.0","id":1,"method":"stats.reset"}\n')
            connection.flush()
            assert '"result"' in connection.readline()

        until("urtrsd is ready", lambda: read() and " ready" in text)
        asker = self.ends.enter_context(socket.socket(socket.AF_UNIX))
        asker.settimeout(BOUND)
        asker.connect(str(control))
        connection = self.ends.enter_context(asker.makefile("rw"))
        sent = reports = 0
        for _ in range(2):
            for _ in range(1500):  # more lines than fit into the log queue
                log_a_line(connection)
                sent += 1
            until("every line is read or counted",
                  lambda: read() and text.count("control: stats.reset") + sum(told()) >= sent)
            assert len(told()) > reports
            reports = len(told())
        process.terminate()
        until("the log ends", lambda: read() == "")
        assert text.count("control: stats.reset") + sum(told()) == sent

    def test_a_failed_start_exits_with_3_and_a_reason(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = f"--port={taken.getsockname()[1]}"
            few = [resource.RLIMIT_NOFILE, (16, 16)]
            cases = [([port], {}, "another program uses the port"),
                     (["--listen=192.0.2.1", "--strict"], {}, "this host does not have this address"),
                     (["--listen=127.0.0.1", "--listen=0.0.0.0"], {}, "urtrsd already listens on 127.0.0.1"),
                     ([], {"preexec_fn": lambda: resource.setrlimit(*few)}, "may have 16 file descriptors")]
            for arguments, options, words in cases:
                server = self.start("--export=a=mem:1M", *arguments, **options)
                assert server.process.wait(BOUND) == 3, server.text()
                assert words in server.text()

    def test_a_trace_does_not_overwrite_other_files(self):
        image, notes, pipe = self.file("disk.img", 1 << 20), self.file("notes", 100), self.file("pipe")
        os.mkfifo(pipe)
        export = f"--export=a={image}"
        for flag in "--trace", "--trace-dump":
            for path in image, notes, pipe, pathlib.Path("/dev/null"):
                for check in [], ["--check-config"]:
                    before = path.stat()
                    server = self.start(export, f"{flag}={path}", *check)
                    assert server.process.wait(BOUND) == 2, server.text()
                    assert f'{flag[2:].replace("-", "_")}: "{path}" cannot be written: ' in server.text()
                    assert (before.st_size, before.st_mode) == (path.stat().st_size, path.stat().st_mode)
        same = self.start(export, f"--trace={self.file('x')}", f"--trace-dump={self.folder}/./x")
        assert same.process.wait(BOUND) == 2
        assert "are the same file" in same.text()

    def test_a_trace_requires_an_existing_folder(self):
        link = self.file("link")
        link.symlink_to("missing/trace")
        notes = self.file("notes", 100)
        for flag in "--trace", "--trace-dump":
            for path, why in ((self.folder / "missing/trace", "No such file or directory"),
                              (link, "No such file or directory"), (notes / "trace", "Not a directory")):
                for check in [], ["--check-config"]:
                    server = self.start("--export=a=mem:1M", f"{flag}={path}", *check)
                    assert server.process.wait(BOUND) == 2, server.text()
                    assert re.search(f'{flag[2:].replace("-", "_")}: "{path}" cannot be written: .*{why}', server.text())
        good = self.start("--export=a=mem:1M", f"--trace={self.folder}/new", "--trace-dump=new.dump", "--check-config")
        assert good.process.wait(BOUND) == 0, good.text()

    def test_a_trace_does_not_overwrite_an_export_that_looks_like_a_trace(self):
        image = self.file("disk.img", 1 << 20)
        with open(image, "r+b") as disk:
            disk.write(b"\x89RTRC\r\n\x1a")
        server = self.start(f"--export=a={image}", f"--trace={image}")
        assert server.process.wait(BOUND) == 2
        assert 'it is the file of export "a"' in server.text()
        assert image.stat().st_size == 1 << 20

    def test_traces_started_by_signals_do_not_overwrite_files(self):
        dump = self.file("dump")
        server = self.start("--export=a=mem:1M", f"--trace-dump={dump}", cwd=self.folder).ready()
        trace = self.file(f"urtrsd-{server.process.pid}-1.rtrc", 100)
        before = trace.read_bytes(), self.file("dump", 100).read_bytes()
        server.process.send_signal(signal.SIGUSR2)
        server.logged("cannot write the trace")
        server.process.send_signal(signal.SIGUSR1)
        server.logged("cannot write the last records")
        assert (trace.read_bytes(), dump.read_bytes()) == before
        assert server.end() == 0


def open_files(server):
    """Returns the paths of the open file descriptors of the server."""
    paths = []
    folder = f"/proc/{server.process.pid}/fd"
    for descriptor in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"{folder}/{descriptor}"))
    return paths


class TestHungDisk(Case):
    """An export on a FUSE file system whose daemon is stopped."""

    SIZE = 64 << 20

    @pytest.fixture(autouse=True)
    def hung(self, given):
        if not PLUGIN.exists() or not all(map(shutil.which, ("nbdfuse", "nbdkit", "nbdcopy"))):
            pytest.skip("needs nbdfuse, nbdkit and nbdcopy")
        self.slow = self.file("slow", 0)
        self.fuse = subprocess.Popen(["nbdfuse", self.slow, "--command", "nbdkit", "-s", "memory", str(self.SIZE)],
                                     stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.ends.callback(self.end_fuse)
        try:
            until("the file system is mounted", lambda: self.slow.stat().st_size == self.SIZE, 10)
        except AssertionError as error:
            pytest.skip(str(error))

    def end_fuse(self):
        self.fuse.send_signal(signal.SIGCONT)
        # A read is answered after all waiting requests. nbdfuse is then idle, so that it does not miss the signal
        # of terminate().
        self.slow.read_bytes()
        self.fuse.terminate()  # also unmounts the file system
        self.fuse.wait(BOUND)

    def dump(self):
        return json.loads(subprocess.run([program("urtrs"), "debug", "dump", "--json", f"--socket={self.folder}/control"],
                                         check=True, timeout=BOUND, capture_output=True).stdout)

    def client(self, server, device, script):
        client = subprocess.Popen(["nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", f"port={server.port}",
                                   f"device={device}", "--run", script], stdin=subprocess.DEVNULL)
        self.ends.callback(client.kill)
        return client

    def test_other_exports_continue(self):
        good = self.file("good.img", 4 << 20)
        data = self.file("data", 4 << 20)
        copy = self.file("copy")
        opened, begin = self.file("opened"), self.file("begin")
        os.mkfifo(begin)
        server = self.start(f"--export=slow={self.slow}", f"--export=good={good}",
                            f"--control={self.folder}/control").ready()
        hangs = self.client(server, "slow", f"touch {opened}; cat {begin}; nbdcopy --requests=64 $uri null: & "
                            f"nbdcopy --flush {data} $uri && wait $!")
        until("the slow device is open", opened.exists)
        stand_still(self.fuse)
        begin.write_text("go")
        opens = self.client(server, "slow", "true")
        until("the dump shows the hanging read", lambda: any(
            one.get("opcode") == "read" and one["state"] == "storage" and one["device"] == "slow" and
            one["storage"] == "in progress in the kernel" for one in self.dump()["requests"]))
        writes = self.client(server, "good", f"nbdcopy --flush {data} $uri && nbdcopy $uri {copy}")
        assert writes.wait(BOUND) == 0
        assert copy.read_bytes() == data.read_bytes()
        assert hangs.poll() is None
        self.fuse.send_signal(signal.SIGCONT)
        assert hangs.wait(BOUND) == 0
        opens.wait(BOUND)
        assert re.search(r"path=ip:127\.0\.0\.1@ip:127\.0\.0\.1 index=0 peer=127\.0\.0\.1:\d+ state=connected", server.text()), server.text()
        assert "heartbeat_lost" not in server.text()

    def test_a_closed_device_can_be_opened_while_its_file_is_not_closed_yet(self):
        good = self.file("good.img", 1 << 20)
        slow = [f"slow{number}" for number in range(8)]
        server = self.start(f"--export=good={good}", *(f"--export={name}={self.slow},ro" for name in slow))
        # The server waits for its files at exit, so the daemon of the file system must run again.
        self.ends.callback(self.fuse.send_signal, signal.SIGCONT)
        server.ready()
        first, second = iwarp_client.IwarpClient(server.port, "first"), iwarp_client.IwarpClient(server.port, "second")
        self.ends.callback(first.close)
        self.ends.callback(second.close)
        error, device = first.open("good")
        assert error == 0

        def opened():
            return open_files(server).count(os.path.realpath(good))

        held = opened()
        assert second.open("good")[0] == errno.EPERM
        until("the files of the rejected open are closed", lambda: opened() == held, BOUND)
        stand_still(self.fuse)
        # Occupies all job threads of the session with opens that wait for the slow file system, so that the
        # close of the good file is delayed.
        for chunk, name in enumerate(slow, 1):
            first.send_open(name, False, chunk)
        assert first.close_device(device) == 0
        assert second.open("good")[0] == 0
        assert opened() > held, "the first open is already closed"

    def test_shutdown_does_not_wait_for_it(self):
        opened, begin = self.file("opened"), self.file("begin")
        os.mkfifo(begin)
        server = self.start(f"--export=slow={self.slow}", "--shutdown-timeout=1s", f"--control={self.folder}/control").ready()
        self.client(server, "slow", f"touch {opened}; cat {begin}; nbdcopy --requests=4 $uri null:")
        until("the slow device is open", opened.exists)
        stand_still(self.fuse)
        begin.write_text("go")
        until("a read hangs", lambda: any(one["state"] == "storage" for one in self.dump()["requests"]))
        assert server.end() == 1
        assert re.search(r'warning shutdown_timeout = 1s is over: exiting with \d+ operations in flight .*; '
                         r'storage operations still pending for "slow" \(\d+\)', server.text()), server.text()

    def test_a_start_does_not_wait_for_it(self):
        good, data = self.file("good.img", 4 << 20), self.file("data", 4 << 20)
        stand_still(self.fuse)
        exports = [f"--export=slow={self.slow}", f"--export=good={good}"]
        server = self.start(*exports).ready()
        assert f'warning export "slow" ("{self.slow}"): its file does not answer yet' in server.text()
        assert self.client(server, "good", f"nbdcopy --flush {data} $uri").wait(BOUND) == 0
        assert good.read_bytes() == data.read_bytes()
        waits = self.client(server, "slow", f"nbdcopy --flush {data} $uri")
        assert self.start(*exports).ready().end() == 0
        self.fuse.send_signal(signal.SIGCONT)
        assert waits.wait(BOUND) == 0
        assert server.end() == 0

    def test_reading_a_configuration_on_it_times_out(self):
        config, data = self.file("urtrsd.toml"), self.file("data", 4 << 20)
        config.write_text('[[export]]\nname = "good"\nmem = "4M"\n')
        server = self.start(f"--config={config}", f"--control={self.folder}/control").ready()
        config.unlink()
        config.symlink_to(self.slow)
        stand_still(self.fuse)
        reload = subprocess.Popen([program("urtrs"), "reload", f"--socket={self.folder}/control"], stderr=subprocess.PIPE, text=True)
        self.ends.callback(reload.kill)
        assert self.client(server, "good", f"nbdcopy --flush {data} $uri").wait(BOUND) == 0
        _, errors = reload.communicate(timeout=BOUND)
        assert reload.returncode == 1 and "was not read within 10 s: its disk hangs" in errors
        start = self.start(f"--config={config}")
        assert start.process.wait(BOUND) == 2 and f"{config}: was not read within 10 s" in start.text()
        assert server.end() == 0

    def test_a_start_reports_other_errors_beside_it(self):
        stand_still(self.fuse)
        server = self.start(f"--export=slow={self.slow},ro", "--export=gone=/nowhere/disk.img", "--strict")
        assert server.process.wait(BOUND) == 3
        assert 'export "gone" ("/nowhere/disk.img") cannot be opened: No such file' in server.text()
        assert 'export "slow"' in server.text()
