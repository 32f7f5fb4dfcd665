"""Tests the control socket of nbdkit with the plugin: queries, and changes during IO."""
import json
import os
import pathlib
import socket
import subprocess

import pytest
from programs import BOUND, PLUGIN, until


class Client:
    """nbdkit with the plugin as a process, and its control socket."""

    def __init__(self, folder, *arguments, inside=()):
        self.socket, self.nbd = folder / "client.sock", folder / "nbd.sock"
        self.log = (folder / "nbdkit.log").open("a+")
        # nbdkit creates the socket file before it listens, and the file `ready` afterwards.
        ready = folder / "nbdkit.pid"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen([*inside, "nbdkit", "-f", "-U", self.nbd, "-P", ready, PLUGIN, *arguments,
                                         f"control={self.socket}"], stdin=subprocess.DEVNULL, stderr=self.log)
        until("nbdkit listens or has exited", lambda: ready.exists() and self.socket.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def text(self):
        return pathlib.Path(self.log.name).read_text()

    def uri(self, device="disk0"):
        return f"nbd+unix:///{device}?socket={self.nbd}"

    def ask(self, method, **params):
        """Returns the result or the error object."""
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(BOUND)
            end.connect(str(self.socket))
            end.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
            with end.makefile() as lines:
                answer = json.loads(lines.readline())
        return answer.get("result", answer.get("error"))

    def answers(self):
        try:
            return self.states() is not None
        except ConnectionRefusedError:
            return False

    def session(self):
        return self.ask("client.show")["sessions"][0]

    def states(self):
        return [path["state"] for path in self.session()["paths"]]

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(BOUND)


def client_with_etc(folder, ends, name, text):
    """Returns the file mounted as /etc/NAME for nbdkit, which a test may change, and a function to start nbdkit."""
    file = folder / name
    file.write_text(text)
    inside = ["unshare", "-m", "sh", "-c", f'mount --make-rprivate / && mount --bind "$0" /etc/{name} && exec "$@"', str(file)]
    if os.geteuid() != 0 or subprocess.run([*inside, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip(f"no mount of its own for /etc/{name}")

    def start(*arguments):
        client = Client(folder, *arguments, "device=disk", "reconnect_min=100ms", "reconnect_max=500ms", inside=inside)
        ends.callback(client.end)
        until("the control socket answers", client.answers)
        return client
    return file, start


@pytest.fixture(name="server")
def _server(urtrsd, tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    fixed = tmp_path / "fixed.img"
    fixed.write_bytes(bytes(1 << 20))
    return urtrsd("--export=disk0=mem:16M", "--export=disk1=mem:1M", f"--export=fixed={fixed},ro")


@pytest.fixture(name="client")
def _client(server, tmp_path, ends):
    client = Client(tmp_path, f"path=127.0.0.1@127.0.0.1:{server.port}", f"port={server.port}", "session=web1", "reconnect_min=100ms",
                    "reconnect_max=500ms")

    def ended_well():
        assert client.end() == 0, client.text()
    ends.callback(ended_well)
    # The socket file exists before the process listens on the socket.
    until("the control socket answers", client.answers)
    until("the path is up", lambda: client.states() == ["connected"])
    return client


def test_show_lists_session_paths_and_devices(client):
    subprocess.run(["nbdinfo", client.uri()], check=True, capture_output=True, timeout=BOUND)
    shown = client.ask("client.show")
    session = shown["sessions"][0]
    assert (session["name"], session["state"], session["policy"], session["mp_short"]) == ("web1", "connected", "min-inflight", "MI")
    path, = session["paths"]
    assert path["pathname"] == "ip:127.0.0.1@ip:127.0.0.1"
    assert (path["state"], path["hca_name"], path["attempt"], path["reconnects"]) == ("connected", "tcp", 0, 0)
    assert shown["pid"] == client.process.pid
    assert shown["devices"][0]["mapping_path"] == "disk0"
    assert shown["devices"][0]["size_bytes"] == 16 << 20


def test_paths_are_added_removed_and_disconnected_under_io(client, server):
    """fio verifies its data while paths are added, disconnected and removed."""
    load = subprocess.Popen(["fio", "--name=verify", "--ioengine=nbd", f"--uri={client.uri()}", "--rw=randwrite", "--bs=4k", "--iodepth=8",
                             "--size=4M", "--verify=crc32c", "--loops=20", "--verify_fatal=1", "--verify_state_save=0",
                             "--output-format=terse"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until("fio writes", lambda: client.session()["paths"][0]["ios"] > 100)
        added = client.ask("path.add", path="127.0.0.2@127.0.0.1")
        assert added["path"] == 1, added
        until("both paths are up", lambda: client.states() == ["connected", "connected"])
        for _ in range(3):
            assert "message" not in client.ask("path.disconnect", path="ip:127.0.0.2@ip:127.0.0.1")
            until("the disconnected path is closed", lambda: client.states() == ["connected", "closed"])
            assert client.ask("session.recover")["paths"] == 1
            until("the path is connected again", lambda: client.states() == ["connected", "connected"])
            assert load.poll() is None, "fio ended too early"
        for policy in "rr", "min-latency", "mi":
            assert "message" not in client.ask("session.policy", policy=policy)
        assert "message" not in client.ask("path.reconnect", path="0")
        until("the path is connected again", lambda: client.states() == ["connected", "connected"])
        assert "message" not in client.ask("path.remove", path="0")
        until("the path is removed", lambda: client.states() == ["connected"])
        assert client.session()["paths"][0]["pathname"] == "ip:127.0.0.2@ip:127.0.0.1"
        assert client.ask("path.add", path="127.0.0.1@127.0.0.1")["path"] == 0, "its place was free"
        until("both paths are up", lambda: client.states() == ["connected", "connected"])
        until("both carry IO", lambda: all(path["ios"] > 0 for path in client.session()["paths"]))
        assert load.poll() is None, "fio ended too early"
    finally:
        out, _ = load.communicate(timeout=BOUND)
    assert load.returncode == 0, out
    assert client.ask("stats")["stats"]["errors"] == 0


def test_a_dead_path_shows_its_attempts(client, server):
    server.end(9)
    until("attempts fail", lambda: client.session()["paths"][0]["attempt"] >= 2)
    path = until("the path waits for the next attempt", lambda: next((p for p in client.session()["paths"] if p["state"] == "waiting"), None))
    assert path["reason"] == "connect_refused" and path["errno"] == 111
    assert 0 <= path["next_s"] <= 2
    assert client.session()["state"] == "disconnected"
    server.start().ready()
    until("the path is connected again", lambda: client.states() == ["connected"])
    assert client.session()["reconnects"] == 1


def test_devices_are_mapped_and_unmapped(client, server):
    assert client.ask("device.map", device="nothing")["data"]["errno"] == 2
    assert client.ask("device.list")["devices"] == []
    assert client.ask("device.map", device="disk1", access_mode="ro")["device"] == "disk1"
    device, = client.ask("device.list")["devices"]
    assert (device["state"], device["access_mode"], device["kept"], device["users"]) == ("open", "ro", True, 0)
    listed = subprocess.run(["nbdinfo", "--list", "--json", f"nbd+unix:///?socket={client.nbd}"], check=True, capture_output=True, timeout=BOUND)
    assert [one["export-name"] for one in json.loads(listed.stdout)["exports"]] == ["disk1"]
    assert client.ask("device.remap", device="disk1")["data"]["errno"] == 114
    assert "message" not in client.ask("device.unmap", device="disk1")
    until("the device is no longer listed", lambda: client.ask("device.list")["devices"] == [])
    assert client.ask("device.unmap", device="disk1")["data"]["errno"] == 2


def test_a_rejected_mapping_keeps_the_previous_one(client):
    assert client.ask("device.map", device="fixed", access_mode="ro")["device"] == "fixed"
    assert client.ask("device.map", device="fixed", access_mode="rw")["data"]["errno"] in (13, 30)

    def shown():
        device, = client.ask("device.list")["devices"]
        return device["state"], device["access_mode"], device["kept"]
    until("the device is open read-only again", lambda: shown() == ("open", "ro", True))
    assert "message" not in client.ask("device.unmap", device="fixed")
    until("the device is no longer listed", lambda: client.ask("device.list")["devices"] == [])


def test_a_device_in_use_read_only_cannot_be_mapped_for_writing(client, ends):
    use = subprocess.Popen(["/usr/bin/python3", "-m", "nbd", "-u", client.uri("fixed"), "-c",
                            "import sys; print('open', flush=True); sys.stdin.readline()", "-c", "h.pread(512, 0)"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends.callback(use.kill)
    assert use.stdout.readline() == "open\n"
    assert client.ask("device.map", device="fixed", access_mode="rw")["data"]["errno"] == 30
    assert client.ask("device.map", device="fixed", access_mode="ro")["device"] == "fixed"
    device, = client.ask("device.list")["devices"]
    assert (device["state"], device["access_mode"], device["kept"]) == ("open", "ro", True)
    use.communicate("\n", timeout=BOUND)
    assert use.returncode == 0


def test_unmapping_a_device_in_use_requires_force(client, ends):
    use = subprocess.Popen(["/usr/bin/python3", "-m", "nbd", "-u", client.uri(), "-c", "import sys; print('open', flush=True); sys.stdin.readline()",
                            "-c", "h.pread(512, 0)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ends.callback(use.kill)
    assert use.stdout.readline() == "open\n"
    assert client.ask("device.unmap", device="disk0")["data"]["errno"] == 16
    assert client.ask("device.map", device="disk0", access_mode="ro")["data"]["errno"] == 16
    assert "message" not in client.ask("device.unmap", device="disk0", force="true")
    until("the device is closed", lambda: client.ask("device.list")["devices"][0]["state"] == "idle")
    _, error = use.communicate("\n", timeout=BOUND)
    assert use.returncode != 0 and "pread" in error, error
    subprocess.run(["nbdcopy", client.uri(), "null:"], check=True, timeout=BOUND)


def test_watchers_receive_events(client, server):
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(BOUND)
        end.connect(str(client.socket))
        end.sendall(b'{"jsonrpc":"2.0","id":1,"method":"events.watch"}\n')
        lines = end.makefile()
        assert json.loads(lines.readline())["result"]["schema_version"] == 1
        client.ask("path.disconnect", path="0")
        client.ask("session.recover")
        events = []
        while not any(one.get("state") == "connected" for one in events):
            events.append(json.loads(lines.readline())["params"])
    assert {"link_down", "link_up", "path"} <= {one["what"] for one in events} | {"link_up"}
    lost = next(one for one in events if one.get("state") in ("closing", "draining"))
    assert lost["reason"] == "requested" and lost["session"] == "web1"
    assert lost["pathname"] == "ip:127.0.0.1@ip:127.0.0.1"
    assert [one["serial"] for one in events] == list(range(1, len(events) + 1))


def test_watchers_receive_failovers(client):
    """Repeats the disconnect until a disconnected path had requests in flight, because only then a failover happens."""
    load = subprocess.Popen(["fio", "--name=load", "--ioengine=nbd", f"--uri={client.uri()}", "--rw=randread", "--bs=4k", "--iodepth=32",
                             "--size=4M", "--time_based", "--runtime=600", "--output-format=terse"], stdout=subprocess.DEVNULL)
    try:
        assert client.ask("path.add", path="127.0.0.2@127.0.0.1")["path"] == 1
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(BOUND)
            end.connect(str(client.socket))
            end.sendall(b'{"jsonrpc":"2.0","id":1,"method":"events.watch"}\n')
            lines = end.makefile()
            lines.readline()
            told = None
            while told is None:
                until("both paths carry IO", lambda: client.states() == ["connected"] * 2 and all(p["inflight"] for p in client.session()["paths"]))
                client.ask("path.disconnect", path="1")
                before = client.session()["paths"][0]["failovers"]
                client.ask("session.recover")
                while before and told is None:
                    event = json.loads(lines.readline())["params"]
                    told = event if event["what"] == "failover" else None
        assert (told["path"], told["pathname"], told["session"]) == (0, "ip:127.0.0.1@ip:127.0.0.1", "web1")
        assert told["requests"] >= 1
        path = client.session()["paths"][0]
        assert path["answer_time"]["read"]["count"] > 100 and path["answer_time"]["write"]["count"] == 0
        assert 0 < path["answer_time"]["read"]["mean_us"] <= path["answer_time"]["read"]["max_us"]
    finally:
        load.terminate()
        load.wait(BOUND)


def test_the_default_socket_is_in_the_runtime_folder_and_is_removed_at_exit(server, tmp_path):
    folder = tmp_path / "run"
    command = ["nbdkit", "-U", "-", PLUGIN, f"path=127.0.0.1:{server.port}", "device=disk0"]
    done = subprocess.run([*command, "--run", f"ls {folder}"], check=True, capture_output=True, text=True, timeout=BOUND)
    assert any(name.startswith("client-") and name.endswith(".sock") for name in done.stdout.split()), done.stdout
    assert [name for name in os.listdir(folder) if name.startswith("client-")] == []
    done = subprocess.run([*command, "control=", "--run", f"ls {folder}"], check=True, capture_output=True, text=True, timeout=BOUND)
    assert "client-" not in done.stdout


def test_a_socket_in_use_fails_the_start(client, server):
    done = subprocess.run(["nbdkit", "-f", "-U", "-", PLUGIN, f"path=127.0.0.1:{server.port}", "device=disk0", f"control={client.socket}",
                           "--run", "true"], check=False, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode != 0 and "another process listens on it" in done.stderr
    assert client.states() == ["connected"]


def test_other_users_may_query_but_not_change(client, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    assert client.socket.stat().st_mode & 0o777 == 0o660
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    client.socket.chmod(0o666)
    lines = "".join(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}) + "\n" for method in ("client.show", "path.remove", "session.recover"))
    script = ("import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(sys.argv[2].encode());"
              "f=s.makefile();[print(f.readline(),end='') for _ in sys.argv[2].splitlines()]")
    done = subprocess.run(["python3", "-c", script, client.socket, lines], capture_output=True, text=True, check=True, user=65534, group=65534,
                          extra_groups=[12345])
    look, *refused = (json.loads(line) for line in done.stdout.splitlines())
    assert "result" in look
    assert [one["error"]["data"]["errno"] for one in refused] == [1, 1]


def test_a_flood_of_requests_does_not_stop_io(client):
    with socket.socket(socket.AF_UNIX) as flood:
        flood.connect(str(client.socket))
        flood.setblocking(False)
        try:
            while True:
                flood.send(b'{"jsonrpc":"2.0","id":1,"method":"client.show"}\n' * 100)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        subprocess.run(["nbdcopy", client.uri(), "null:"], check=True, timeout=BOUND)


def test_a_mapped_device_keeps_its_mode_until_it_is_mapped_again(client):
    assert client.ask("device.map", device="disk1", access_mode="ro")["device"] == "disk1"
    done = subprocess.run(["nbdinfo", "--is", "read-only", client.uri("disk1")], check=False, timeout=BOUND)
    assert done.returncode == 0
    assert client.ask("device.list")["devices"][0]["access_mode"] == "ro"
    assert client.ask("device.map", device="disk1", access_mode="rw")["device"] == "disk1", "nobody has it open"
    done = subprocess.run(["nbdinfo", "--is", "read-only", client.uri("disk1")], check=False, timeout=BOUND)
    assert done.returncode == 2


def test_exports_mapped_allows_only_mapped_devices(server, tmp_path, ends):
    client = Client(tmp_path, f"path=127.0.0.1:{server.port}", "exports=mapped")
    ends.callback(client.end)

    def opens(device):
        return subprocess.run(["nbdinfo", "--size", client.uri(device)], check=False, capture_output=True, timeout=BOUND).returncode == 0
    assert not opens("disk0")
    until("the log has the reason", lambda: "is not mapped" in client.text())
    assert client.ask("device.map", device="disk0")["device"] == "disk0"
    assert opens("disk0") and not opens("disk1")
    assert "message" not in client.ask("device.unmap", device="disk0")
    assert not opens("disk0")


def test_a_mapping_without_a_server_fails_with_the_reason_of_the_start(tmp_path, ends):
    """The message must not show the state of the paths after the failed start, which is "closed by an operator"."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(tmp_path, f"path=127.0.0.1:{silent.getsockname()[1]}", "exports=mapped", "connect_timeout=2s")
        ends.callback(client.end)
        refusal = client.ask("device.map", device="disk0")
        assert "no path came up within 2 s (connect_timeout)" in refusal["message"], refusal
        assert "no answer to the connect request" in refusal["message"], refusal
        assert "requested by an operator" not in refusal["message"], refusal
        assert client.process.wait(BOUND) == 1


def is_read_only(client, device):
    return subprocess.run(["nbdinfo", "--is", "read-only", client.uri(device)], check=False, timeout=BOUND).returncode == 0


def test_unmapping_restores_the_configured_mode(server, tmp_path, ends):
    """Devices of the parameter device= stay in the list, and are opened in the mode that the parameters set."""
    client = Client(tmp_path, f"path=127.0.0.1:{server.port}", "device=disk0", "device=disk1")
    ends.callback(client.end)
    until("the control socket answers", client.answers)
    assert client.ask("device.map", device="disk1", access_mode="ro")["device"] == "disk1"
    assert is_read_only(client, "disk1")
    assert "message" not in client.ask("device.unmap", device="disk1")
    until("the device is closed", lambda: {one["mapping_path"]: one["state"] for one in client.ask("device.list")["devices"]}["disk1"] == "idle")
    assert not is_read_only(client, "disk1")


def test_a_rejected_change_of_mode_keeps_the_previous_mode(client, ends):
    assert client.ask("device.map", device="disk1", access_mode="ro")["device"] == "disk1"
    use = subprocess.Popen(["/usr/bin/python3", "-m", "nbd", "-u", client.uri("disk1"), "-c",
                            "import sys; print('open', flush=True); sys.stdin.readline()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends.callback(use.kill)
    assert use.stdout.readline() == "open\n"
    assert client.ask("device.map", device="disk1", access_mode="rw")["data"]["errno"] == 16
    use.communicate("\n", timeout=BOUND)
    until("the device has no user", lambda: client.ask("device.list")["devices"][0]["users"] == 0)
    assert is_read_only(client, "disk1") and client.ask("device.list")["devices"][0]["access_mode"] == "ro"
