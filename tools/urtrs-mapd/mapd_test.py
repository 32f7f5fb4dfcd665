"""urtrs-mapd keeps devices mapped, also if they share a session, and after urtrs-mapd or nbdkit was killed."""
import grp
import json
import os
import re
import signal
import socket
import subprocess

import pytest
from conftest import Mapd, size
from programs import BOUND, free_port, program, until


def test_two_devices_share_a_session_and_its_process(mapd, server, mapped, urtrs):
    second = urtrs("map", "disk1", "from", "127.0.0.1").strip()
    assert second.replace("disk1", "disk0") == mapped
    assert (size(mapped), size(second)) == (16 << 20, 1 << 20)
    session, = mapd.sessions().values()
    assert session["devices"] == 2
    assert [session["pid"]] == mapd.nbdkits()
    listed = json.loads(urtrs("client", "device", "list", "--json"))["devices"]
    assert {one["mapping_path"]: one["state"] for one in listed} == {"disk0": "open", "disk1": "open"}
    assert mapd.saved() == {session["session"]: ["disk0", "disk1"]}
    assert mapd.state.stat().st_mode & 0o777 == 0o600


def test_unmapped_devices_cannot_be_opened(mapd, mapped, urtrs):
    assert size(mapped.replace("disk0", "disk2")) is None
    urtrs("map", "disk2", "from", "127.0.0.1", "ro")
    assert subprocess.run(["nbdinfo", "--is", "read-only", mapped.replace("disk0", "disk2")], check=False, timeout=BOUND).returncode == 0


def test_unmapping_the_last_device_ends_the_session(mapd, mapped, urtrs):
    urtrs("map", "disk1", "from", "127.0.0.1")
    urtrs("unmap", "disk1")
    assert list(mapd.devices()) == ["disk0"]
    assert size(mapped.replace("disk0", "disk1")) is None
    urtrs("unmap", "disk0")
    assert mapd.devices() == {}
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])
    until("the files of the session are removed", lambda: [name for name in os.listdir(mapd.run) if "127_0_0_1" in name] == [])
    assert mapd.saved() == {}
    assert "is mapped" in urtrs("unmap", "disk0", code=1)


