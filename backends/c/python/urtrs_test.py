"""The Python module, and the library for C below it, against a real urtrsd."""
import array
import errno
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from programs import BUILD, ROOT, Urtrsd, free_port, stand_still, until

LIBRARY = BUILD / "lib/liburtrs-c.so"
MODULE = ROOT / "backends/c/python"
os.environ["URTRS_LIBRARY"] = str(LIBRARY)
sys.path.insert(0, str(MODULE))
import urtrs  # noqa: E402  pylint: disable=wrong-import-position

BLOCK = 4096
MIB = 1 << 20


@pytest.fixture(name="server")
def fixture_server(tmp_path):
    image = tmp_path / "disk0"
    image.write_bytes(bytes(8 * MIB))
    server = Urtrsd(tmp_path / "log", "--listen=127.0.0.1", "--listen=127.0.0.2", f"--export=disk0={image}",
                    "--export=small=mem:1M", "--export=fixed=mem:1M,ro").ready()
    yield server
    server.process.send_signal(signal.SIGCONT)
    server.end(signal.SIGKILL)


@pytest.fixture(name="session")
def fixture_session(server):
    with urtrs.Session("python", "127.0.0.1", server.port) as session:
        yield session


def refused(code, call, *arguments, **options):
    with pytest.raises(OSError) as caught:
        call(*arguments, **options)
    assert caught.value.errno == code, caught.value
    return str(caught.value)


