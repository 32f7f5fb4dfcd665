"""Server and clients in containers without io_uring and /proc, with a read-only root, and with group-readable keys."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import confined
import pytest
from programs import BOUND, PLUGIN, ROOT, Urtrsd, program, until

CONFINED = [sys.executable, str(ROOT / "tools/lib/testing/confined.py")]
SIZE = 1 << 20


@pytest.fixture(name="folder")
def _folder():
    """Directory that the container may write to. It is not below tmp_path, because only one user can enter tmp_path."""
    if os.geteuid() != 0 or subprocess.run([*CONFINED, "/tmp", "test", "-x", program("urtrsd")], check=False).returncode != 0:
        pytest.skip("needs root that may make user and mount namespaces, and a build that all users may enter")
    with tempfile.TemporaryDirectory(prefix="urtrs-confined-") as name:
        folder = pathlib.Path(name)
        (folder / "disk.img").write_bytes(os.urandom(SIZE))
        for path in (folder, folder / "disk.img"):
            os.chown(path, confined.FIRST_ID + confined.USER, confined.FIRST_ID + confined.USER)
        yield folder


@pytest.fixture(name="keys")
def _keys(folder):
    """Key file with owner root:GROUP and mode 0440."""
    file = folder / "keys"
    subprocess.run([program("urtrs"), "key", "new", "web", file], check=True, stdout=subprocess.DEVNULL)
    os.chown(file, confined.FIRST_ID, confined.FIRST_ID + confined.GROUP)
    file.chmod(0o440)
    return file


def contained(folder, *command, options=(), **how):
    """Runs a command in the container. `how`: arguments of subprocess.Popen."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "HFI_NO_BACKTRACE": "1", "IPATH_NO_BACKTRACE": "1"}
    return subprocess.Popen([*CONFINED, *options, str(folder), *map(str, command)], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)


def ended(process):
    text = process.communicate(timeout=BOUND)[0]
    return process.returncode, text


class Contained(Urtrsd):
    def __init__(self, folder, log, *arguments):
        self.folder = folder
        super().__init__(log, *arguments)

    def start(self):
        with self.log.open("a", encoding="utf-8") as sink:
            self.begin = sink.tell()
            self.process = subprocess.Popen([*CONFINED, str(self.folder), program("urtrsd"), f"--port={self.port}", "--control=",
                                             *map(str, self.arguments)], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        return self


@pytest.fixture(name="server")
def _server(folder, keys, tmp_path):
    server = Contained(folder, tmp_path / "urtrsd.log", f"--export=disk={folder / 'disk.img'}", f"--dev-search-path={folder}",
                       f"--tls-keys={keys}").ready()
    yield server
    assert server.end() == 0, server.text()


def client(folder, keys, server, device, command):
    return contained(folder, "nbdkit", "-f", "-U", folder / f"{device}.sock", PLUGIN, "path=127.0.0.1", f"port={server.port}", f"device={device}",
                     f"tls_keys={keys}", "connect_timeout=20s", "--run", command, options=["--host=web"])


def test_data_is_copied_to_and_from_an_export(folder, keys, server):
    assert len(re.findall("warning.*io_uring cannot be used", server.text())) == 1, server.text()
    assert "Operation not permitted (1)" in server.text() and "seccomp profile" in server.text()
    before = (folder / "disk.img").read_bytes()
    code, text = ended(client(folder, keys, server, "disk", f'nbdcopy "$uri" {folder}/read.img'))
    assert code == 0, text
    assert (folder / "read.img").read_bytes() == before
    after = os.urandom(SIZE)
    (folder / "new.img").write_bytes(after)
    (folder / "new.img").chmod(0o644)
    code, text = ended(client(folder, keys, server, "disk.img", f'nbdcopy --flush {folder}/new.img "$uri"'))
    assert code == 0, text
    assert (folder / "disk.img").read_bytes() == after


def test_the_check_reports_the_same_error_as_the_start(folder, keys):
    check = [program("urtrsd"), f"--export=disk={folder / 'disk.img'}", f"--tls-keys={keys}", "--check-config", "--control=", "--port=0"]
    code, text = ended(contained(folder, *check))
    assert code == 0 and "storage engine: threads" in text and "io_uring cannot be used" in text, text
    code, text = ended(contained(folder, *check, options=["--no-groups"]))
    assert code == 3 and f"start this process with the group {confined.GROUP} of the file too" in text, text
    assert "chmod 600" not in text and "chown" not in text, "the advice must not take the key from other readers"


def test_doctor_reports_the_configuration_of_urtrsd(folder):
    text = ended(contained(folder, program("urtrs"), "doctor"))[1]
    assert re.search("warn +storage engine +urtrsd would use threads", text) and "seccomp profile" in text, text
    assert re.search("warn +/proc ", text), text


def test_hosts_of_the_same_name_connect_at_the_same_time(folder, keys, server):
    for name in ("a.img", "b.img"):
        shutil.copy(folder / "disk.img", folder / name)
        os.chown(folder / name, confined.FIRST_ID + confined.USER, confined.FIRST_ID + confined.USER)
    hold = f'nbdinfo --size "$uri" && touch {folder}/DEVICE.up && while [ ! -e {folder}/go ]; do sleep 0.05; done'
    clients = {name: client(folder, keys, server, name, hold.replace("DEVICE", name)) for name in ("a.img", "b.img")}
    until(server.text, lambda: all((folder / f"{name}.up").exists() for name in clients) or any(one.poll() is not None for one in clients.values()))
    (folder / "go").touch()
    for name, one in clients.items():
        code, text = ended(one)
        assert code == 0 and str(SIZE) in text, f"{name}: {text}"