def test_unmapping_a_device_in_use_requires_force(mapd, mapped, urtrs, ends):
    use = subprocess.Popen(["/usr/bin/python3", "-m", "nbd", "-u", mapped, "-c", "import sys; print('open', flush=True); sys.stdin.readline()"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends.callback(use.kill)
    assert use.stdout.readline() == "open\n"
    assert "\"force\" closes it anyway" in urtrs("unmap", "disk0", code=1)
    assert mapd.saved() != {}
    urtrs("unmap", "disk0", "force")
    assert mapd.saved() == {}


@pytest.mark.parametrize("fault", ["the server stands still", "there is no server"])
def test_unmap_cancels_a_pending_map(mapd, server, urtrs, fault):
    if fault == "the server stands still":
        urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}")
    server.process.send_signal(signal.SIGSTOP)
    port = server.port if fault == "the server stands still" else free_port()
    asks = subprocess.Popen([program("urtrs"), "map", "disk1", "from", "127.0.0.1", f"--port={port}"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    until("the device is being mapped", lambda: mapd.devices().get("disk1", {}).get("state") == "mapping")
    urtrs("unmap", "disk1")
    assert asks.wait(BOUND) == 1
    assert "Operation canceled; it was unmapped meanwhile" in asks.stderr.read()
    assert "disk1" not in mapd.devices()
    server.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("words", [(), ("--run", "true")])
def test_a_signal_cancels_a_pending_map(mapd, server, words):
    asks = subprocess.Popen([program("urtrs"), "map", "disk1", "from", "127.0.0.1", f"--port={free_port()}", *words], stderr=subprocess.PIPE)
    until("the device is being mapped", lambda: mapd.devices().get("disk1", {}).get("state") == "mapping")
    asks.send_signal(signal.SIGINT)
    assert asks.wait(BOUND) == 128 + signal.SIGINT
    assert asks.stderr.read() == b""
    assert mapd.devices() == {}


def test_remap_reopens_a_rejected_device_at_once(mapd, server, mapped, urtrs):
    assert "it is already open" in urtrs("remap", "disk0", code=1)
    urtrs("export", "remove", "disk0", "force")
    copy = subprocess.Popen(["nbdcopy", mapped, "null:"])
    until("the server has rejected the device", lambda: mapd.ask_at(mapd.sessions().popitem()[1]["control"], "device.list")["devices"][0]["state"] == "closed")
    urtrs("export", "add", "disk0=mem:16M")
    until("the device is open again", lambda: "already in progress" in subprocess.run([program("urtrs"), "remap", "disk0"], capture_output=True, text=True,
                                                                             check=False, timeout=BOUND).stderr)
    # The exit code of fio does not matter, because requests were in flight when the export was removed.
    copy.wait(BOUND)
    subprocess.run(["nbdcopy", mapped, "null:"], check=True, timeout=BOUND)
    assert "no device \"disk7\" is mapped" in urtrs("remap", "disk7", code=1)


def test_sessions_are_named_after_host_and_server(mapd, server, mapped, urtrs):
    uri = urtrs("map", "disk1", "from", "web1", "127.0.0.2@127.0.0.1", "rw", f"--port={server.port}").strip()
    assert size(uri) == 1 << 20
    host = os.uname().nodename.split(".")[0]
    assert sorted(mapd.sessions()) == sorted([f"{host}@127_0_0_1", f"{host}@web1"])
    urtrs("map", "disk2", "from", "web1")
    assert mapd.devices()["disk2"]["session"] == f"{host}@web1"
    assert "has other paths" in urtrs("map", "disk0", "from", "web1", "127.0.0.3", code=1)
    assert f"uses port {server.port}, not 7; use another name for the server" in urtrs("map", "disk0", "from", "web1", "--port=7", code=1)
    assert "uses the fabric tcp, not verbs" in urtrs("map", "disk0", "from", "web1", "--fabric=verbs", code=1)
    urtrs("map", "disk0", "from", "web1", "ip:127.0.0.2,ip:127.0.0.1", "ro")
    assert "have a device \"disk0\"" in urtrs("unmap", "disk0", code=1)
    urtrs("unmap", "disk0", "web1")  # short name of the session, as users write it after "from"
    assert list(mapd.sessions()[f"{host}@127_0_0_1"]["paths"]) == ["127.0.0.1"]


def test_rejected_mappings_leave_no_state(mapd, server, mapped, urtrs):
    assert "the server exports no device named 'nothing'" in urtrs("map", "nothing", "from", "127.0.0.1", code=1)
    said = urtrs("map", "disk0", "from", "other", "127.0.0.2@127.0.0.1", f"--port={server.port}", code=1)
    assert "the server refuses to open 'disk0' for writing" in said and "one writer at a time" in said, "the message is that of the plugin"
    assert "write a path after a name for the server: \"urtrs map disk1 from NAME 127.0.0.2@127.0.0.1\"" in \
        urtrs("map", "disk1", "from", "127.0.0.2@127.0.0.1", code=2)
    assert "File exists" in urtrs("map", "disk0", "from", "127.0.0.1", code=1)
    assert urtrs("map", "disk0", "from", "127.0.0.1", "--idempotent").strip() == mapped
    assert "File exists" in urtrs("map", "disk0", "from", "127.0.0.1", "ro", "--idempotent", code=1), "mapped in another mode"
    answer = json.loads(urtrs("map", "disk1", "from", "127.0.0.9", "--port=1", "--json", code=1))
    assert answer["error"]["errno"] == 107 and "connection refused" in answer["error"]["message"]
    for wrong in ("../x", "a b@c", "h@" + 60 * "x"):
        assert mapd.ask("device.map", device="disk1", session=wrong, paths="127.0.0.1")["data"]["errno"] == 22, wrong
    for device in ("a\nb", "", 255 * "x"):
        assert mapd.ask("device.map", device=device, **{"from": "127.0.0.1"})["data"]["errno"] == 22, device
    assert "has no parameter" in mapd.ask("device.map", devise="disk1")["message"]
    assert mapd.ask("device.map", device="disk1", session="nobody")["data"]["errno"] == 2
    assert "must be a string" in mapd.ask("device.list", session=5)["message"]
    assert "zero byte" in mapd.ask("device.unmap", device="disk0\0x")["message"]
    assert "did you mean \"device.map\"" in mapd.ask("device.mpa")["data"]["hint"]
    assert mapd.ask("device.map", device="disk1", session="s", **{"from": "127.0.0.1"})["data"]["errno"] == 22, "both"
    for key, value in (("port", "0"), ("port", "70000"), ("port", "-1"), ("fabric", "ib"), ("access_mode", "wr"), ("paths", "a@b@c"),
                       ("paths", " ".join(f"127.0.0.{i}" for i in range(1, 130)))):
        assert mapd.ask("device.map", device="disk1", session="s", **{"paths": "127.0.0.1", key: value})["data"]["errno"] == 22, (key, value)
    assert list(mapd.devices()) == ["disk0"]
    until("only one nbdkit runs", lambda: len(mapd.nbdkits()) == 1)


def test_a_restarted_mapd_takes_over_processes_and_io_continues(mapd, mapped, load):
    before = mapd.nbdkits()
    fio = load(mapped)
    until("fio writes", lambda: mapd.devices()["disk0"]["users"] > 0)
    for _ in range(3):
        mapd.end(signal.SIGKILL)
        mapd.start()
        until("the device is shown as mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
        assert mapd.nbdkits() == before
    assert fio.poll() is None, "fio ended too early"
    assert mapd.end() == 0
    assert mapd.nbdkits() == before, "SIGTERM stops no process"
    assert fio.poll() is None, "fio ended too early"
    mapd.start()
    fio.ends_well()
    assert mapd.sessions().popitem()[1]["restarts"] == 0


def test_all_sessions_are_taken_over(mapd, server, mapped, urtrs):
    for device, name in (("disk1", "a"), ("disk2", "b")):
        urtrs("map", device, "from", name, "127.0.0.1", f"--port={server.port}")
    before = sorted(mapd.nbdkits())
    for how in (signal.SIGTERM, signal.SIGKILL):
        mapd.end(how)
        mapd.start()
        until("each device is shown as mapped", lambda: {one["state"] for one in mapd.devices().values()} == {"mapped"})
        assert sorted(one["pid"] for one in mapd.sessions().values()) == before == sorted(mapd.nbdkits())
    assert "runs already" not in mapd.text()
    for device in ("disk0", "disk1", "disk2"):
        urtrs("unmap", device)
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])


def test_a_killed_nbdkit_is_restarted(mapd, mapped):
    for again in range(1, 4):
        pid, = mapd.nbdkits()
        os.kill(pid, signal.SIGKILL)
        until("another process serves the session", lambda pid=pid: mapd.nbdkits() not in ([], [pid]))
        until("the device is mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
        assert size(mapped) == 16 << 20
        assert mapd.sessions().popitem()[1]["restarts"] == again
    pauses = [float(text) for text in re.findall(r"restarting it in ([0-9.]+) s", mapd.text())]
    assert pauses == [0.2, 0.4, 0.8]


def test_io_survives_a_killed_and_restarted_server(mapd, server, mapped, urtrs, load):
    fio = load(urtrs("map", "file", "from", "127.0.0.1").strip(), loops=20)
    until("fio writes", lambda: mapd.devices()["file"]["users"] > 0)
    for _ in range(2):
        server.end(9)
        until("the device shows the lost connection", lambda: "connection refused" in mapd.devices()["file"]["sentence"])
        assert mapd.devices()["file"]["state"] == "waiting"
        server.start().ready()
        until("the session is connected again", lambda: mapd.devices()["file"]["sentence"] == "")
        assert mapd.devices()["file"]["state"] == "mapped"
    assert fio.poll() is None, "fio ended too early"
    fio.ends_well()
    assert size(mapped) == 16 << 20
    assert mapd.sessions().popitem()[1]["restarts"] == 0


def test_devices_are_mapped_once_the_server_starts(mapd, server, mapped):
    mapd.end(signal.SIGKILL)
    for pid in mapd.nbdkits():
        os.kill(pid, signal.SIGKILL)
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])
    server.end(9)
    mapd.start()
    until("the process was restarted", lambda: mapd.sessions().popitem()[1]["restarts"] >= 1)
    assert mapd.devices()["disk0"]["state"] in ("waiting", "mapping")
    server.start().ready()
    until("the device is mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    assert size(mapped) == 16 << 20


def test_the_error_names_the_limit_that_was_reached(mapd, mapped, urtrs):
    mapd.end()
    state = json.loads(mapd.state.read_text())
    session, = state["sessions"]
    session["devices"] += [{**session["devices"][0], "device": f"more{number}"} for number in range(63)]
    mapd.state.write_text(json.dumps(state))
    mapd.start()
    refused = urtrs("map", "disk1", "from", session["session"], code=1)
    assert "a session has at most 64 devices" in refused and "another name for the server" in refused
    assert size(mapped) == 16 << 20


def test_a_session_missing_in_the_state_file_is_ended_at_the_start(mapd, mapped):
    mapd.end()
    mapd.state.write_text('{"schema_version": 1, "sessions": []}')
    mapd.start()
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])
    assert size(mapped) is None


