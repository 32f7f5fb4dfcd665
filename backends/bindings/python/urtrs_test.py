"""Tests the Python module, and through it the C library, with a real urtrsd."""
import array
import errno
import gc
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
MODULE = ROOT / "backends/bindings/python"
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
    def test_written_data_reads_back_and_is_in_the_image(self, session, tmp_path):
        written = os.urandom(3 * MIB)
        with session.open("disk0") as device:
            assert device.size == 8 * MIB
            device.write(written, BLOCK)
            device.flush()
            assert device.read(len(written), BLOCK) == written
            assert device.read(BLOCK, 0) == bytes(BLOCK)
        assert (tmp_path / "disk0").read_bytes()[BLOCK:BLOCK + len(written)] == written

    def test_buffers_of_every_type_are_accepted(self, session):
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
            # A bytearray can be resized only after the module has released its buffer.
            half.clear()

    def test_unsuitable_buffers_are_rejected(self, session):
        with session.open("small") as device:
            with pytest.raises(BufferError):
                device.read_into(bytes(BLOCK), 0)
            with pytest.raises(BufferError):
                device.write(memoryview(bytearray(2 * BLOCK))[::2], 0)
            with pytest.raises(TypeError):
                device.write("text", 0)
            assert session.stats().under_way == 0

    def test_out_of_range_numbers_are_rejected(self, session):
        """ctypes would truncate a number that is too large to 0, so the write would overwrite the first block."""
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
            # Rejected before memory is allocated.
            assert "the device has 1048576" in refused(errno.EINVAL, device.read, 1 << 60, 0)
        for port in (-1, 70000):
            with pytest.raises(OverflowError):
                urtrs.Session("python", "127.0.0.1", port)
            with pytest.raises(OverflowError):
                session.add_path("127.0.0.1", port)

    def test_zeroed_and_discarded_ranges_read_as_zero(self, session):
        with session.open("disk0") as device:
            assert device.info.can_zero and device.info.can_discard
            device.write(b"z" * 4 * BLOCK, 0)
            device.zero(BLOCK, 0)
            device.zero(BLOCK, BLOCK, fua=True, unmap=False)
            device.discard(BLOCK, 2 * BLOCK)
            assert device.read(2 * BLOCK, 0) == bytes(2 * BLOCK)
            assert device.read(BLOCK, 3 * BLOCK) == b"z" * BLOCK

    def test_errors_have_the_errno_of_the_server_or_device(self, session, server):
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
                with other.open("disk0", read_only=True) as reader:
                    assert reader.read(BLOCK, 0) == bytes(BLOCK)
        refused(errno.ENODEV, device.read, BLOCK, 0)
        assert session.stats().under_way == 0

    def test_a_closed_device_can_be_opened_again(self, session):
        for _ in range(3):
            with session.open("disk0") as device:
                device.write(bytes(BLOCK), 0)
        assert session.stats().devices == 0


