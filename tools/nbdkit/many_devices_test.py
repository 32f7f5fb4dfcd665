"""One nbdkit process for all devices of a session: exports, when devices are opened, and errors for clients."""
import contextlib
import json
import re
import signal
import socket
import subprocess
import unittest

import end_to_end_test as e2e
import pytest
from outage_test import NbdClient
from programs import BOUND, PLUGIN, until

MIB = 1 << 20


class ManyDevices(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def given(self, tmp_path, urtrsd):
        self.folder = tmp_path
        for name, size in (("a", 8), ("b", 4), ("grows", 2)):
            (tmp_path / name).write_bytes(name[:1].encode() * (size * MIB))
        self.server = e2e.start_server(urtrsd, *(f"--export={name}={tmp_path / name}" for name in ("a", "b", "grows")),
                                       f"--export=fixed={tmp_path / 'b'},ro", "--export=scratch=mem:16M")
        self.socket, self.status = tmp_path / "socket", tmp_path / "status"

    def start(self, *parameters, options=()):
        nbdkit = subprocess.Popen(
            ["nbdkit", "-f", *options, "-U", str(self.socket), PLUGIN, "path=127.0.0.1", "path=127.0.0.2",
             f"port={self.server.port}", "reconnect_min=50ms", "reconnect_max=200ms", f"status={self.status}", *parameters],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(self.folder / "log").open("wb"))
        self.addCleanup(nbdkit.wait)
        self.addCleanup(nbdkit.terminate)
        until(self.log, self.answers)
        return nbdkit

    def log(self):
        return (self.folder / "log").read_text()

    def answers(self):
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.settimeout(BOUND)
            client.connect(str(self.socket))
            return client.recv(8) == b"NBDMAGIC"
        return False

    def connect(self, export):
        client = NbdClient(self.socket, export)
        # nbdkit exits only after idle clients have disconnected.
        self.addCleanup(client.socket.close)
        return client

    def uri(self, export):
        return f"nbd+unix:///{export}?socket={self.socket}"

    def run_it(self, *command):
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def info(self, export):
        done = self.run_it("nbdinfo", "--json", self.uri(export))
        self.assertEqual(done.returncode, 0, done.stderr + self.log())
        return json.loads(done.stdout)["exports"][0]

    def devices(self):
        return {one["name"]: one for one in json.loads(self.status.read_text())["devices"]}

    def opened(self, name):
        """Returns how often the log shows an open of the device; the log is written asynchronously."""
        return len(re.findall(rf' opened "{name}" ', self.server.text()))

    def closed(self, name):
        return len(re.findall(rf' closed "{name}"', self.server.text()))

    def test_each_export_selects_the_device_of_that_name(self):
        self.start()
        self.assertEqual({name: self.info(name)["export-size"] // MIB for name in ("a", "b", "scratch")},
                         {"a": 8, "b": 4, "scratch": 16})
        for name in ("a", "b"):
            done = self.run_it("nbdcopy", self.uri(name), str(self.folder / f"{name}.copy"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.folder / f"{name}.copy").read_bytes(), (self.folder / name).read_bytes())
        done = self.run_it("nbdcopy", "--flush", str(self.folder / "a"), self.uri("scratch"))
        self.assertEqual(done.returncode, 0, done.stderr)
        until(self.server.text, lambda: self.opened("scratch") > 0)
        self.assertEqual(len(re.findall(r'name="[^"]+" peer=\S+ opened\n', self.server.text())), 1, "one session")

    def test_an_unused_device_is_closed_and_reopened_on_request(self):
        self.start()
        first, second = self.connect("a"), self.connect("a")
        until(self.server.text, lambda: self.opened("a") == 1)
        until(self.log, lambda: self.devices().get("a", {}).get("connections") == 2)
        first.socket.close()
        second.socket.close()
        until(self.server.text, lambda: self.closed("a") == 1)
        until(self.log, lambda: self.devices() == {})
        self.assertEqual(self.info("a")["export-size"], 8 * MIB)
        until(self.server.text, lambda: self.opened("a") == 2)

    def test_configured_devices_are_listed_kept_open_and_exclusive(self):
        self.start("device=a", "device=b")
        self.assertEqual(self.opened("a"), 0, "not before somebody asks for it")
        done = self.run_it("nbdinfo", "--list", "--json", f"nbd+unix:///?socket={self.socket}")
        self.assertEqual(done.returncode, 0, done.stderr)
        exports = {one["export-name"]: one for one in json.loads(done.stdout)["exports"]}
        self.assertEqual(set(exports), {"a", "b"})
        self.assertIn("127.0.0.1", exports["a"]["description"])
        self.assertEqual(self.info("b")["export-size"], 4 * MIB)
        for export in ("scratch", ""):
            self.assertNotEqual(self.run_it("nbdinfo", self.uri(export)).returncode, 0)
            words = f"no export named '{export}'; device= gives a, b"
            until(self.log, lambda words=words: words in self.log())
        self.assertEqual(set(self.devices()), {"a", "b"})
        until(self.log, lambda: self.devices()["b"]["connections"] == 0)
        until(self.server.text, lambda: self.opened("b") == 1)
        self.assertEqual((self.closed("a"), self.closed("b")), (0, 0))

    def test_unknown_devices_are_reported(self):
        self.start()
        for export, words in (("nothing", "the server exports no device named 'nothing': No such file or directory"),
                              ("", "no export is named")):
            self.assertNotEqual(self.run_it("nbdinfo", self.uri(export)).returncode, 0)
            until(self.log, lambda words=words: words in self.log())
        until(self.log, lambda: self.devices() == {})
        self.assertEqual(self.info("a")["export-size"], 8 * MIB, "the others go on")

    def test_a_write_protected_device_is_served_read_only(self):
        self.start()
        self.assertTrue(self.info("fixed")["is_read_only"])
        self.assertFalse(self.info("a")["is_read_only"])
        until(self.log, lambda: "fixed" not in self.devices() or self.devices()["fixed"]["read_only"])

    def test_access_mode_rw_does_not_fall_back_to_read_only(self):
        self.start("access_mode=rw")
        self.assertNotEqual(self.run_it("nbdinfo", self.uri("fixed")).returncode, 0)
        until(self.log, lambda: "'fixed'" in self.log())

    def test_nbdkit_read_only_applies_to_every_device(self):
        self.start(options=("-r",))
        self.assertTrue(self.info("a")["is_read_only"])
        until(self.server.text, lambda: 'opened "a" ro' in self.server.text())

    def test_a_single_device_is_served_for_every_export_name(self):
        self.start("device=b")
        for export in ("", "b", "anything"):
            self.assertEqual(self.info(export)["export-size"], 4 * MIB)
        until(self.server.text, lambda: self.opened("b") == 1)
        self.assertEqual(self.closed("b"), 0)

    def test_new_connections_see_the_new_size(self):
        self.start("device=grows", "device=a")
        self.assertEqual(self.info("grows")["export-size"], 2 * MIB)
        self.connect("a")
        self.server.end(signal.SIGKILL)
        with (self.folder / "grows").open("ab") as image:
            image.truncate(6 * MIB)
        self.server.start().ready()
        until(self.log, lambda: self.devices()["grows"]["size_bytes"] == 6 * MIB)
        self.assertEqual(self.info("grows")["export-size"], 6 * MIB)
        self.assertEqual(self.devices()["a"]["size_bytes"], 8 * MIB)

    def test_all_devices_survive_a_killed_and_restarted_server(self):
        self.start()
        copies = [subprocess.Popen(["nbdcopy", str(self.folder / name), self.uri(name)], stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True) for name in ("a", "b", "grows")]
        self.server.end(signal.SIGKILL)
        self.server.start().ready()
        for copy in copies:
            _, errors = copy.communicate()
            self.assertEqual(copy.returncode, 0, errors + self.log())
        self.assertEqual(json.loads(self.status.read_text())["request_errors"], 0)