def test_a_device_rejected_after_mapping_waits(mapd, server, mapped, urtrs):
    urtrs("export", "remove", "disk0", "force")
    copy = subprocess.Popen(["nbdcopy", mapped, "null:"])
    until("the device waits for the server", lambda: mapd.devices()["disk0"]["state"] == "waiting")
    shown, = json.loads(urtrs("mapping", "list", "--json"))["mappings"]
    assert shown["errno"] == 2
    assert "the server refuses it: No such file" in shown["sentence"]
    urtrs("export", "add", "disk0=mem:16M")
    until("the device is mapped again", lambda: (mapd.devices()["disk0"]["state"], mapd.devices()["disk0"]["errno"]) == ("mapped", 0))
    copy.wait(BOUND)


def test_a_second_mapd_on_the_same_folder_or_file_is_rejected(mapd, mapped, tmp_path):
    for run, state in ((mapd.run, tmp_path / "other.json"), (tmp_path / "other", mapd.state)):
        done = subprocess.run([program("urtrs-mapd"), f"--state={state}"], capture_output=True, text=True, timeout=BOUND, check=False,
                              env={**os.environ, "URTRS_RUNTIME_DIR": str(run)})
        assert done.returncode == 3 and "another urtrs-mapd uses" in done.stderr
    assert size(mapped) == 16 << 20