class TestSession:
    def test_statistics_count_requests_and_paths_are_listed(self, session, server):
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

    def test_a_second_path_can_be_added(self, session, server):
        with session.open("small") as device:
            session.add_path("127.0.0.1@127.0.0.2", server.port)

            def both():
                device.read(BLOCK, 0)
                return session.stats().connected_paths == 2
            until(lambda: f"both paths are connected: {session.paths()}", both)
            assert [path.source for path in session.paths()] == ["", "127.0.0.1"]

    def test_unknown_or_invalid_settings_are_rejected(self):
        for settings in ({"no_such": 1}, {"heartbeat_missed": 0}, {"queue_timeout_ms": "soon"}, {"fabric": "pigeon"},
                         {"io_connections": 10 ** 6}, {"reconnect_min_ms": -1}):
            assert next(iter(settings)) in refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", **settings)
        # Without keys, these settings would silently disable TLS, so they must be rejected.
        for setting in "tls_identity", "tls_server_name":
            assert setting in refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", **{setting: "web1"})
        refused(errno.EINVAL, urtrs.Session, "not/a/name", "127.0.0.1")
        refused(errno.EINVAL, urtrs.Session, "python", [])
        assert "/no/such/file" in refused(errno.ENOENT, urtrs.Session, "python", "127.0.0.1",
                                          tls_keys=pathlib.Path("/no/such/file"))
        assert "expected on or off" in refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", crc="maybe")

    def test_a_setting_of_none_means_unset(self, server):
        with urtrs.Session("python", "127.0.0.1", server.port, tls_keys=None, host_names=False) as session:
            session.open("small").close()

    def test_several_keys_without_a_chosen_identity_are_rejected(self, tmp_path):
        keys = tmp_path / "keys"
        keys.touch(0o600)
        keys.write_text(f"alice:{'a' * 64}\nbob:{'b' * 64}\n")
        text = refused(errno.EINVAL, urtrs.Session, "python", "127.0.0.1", tls_keys=keys)
        assert "tls_identity" in text and "alice, bob" in text

    def test_a_rotated_key_is_used_for_the_next_connection_attempt(self, tmp_path):
        client, server_keys = tmp_path / "client", tmp_path / "server"

        def rotate(digit):
            for file in client, server_keys:
                new = file.with_suffix(".new")
                new.touch(0o600)
                new.write_text(f"alice:{digit * 64}\n")
                new.rename(file)

        rotate("a")
        server = Urtrsd(tmp_path / "log", f"--tls-keys={server_keys}", "--export=small=mem:1M").ready()
        try:
            with urtrs.Session("python", "127.0.0.1", server.port, tls_keys=client, reconnect_max_ms=500) as session:
                with session.open("small") as device:
                    server.end()
                    rotate("b")
                    server.start().ready()
                    assert device.read(BLOCK, 0) == bytes(BLOCK)
        finally:
            server.end(signal.SIGKILL)

    def test_invalid_duplicate_and_excess_paths_are_rejected(self, session, server):
        for path in "a@b@c", "@127.0.0.1", "127.0.0.1@", "10.0.0.256", "two words", "":
            assert "path" in refused(errno.EINVAL, session.add_path, path)
        refused(errno.EEXIST, session.add_path, "127.0.0.1", server.port)
        for number in range(2, 129):
            session.add_path(f"127.0.0.{number}", server.port)
        assert "128 paths" in refused(errno.ENOSPC, session.add_path, "127.0.0.129", server.port)

    def test_texts_with_a_nul_are_rejected(self, session):
        for call in (lambda: urtrs.Session("python\0", "127.0.0.1"), lambda: urtrs.Session("python", "127.0.0.1\0.2"),
                     lambda: urtrs.Session("python", "127.0.0.1", fabric="tcp\0"), lambda: session.add_path("a\0@b"),
                     lambda: session.open("small\0")):
            with pytest.raises(ValueError, match="NUL"):
                call()

    def test_open_without_a_listener_fails_with_connect_refused(self):
        with urtrs.Session("python", "127.0.0.1", free_port()) as session:
            text = refused(errno.ETIMEDOUT, session.open, "disk0", timeout=0.5)
            assert "connect_refused" in text
        with urtrs.Session("python", "127.0.0.1", free_port(), max_reconnect_attempts=0) as session:
            refused(errno.EIO, session.open, "disk0")
        with urtrs.Session("python", "127.0.0.1", free_port(), max_reconnect_attempts=1, reconnect_min_ms=1) as session:
            assert "attempts_exhausted, the last with connect_refused" in refused(errno.EIO, session.open, "disk0")
        with urtrs.Session("python", "127.0.0.1", free_port(), queue_timeout_ms=200) as session:
            assert "connect_refused" in refused(errno.ETIMEDOUT, session.open, "disk0")
            assert session.stats().devices == 0

    def test_errors_do_not_mention_uninvolved_paths(self, session):
        with session.open("small", read_only=True) as device:
            session.add_path("127.0.0.1", free_port())
            until("the second path is refused", lambda: device.read(BLOCK, 0) and session.paths()[1].reason == "connect_refused")
            assert "connect_refused" not in refused(errno.ENOENT, session.open, "no_such")
            assert "connect_refused" not in refused(errno.EIO, device.read, BLOCK, device.size)
            refused(errno.EPERM, device.discard, BLOCK, 0)

    def test_dropped_objects_are_closed_with_a_warning(self, session, server):
        device = session.open("disk0")
        with pytest.warns(ResourceWarning, match="unclosed device 'disk0'"):
            del device
        session.open("disk0").close()
        dropped = urtrs.Session("dropped", "127.0.0.1", server.port)
        dropped.open("small").close()
        gc.disable()  # reference counting alone must finalize the session
        with pytest.warns(ResourceWarning, match="unclosed session 'dropped'"):
            del dropped
        gc.enable()
        with urtrs.Session("dropped", "127.0.0.1", server.port) as again:
            again.open("small").close()

    def test_a_device_dropped_during_a_call_is_closed_by_the_next_call(self, session):
        device = session.open("disk0")
        with session._lock, pytest.warns(ResourceWarning):
            del device
        assert session.stats().devices == 0
        session.open("disk0").close()

    def test_a_forked_child_does_not_affect_the_session(self, session):
        with session.open("disk0") as device:
            child = os.fork()
            if child == 0:
                try:
                    device.read(BLOCK, 0)
                except OSError as error:
                    session._release()
                    os._exit(0 if error.errno == errno.EBADF else 2)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            device.write(b"p" * BLOCK, 0)
            assert device.read(BLOCK, 0) == b"p" * BLOCK
            assert session.paths()[0].reconnects == 0

    def test_the_buffer_of_a_timed_out_call_stays_locked_until_the_server_answers(self, session, server):
        device = session.open("disk0")
        data = bytearray(b"t" * BLOCK)
        stand_still(server.process)
        refused(errno.ETIMEDOUT, device.write, data, 0, timeout=0.2)
        with pytest.raises(BufferError):
            data.clear()
        server.process.send_signal(signal.SIGCONT)
        assert device.read(BLOCK, 0) in (b"t" * BLOCK, bytes(BLOCK))
        until("the write completes", lambda: device.flush() or session.stats().under_way == 0)
        data.clear()
        assert device.read(BLOCK, 0) == b"t" * BLOCK

    def test_io_continues_after_the_server_was_killed_and_restarted(self, server):
        with urtrs.Session("python", "127.0.0.1", server.port, reconnect_min_ms=50, reconnect_max_ms=100) as session:
            device = session.open("disk0")
            device.write(b"k" * BLOCK, 0)
            device.flush()
            server.end(signal.SIGKILL)
            server.start().ready()
            assert device.read(BLOCK, 0) == b"k" * BLOCK
            assert session.paths()[0].reconnects == 1

    def test_closing_the_session_fails_requests_in_flight(self, server):
        session = urtrs.Session("python", "127.0.0.1", server.port)
        device = session.open("disk0")
        stand_still(server.process)
        failed = []

        def read():
            failed.append(refused(errno.ECANCELED, device.read, BLOCK, 0))
        thread = threading.Thread(target=read)
        thread.start()
        until("the read is in flight", lambda: session.stats().under_way == 1)
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

    def test_ctrl_c_interrupts_a_call(self, session, server):
        device = session.open("disk0")
        stand_still(server.process)
        main = threading.main_thread()
        timer = threading.Thread(target=lambda: (until("the read waits", lambda: session.stats().under_way == 1),
                                                 time.sleep(0.1), signal.pthread_kill(main.ident, signal.SIGINT)))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            device.read(BLOCK, 0)
        timer.join()
        server.process.send_signal(signal.SIGCONT)
        assert device.read(BLOCK, 0) == bytes(BLOCK)
        device.close()


