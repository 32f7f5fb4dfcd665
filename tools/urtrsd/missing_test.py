"""urtrsd serves the available parts of its configuration at once, and missing parts as soon as they appear."""
import ctypes
import errno
import json
import os
import re
import shutil
import subprocess

import pytest
from iwarp_client import IwarpClient
from programs import BOUND, free_port, program, until

URTRS, URTRSD = program("urtrs"), program("urtrsd")
CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18


@pytest.fixture(name="urtrs")
def _urtrs(tmp_path):
    def ask(*arguments, code=0):
        done = subprocess.run([URTRS, f"--socket={tmp_path}/control", *arguments], capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == code, done
        return done
    return ask


@pytest.fixture(name="server")
def _server(tmp_path, urtrsd):
    return lambda *arguments, **options: urtrsd(f"--control={tmp_path}/control", *arguments, **options)


def states(urtrs):
    rows = json.loads(urtrs("export", "list", "--json").stdout)["exports"]
    return {row["name"]: row["state"] for row in rows}, {row["name"]: row["why"] for row in rows}


def test_missing_exports_do_not_affect_others(server, urtrs, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good").write_bytes(bytes(4096))
    started = server(f"--export=good={tmp_path}/good", f"--export=file={tmp_path}/later", f"--export=folder={tmp_path}",
                     f"--export=pipe={tmp_path}/pipe", f"--export=nbd=nbd+unix:///?socket={tmp_path}/nowhere")
    peer = IwarpClient(started.port)
    assert peer.open("good")[0] == 0
    assert peer.open("file")[0] == errno.ENOENT
    state, why = states(urtrs)
    assert state == {"good": "served", "file": "missing", "folder": "missing", "pipe": "missing", "nbd": "missing"}
    assert "No such file or directory" in why["file"] and "is a directory" in why["folder"] and why["good"] == ""
    table = urtrs("export", "list").stdout
    assert re.search(r"^file +\S+ +rw +missing +export .*No such file", table, re.MULTILINE), table
    started.logged(r'warning export "file" \(.*\) cannot be opened: No such file or directory \(2\); retrying in 1 s')
    assert 'exporting "file"' not in started.text()
    (tmp_path / "later").write_bytes(bytes(4096))
    assert peer.open("file")[0] == 0, "an open by a client does not wait for the next attempt"
    started.logged(r'export "file" is available after \d+ s').logged('exporting "file"')
    until("the export is served", lambda: states(urtrs)[0]["file"] == "served")


def test_an_export_without_its_file_is_missing_until_the_file_returns(server, urtrs, tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(4096))
    started = server(f"--export=a={image}")
    assert states(urtrs)[0] == {"a": "served"} and "State" not in urtrs("export", "list").stdout
    image.rename(tmp_path / "away")
    peer = IwarpClient(started.port)
    assert peer.open("a")[0] == errno.ENOENT
    assert states(urtrs)[0] == {"a": "missing"}
    (tmp_path / "away").rename(image)
    started.logged('export "a" is available')


@pytest.mark.parametrize("arguments", [["--export=a={0}/missing"], ["--dev-search-path={0}/missing"], ["--export=a=mem:1M", "--listen=192.0.2.1"],
                                       ["--export=a=mem:1M", "--metrics=192.0.2.1:9469"], ["--export=a=mem:1M", "--metrics={0}/no/metrics"]])
def test_strict_ends_with_3(urtrsd, tmp_path, arguments):
    server = urtrsd(*(one.format(tmp_path) for one in arguments), "--strict", ready=False)
    assert server.process.wait(BOUND) == 3, server.text()
    assert " error " in server.text() and "ready" not in server.text()


def test_a_search_path_may_appear_later_and_be_replaced(server, urtrs, tmp_path):
    folder = tmp_path / "disks"
    started = server(f"--dev-search-path={folder}")
    peer = IwarpClient(started.port)
    assert peer.open("one")[0] == errno.ENOENT
    assert f'dev_search_path "{folder}" cannot be used: No such file or directory' in urtrs("export", "list").stderr
    folder.mkdir()
    (folder / "one").write_bytes(bytes(4096))
    assert peer.open("one")[0] == 0
    started.logged("dev_search_path is available")
    assert urtrs("export", "list").stderr == ""
    folder.rename(tmp_path / "before")
    folder.mkdir()
    (folder / "two").write_bytes(bytes(4096))
    other = IwarpClient(started.port, "other")
    assert other.open("one")[0] == errno.ENOENT and other.open("two")[0] == 0


def test_a_reload_adds_and_retries_missing_exports(server, urtrs, tmp_path):
    config = tmp_path / "urtrsd.toml"
    config.write_text('[[export]]\nname = "a"\nmem = "1M"\n')
    started = server(f"--config={config}")
    config.write_text(config.read_text() + f'[[export]]\nname = "h"\nmem = "1M"\n[[export]]\nname = "m"\npath = "{tmp_path}/later"\n')
    said = urtrs("reload").stdout
    assert 'export "h" is added' in said and f'export "m" ("{tmp_path}/later") cannot be opened: No such file or directory' in said
    assert states(urtrs)[0] == {"a": "served", "h": "served", "m": "missing"}
    (tmp_path / "later").write_bytes(bytes(4096))
    urtrs("reload")
    until("the missing export is served", lambda: states(urtrs)[0] == {"a": "served", "h": "served", "m": "served"})
    config.write_text(config.read_text() + '[[export]]\nname = "gone"\npath = "/nowhere"\n')
    urtrs("reload")
    urtrs("export", "remove", "gone")
    assert "gone" not in urtrs("export", "list").stdout
    assert IwarpClient(started.port).open("m")[0] == 0


def test_a_strict_reload_adds_no_missing_export(server, urtrs, tmp_path):
    config = tmp_path / "urtrsd.toml"
    config.write_text('strict = true\n[[export]]\nname = "a"\nmem = "1M"\n')
    server(f"--config={config}")
    config.write_text(config.read_text() + '[[export]]\nname = "m"\npath = "/nowhere"\n')
    assert "No such file or directory" in urtrs("reload").stdout
    assert states(urtrs)[0] == {"a": "served"}


def test_a_command_adds_no_missing_export(server, urtrs):
    """The command fails, because its user sees the error at once and can fix the command."""
    server("--export=a=mem:1M")
    assert "No such file or directory" in urtrs("export", "add", "m=/nowhere", code=1).stderr
    assert states(urtrs)[0] == {"a": "served"}


def test_listens_on_an_address_once_the_host_has_it(server, urtrs, tmp_path):
    """Runs in its own network namespace. 192.0.2.0/24 is reserved for documentation."""
    if os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("ip") is None:
        pytest.skip("needs root, nsenter and ip")
    libc = ctypes.CDLL(None, use_errno=True)

    def alone():
        # Linux allows binding to any address while no interface is up, so the loopback interface is brought
        # up.
        if libc.unshare(CLONE_NEWNET) != 0 or os.system("ip link set lo up") != 0:
            os._exit(99)

    address, metrics = "192.0.2.9", free_port()
    started = server("--export=a=mem:1M", "--listen=127.0.0.1", f"--listen={address}", f"--metrics={address}:{metrics}", ready=False,
                     preexec_fn=alone)
    until("urtrsd is ready or has exited", lambda: " ready\n" in started.text() or started.process.poll() is not None)
    if started.process.poll() == 99:
        pytest.skip("this user may have no network namespace")
    warnings = urtrs("export", "list").stderr
    assert f"cannot listen on {address} port {started.port}: this host does not have this address" in warnings
    assert f'cannot serve /metrics at "{address}:{metrics}"' in warnings
    inside = ["nsenter", "-t", str(started.process.pid), "-n"]
    subprocess.run([*inside, "ip", "address", "add", f"{address}/32", "dev", "lo"], check=True, timeout=BOUND)
    urtrs("reload")
    started.logged(f"listening on {address}:{started.port}").logged(f'listen "{address}" is available').logged("metrics is available")
    connects = f"import socket; socket.create_connection(('{address}', {started.port})).close()"
    subprocess.run([*inside, "python3", "-c", connects], check=True, timeout=BOUND)
    assert urtrs("export", "list").stderr == ""


def with_hosts(folder, text):
    """Function for preexec_fn: new mount namespace in which /etc/hosts contains `text`."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (folder / "hosts").write_text(text)
    (folder / "nsswitch.conf").write_text("hosts: files\n")
    libc = ctypes.CDLL(None, use_errno=True)

    def alone():
        if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
            os._exit(99)
        for name in "hosts", "nsswitch.conf":
            if libc.mount(str(folder / name).encode(), f"/etc/{name}".encode(), None, MS_BIND, None) != 0:
                os._exit(99)
    return alone


def start_with_hosts(server, folder, text, *arguments):
    started = server("--export=a=mem:1M", *arguments, ready=False, preexec_fn=with_hosts(folder, text))
    until("urtrsd is ready or has exited", lambda: " ready\n" in started.text() or started.process.poll() is not None)
    if started.process.poll() == 99:
        pytest.skip("this user may have no mount namespace")
    return started


def test_listens_on_a_host_name_once_it_has_an_address(server, urtrs, tmp_path):
    started = start_with_hosts(server, tmp_path, "127.0.0.1 localhost\n", "--listen=127.0.0.1", "--listen=later.example")
    why = f'cannot listen on later.example port {started.port}: no host has the name "later.example"'
    assert started.process.poll() is None and why in urtrs("export", "list").stderr, started.text()
    (tmp_path / "hosts").write_text("127.0.0.1 later.example\n127.0.0.5 later.example\n")
    urtrs("reload")
    started.logged(f"listening on 127.0.0.5:{started.port}").logged('listen "later.example" is available')
    assert urtrs("export", "list").stderr == ""
    IwarpClient(started.port)


def test_a_strict_start_fails_if_a_host_name_has_no_address(server, tmp_path):
    started = start_with_hosts(server, tmp_path, "127.0.0.1 localhost\n", "--strict", "--listen=later.example")
    assert started.process.poll() == 3 and 'no host has the name "later.example"' in started.text()


def test_an_address_given_twice_by_name_and_number_is_used_once(server, tmp_path):
    started = start_with_hosts(server, tmp_path, "127.0.0.1 both.example\n127.0.0.6 both.example\n",
                               "--listen=127.0.0.1", "--listen=both.example")
    assert started.process.poll() is None, started.text()
    assert started.text().count(f"listening on 127.0.0.1:{started.port}") == 1
    assert started.text().count(f"listening on 127.0.0.6:{started.port}") == 1


def test_an_unknown_interface_causes_no_error_per_attempt(urtrsd):
    server = urtrsd("--export=a=mem:1M", "--listen=127.0.0.1", "--listen=fe80::1%nosuch").logged("retrying in 2 s")
    assert " error " not in server.text(), server.text()


def test_the_control_socket_is_created_once_its_folder_exists(urtrsd, tmp_path):
    server = urtrsd("--export=a=mem:1M", f"--control={tmp_path}/run/control")
    (tmp_path / "run").mkdir()
    server.logged("control is available")
    done = subprocess.run([URTRS, f"--socket={tmp_path}/run/control", "export", "list"], capture_output=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done


def test_shutdown_does_not_wait_for_the_next_attempt(urtrsd, tmp_path):
    server = urtrsd(f"--export=a={tmp_path}/missing").logged("retrying in 2 s")
    assert server.end() == 0
