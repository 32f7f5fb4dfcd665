"""Tests the effects that one client of urtrsd has on files, disks, other clients and the log."""
import errno
import os
import re
import resource

import pytest
from programs import until
from iwarp_client import IwarpClient as Client


@pytest.fixture
def client():
    """client(server, "name") opens a session, which is closed at the end of the test."""
    clients = []

    def connect(server, name):
        clients.append(Client(server.port, name))
        return clients[-1]

    yield connect
    for one in clients:
        one.close()


LIMIT = 200


def limited(which, value):
    return {"preexec_fn": lambda: resource.setrlimit(which, (value, value))}


def test_open_files_leave_half_of_the_descriptors_to_connections(urtrsd, client, tmp_path):
    for number in range(LIMIT):
        (tmp_path / f"f{number}").write_bytes(bytes(4096))
    server = urtrsd("--export=m=mem:1M", f"--dev-search-path={tmp_path}", **limited(resource.RLIMIT_NOFILE, LIMIT))
    greedy = client(server, "greedy")
    errors = [greedy.open(f"f{number}")[0] for number in range(LIMIT)]
    assert set(errors) == {0, errno.EMFILE}
    # An open file takes two descriptors. Clients of one address get at most seven eighths of the open files.
    assert errors.count(0) == LIMIT // 4 * 7 // 8
    assert server.descriptors() < LIMIT * 3 // 4
    server.logged(rf'name="greedy" peer=\S+ open "f\d+" refused: \d+ files are open, \d+ of them by clients of this host')
    newcomer = client(server, "newcomer")
    assert newcomer.open("m")[0] == 0
    greedy.beat()
    greedy.close()
    until("the files of the greedy client are closed", lambda: newcomer.open("f0")[0] == 0)


def test_a_long_memory_operation_completes_without_other_events(urtrsd, client):
    """The server splits the operation into slices, and continues with the next slice without any external event."""
    server = urtrsd("--export=m=mem:2G", "--heartbeat-interval=60s")
    session = client(server, "one")
    error, device = session.open("m")
    assert error == 0
    assert session.discard_device(device, 0, 2 << 30) == 0
    session.close()


def test_resize_and_close_are_logged_with_the_device_name(urtrsd, client, tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1 << 20))
    server = urtrsd(f"--export=d={disk}")
    session = client(server, "owner")
    error, device = session.open("d")
    assert error == 0
    os.truncate(disk, 2 << 20)
    assert session.write_device(device, (1 << 20) // 512, bytes(4096)) == 0
    server.logged(r'name="owner" peer=\S+ the size of "d" changed from 1048576 to 2097152 bytes')
    session.beat()
    session.close()
    server.logged(r'closed "d"')


def test_log_lines_of_failed_io_are_rate_limited(urtrsd, client, tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"")
    os.truncate(disk, 8 << 20)
    server = urtrsd(f"--export=d={disk}", **limited(resource.RLIMIT_FSIZE, 1 << 20))
    session = client(server, "writer")
    error, device = session.open("d")
    assert error == 0
    assert session.write_device(device, 8, bytes(4096)) == 0
    for _ in range(30):
        assert session.write_device(device, 4096, bytes(4096)) == errno.EIO
    line = (r'error session=0 name="writer" peer=127\.0\.0\.1:\d+ write "d" offset=2097152 length=4096 failed: '
            r'File too large \(27\)')
    server.logged(line)
    assert session.write_device(device, 1 << 20, bytes(4096)) == errno.EIO
    server.logged(r"\.\.\. \d+ more lines of IOs that failed in 10 s")
    lines = re.findall(line, server.text())
    assert len(lines) < 30


def test_failed_opens_release_their_descriptors(urtrsd, client, tmp_path):
    (tmp_path / "good").write_bytes(bytes(4096))
    server = urtrsd(f"--dev-search-path={tmp_path}", **limited(resource.RLIMIT_NOFILE, LIMIT))
    session = client(server, "one")
    assert {session.open("missing")[0] for _ in range(LIMIT)} == {errno.ENOENT}
    assert session.open("good")[0] == 0


def test_a_server_with_crc_rejects_clients_without(urtrsd, client):
    server = urtrsd("--export=m=mem:1M", "--crc")
    with pytest.raises(OSError):
        client(server, "without")
    assert 'name="without"' not in server.text()
