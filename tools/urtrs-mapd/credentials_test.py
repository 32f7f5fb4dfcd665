"""Maps devices of servers that require TLS or a shared key: with keys of urtrs-mapd, with keys of the session, without keys."""
import json
import os
import signal
import subprocess

import pytest
from programs import BOUND, program, until


@pytest.fixture(name="keys")
def _keys(tmp_path):
    """Makes three key files: one with both keys for the server, and one each for alice and bob."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in "alice", "bob":
        subprocess.run([program("urtrs"), "key", "new", name, folder / "server"], check=True, timeout=BOUND, stdout=subprocess.DEVNULL)
    for line in (folder / "server").read_text().splitlines(True):
        mine = folder / line.split(":")[0]
        mine.write_text(line)
        mine.chmod(0o600)
    return folder


@pytest.fixture(name="safe")
def _safe(urtrsd, keys):
    """Starts a server that requires a key, for each fabric. Returns the servers by fabric."""
    return {"tcp": urtrsd("--export=disk0=mem:1M", "--sess-queue-depth=64", f"--tls-keys={keys / 'server'}"),
            "libfabric": urtrsd("--fabric=libfabric", "--export=disk0=mem:1M", "--sess-queue-depth=64", f"--auth-keys={keys / 'server'}")}


def of(server, fabric):
    return "disk0", "from", f"{fabric}-server", "127.0.0.1", f"--port={server.port}", f"--fabric={fabric}"


@pytest.mark.parametrize("fabric, option", [("tcp", "tls"), ("libfabric", "auth")])
def test_a_session_can_have_its_own_keys(mapd, safe, keys, urtrs, monkeypatch, fabric, option):
    server = safe[fabric]
    said = urtrs("map", *of(server, fabric), code=1)
    assert "takes --tls-keys, --auth-keys and the like" in said, said
    monkeypatch.chdir(keys)  # the names of the key files below are relative to this directory
    urtrs("map", *of(server, fabric), f"--{option}-keys=alice")
    session, = mapd.sessions().values()
    assert session["credentials"] == {f"{option}_keys": str(keys / "alice")}
    assert json.loads(mapd.state.read_text())["schema_version"] == 3
    said = urtrs("map", "disk1", "from", f"{fabric}-server", f"--{option}-keys=bob", code=1)
    assert "unmap its devices first" in said, said
    said = urtrs("map", "disk1", "from", "other", "127.0.0.1", f"--fabric={fabric}", f"--{option}-identity=bob", code=2)
    assert f"{option}_identity requires {option}_keys" in said, said


def test_an_unreadable_key_file_is_reported_at_the_start(mapd, keys):
    mapd.end()
    mapd.arguments += f"tls_keys={keys / 'nobody'}", "tls_identity=alice"
    before = len(mapd.text())
    mapd.start()
    said = mapd.text()[before:]
    assert f"tls_keys={keys / 'nobody'}: No such file or directory; no session" in said and "tls_identity" not in said


def test_each_fabric_uses_its_kind_of_keys(mapd, safe, keys, urtrs):
    mapd.end()
    mapd.arguments += f"tls_keys={keys / 'alice'}", f"auth_keys={keys / 'bob'}"
    mapd.start()
    for fabric, server in safe.items():
        urtrs("map", *of(server, fabric))
    assert {one["fabric"]: one["credentials"] for one in mapd.sessions().values()} == {"tcp": {}, "libfabric": {}}


def test_parameters_that_conflict_with_a_session_fail_the_start(mapd, safe, keys, urtrs):
    urtrs("map", *of(safe["libfabric"], "libfabric"), f"--auth-keys={keys / 'bob'}")
    before = mapd.nbdkits()
    mapd.end()
    state = json.loads(mapd.state.read_text())
    del state["sessions"][0]["credentials"]
    mapd.state.write_text(json.dumps(state))
    mapd.arguments += f"tls_keys={keys / 'alice'}",
    assert mapd.start(ready=False).process.wait(BOUND) == 3
    assert "fabric libfabric: TLS is for the fabric tcp, not for libfabric" in mapd.text()
    assert mapd.nbdkits() == before, "no process is started or ended"


def test_map_run_without_mapd_accepts_credentials(safe, keys, urtrs, server):
    port = safe["tcp"].port
    run = "map", "disk0", "from", "127.0.0.1", f"--port={port}", "--run", "nbdinfo --size $uri"
    assert urtrs(*run, f"--tls-keys={keys / 'server'}", "--tls-identity=bob") == "1048576\n"
    assert "choose one with tls_identity" in urtrs(*run, f"--tls-keys={keys / 'server'}", code=1)


def test_a_missing_key_file_is_reported_at_once(mapd, safe, keys, urtrs):
    said = urtrs("map", *of(safe["tcp"], "tcp"), "--tls-keys=/nope", code=1)
    assert "/nope: cannot be opened: No such file or directory (2)" in said and "log of urtrs-mapd" not in said, said
    urtrs("map", *of(safe["tcp"], "tcp"), f"--tls-keys={keys / 'alice'}")
    assert "/nope: cannot be opened" in mapd.text(), "the error is also in the log"


def test_errors_caused_by_mapd_parameters_name_them(mapd, safe, keys, urtrs):
    wrong = "TLS is for the fabric tcp, not for libfabric"
    said = urtrs("map", *of(safe["libfabric"], "libfabric"), f"--tls-keys={keys / 'alice'}", code=2)
    assert wrong in said and "urtrs-mapd" not in said, said
    mapd.end()
    mapd.arguments += "tls_keys=/nope",
    mapd.start()
    said = urtrs("map", *of(safe["tcp"], "tcp"), code=1)
    assert "/nope: cannot be opened" in said and 'urtrs-mapd was started with "tls_keys=/nope", for every session' in said, said
    said = urtrs("map", *of(safe["libfabric"], "libfabric"), code=1)
    assert f'{wrong}; urtrs-mapd was started with "tls_keys=/nope"' in said, said


def test_a_session_shows_why_its_process_does_not_start(mapd, safe, keys, urtrs):
    urtrs("map", *of(safe["tcp"], "tcp"), f"--tls-keys={keys / 'alice'}")
    before, = mapd.nbdkits()
    (keys / "alice").unlink()
    os.kill(before, signal.SIGKILL)
    until("the device shows the reason", lambda: f"{keys / 'alice'}: cannot be opened" in mapd.devices()["disk0"]["sentence"])
