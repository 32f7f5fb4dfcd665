"""Generated session names: two hosts with the same name, access rules of the server, and a name already in use."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
from conftest import NBDKIT, Mapd, size
from programs import BOUND, program, until

SECURITY = pathlib.Path(__file__).parents[2] / "docs/security.md"


def at_server(server):
    """Returns the session names that a server shows."""
    listed = subprocess.run([program("urtrs"), "session", "list", "--json", f"--socket={server_socket(server)}"], capture_output=True, text=True,
                            timeout=BOUND, check=True).stdout
    return [one["sessname"] for one in json.loads(listed)["sessions"]]


def server_socket(server):
    return pathlib.Path(os.environ["URTRS_RUNTIME_DIR"]) / f"urtrsd-{server.process.pid}.sock"


@pytest.fixture(name="twin")
def _twin(mapd, tmp_path, monkeypatch, ends):
    """Starts a second urtrs-mapd, as on another host with the same name; twin.urtrs() runs commands on it."""
    (tmp_path / "twin").mkdir()
    own = str(tmp_path / "twin/run")
    with monkeypatch.context() as there:
        there.setenv("URTRS_RUNTIME_DIR", own)
        twin = Mapd(tmp_path / "twin", *mapd.arguments)

    def clean():
        twin.end(signal.SIGKILL)
        for pid in twin.nbdkits():
            os.kill(pid, signal.SIGKILL)
    ends.callback(clean)
    twin.urtrs = lambda *words: subprocess.run([program("urtrs"), *words], capture_output=True, text=True, timeout=BOUND, check=True,
                                               env={**os.environ, "URTRS_RUNTIME_DIR": own}).stdout
    return twin


def test_two_hosts_with_the_same_name_have_different_sessions(mapd, server, mapped, twin):
    uri = twin.urtrs("map", "disk1", "from", "127.0.0.1", f"--port={server.port}").strip()
    assert (size(mapped), size(uri)) == (16 << 20, 1 << 20)
    (one, first), = mapd.sessions().items()
    (other, second), = twin.sessions().items()
    assert one == other and first["name"] != second["name"]
    host = os.uname().nodename.split(".")[0][:24]
    for name in (first["name"], second["name"]):
        assert re.fullmatch(re.escape(host) + "-127_0_0_1-[0-9a-f]{8}", name), name
    assert sorted(at_server(server)) == sorted([first["name"], second["name"]])


def test_the_session_name_survives_restarts(mapd, server, mapped, urtrs):
    (session, shown), = mapd.sessions().items()
    name = shown["name"]
    assert json.loads(mapd.state.read_text())["sessions"][0]["name"] == name
    pid, = mapd.nbdkits()
    mapd.end(signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    mapd.start()
    until("the device is mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    assert mapd.sessions()[session]["name"] == name
    mapd.end()
    mapd.state.write_text("{damaged")
    mapd.start()
    until("the device is read from the process", lambda: mapd.devices().get("disk0", {}).get("state") == "mapped")
    assert mapd.sessions()[session]["name"] == name
    listed, = json.loads(urtrs("mapping", "list", "--json", "--fields=+server_sessname"))["mappings"]
    assert (listed["sessname"], listed["server_sessname"]) == (session, name)
    for words in (("client", "path", "list", session), ("client", "path", "list", name), ("client", "session", "show", session)):
        assert name in urtrs(*words), "both names are known"


def test_a_state_file_without_names_uses_the_former_names(mapd, server, mapped):
    mapd.end()
    for pid in mapd.nbdkits():
        os.kill(pid, signal.SIGKILL)
    state = json.loads(mapd.state.read_text())
    del state["sessions"][0]["name"]
    state["schema_version"] = 1
    mapd.state.write_text(json.dumps(state))
    mapd.start()
    until("the device is mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    (session, shown), = mapd.sessions().items()
    assert shown["name"] == session


def test_a_chosen_session_name_is_sent_to_the_server(mapd, server, urtrs):
    urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}", "--session=web1-data")
    assert {name: one["name"] for name, one in mapd.sessions().items()} == {"web1-data": "web1-data"}
    urtrs("map", "disk1", "from", "web1-data")
    urtrs("map", "disk2", "from", "127.0.0.1", "--session=web1-data", f"--port={server.port}")
    assert len(mapd.sessions()) == 1
    assert "has 1 to 48 characters" in urtrs("map", "disk2", "from", "127.0.0.1", "--session=" + 49 * "x", code=2)


@pytest.mark.parametrize("name", [(), ("session=web1",)])
def test_two_nbdkit_have_different_names_or_report_the_conflict(server, tmp_path, ends, name):
    """Without session= the names differ. If both names are equal, the log of the second nbdkit says so at once."""
    logs = []
    for number in (1, 2):
        logs.append(tmp_path / f"nbdkit{number}.log")
        with logs[-1].open("w") as sink:
            process = subprocess.Popen([NBDKIT, "-f", "-U", tmp_path / f"{number}.sock", "path=127.0.0.1", f"port={server.port}", "device=disk1",
                                        "access_mode=ro", *name, "control="], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        ends.callback(process.kill)
        if number == 1 or not name:
            until("nbdkit serves the device", lambda there=f"nbd+unix:///?socket={tmp_path}/{number}.sock": size(there) == 1 << 20)
    if not name:
        return
    until("the log of the second nbdkit has the reason", lambda: "closed the connection after it received the session name [name_refused]" in logs[1].read_text())
    told = r'asked_name="web1" reason=name_refused .*: session \d+ owns this name, client 127\.0\.0\.1:\d+;'
    until("the log of the server names the owner of the session name", lambda: re.search(told, server.text()))


@pytest.mark.parametrize("identity", ["alice", "web1.example.org"])
def test_default_names_match_the_documented_access_rule(urtrsd, tmp_path, mapd, urtrs, ends, identity):
    rule, = set(re.findall(r'`allow_sessions = "([^"]+)"` ties names to\s+identities', SECURITY.read_text()))
    keys = tmp_path / "keys"
    subprocess.run([program("urtrs"), "key", "new", identity, keys], check=True, timeout=BOUND, stdout=subprocess.DEVNULL)
    server = urtrsd("--export=disk0=mem:1M", f"--tls-keys={keys}", f"--allow-sessions={rule}")
    urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}", f"--tls-keys={keys}", "ro")
    nbdkit = subprocess.run([NBDKIT, "-U", "-", "path=127.0.0.1", f"port={server.port}", "device=disk0", "access_mode=ro", f"tls_keys={keys}",
                             "control=", "--run", "nbdinfo --size $uri"], capture_output=True, text=True, timeout=BOUND, check=False)
    assert nbdkit.stdout.strip() == str(1 << 20), nbdkit.stderr
    subprocess.run([program("urtrs-perf"), "127.0.0.1", "-p", str(server.port), "-n", "1", f"--tls-keys={keys}", "--connect-timeout=5s"],
                   # The program is expected to fail after it has connected.
                   capture_output=True, timeout=BOUND, check=False)
    whose = identity.replace(".", "_")
    names = set(re.findall(rf'name="{whose}-([A-Za-z0-9_]+)-[0-9a-f]{{8}}"', server.text()))
    assert names == {"127_0_0_1", "nbdkit", "perf"}, server.text()
    assert "not_allowed" not in server.text(), server.text()
    other = subprocess.Popen([NBDKIT, "-f", "-U", tmp_path / "other.sock", "path=127.0.0.1", f"port={server.port}", "device=disk0", "access_mode=ro",
                              f"tls_keys={keys}", "session=bob-1", "control="], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ends.callback(other.kill)
    until("another name is rejected by the rule", lambda: re.search('asked_name="bob-1".*reason=not_allowed', server.text()))