class TestExample:
    def run(self, *arguments):
        environment = dict(os.environ, PYTHONPATH=str(MODULE), PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, ROOT / "docs/examples/copy_device.py", *map(str, arguments)], env=environment,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_the_example_copies_a_device(self, server, tmp_path):
        content = os.urandom(8 * MIB)
        pathlib.Path(tmp_path / "disk0").write_bytes(content)
        done = self.run("127.0.0.1", server.port, "disk0", tmp_path / "copy")
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "copy").read_bytes() == content

    def test_an_unknown_device_is_reported(self, server, tmp_path):
        done = self.run("127.0.0.1", server.port, "no_such_disk", tmp_path / "copy")
        assert done.returncode == 1
        assert done.stderr == "copy_device: no_such_disk: No such file or directory\n"

    @pytest.mark.parametrize("port, file, says", [("no_port", "copy", "invalid literal"), ("70000", "copy", "70000"),
                                                  ("-1", "copy", "-1"), ("", "copy", ""), (None, "no_folder/copy", "no_folder/copy: No such")])
    def test_each_error_is_one_line(self, server, tmp_path, port, file, says):
        done = self.run("127.0.0.1", server.port if port is None else port, "disk0", tmp_path / file)
        assert done.returncode == 1
        assert says in done.stderr and done.stderr.startswith("copy_device: ") and done.stderr.count("\n") == 1

    def test_missing_arguments_print_the_usage(self):
        done = self.run("127.0.0.1")
        assert done.returncode == 1
        assert done.stderr.startswith("copy_device.py ADDRESS PORT DEVICE FILE: ")


def test_the_module_declares_the_structures_of_the_header():
    """Structures must have the members of urtrs.h in the same order. The version must be the library's."""
    header = (ROOT / "backends/bindings/c/urtrs.h").read_text()
    for name, structure in (("urtrs_device_info", urtrs._c.Info), ("urtrs_stats", urtrs._c.Stats), ("urtrs_path", urtrs._c.Path)):
        body = header.split(f"struct {name} {{", 1)[1].split("\n};", 1)[0]
        body = "".join(part.split("*/", 1)[-1] for part in body.split("/*"))
        members = [member.strip().split()[-1].lstrip("*") for line in body.split(";") for member in line.split(",")
                   if member.strip()]
        assert members == [field[0] for field in structure._fields_]
    assert urtrs.version() in (ROOT / "CMakeLists.txt").read_text()
