"""Runs the commands of README.md and docs/nbdkit.md on this host, with loopback addresses, small numbers and paths
below a temporary folder. NOT_RUN lists the commands that cannot run here, each with a reason; any other command is
run."""
import filecmp
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from example_lines import ended, here, shell
from programs import BOUND, BUILD, ROOT, TRACES, free_port, program, until

PAGES = ("README.md", "docs/nbdkit.md")
NOT_RUN = {
    r"tools/(demo|test)\b": "tools/demo and tools/test are the whole of it",
    r"tools/install-deps|^cmake |^ldconfig|^apt ": "builds and installs: install_test, tools/dev/package-test",
    r"^nbd-client|--nbd$|^urtrs unmap disk1": "a block device of the kernel",
}


def lines():
    """Yields the commands of all code blocks without comments; lines continued by a backslash are joined."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines() if not language else ():
            if command := re.sub(r" # .*", "", line).strip():
                yield re.sub(r" +", " ", command)


def reason(line):
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


def test_each_exception_matches_a_command():
    """Fails if an entry of NOT_RUN matches no command of the pages."""
    for pattern in NOT_RUN:
        assert any(re.search(pattern, line) for line in lines()), pattern


class Host:
    """Server and client host: processes that a command started keep running for the next commands."""

    def __init__(self, folder, ends):
        self.folder, self.ends, self.ports, self.nbdkit = folder, ends, {}, None  # ports: by server address
        self.root = folder / "root"  # replaces / in the paths of README
        self.root.mkdir()
        ends.callback(self.end_nbdkit)

    def start(self, name, *words):
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([program(name.removesuffix("-tls")), *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.ends.callback(process.wait, BOUND)
        self.ends.callback(process.terminate)
        return process

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text()

    def end_nbdkit(self):
        """Ends nbdkit before the next command: a session has only one client, and a device only one writer."""
        if self.nbdkit and self.nbdkit.exists():
            pid = int(self.nbdkit.read_text())
            os.kill(pid, signal.SIGTERM)
            until("nbdkit has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.nbdkit = None

    def run(self, line):
        first = line.split()[0]
        if first == "urtrsd":
            log = "urtrsd-tls" if "--tls-keys" in line else "urtrsd"
            self.ports[log] = free_port()
            self.start(log, *line.split()[1:], f"--port={self.ports[log]}", "--listen=127.0.2.1", "--export=disk1=mem:1M")
            until(lambda: self.log_of(log), lambda: " ready\n" in self.log_of(log))
        elif line == "systemctl enable --now urtrs-mapd":
            self.start("urtrs-mapd", f"--state={self.folder}/state.json", "--end-devices", f"--nbdkit={BUILD}/tools/nbdkit/nbdkit-urtrs")
            until("urtrs-mapd is ready", lambda: "ready\n" in self.log_of("urtrs-mapd"))
        else:
            self.run_to_its_end(line, first)

    def run_to_its_end(self, line, first):
        allowed, wants_output = {0}, first.startswith("urtrs") and not re.search(r"path add|device map|key new", line)
        if first == "nbdkit-urtrs":
            self.end_nbdkit()
            shell("urtrs unmap disk0", self.folder)
            port = self.ports["urtrsd-tls" if "tls_keys=" in line else "urtrsd"]
            line = line.replace("nbdkit-urtrs ", f"nbdkit-urtrs port={port} reconnect_max=1s ")
            if "--run" not in line:
                self.nbdkit = self.folder / f"nbdkit-{len(list(self.folder.glob('*.pid')))}.pid"
                line = line.replace("nbdkit-urtrs ", f"nbdkit-urtrs -P {self.nbdkit} ")
            wants_output = False
        if line.startswith("urtrs map "):
            line += f" --port={self.ports['urtrsd']}"
        if line == "urtrs doctor":
            allowed = {0, 1}  # `doctor` exits with 1 when it finds a problem
        done = shell(ended(line), self.folder)
        assert done.returncode in allowed, (line, done.stdout, done.stderr, self.log_of("urtrsd"))
        assert done.stdout or not wants_output, line


@pytest.fixture(name="host")
def _host(tmp_path, ends, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "runtime"))
    for name, source in (("trace", "seed-420-client1"), ("client", "seed-420-client1"), ("server", "seed-420-server")):
        shutil.copy(TRACES / f"{source}.rtrc", tmp_path / f"{name}.rtrc")
    host = Host(tmp_path, ends)
    (host.root / "disk0.img").write_bytes(os.urandom(1 << 20))
    return host


def test_commands_work(host):
    """Runs the commands in the order of the page, as a reader types them."""
    ran = []
    for line in lines():
        if reason(line) is None:
            host.run(here(line, host.root))
            ran.append(line)
    assert len(ran) > 20
    assert ran[0].startswith("urtrsd ") and ran[1].startswith("nbdkit-urtrs "), "the first two commands must allow IO"
    for copy in ("copy.img", "disk0.img"):  # without a device name, and named after a device
        assert filecmp.cmp(host.folder / copy, host.root / "disk0.img", shallow=False), copy
