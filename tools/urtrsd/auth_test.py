"""urtrsd --auth-keys over libfabric: only a client that proves a shared key is accepted, and it gets the identity of the key.
A client rejects a server that does not prove the key."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
from programs import BOUND, PLUGIN, free_port, program
from tls_scene import _keys, run  # pylint: disable=unused-import

LIBFABRIC = "--fabric=libfabric"


@pytest.fixture(name="start")
def _start(urtrsd):
    return lambda *arguments, **options: urtrsd(LIBFABRIC, "--export=d=mem:16M", "--sess-queue-depth=64", *arguments, **options)


@pytest.fixture(name="server")
def _server(start, keys):
    return start(f"--auth-keys={keys / 'server'}")


def plugin(server, *parameters, name="nbdinfo --size $uri"):
    return run("nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", f"port={server.port}", "device=d", "fabric=libfabric",
               "connect_timeout=2s", "reconnect_min=200ms", *parameters, "--run", name)


def accepted(done):
    assert (done.returncode, done.stdout) == (0, "16777216\n"), done.stderr


def refused(done, *words):
    assert done.returncode != 0, done.stdout
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture(name="wrong")
def _wrong(keys):
    """Key file with a wrong key for alice."""
    assert run(program("urtrs"), "key", "new", "alice", keys / "wrong").returncode == 0
    return keys / "wrong"


def test_a_client_with_the_right_key_is_accepted(server, keys):
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))
    accepted(plugin(server, f"auth_keys={keys / 'server'}", "auth_identity=bob"))
    refused(plugin(server, f"auth_keys={keys / 'server'}"), "choose one with auth_identity")
    # The server sends a challenge for each connect, and must not log the challenge as a rejection.
    assert "key_refused" not in server.text()


def test_io_works_over_two_paths_with_several_connections(keys, tmp_path):
    port = free_port()
    with (tmp_path / "perf.log").open("w") as log, \
            subprocess.Popen([program("urtrs-perf"), f"--port={port}", LIBFABRIC, f"--auth-keys={keys / 'server'}", "--events"],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log) as server:
        try:
            def perf(key):
                return run(program("urtrs-perf"), "127.0.0.1", "127.0.0.2", f"--port={port}", LIBFABRIC, "--connections=3", "--events",
                           "--verify", "--iterations=200", f"--auth-keys={keys / key}", "--connect-timeout=5")
            done = perf("alice")
            assert done.returncode == 0, done.stdout + done.stderr
            assert run(program("urtrs"), "key", "new", "alice", keys / "wrong").returncode == 0
            assert perf("wrong").returncode != 0
        finally:
            server.kill()


def test_a_wrong_key_is_rejected(server, keys, wrong):
    refused(plugin(server, f"auth_keys={wrong}"), "key_refused", "see the server's log for the key that it refused")
    server.logged(r"peer=127\.0\.0\.1:\d+ reason=key_refused errno=13: .*: its key of alice differs from the one here; give both ends")
    assert "server's log" not in server.text(), "the text is the log of the server itself"
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))


def test_an_unknown_identity_is_rejected(server, keys):
    assert run(program("urtrs"), "key", "new", "mallory", keys / "mallory").returncode == 0
    refused(plugin(server, f"auth_keys={keys / 'mallory'}"), "key_refused")
    server.logged("reason=key_refused errno=13: .*: no key for the identity that the peer sent; give both ends")


def test_a_client_without_a_key_is_rejected(server):
    refused(plugin(server), "rejected", "the server requires a shared key", "auth_keys or --auth-keys")
    server.logged("reason=key_refused errno=13: .*: it offers no key; give both ends .*--auth-keys")


def test_auth_allow_accepts_a_client_without_a_key(start, keys, wrong):
    server = start(f"--auth-keys={keys / 'server'}", "--auth=allow")
    accepted(plugin(server))
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))
    refused(plugin(server, f"auth_keys={wrong}"), "key_refused")


@pytest.mark.parametrize("arguments", [[], ["other"]])
def test_a_client_with_a_key_rejects_a_server_without_it(start, keys, wrong, arguments):
    server = start(*[f"--auth-keys={wrong}" for _ in arguments])
    refused(plugin(server, f"auth_keys={keys / 'alice'}"), "key_refused")


def test_a_session_shows_its_identity(start, keys, tmp_path):
    server = start(f"--auth-keys={keys / 'server'}", f"--control={tmp_path / 'control'}")
    listing = f"{program('urtrs')} session list --json --socket={tmp_path / 'control'}"
    shown = plugin(server, "session=mine", f"auth_keys={keys / 'alice'}", name=listing)
    assert shown.returncode == 0, shown.stderr
    listed = json.loads(shown.stdout)["sessions"]
    assert {one["sessname"]: one["identity"] for one in listed} == {"mine": "alice"}


def test_only_listed_identities_are_accepted(start, keys):
    server = start(f"--auth-keys={keys / 'server'}", "--allow-identities=alice")
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))
    refused(plugin(server, f"auth_keys={keys / 'bob'}"), "rejected")
    server.logged("reason=not_allowed errno=13")


def test_a_reload_reads_keys_again(server, keys):
    text = (keys / "server").read_text()
    (keys / "server").write_text("".join(line for line in text.splitlines(True) if not line.startswith("bob:")))
    accepted(plugin(server, f"auth_keys={keys / 'bob'}"))
    server.process.send_signal(signal.SIGHUP)
    server.logged("shared keys were reloaded")
    refused(plugin(server, f"auth_keys={keys / 'bob'}"), "key_refused")
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))
    # If a reload finds an invalid key file, the previous keys stay in use.
    (keys / "server").write_text("alice:12\n")
    server.process.send_signal(signal.SIGHUP)
    server.logged("shared keys are unchanged: .*line 1: a key is 64 hexadecimal digits")
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))


def test_reloads_change_keys_and_auth_mode_or_nothing(urtrsd, keys, wrong, tmp_path):
    config = tmp_path / "urtrsd.toml"
    head, exported = 'fabric = "libfabric"\nsess_queue_depth = 64\n', '[[export]]\nname = "d"\nmem = "16M"\n'
    by_key = f'auth_keys = "{keys / "server"}"\n'
    config.write_text(head + by_key + exported)
    control = f"--socket={tmp_path / 'control'}"
    server = urtrsd(f"--config={config}", f"--control={tmp_path / 'control'}")
    # If the key file is invalid, the reload changes no other setting either.
    text = (keys / "server").read_text()
    (keys / "server").write_text("alice:12\n")
    config.write_text(head + by_key + exported + '[[export]]\nname = "e"\nmem = "1M"\n')
    done = run(program("urtrs"), control, "reload")
    assert done.returncode == 1 and "shared keys are unchanged" in done.stderr, done.stdout + done.stderr
    server.logged("reload: nothing was changed")
    assert '"e"' not in run(program("urtrs"), control, "export", "list", "--json").stdout
    (keys / "server").write_text(text)
    # With auth = "allow", the server accepts clients without a key, such as kernel clients, but rejects
    # clients with a wrong key.
    refused(plugin(server), "rejected")
    config.write_text(head + by_key + 'auth = "allow"\n' + exported)
    assert run(program("urtrs"), control, "reload").returncode == 0
    accepted(plugin(server))
    refused(plugin(server, f"auth_keys={wrong}"), "key_refused")
    config.write_text(head + exported)
    done = run(program("urtrs"), control, "reload")
    assert done.returncode == 0 and "clients connect without authentication" in done.stdout, done.stdout + done.stderr
    accepted(plugin(server))
    refused(plugin(server, f"auth_keys={keys / 'alice'}"), "key_refused")
    assert run(program("urtrs"), control, "reload").stdout == "", "shared keys are already off"
    config.write_text(head + by_key + exported)
    assert run(program("urtrs"), control, "reload").returncode == 0
    refused(plugin(server), "rejected")
    accepted(plugin(server, f"auth_keys={keys / 'alice'}"))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620])
def test_a_key_file_readable_by_others_is_rejected(start, keys, mode):
    (keys / "server").chmod(mode)
    server = start(f"--auth-keys={keys / 'server'}", ready=False)
    assert server.process.wait(BOUND) == 3
    assert f"chmod 600 {keys / 'server'}" in server.text()
    done = run(program("urtrsd"), LIBFABRIC, "--export=d=mem:1M", f"--auth-keys={keys / 'server'}", f"--port={free_port()}", "--check-config")
    assert done.returncode == 3 and "chmod 600" in done.stderr and "is valid" not in done.stdout, done


def test_root_can_check_the_key_file_of_the_service(keys, tmp_path):
    if os.geteuid() != 0 or run("unshare", "-m", "true").returncode != 0:
        pytest.skip("needs root that may have a mount namespace")
    users = tmp_path / "passwd"
    users.write_text(pathlib.Path("/etc/passwd").read_text().replace("\nurtrs:", "\nother:") + "urtrs:x:4242:4242::/:/bin/false\n")

    def check(owner, mode, group=None):
        os.chown(keys / "server", owner, owner if group is None else group)
        (keys / "server").chmod(mode)
        return run("unshare", "-m", "sh", "-c", f'mount --bind {users} /etc/passwd && exec "$@"', "sh", program("urtrsd"), LIBFABRIC,
                   "--export=d=mem:1M", f"--auth-keys={keys / 'server'}", f"--port={free_port()}", "--check-config")
    done = check(4242, 0o600)
    assert (done.returncode, done.stderr) == (0, "") and "is valid" in done.stdout, done
    done = check(4242, 0o640)
    assert (done.returncode, done.stderr) == (0, ""), done
    done = check(4242, 0o644)
    assert done.returncode == 3 and "its mode is 0644" in done.stderr, done
    done = check(4243, 0o600)
    assert done.returncode == 3 and "belongs to user 4243, who could change it; chown it to the user 4242 of the service" in done.stderr, done
    done = check(0, 0o600)
    remedy = f"chgrp urtrs {keys / 'server'} && chmod 640 {keys / 'server'}"
    assert done.returncode == 0 and f"cannot read it; {remedy}" in done.stderr, done
    done = check(0, 0o600, group=4242)
    assert done.returncode == 0 and f"cannot read it; {remedy}" in done.stderr, "the group has no read access"
    done = check(0, 0o640, group=4242)
    assert (done.returncode, done.stderr) == (0, ""), done
    done = check(0, 0o640, group=4243)
    assert done.returncode == 3 and "not in the group 4243" in done.stderr, done


def test_a_key_file_of_root_readable_by_the_group_is_accepted(start, keys, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files to a group")
    shared = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        shared.chmod(0o755)
        file = shared / "server"
        shutil.copy(keys / "server", file)
        os.chown(file, 0, 4242)
        file.chmod(0o440)

        def check(*groups):
            return run("setpriv", "--reuid=54321", "--regid=54321", *groups, "--", program("urtrsd"), LIBFABRIC, "--export=d=mem:1M",
                       f"--auth-keys={file}", f"--port={free_port()}", "--control=", "--check-config")
        done = check("--groups=4242")
        assert (done.returncode, done.stderr) == (0, "") and "is valid" in done.stdout, done
        done = check("--clear-groups")
        assert done.returncode == 3 and "start this process with the group 4242 of the file too" in done.stderr, done
        file.chmod(0o444)
        for groups in ("--groups=4242", "--clear-groups"):
            done = check(groups)
            assert done.returncode == 3 and "its mode is 0444" in done.stderr and "chmod 600" not in done.stderr, done
    finally:
        shutil.rmtree(shared)


def test_keys_over_tcp_are_rejected_in_favour_of_tls(urtrsd, keys):
    server = urtrsd("--export=d=mem:16M", f"--auth-keys={keys / 'server'}", ready=False)
    assert server.process.wait(BOUND) == 2
    assert "use tls_keys instead" in server.text()
    done = run("nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", "device=d", f"auth_keys={keys / 'alice'}", "--run", "true")
    assert done.returncode != 0 and "on tcp use tls_keys" in done.stderr, done.stderr


def test_traces_and_logs_contain_no_key(start, keys, tmp_path):
    server = start(f"--auth-keys={keys / 'server'}", f"--trace={tmp_path / 'server.rtrc'}", "--trace-detail=payload",
                   "--log-level=debug")
    accepted(plugin(server, f"auth_keys={keys / 'alice'}", f"trace={tmp_path / 'client.rtrc'}", "trace_detail=payload"))
    assert server.end() == 0
    key = (keys / "alice").read_text().split(":")[1].strip()
    for file in [*tmp_path.glob("*.rtrc*"), *tmp_path.glob("*.log")]:
        data = file.read_bytes()
        assert data and bytes.fromhex(key) not in data and key.encode() not in data, file
    checked = run(program("urtrs-replay"), "check", tmp_path / "server.rtrc", tmp_path / "client.rtrc")
    assert checked.returncode == 0, checked.stdout + checked.stderr