class TestDevice:
    def test_what_is_written_reads_back_and_is_in_the_image(self, session, tmp_path):
        written = os.urandom(3 * MIB)
        with session.open("disk0") as device:
            assert device.size == 8 * MIB
            device.write(written, BLOCK)
            device.flush()
            assert device.read(len(written), BLOCK) == written
            assert device.read(BLOCK, 0) == bytes(BLOCK)
        assert (tmp_path / "disk0").read_bytes()[BLOCK:BLOCK + len(written)] == written

    def test_every_kind_of_buffer_is_used_as_it_is(self, session):
        with session.open("small") as device, mmap.mmap(-1, BLOCK) as shared:
            for number, source in enumerate((b"b" * BLOCK, bytearray(b"c" * BLOCK), memoryview(b"xx" + b"d" * BLOCK)[2:],
                                             array.array("H", [0x6565] * (BLOCK // 2)))):
                device.write(source, number * BLOCK, fua=True)
                into = array.array("Q", bytes(BLOCK))
                device.read_into(into, number * BLOCK)
                assert into.tobytes() == bytes(memoryview(source).cast("B"))
            device.read_into(shared, BLOCK)
            assert shared[:] == b"c" * BLOCK
            half = bytearray(2 * BLOCK)
            device.read_into(memoryview(half)[BLOCK:], 0)
            assert half == bytes(BLOCK) + b"b" * BLOCK
            # The buffer is free again: only then may a bytearray change its size.
            half.clear()

    def test_a_buffer_that_does_not_fit_is_refused(self, session):
        with session.open("small") as device:
            with pytest.raises(BufferError):
                device.read_into(bytes(BLOCK), 0)
            with pytest.raises(BufferError):
                device.write(memoryview(bytearray(2 * BLOCK))[::2], 0)
            with pytest.raises(TypeError):
                device.write("text", 0)
            assert session.stats().under_way == 0

    def test_numbers_that_do_not_fit_are_refused(self, session):
        """ctypes takes what is left of them: the first block would be written."""
        with session.open("small") as device:
            device.write(b"k" * BLOCK, 0)
            for offset in (2 ** 64, -BLOCK):
                for call in (lambda at: device.write(b"Z" * BLOCK, at), lambda at: device.read(BLOCK, at), lambda at: device.zero(BLOCK, at),
                             lambda at: device.discard(BLOCK, at), lambda at: device.zero(at, 0), lambda at: device.discard(at, 0)):
                    with pytest.raises(OverflowError):
                        call(offset)
            for call in (device.read_into, device.write):
                with pytest.raises(TypeError):
                    call(None, 0)
            assert device.read(BLOCK, 0) == b"k" * BLOCK
        for port in (-1, 70000):
            with pytest.raises(OverflowError):
                urtrs.Session("python", "127.0.0.1", port)
            with pytest.raises(OverflowError):
                session.add_path("127.0.0.1", port)

    def test_zero_and_discard(self, session):
        with session.open("disk0") as device:
            assert device.info.can_zero and device.info.can_discard
            device.write(b"z" * 4 * BLOCK, 0)
            device.zero(BLOCK, 0)
            device.zero(BLOCK, BLOCK, fua=True, unmap=False)
            device.discard(BLOCK, 2 * BLOCK)
            assert device.read(2 * BLOCK, 0) == bytes(2 * BLOCK)
            assert device.read(BLOCK, 3 * BLOCK) == b"z" * BLOCK

    def test_errors_are_those_of_the_server_or_of_the_device(self, session, server):
        assert "no_such" in refused(errno.ENOENT, session.open, "no_such")
        refused(errno.EACCES, session.open, "fixed")
        with session.open("fixed", read_only=True) as device:
            assert not device.info.writable
            refused(errno.EPERM, device.write, bytes(BLOCK), 0)
        with session.open("disk0") as device:
            refused(errno.EINVAL, device.read, 100, 0)
            refused(errno.EIO, device.read, BLOCK, device.size)
            refused(errno.EEXIST, session.open, "disk0")
            with urtrs.Session("another", "127.0.0.1", server.port) as other:
                refused(errno.EPERM, other.open, "disk0")
                assert other.open("disk0", read_only=True).read(BLOCK, 0) == bytes(BLOCK)
        refused(errno.ENODEV, device.read, BLOCK, 0)
        assert session.stats().under_way == 0

    def test_it_can_be_opened_again(self, session):
        for _ in range(3):
            with session.open("disk0") as device:
                device.write(bytes(BLOCK), 0)
        assert session.stats().devices == 0


class TestSession:
    def test_statistics_and_paths(self, session, server):
        with session.open("small") as device:
            before = session.stats()
            device.write(bytes(8 * BLOCK), 0)
            device.read(BLOCK, 0)
            after = session.stats()
            assert (after.paths, after.connected_paths, after.devices, after.errors) == (1, 1, 1, 0)
            assert after.write_bytes - before.write_bytes >= 8 * BLOCK
            assert after.reads > before.reads
            path, = session.paths()
            assert (path.destination, path.port, path.state, path.reason) == ("127.0.0.1", server.port, "connected", "none")
            assert path.requests >= 2 and path.in_flight == 0

    def test_a_second_path(self, session, server):
        with session.open("small") as device:
            session.add_path("127.0.0.1@127.0.0.2", server.port)

            def both():
                device.read(BLOCK, 0)
                return session.stats().connected_paths == 2
            until(lambda: f"both paths are connected: {session.paths()}", both)
            assert [path.source for path in session.paths()] == ["", "127.0.0.1"]

    def test_settings_that_do_not_exist_or_fit(self):
        for settings in ({"no_such": 1}, {"heartbeat_missed": 0}, {"queue_timeout_ms": "soon"}, {"fabric": "pigeon"},
                         {"io_connections": 10 ** 6}, {"reconnect_min_ms": -1}):
            assert next(iter(settings)) in refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", **settings)
        # TLS is wanted, and there would be none.
        for setting in "tls_identity", "tls_server_name":
            assert setting in refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", **{setting: "web1"})
        refused(errno.EINVAL, urtrs.Session, "not/a/name", "127.0.0.1")
        refused(errno.EINVAL, urtrs.Session, "python", [])
        assert "/no/such/file" in refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", tls_keys="/no/such/file")

    def test_nobody_listens_and_the_error_says_so(self):
        with urtrs.Session("python", "127.0.0.1", free_port()) as session:
            text = refused(errno.ETIMEDOUT, session.open, "disk0", timeout=0.5)
            assert "connect_refused" in text
        with urtrs.Session("python", "127.0.0.1", free_port(), max_reconnect_attempts=0) as session:
            refused(errno.EIO, session.open, "disk0")

    def test_a_call_that_timed_out_leaves_its_buffer_to_the_library_until_the_server_answers(self, session, server):
        device = session.open("disk0")
        data = bytearray(b"t" * BLOCK)
        stand_still(server.process)
        refused(errno.ETIMEDOUT, device.write, data, 0, timeout=0.2)
        with pytest.raises(BufferError):
            data.clear()
        server.process.send_signal(signal.SIGCONT)
        assert device.read(BLOCK, 0) in (b"t" * BLOCK, bytes(BLOCK))
        until("the write is over", lambda: device.flush() or session.stats().under_way == 0)
        data.clear()
        assert device.read(BLOCK, 0) == b"t" * BLOCK

    def test_a_server_that_was_killed_and_started_again_is_a_pause(self, server):
        with urtrs.Session("python", "127.0.0.1", server.port, reconnect_min_ms=50, reconnect_max_ms=100) as session:
            device = session.open("disk0")
            device.write(b"k" * BLOCK, 0)
            device.flush()
            server.end(signal.SIGKILL)
            server.start().ready()
            assert device.read(BLOCK, 0) == b"k" * BLOCK
            assert session.paths()[0].reconnects == 1

    def test_what_is_under_way_fails_when_the_session_is_closed(self, server):
        session = urtrs.Session("python", "127.0.0.1", server.port)
        device = session.open("disk0")
        stand_still(server.process)
        failed = []

        def read():
            failed.append(refused(errno.ECANCELED, device.read, BLOCK, 0))
        thread = threading.Thread(target=read)
        thread.start()
        until("the read is under way", lambda: session.stats().under_way == 1)
        session.close(timeout=0.1)
        thread.join(60)
        assert len(failed) == 1
        refused(errno.ESHUTDOWN, device.read, BLOCK, 0)
        refused(errno.ESHUTDOWN, session.stats)
        session.close()

    def test_many_threads_share_a_session(self, session):
        with session.open("disk0") as device:
            wrong = []

            def work(number):
                own = bytes([number + 1]) * BLOCK
                for round_ in range(50):
                    offset = (number * 50 + round_) * BLOCK
                    device.write(own, offset)
                    if device.read(BLOCK, offset) != own:
                        wrong.append(offset)
            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
            assert not wrong

    def test_control_c_ends_a_call(self, session, server):
        device = session.open("disk0")
        stand_still(server.process)
        main = threading.main_thread()
        timer = threading.Thread(target=lambda: (until("it waits", lambda: session.stats().under_way == 1),
                                                 time.sleep(0.1), signal.pthread_kill(main.ident, signal.SIGINT)))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            device.read(BLOCK, 0)
        timer.join()
        server.process.send_signal(signal.SIGCONT)
        assert device.read(BLOCK, 0) == bytes(BLOCK)


class TestExample:
    def run(self, *arguments):
        environment = dict(os.environ, PYTHONPATH=str(MODULE), PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, ROOT / "docs/examples/copy_device.py", *map(str, arguments)], env=environment,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_it_copies(self, server, tmp_path):
        content = os.urandom(8 * MIB)
        pathlib.Path(tmp_path / "disk0").write_bytes(content)
        done = self.run("127.0.0.1", server.port, "disk0", tmp_path / "copy")
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "copy").read_bytes() == content

    def test_it_says_what_is_wrong(self, server, tmp_path):
        done = self.run("127.0.0.1", server.port, "no_such_disk", tmp_path / "copy")
        assert done.returncode == 1
        assert "copy_device: no_such_disk: No such file or directory" in done.stderr


def test_the_module_declares_all_of_the_header():
    """Structures have the members of the header, in its order; the version is that of the library."""
    header = (ROOT / "backends/c/urtrs.h").read_text()
    for name, structure in (("urtrs_device_info", urtrs._Info), ("urtrs_stats", urtrs._Stats), ("urtrs_path", urtrs._Path)):
        body = header.split(f"struct {name} {{", 1)[1].split("\n};", 1)[0]
        body = "".join(part.split("*/", 1)[-1] for part in body.split("/*"))
        members = [member.strip().split()[-1].lstrip("*") for line in body.split(";") for member in line.split(",")
                   if member.strip()]
        assert members == [field[0] for field in structure._fields_]
    assert urtrs.version() in (ROOT / "CMakeLists.txt").read_text()