def test_end_devices_stops_the_processes_at_exit(server, mapd, mapped):
    mapd.end()
    mapd.arguments = (*mapd.arguments, "--end-devices")
    mapd.start()
    until("the device is shown as mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")
    assert mapd.end() == 0
    assert mapd.nbdkits() == []
    assert mapd.saved() != {}, "the next urtrs-mapd maps them again"
    mapd.start()
    until("the device is mapped", lambda: mapd.devices()["disk0"]["state"] == "mapped")


def test_a_device_unmapped_in_the_client_is_mapped_again(mapd, mapped, urtrs):
    urtrs("client", "device", "unmap", "disk0")
    until("the device is served again", lambda: size(mapped) == 16 << 20)


def test_a_hanging_nbdkit_does_not_delay_other_sessions(mapd, server, mapped, urtrs, ends):
    pid, = mapd.nbdkits()
    os.kill(pid, signal.SIGSTOP)
    ends.callback(os.kill, pid, signal.SIGCONT)
    uri = urtrs("map", "disk1", "from", "other", "127.0.0.2@127.0.0.1", f"--port={server.port}").strip()
    assert size(uri) == 1 << 20
    assert mapd.devices()["disk0"]["state"] == "mapped"


def test_completion_offers_mapped_devices_and_sessions(mapd, mapped, urtrs):
    host = os.uname().nodename.split(".")[0]
    assert urtrs("complete", "unmap", "").split() == ["disk0"]
    assert urtrs("complete", "unmap", "disk0", "").split() == [f"{host}@127_0_0_1"]
    assert urtrs("complete", "map", "disk1", "from", "").split() == [f"{host}@127_0_0_1"]
    assert urtrs("complete", "mapping", "show", "di").split() == ["disk0"]


