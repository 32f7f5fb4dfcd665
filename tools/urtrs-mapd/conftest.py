"""Fixtures: urtrs-mapd as a process, and its clients."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest
from programs import BOUND, BUILD, PLUGIN, program, until

NBDKIT = BUILD / "tools/nbdkit/nbdkit-urtrs"


def size(uri):
    """Returns the size of the device in bytes; None if there is no device."""
    done = subprocess.run(["nbdinfo", "--size", uri], capture_output=True, text=True, timeout=BOUND, check=False)
    return int(done.stdout) if done.returncode == 0 else None


class Mapd:
    """urtrs-mapd as a process. A restart uses the same state file and run-time directory."""

    def __init__(self, folder, *arguments):
        self.folder, self.arguments = folder, arguments
        self.run, self.state, self.log = folder / "run", folder / "state.json", folder / "mapd.log"
        self.process = None
        self.start()

    def start(self, ready=True):
        """Starts urtrs-mapd. The state file, the log and the nbdkit processes of an earlier start stay."""
        before = self.text()
        with self.log.open("a") as sink:
            self.process = subprocess.Popen([program("urtrs-mapd"), f"--state={self.state}", f"--nbdkit={NBDKIT}", *self.arguments],
                                            stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        if ready:
            until(lambda: f"ready in the log:\n{self.text()}", lambda: "urtrs-mapd: ready\n" in self.text()[len(before):] or self.process.poll() is not None)
            assert self.process.poll() is None, self.text()
        return self

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(BOUND)

    def ask(self, method, /, **params):
        """Returns the result or the error object."""
        return self.ask_at(next(iter(self.run.glob("urtrs-mapd-*.sock"))), method, **params)

    @staticmethod
    def ask_at(path, method, /, **params):
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(BOUND)
            end.connect(str(path))
            end.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
            with end.makefile() as lines:
                answer = json.loads(lines.readline())
        return answer.get("result", answer.get("error"))

    def sessions(self):
        return {one["session"]: one for one in self.ask("session.list")["sessions"]}

    def devices(self):
        return {one["device"]: one for one in self.ask("device.list")["devices"]}

    def nbdkits(self):
        """Returns the process ids of the nbdkits that serve sessions of this directory."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if any(word.startswith(f"control={self.run}/".encode()) for word in words) and b"exports=mapped" in words:
                found.append(int(entry.name))
        return found

    def saved(self):
        return {session["session"]: [device["device"] for device in session["devices"]]
                for session in json.loads(self.state.read_text())["sessions"]}


@pytest.fixture(name="server")
def _server(urtrsd, tmp_path, monkeypatch):
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", f"{NBDKIT.parent}:{os.environ['PATH']}")
    # The data of a memory export is lost when the server ends; the data of a file export is kept.
    with (tmp_path / "file.img").open("wb") as image:
        image.truncate(16 << 20)
    return urtrsd("--export=disk0=mem:16M", "--export=disk1=mem:1M", "--export=disk2=mem:1M", f"--export=file={tmp_path}/file.img")


@pytest.fixture(name="mapd")
def _mapd(server, tmp_path, ends):
    """urtrs-mapd with short reconnect delays. All its processes are killed at the end."""
    mapd = Mapd(tmp_path, "reconnect_min=100ms", "reconnect_max=500ms", "connect_timeout=5s")

    def clean():
        mapd.end(signal.SIGKILL)
        for pid in mapd.nbdkits():
            os.kill(pid, signal.SIGKILL)
    ends.callback(clean)
    return mapd


@pytest.fixture(name="urtrs")
def _urtrs(server):
    def urtrs(*arguments, code=0):
        """Runs urtrs. Returns standard output; if an error is expected, also standard error."""
        done = subprocess.run([program("urtrs"), *map(str, arguments)], capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert code != 0 or done.stderr == "" or "--run" in str(arguments), done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr
    return urtrs


@pytest.fixture(name="mapped")
def _mapped(mapd, server, urtrs):
    """Maps disk0 in the session HOST@127_0_0_1. Returns its URI."""
    uri = urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}").strip()
    assert re.fullmatch(r"nbd\+unix:///disk0\?socket=\S+", uri)
    return uri


@pytest.fixture(name="load")
def _load(ends):
    """load(uri) starts fio, which writes and verifies; ends_well() of the result waits for it."""
    def start(uri, loops=10):
        process = subprocess.Popen(["fio", "--name=verify", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bs=4k", "--iodepth=8",
                                    "--size=4M", "--verify=crc32c", f"--loops={loops}", "--verify_fatal=1", "--verify_state_save=0",
                                    "--rate=,8m", "--output-format=terse"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ends.callback(process.kill)

        def ends_well():
            out, _ = process.communicate(timeout=2 * BOUND)
            assert process.returncode == 0, out
        process.ends_well = ends_well
        return process
    return start
