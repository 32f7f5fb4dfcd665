"""A running client uses replaced keys and certificates from its next connection attempt on, without a restart."""
import json
import signal
import subprocess
import time
import urllib.request

import pytest
from programs import BOUND, PLUGIN, accepts, free_port, program, until
from tls_scene import _keys, _pki, run  # pylint: disable=unused-import

SIZE = "16777216\n"


def replaced(path, text, mode=0o600):
    """Replaces a file atomically, as an administrator should."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(mode)
    new.rename(path)


class Client:
    """nbdkit with the plugin, running for the whole test."""

    def __init__(self, folder, server, *parameters):
        self.server, self.socket, self.log = server, folder / "nbd", folder / "client.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["nbdkit", "-f", "-U", str(self.socket), PLUGIN, "path=127.0.0.1", f"port={server.port}", "device=d", "session=mine",
                 "control=auto", "reconnect_min=200ms", "reconnect_max=500ms", *map(str, parameters)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: "nbdkit listens\n" + self.text(), lambda: accepts(self.socket))
        until(lambda: "the path is connected\n" + self.text(), lambda: self.path().get("state") == "connected")

    def text(self):
        return self.log.read_text()

    def path(self):
        done = run(program("urtrs"), "client", "path", "list", "--json")
        paths = json.loads(done.stdout)["paths"] if done.returncode == 0 else []
        return paths[0] if paths else {}

    def reconnect(self):
        """Disconnects the path and starts to reconnect it."""
        for verb in "disconnect", "reconnect":
            done = run(program("urtrs"), "client", "path", verb, "mine", "0")
            assert done.returncode == 0, done.stderr

    def works_again(self):
        """Reconnects the path and checks that IO works."""
        self.reconnect()
        until(lambda: "the path is connected again\n" + self.text() + self.server.text(),
              lambda: self.path().get("state") == "connected")
        done = run("nbdinfo", "--size", f"nbd+unix:///?socket={self.socket}")
        assert (done.returncode, done.stdout) == (0, SIZE), done.stderr
        assert self.process.poll() is None

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(BOUND)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Separate run-time directory, so that urtrs finds only the control sockets of this test."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.fixture(name="client")
def _client(tmp_path):
    clients = []

    def start(server, *parameters):
        clients.append(Client(tmp_path, server, *parameters))
        return clients[-1]
    yield start
    for client in clients:
        client.end()


@pytest.fixture(name="start")
def _start(urtrsd):
    return lambda *arguments: urtrsd("--export=d=mem:16M", "--sess-queue-depth=64", *arguments)


def new_key(folder, name):
    """Generates a key for the identity. Returns its line for a key file."""
    file = folder / "fresh"
    file.unlink(missing_ok=True)
    assert run(program("urtrs"), "key", "new", name, file).returncode == 0
    return file.read_text()


def reloaded(server, said):
    before = server.text().count(said)
    server.process.send_signal(signal.SIGHUP)
    until("the server has read its files again", lambda: server.text().count(said) > before)


# For each fabric: the prefix of the options, and the log text of a successful reload.
FABRICS = {"tcp": ("tls", "keys and certificates were reloaded"), "libfabric": ("auth", "shared keys were reloaded")}


@pytest.mark.parametrize("fabric", FABRICS)
def test_a_key_rotated_on_both_sides_is_used_without_a_restart(start, client, keys, fabric):
    option, said = FABRICS[fabric]
    server = start(f"--fabric={fabric}", f"--{option}-keys={keys / 'server'}")
    mine = client(server, f"fabric={fabric}", f"{option}_keys={keys / 'alice'}")
    mine.works_again()
    line = new_key(keys, "alice")
    (keys / "server").write_text(line)
    reloaded(server, said)
    # The client still has the old key, so the server rejects it. After the key file is replaced, it must
    # connect without a restart.
    mine.reconnect()
    until(lambda: "the old key is refused\n" + mine.text(), lambda: mine.path().get("reason") in ("tls_failed", "key_refused"))
    replaced(keys / "alice", line)
    until(lambda: "the new key is used\n" + mine.text() + server.text(), lambda: mine.path().get("state") == "connected")
    mine.works_again()


@pytest.mark.parametrize("fabric", FABRICS)
def test_an_invalid_key_file_keeps_the_previous_key_with_one_warning(start, client, keys, fabric):
    option, _ = FABRICS[fabric]
    server = start(f"--fabric={fabric}", f"--{option}-keys={keys / 'server'}")
    mine = client(server, f"fabric={fabric}", f"{option}_keys={keys / 'alice'}")
    good = (keys / "alice").read_text()
    for broken, why in ((good[:20] + "\n", "line 1: a key is 64 hexadecimal digits"), ("", "no key in it")):
        replaced(keys / "alice", broken)
        for _ in range(3):
            mine.works_again()
        assert mine.text().count(why) == 1, mine.text()
        assert "the previous content stays in use" in mine.text()
    (keys / "alice").unlink()
    mine.works_again()
    assert mine.text().count(f"{keys / 'alice'}: cannot be opened: No such file or directory (2)") == 1, mine.text()
    replaced(keys / "alice", good, 0o644)
    mine.works_again()
    assert "its mode is 0644" in mine.text()
    replaced(keys / "alice", good)
    mine.works_again()


def test_a_certificate_renewed_by_another_ca_is_used_without_a_restart(start, client, pki, tmp_path):
    certificate, key = pki.issue("server")
    head = f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={pki.ca}"
    server = start(*head)
    folder = tmp_path / "own"
    folder.mkdir()
    for name, source in zip(("cert", "key", "ca"), (*pki.issue("carl"), pki.ca)):
        replaced(folder / name, source.read_text())
    mine = client(server, f"tls_cert={folder / 'cert'}", f"tls_key={folder / 'key'}", f"tls_ca={folder / 'ca'}")
    # The new certificate does not match the old private key, so the client must keep using the old pair.
    renewed = pki.issue("dora")
    replaced(folder / "cert", renewed[0].read_text())
    mine.works_again()
    assert mine.text().count("not the key of the certificate") == 1, mine.text()
    replaced(folder / "key", renewed[1].read_text())
    mine.works_again()
    listed = json.loads(run(program("urtrs"), "session", "list", "--json").stdout)
    assert [one["identity"] for one in listed["sessions"]] == ["dora"]


def test_warnings_precede_the_expiry_of_a_certificate(start, client, pki):
    certificate, key = pki.issue("late", 9)
    files = tuple(zip(("cert", "key", "ca"), (certificate, key, pki.ca)))
    address = f"127.0.0.1:{free_port()}"
    server = start(*(f"--tls-{option}={file}" for option, file in files), f"--metrics={address}")
    warning = f"{certificate}: the certificate expires in "
    server.logged(f"warning {warning}[89] days")
    mine = client(server, *(f"tls_{option}={file}" for option, file in files))
    assert warning in mine.text()
    for view in ("session", "list"), ("client", "session", "list"):
        assert f"urtrs: warning: {warning}" in run(program("urtrs"), *view).stderr
        shown = run(program("urtrs"), *view, "--json")
        assert shown.returncode == 0 and shown.stderr == ""
    checks = json.loads(run(program("urtrs"), "doctor", "--json").stdout)["checks"]
    told = [one["what"] for one in checks if one["check"] == "certificates"]
    assert [f"{whose}: {warning}" in line for whose, line in zip((f"urtrsd-{server.process.pid}.sock", "client session mine"), told)] == [True] * 2
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=BOUND) as answer:
        metrics = answer.read().decode()
    when, = (float(line.split()[-1]) for line in metrics.splitlines()
             if line.startswith("urtrs_tls_expiry_timestamp_seconds{") and 'what="certificate"' in line)
    assert 8 * 86400 < when - time.time() <= 9 * 86400
    # After the renewal, no view may print a warning.
    for old, new in zip((certificate, key), pki.issue("late", 99)):
        replaced(old, new.read_text())
    reloaded(server, "keys and certificates were reloaded")
    mine.works_again()
    for view in ("session", "list"), ("client", "session", "list"):
        assert run(program("urtrs"), *view).stderr == ""
