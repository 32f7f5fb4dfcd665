"""Sessions with the maximum number of paths or connections: their memory, and the limits that the server reports.

    /usr/bin/python3 -m pytest -s tools/urtrsd/limits_test.py      # prints memory and time of these sessions
"""
import errno
import json
import re
import resource
import subprocess
import time

import pytest
from iwarp_client import IwarpClient
from programs import BOUND, program

# Maximum memory of the server, in KiB. The memory must depend on the use of a session, not on the number of
# requests that the session could have in flight.
MOST_OF_A_PATH = 512
MOST_OF_A_CONNECTION = 24


@pytest.fixture(scope="module", autouse=True)
def _many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(name="server")
def _server(urtrsd, tmp_path):
    server = urtrsd("--export=d=mem:16M", f"--control={tmp_path}/control", "--max-sessions=70")
    server.control = tmp_path / "control"
    return server


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def session(server, paths, connections):
    """Opens one session: one client per path, each with its own source address."""
    first = IwarpClient(server.port, "wide", connections=connections, source="127.0.9.1")
    return [first, *(IwarpClient(server.port, "wide", connections=connections, paths=first.paths, source=f"127.0.9.{i + 2}")
                     for i in range(paths - 1))]


def limits(server):
    done = subprocess.run([program("urtrs"), f"--socket={server.control}", "limits", "--json"], capture_output=True, text=True,
                          timeout=BOUND, check=True)
    return {one["name"]: one for one in json.loads(done.stdout)["limits"]}


def close(clients):
    for one in clients:
        one.close()


@pytest.mark.parametrize(("paths", "connections"), [(1, 513), (16, 5)])
def test_session_memory_is_proportional_to_its_connections(server, paths, connections):
    close(session(server, 1, 2))  # the first session causes one-time allocations, which are not measured
    before, begun = resident_kib(server), time.monotonic()
    clients = session(server, paths, connections)
    taken, spent = resident_kib(server) - before, time.monotonic() - begun
    print(f"\n{paths} paths of {connections} connections: {taken} KiB, {taken / paths / connections:.1f} a connection; "
          f"{spent * 1000:.0f} ms, {spent * 1000 / paths / connections:.2f} a connection")
    assert taken < paths * (MOST_OF_A_PATH + MOST_OF_A_CONNECTION * connections)
    for one in clients:
        one.beat()
    shown = limits(server)
    assert (shown["paths"]["used"], shown["connections"]["used"]) == (paths, connections)
    assert shown["server_connections"]["used"] == paths * connections
    close(clients)


def test_the_129th_path_is_rejected_with_the_limit(server):
    clients = session(server, 128, 2)
    clients[-1].beat()
    shown = limits(server)
    assert shown["paths"]["used"] == shown["paths"]["set"] == shown["paths"]["value"] == shown["paths"]["protocol"] == 128
    with pytest.raises(OSError) as refused:
        IwarpClient(server.port, "wide", paths=clients[0].paths, source="127.0.8.1")
    assert refused.value.errno == errno.ECONNRESET
    server.logged(r"reason=too_many_paths errno=104: the session has 128 paths, the maximum of the protocol; configure fewer paths")
    clients[0].beat()
    close(clients)


def test_limits_show_configured_and_used_values(server):
    client = IwarpClient(server.port, "one", connections=3)
    shown = limits(server)
    assert (shown["sessions"]["set"], shown["sessions"]["used"]) == (70, 1)
    assert shown["sessions"]["value"] < 70 < shown["sessions"]["most"]
    assert (shown["host_sessions"]["set"], shown["host_sessions"]["used"]) == (62, 1)
    assert shown["half_open"]["set"] == 35
    assert shown["connections"]["used"] == 3
    assert shown["connection_memory"]["set"] == shown["connection_memory"]["value"]
    assert shown["files"]["set"] * 2 == shown["server_connections"]["set"]
    assert shown["keys"]["set"] is None, "urtrsd reports no value for a limit that cannot be configured"
    client.close()


def test_a_rejection_for_lack_of_memory_names_the_setting(urtrsd):
    server = urtrsd("--export=d=mem:16M", "--connection-memory-mb=16")
    clients = []
    with pytest.raises(OSError) as refused:
        for _ in range(60):
            clients.append(IwarpClient(server.port, connections=4))
    assert clients and refused.value.errno == errno.ENOMEM
    server.logged(r"reason=no_resources errno=12: .*raise connection_memory_mb of urtrsd")
    server.logged(r"the connections of its host may take \d+ MiB now, of 16 MiB for all \(max_memory; connection_memory_mb of urtrsd\)")
    clients[0].beat()
    close(clients)