def test_other_users_may_query_but_not_change(mapd, mapped):
    if os.geteuid() != 0:
        return
    path, = mapd.run.glob("urtrs-mapd-*.sock")
    assert path.stat().st_mode & 0o777 == 0o660
    for folder in (mapd.folder, *mapd.folder.parents[:3]):
        folder.chmod(0o755)
    path.chmod(0o666)
    methods = "device.list", "session.list", "device.map", "device.unmap", "device.remap"
    lines = "".join(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}) + "\n" for method in methods)
    script = ("import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(sys.argv[2].encode());"
              "f=s.makefile();[print(f.readline(),end='') for _ in sys.argv[2].splitlines()]")
    done = subprocess.run(["python3", "-c", script, path, lines], capture_output=True, text=True, check=True, user=65534, group=65534,
                          extra_groups=[12345])
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["result" in one for one in answers] == [True, True, False, False, False]
    assert [one["error"]["data"]["errno"] for one in answers[2:]] == [1, 1, 1]
    assert list(mapd.devices()) == ["disk0"]


def test_the_sockets_of_a_session_are_not_accessible_to_other_users(mapd, mapped):
    session, = mapd.sessions().values()
    for path in (session["socket"], session["control"]):
        assert os.stat(path).st_mode & 0o002 == 0
    assert mapd.ask_at(session["control"], "client.show")["sessions"][0]["name"] == session["name"]


def test_doctor_reports_mapped_devices(mapd, mapped):
    done = subprocess.run([program("urtrs"), "doctor", "--json"], capture_output=True, text=True, timeout=BOUND, check=False)
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert (found["urtrs-mapd"]["grade"], found["urtrs-mapd"]["what"]) == ("ok", "1 device")
    assert "mapped devices" not in found


def test_the_control_group_owns_all_sockets(server, tmp_path, urtrs, ends):
    if os.geteuid() != 0:
        pytest.skip("needs to be root")
    group = next(one for one in grp.getgrall() if one.gr_gid not in (0, 65534))
    mapd = Mapd(tmp_path, "--end-devices", f"--control-group={group.gr_name}")
    ends.callback(mapd.end)
    urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}")
    sockets = list(mapd.run.glob("urtrs-mapd-*.sock")) + list(mapd.run.glob("client-map-*.sock"))
    assert [one.stat().st_gid for one in sockets] == [group.gr_gid] * 2, sockets


def test_users_counts_nbd_connections(mapd, mapped, ends):
    assert mapd.devices()["disk0"]["users"] == 0
    use = subprocess.Popen(["/usr/bin/python3", "-m", "nbd", "-u", mapped, "-c", "import sys; print('open', flush=True); sys.stdin.readline()"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends.callback(use.kill)
    assert use.stdout.readline() == "open\n"
    until("the device has a user", lambda: (mapd.devices()["disk0"]["users"], mapd.devices()["disk0"]["size_bytes"]) == (1, 16 << 20))
    use.communicate("\n", timeout=BOUND)
    until("the device has no user", lambda: mapd.devices()["disk0"]["users"] == 0)


def test_leftover_files_of_removed_sessions_are_deleted(mapd, mapped):
    mapd.end()
    for pid in mapd.nbdkits():
        os.kill(pid, signal.SIGKILL)
    until("nbdkit has exited", lambda: mapd.nbdkits() == [])
    left = {file.name for file in mapd.run.iterdir() if file.name.startswith(("map-", "nbd-", "client-map-"))}
    assert len(left) == 3, left
    mapd.state.write_text('{"schema_version": 1, "sessions": []}')
    mapd.start()
    assert not left & {file.name for file in mapd.run.iterdir()}


def test_readiness_is_reported_to_the_service_manager(server, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(BOUND)
        monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
        mapd = Mapd(tmp_path)
        assert manager.recv(4096) == b"READY=1\n"
        assert mapd.end() == 0
        assert manager.recv(4096) == b"STOPPING=1\n"
