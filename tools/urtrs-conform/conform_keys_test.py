"""urtrs-conform --auth-keys: peers that require a shared key, in both roles, and errors without the right key."""
import subprocess

import pytest
from programs import PLUGIN, free_port, program

LIMIT = 250


def run(*command):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.fixture(name="keys")
def _keys(tmp_path):
    """Makes two key files: one with two keys for the server, and one with the key of alice."""
    for name in "alice", "bob":
        assert run(program("urtrs"), "key", "new", name, tmp_path / "server").returncode == 0
    alice = tmp_path / "alice"
    alice.write_text((tmp_path / "server").read_text().splitlines(True)[0])
    alice.chmod(0o600)
    return tmp_path


def test_cases_run_against_a_server_that_requires_keys(urtrsd, keys):
    server = urtrsd("--fabric=libfabric", "--listen=127.0.0.1", "--listen=127.0.0.2", "--export=d=mem:4M", "--sess-queue-depth=48",
                    f"--auth-keys={keys / 'server'}")
    where = [program("urtrs-conform"), "--fabric=libfabric", "--target=127.0.0.1", "--target=127.0.0.2", f"--port={server.port}",
             "--role=server", "--device=d", "--quick", "--case=connect-", "--case=path-", "--case=open-"]
    done = run(*where, f"--auth-keys={keys / 'alice'}")
    assert done.returncode == 0 and done.stdout.count("[passed]") >= 35, done.stdout + done.stderr
    without = run(*where)
    assert without.returncode == 4 and "errno 13" in without.stderr, without
    several = run(*where, f"--auth-keys={keys / 'server'}")
    assert several.returncode == 3 and "choose one with auth-identity" in several.stderr, several
    chosen = run(*where, f"--auth-keys={keys / 'server'}", "--auth-identity=bob", "--case=C001")
    assert chosen.returncode == 0, chosen.stdout + chosen.stderr


def test_cases_run_against_a_client_with_a_key(keys):
    port = free_port()
    plugin = ["nbdkit", "-f", "-U", keys / "nbd.sock", PLUGIN, "path=127.0.0.1", f"port={port}", "session=judged", "device=d", "fabric=libfabric",
              f"auth_keys={keys / 'alice'}", "reconnect_max=1s", "connect_timeout=120s"]
    with subprocess.Popen(list(map(str, plugin)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as client:
        try:
            done = run(program("urtrs-conform"), "--fabric=libfabric", "--target=127.0.0.1", f"--port={port}", "--role=client",
                       "--case=C50", "--case=C52", f"--auth-keys={keys / 'server'}", "--wait=60s")
        finally:
            client.kill()
    assert done.returncode == 0 and done.stdout.count("[passed]") >= 14, done.stdout + done.stderr
