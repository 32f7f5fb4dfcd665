"""urtrs-fs with a server and two clients: the merged tree, and writes to attributes of clients."""
import errno
import os
import signal
import socket
import subprocess
import threading

import pytest
from conftest import connected, exports
from programs import BOUND, program, stand_still, until

MAP = "class/rnbd-client/ctl/map_device"


@pytest.fixture(name="system")
def _system(mount, client, urtrsd, tmp_path):
    """Returns the tree, the server, and the clients by session."""
    server = urtrsd(*exports(tmp_path, 1 << 20, "disk0", "disk1"), "--export=big=mem:4M")
    clients = {name: client(name, f"path=127.0.0.1@127.0.0.1:{server.port}", f"port={server.port}", "reconnect_min=50ms")
               for name in ("web0", "web1")}
    until("both control sockets exist", lambda: len(list((tmp_path / "run").glob("client-*"))) == 2)
    sysfs = mount()
    for name in clients:
        until("the session is up", lambda name=name: connected(sysfs, name))
    return sysfs, server, clients


def error_of(path, text):
    """Writes to the file. Returns the errno; 0 for success."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(file, text.encode())
    except OSError as error:
        return error.errno
    finally:
        os.close(file)
    return 0


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def path_of(sysfs, session):
    path, = (sysfs / "class/rtrs-client" / session / "paths").iterdir()
    return path


def test_servers_and_clients_are_in_one_tree(system):
    sysfs, _, _ = system
    assert names(sysfs / "class") == ["rnbd-client", "rnbd-server", "rtrs-client", "rtrs-server"]
    assert names(sysfs / "class/rtrs-client") == names(sysfs / "class/rtrs-server") == ["web0", "web1"]
    path = path_of(sysfs, "web0")
    assert path.name == "ip:127.0.0.1@ip:127.0.0.1"
    assert (path / "hca_name").read_text() == "tcp\n"
    assert (path / "state").read_text() == "connected\n"


def test_block_devices_of_all_clients_have_unique_numbers(system):
    sysfs, _, _ = system
    for session, device in (("web0", "disk0"), ("web1", "disk1"), ("web0", "big")):
        assert error_of(sysfs / MAP, f"sessname={session} device_path={device} access_mode=ro\n") == 0
    assert names(sysfs / "block") == names(sysfs / "devices/virtual/block") == ["rnbd0", "rnbd1", "rnbd2"]
    links = sysfs / "class/rnbd-client/ctl/devices"
    assert names(links) == ["big@web0", "disk0@web0", "disk1@web1"]
    number = {}
    for link in links.iterdir():
        rnbd = link / "rnbd"
        device, session = link.name.split("@")
        assert ((rnbd / "mapping_path").read_text(), (rnbd / "session").read_text()) == (device + "\n", session + "\n")
        number[device] = os.readlink(link).rsplit("/", 1)[1]
        assert (sysfs / "block" / number[device] / "rnbd/mapping_path").read_text() == device + "\n"
    assert (sysfs / "block" / number["big"] / "size").read_text() == "8192\n"
    assert error_of(sysfs / "block" / number["disk1"] / "rnbd/unmap_device", "normal\n") == 0
    assert names(links) == ["big@web0", "disk0@web0"]
    assert not (sysfs / "block" / number["disk1"]).exists()
    assert error_of(sysfs / MAP, "sessname=web1 device_path=disk1") == 0
    assert os.readlink(links / "disk1@web1").endswith("/" + number["disk1"]), "the released number is reused"
    assert os.readlink(links / "big@web0").endswith("/" + number["big"])


def test_map_device_finds_the_session(system):
    sysfs, server, _ = system
    for text, error in (("sessname=web1 device_path=none", errno.ENOENT), ("sessname=web2 device_path=disk0", errno.ENXIO),
                        ("sessname=web2 device_path=disk0 path=127.0.0.1", errno.EPROTONOSUPPORT),
                        (f"sessname=web2 device_path=disk0 dest_port={server.port} path=ip:127.0.0.1", errno.ENODEV),
                        ("device_path=disk0", errno.EINVAL), ("sessname=web1 device_path=disk0", 0), ("sessname=web1 device_path=disk0", errno.EEXIST)):
        assert error_of(sysfs / MAP, text) == error, text
    assert names(sysfs / "class/rnbd-client/ctl/devices") == ["disk0@web1"]


def test_a_path_has_its_new_state_when_the_write_returns(system):
    sysfs, server, _ = system
    path = path_of(sysfs, "web0")
    for _ in range(3):
        assert error_of(path / "disconnect", "1\n") == 0
        assert (path / "state").read_text() == "disconnected\n"
        assert error_of(path / "reconnect", "1\n") == 0
        assert (path / "state").read_text() == "connected\n"
    assert path_of(sysfs, "web1").joinpath("state").read_text() == "connected\n"
    paths, add = path.parent, sysfs / "class/rtrs-client/web0/add_path"
    assert error_of(add, "ip:127.0.0.2@ip:127.0.0.1\n") == 0
    assert names(paths) == ["ip:127.0.0.1@ip:127.0.0.1", "ip:127.0.0.2@ip:127.0.0.1"]
    assert (paths / "ip:127.0.0.2@ip:127.0.0.1/state").read_text() == "connected\n"
    assert error_of(add, "ip:127.0.0.9\n") == errno.ECONNREFUSED, "no server listens on that address"
    assert error_of(paths / "ip:127.0.0.2@ip:127.0.0.1/remove_path", "1\n") == 0
    assert names(paths) == ["ip:127.0.0.1@ip:127.0.0.1"]
    server.end(signal.SIGKILL)
    assert error_of(path / "disconnect", "1\n") == 0
    assert error_of(path / "reconnect", "1\n") == errno.ENOTCONN


def test_attempts_end_at_the_written_limit(system):
    sysfs, server, _ = system
    path = path_of(sysfs, "web0")
    limit = sysfs / "class/rtrs-client/web0/max_reconnect_attempts"
    assert limit.read_text() == "-1\n"
    limit.write_text("2\n")
    assert limit.read_text() == "2\n"
    server.end(signal.SIGKILL)
    until("web1 keeps retrying", lambda: int((path_of(sysfs, "web1") / "stats/reconnects").read_text().split()[1]) > 4)
    assert int((path / "stats/reconnects").read_text().split()[1]) == 2
    assert error_of(path / "stats/reconnects", "1") == 0
    assert (path / "stats/reconnects").read_text() == "0 0\n"


def test_reads_continue_while_a_write_waits(system):
    sysfs, server, _ = system
    path, written = path_of(sysfs, "web0"), []
    stand_still(server.process)
    try:
        waits = threading.Thread(target=lambda: written.append(error_of(path / "reconnect", "1\n")))
        waits.start()
        until("the path connects", lambda: (path / "state").read_text() == "disconnected\n")
        assert path_of(sysfs, "web1").joinpath("hca_port").read_text() == "1\n"
        assert not written
    finally:
        server.process.send_signal(signal.SIGCONT)
    waits.join(BOUND)
    # If the server is still closing the old connection, the first attempt fails, and the client tries again.
    assert written in ([0], [errno.ENOTCONN])
    until("the path is connected again", lambda: (path / "state").read_text() == "connected\n")


def test_an_unresponsive_client_does_not_hide_others(system):
    sysfs, _, clients = system
    stand_still(clients["web0"])
    try:
        assert names(sysfs / "class/rtrs-client") == ["web1"]
        assert (path_of(sysfs, "web1") / "state").read_text() == "connected\n"
        assert names(sysfs / "class/rtrs-server") == ["web0", "web1"]
    finally:
        clients["web0"].send_signal(signal.SIGCONT)
    until("the stopped client is shown again", lambda: names(sysfs / "class/rtrs-client") == ["web0", "web1"])


def test_the_entries_of_an_ended_client_disappear(system):
    sysfs, _, clients = system
    assert error_of(sysfs / MAP, "sessname=web1 device_path=disk0") == 0
    clients["web1"].kill()
    clients["web1"].wait(BOUND)
    assert names(sysfs / "class/rtrs-client") == ["web0"]
    assert names(sysfs / "block") == names(sysfs / "class/rnbd-client/ctl/devices") == []


def test_new_connections_see_the_written_size(system, tmp_path):
    sysfs, _, _ = system
    assert error_of(sysfs / MAP, "sessname=web0 device_path=big") == 0
    rnbd = sysfs / "class/rnbd-client/ctl/devices/big@web0/rnbd"

    def size():
        return int(subprocess.run(["nbdinfo", "--size", f"nbd+unix:///big?socket={tmp_path / 'web0.sock'}"], check=True, capture_output=True,
                                  timeout=BOUND).stdout)
    assert size() == 4 << 20
    assert error_of(rnbd / "resize", "4096\n") == 0
    assert size() == 2 << 20
    assert (rnbd.parent / "size").read_text() == "4096\n"
    assert error_of(rnbd / "resize", f"{1 << 60}") == errno.EINVAL
    # A busy server may still be closing the old connection, so it may reject the first attempt.
    assert error_of(path_of(sysfs, "web0") / "reconnect", "1") in (0, errno.ENOTCONN)
    until("the new size is sent by the server", lambda: size() == 4 << 20)


def test_the_socket_option_selects_one_process(system, tmp_path, ends):
    socket = next((tmp_path / "run").glob("client-*"))
    alone = tmp_path / "alone"
    alone.mkdir()
    subprocess.run([program("urtrs-fs"), f"--socket={socket}", alone], check=True, timeout=BOUND)
    ends.callback(lambda: subprocess.run(["umount", alone], timeout=BOUND, check=False))
    assert names(alone / "class") == ["rnbd-client", "rtrs-client"]
    assert len(names(alone / "class/rtrs-client")) == 1


def test_a_client_that_stops_after_open_causes_a_timeout(system):
    """The client stops between open and read or write, so the open succeeds, and the read or write fails with ETIMEDOUT."""
    sysfs, _, clients = system
    path = path_of(sysfs, "web0")
    assert (path / "hca_port").read_text() == "1\n"
    file = os.open(path / "reconnect", os.O_WRONLY)
    stand_still(clients["web0"])
    try:
        with pytest.raises(OSError) as read:
            (path / "hca_port").read_text()
        with pytest.raises(OSError) as written:
            os.write(file, b"1\n")
    finally:
        os.close(file)
        clients["web0"].send_signal(signal.SIGCONT)
    assert (written.value.errno, read.value.errno) == (errno.ETIMEDOUT, errno.ETIMEDOUT)


def test_several_unresponsive_clients_delay_others_only_once(system, client, tmp_path):
    sysfs, server, clients = system
    silent = [client(f"more{n}", f"path=127.0.0.1:{server.port}") for n in range(2)] + [clients["web0"]]
    until("all control sockets exist", lambda: len(list((tmp_path / "run").glob("client-*"))) == 4)
    try:
        for process in silent:
            stand_still(process)
        for _ in range(2):
            subprocess.run(["ls", sysfs / "class/rtrs-client/web1/paths"], check=True, timeout=BOUND)
    finally:
        for process in silent:
            process.send_signal(signal.SIGCONT)


def test_a_process_with_a_full_queue_causes_a_timeout(system, tmp_path, ends):
    """One process accepts no connection. Files that may belong to that process fail with ETIMEDOUT; files of others work."""
    sysfs, _, _ = system
    process = subprocess.Popen(["sleep", "1000"])
    ends.callback(process.wait)
    ends.callback(process.kill)
    path = tmp_path / "run" / f"client-{process.pid}.sock"
    listener, first = (ends.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
    listener.bind(str(path))
    listener.listen(0)
    first.connect(str(path))
    with pytest.raises(OSError) as late:
        os.stat(sysfs / "class/rtrs-client/none")
    assert late.value.errno == errno.ETIMEDOUT
    assert names(sysfs / "class/rtrs-client") == ["web0", "web1"]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        os.stat(sysfs / "class/rtrs-client/none")


def test_a_restarted_client_at_the_same_socket_is_queried_at_once(mount, client, urtrsd, tmp_path):
    server, socket = urtrsd("--export=disk0=mem:1M"), tmp_path / "own.sock"
    arguments = (f"path=127.0.0.1:{server.port}", f"control={socket}")
    first = client("web0", *arguments)
    until("the control socket exists", socket.exists)
    sysfs = mount(f"--socket={socket}")
    until("the session is up", lambda: connected(sysfs, "web0"))
    first.kill()
    first.wait(BOUND)
    socket.unlink()
    (tmp_path / "web0.sock").unlink()
    client("web1", *arguments)
    until("the control socket exists", socket.exists)
    until("the restarted client answers", lambda: subprocess.run([program("urtrs"), "client", "stats", f"--socket={socket}"], capture_output=True, timeout=BOUND,
                                               check=False).returncode == 0)
    assert names(sysfs / "class/rtrs-client") == ["web1"]


def test_other_users_may_only_read(mount, client, urtrsd, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    server = urtrsd("--export=disk0=mem:1M")
    client("web0", f"path=127.0.0.1:{server.port}", "device=disk0", "control=")
    sysfs = mount("-o", "allow_other")
    until("the session is shown", (sysfs / "class/rtrs-server/web0").exists)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    path, = (sysfs / "class/rtrs-server/web0/paths").iterdir()

    def by_nobody(script):
        return subprocess.run(["sh", "-c", script], cwd=path, capture_output=True, text=True, timeout=BOUND, check=False, user=65534, group=65534,
                              extra_groups=[])
    assert by_nobody("cat hca_name").stdout == "tcp\n"
    assert "Permission denied" in by_nobody("echo 1 > disconnect").stderr
    assert "reason=requested" not in server.text()


def test_a_block_device_of_an_unresponsive_client_keeps_its_number(system):
    sysfs, _, clients = system
    for session, device in ("web0", "disk0"), ("web1", "disk1"):
        assert error_of(sysfs / MAP, f"sessname={session} device_path={device} access_mode=ro\n") == 0
    assert (sysfs / "block/rnbd0/rnbd/mapping_path").read_text() == "disk0\n"
    stand_still(clients["web0"])
    try:
        assert error_of(sysfs / MAP, "sessname=web1 device_path=big access_mode=ro\n") == 0
        assert names(sysfs / "block") == ["rnbd1", "rnbd2"]
        assert (sysfs / "block/rnbd2/rnbd/mapping_path").read_text() == "big\n"
    finally:
        clients["web0"].send_signal(signal.SIGCONT)
    until("the device of the stopped client is shown again", lambda: names(sysfs / "block") == ["rnbd0", "rnbd1", "rnbd2"])
    assert (sysfs / "block/rnbd0/rnbd/mapping_path").read_text() == "disk0\n"
