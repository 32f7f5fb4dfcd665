#!/usr/bin/env python3
"""What one client of urtrsd does to files and disks, as others and the log see it.

usage: clients_test.py URTRSD
"""
import errno
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest

from wire_client import Client

URTRSD = os.path.abspath(sys.argv[1])
BOUND = 60  # seconds for anything that takes less than one


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, limits=()):
        log = self.folder / "log"
        with open(log, "w", encoding="utf-8") as sink:
            self.process = subprocess.Popen(
                [URTRSD, "--port=0", *arguments], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                preexec_fn=lambda: [resource.setrlimit(which, (value, value)) for which, value in limits])
        self.addCleanup(self.end)
        self.log = log
        self.logged(" ready")
        self.port = int(re.search(r"listening on 127\.0\.0\.1:(\d+)", log.read_text(encoding="utf-8")).group(1))

    def end(self):
        self.process.terminate()
        self.assertEqual(self.process.wait(BOUND), 0)

    def logged(self, pattern):
        end = time.monotonic() + BOUND
        while not re.search(pattern, self.log.read_text(encoding="utf-8")):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"no {pattern!r} in the log:\n{self.log.read_text(encoding='utf-8')}")
            time.sleep(0.02)

    def client(self, name):
        client = Client(self.port, name)
        self.addCleanup(client.close)
        return client


class Descriptors(Case):
    LIMIT = 200

    def test_files_leave_half_of_them_to_connections(self):
        for number in range(self.LIMIT):
            (self.folder / f"f{number}").write_bytes(bytes(4096))
        self.start("--export=m=mem:1M", f"--dev-search-path={self.folder}",
                   limits=[(resource.RLIMIT_NOFILE, self.LIMIT)])
        greedy = self.client("greedy")
        errors = [greedy.open(f"f{number}")[0] for number in range(self.LIMIT)]
        self.assertEqual(set(errors), {0, errno.EMFILE})
        self.assertEqual(errors.count(0), self.LIMIT // 4)  # two descriptors each
        self.assertLess(len(os.listdir(f"/proc/{self.process.pid}/fd")), self.LIMIT * 3 // 4)
        self.logged(rf'name="greedy" peer=\S+ open "f\d+" refused: {self.LIMIT // 4} files are open')
        newcomer = self.client("newcomer")
        self.assertEqual(newcomer.open("m")[0], 0)
        greedy.beat()
        greedy.close()
        end = time.monotonic() + BOUND
        while newcomer.open("f0")[0] != 0:
            self.assertLess(time.monotonic(), end, "what the greedy one had is not given back")
            time.sleep(0.05)


class DeviceLines(Case):
    def test_a_new_size_and_the_end_of_a_device_name_the_device(self):
        disk = self.folder / "disk"
        disk.write_bytes(bytes(1 << 20))
        self.start(f"--export=d={disk}")
        client = self.client("owner")
        error, device = client.open("d")
        self.assertEqual(error, 0)
        os.truncate(disk, 2 << 20)
        self.assertEqual(client.write_device(device, (1 << 20) // 512, bytes(4096)), 0)
        self.logged(r'name="owner" peer=\S+ the size of "d" changed from 1048576 to 2097152 bytes')
        client.beat()
        client.close()
        self.logged(r'closed "d"')


class FailedIo(Case):
    def test_each_failed_io_is_a_line_until_there_are_many(self):
        disk = self.folder / "disk"
        disk.write_bytes(b"")
        os.truncate(disk, 8 << 20)
        self.start(f"--export=d={disk}", limits=[(resource.RLIMIT_FSIZE, 1 << 20)])
        client = self.client("writer")
        error, device = client.open("d")
        self.assertEqual(error, 0)
        self.assertEqual(client.write_device(device, 8, bytes(4096)), 0)
        for _ in range(30):
            self.assertEqual(client.write_device(device, 4096, bytes(4096)), errno.EIO)
        line = (r'error session=0 name="writer" peer=127\.0\.0\.1:\d+ write "d" offset=2097152 length=4096 failed: '
                r'File too large \(27\)')
        self.logged(line)
        self.assertEqual(client.write_device(device, 1 << 20, bytes(4096)), errno.EIO)
        self.logged(r"\.\.\. \d+ more lines of IOs that failed in 10 s")
        lines = re.findall(line, self.log.read_text(encoding="utf-8"))
        self.assertLess(len(lines), 30)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
