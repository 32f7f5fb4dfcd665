"""Paths given as host names with several addresses, and as link-local addresses: all addresses are tried, scopes are kept."""
import ctypes
import os
import pathlib
import socket
import subprocess

import pytest
from control_test import Client, client_with_etc
from programs import free_port, until

CLONE_NEWNET = 0x40000000
DEBIAN = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


@pytest.fixture(name="plugin")
def _plugin(tmp_path, ends):
    """Starts nbdkit with an /etc/hosts that contains the given lines."""
    hosts, start = client_with_etc(tmp_path, ends, "hosts", DEBIAN)

    def with_lines(lines, *arguments):
        hosts.write_text(DEBIAN + lines)
        return start(*arguments)
    return with_lines


def path_of(client):
    return client.session()["paths"][0]


def address_of(client):
    """Returns the address in use, as shown in the list of paths."""
    return path_of(client)["pathname"].rsplit("@", 1)[-1]


def silent(ends, address, port):
    """Makes the address neither accept nor refuse connections, with a listener whose queue is full."""
    listener = socket.create_server((address, port), backlog=0)
    ends.callback(listener.close)
    for _ in range(4):
        filler = socket.socket()
        ends.callback(filler.close)
        filler.setblocking(False)
        filler.connect_ex((address, port))


@pytest.mark.parametrize("fabric", ["tcp", "libfabric"])
def test_localhost_of_debian_reaches_a_server_on_127_0_0_1(urtrsd, plugin, fabric):
    server = urtrsd("--listen=127.0.0.1", "--export=disk=mem:1M", f"--fabric={fabric}")
    client = plugin("", "path=localhost", f"port={server.port}", f"fabric={fabric}")
    until("the path is up", lambda: client.states() == ["connected"])
    assert address_of(client) == "ip:127.0.0.1"


@pytest.mark.parametrize("fabric", ["tcp", "libfabric"])
def test_a_silent_first_address_is_skipped(urtrsd, plugin, ends, fabric):
    server = urtrsd("--listen=127.0.0.3", "--export=disk=mem:1M", f"--fabric={fabric}")
    silent(ends, "127.0.0.2", server.port)
    client = plugin("127.0.0.2 storage.example\n127.0.0.3 storage.example\n", "path=storage.example", f"port={server.port}",
                    f"fabric={fabric}", "connect_timeout=300")
    until("the path is up", lambda: client.states() == ["connected"])
    assert address_of(client) == "ip:127.0.0.3"


def test_a_path_reconnects_to_another_address(urtrsd, plugin):
    server = urtrsd("--listen=127.0.0.2", "--export=disk=mem:1M")
    client = plugin("127.0.0.2 storage.example\n127.0.0.3 storage.example\n", "path=storage.example", f"port={server.port}")
    until("the path is up", lambda: client.states() == ["connected"])
    assert address_of(client) == "ip:127.0.0.2"
    assert server.end() == 0
    server.arguments = ("--listen=127.0.0.3", "--export=disk=mem:1M")
    server.start().ready()
    until("the path is back", lambda: path_of(client)["reconnects"] == 1 and client.states() == ["connected"])
    assert address_of(client) == "ip:127.0.0.3"


def test_a_server_listens_on_all_addresses_of_a_name(urtrsd):
    server = urtrsd("--listen=localhost", "--export=disk=mem:1M")
    ends = {family: where[0] for family, *_, where in socket.getaddrinfo("localhost", server.port, type=socket.SOCK_STREAM)}
    for family, address in ends.items():
        with socket.socket(family) as client:
            assert client.connect_ex((address, server.port)) == 0, address


def test_a_host_name_without_addresses_is_reported(urtrsd):
    server = urtrsd("--listen=no-such-host.invalid", "--export=disk=mem:1M", "--strict", ready=False)
    assert server.process.wait(60) == 3
    assert 'no-such-host.invalid"' in server.text()


@pytest.fixture(name="link")
def _link(ends):
    """A network namespace with one interface, and the link-local address of the interface."""
    holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE)
    ends.callback(holder.wait)
    ends.callback(holder.kill)
    inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    made = holder.stdout.read(1) and all(subprocess.run([*inside, "ip", "link", *words], check=False, capture_output=True).returncode == 0
                                         for words in (["set", "lo", "up"], ["add", "Eth7", "type", "dummy"], ["set", "Eth7", "up"]))
    if not made:
        pytest.skip("no network of its own")

    def address():
        shown = subprocess.run([*inside, "ip", "-6", "-o", "addr", "show", "dev", "Eth7", "scope", "link"], check=True, capture_output=True)
        words = shown.stdout.decode().split()
        return "tentative" not in words and words[3:4]
    (found,) = until("the interface has a link-local address", address, 5)
    return holder.pid, inside, found.split("/")[0]


def enter(pid):
    def do():
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        assert ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET) == 0
        os.close(network)
    return do


@pytest.mark.parametrize("fabric", ["tcp", "libfabric"])
def test_link_local_addresses_keep_their_scope(urtrsd, link, tmp_path, ends, fabric):
    pid, inside, address = link
    scoped = f"{address}%Eth7"
    server = urtrsd(f"--listen={scoped}", "--export=disk=mem:1M", "--allow-addresses=fe80::/10", f"--fabric={fabric}",
                    preexec_fn=enter(pid))
    client = Client(tmp_path, f"path={scoped}@[{scoped}]:{server.port}", "device=disk", f"fabric={fabric}", inside=inside)
    ends.callback(client.end)
    until("the path is up", lambda: client.answers() and client.states() == ["connected"])
    assert path_of(client)["pathname"] == f"ip:{scoped}@ip:{scoped}"
    assert pathlib.Path(server.log).read_text().count(f"%Eth7") >= 2


def test_an_unknown_interface_is_reported(tmp_path, ends):
    client = Client(tmp_path, "path=fe80::1%nosuch7", f"port={free_port()}", "device=disk")
    ends.callback(client.end)
    until("the interface is reported as unknown", lambda: 'no network interface "nosuch7"' in client.text() or "name_unresolved" in client.text())
