"""Tests NBD clients, nbdkit with the plugin, and urtrsd together."""
import hashlib
import json
import os
import re
import signal
import subprocess

import pytest
from programs import BOUND, PLUGIN, program, until

SIZE = 32 << 20


def start_server(urtrsd, *arguments):
    return urtrsd("--listen=127.0.0.1", "--listen=127.0.0.2", *arguments)


def nbdkit_command(port, run, *parameters):
    return ["nbdkit", "-f", "-U", "-", str(PLUGIN), "path=127.0.0.1", "path=127.0.0.2", f"port={port}", "reconnect_min=50ms",
            "reconnect_max=200ms", "connect_timeout=60s", *parameters, "--run", run]


def nbdkit(port, run, *parameters):
    return subprocess.run(nbdkit_command(port, run, *parameters), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)


class TestEndToEnd:
    @pytest.fixture(autouse=True)
    def given(self, tmp_path, urtrsd, ends):
        self.folder, self.ends, self.urtrsd = tmp_path, ends, urtrsd
        self.image = self.file("disk.img")
        self.image.write_bytes(b"".join(hashlib.sha512(str(i).encode()).digest() for i in range(SIZE // 64)))
        target = self.file("target")
        target.write_bytes(bytes(SIZE))
        self.server = start_server(urtrsd, f"--export=disk={self.image}", "--export=scratch=mem:32M",
                                   f"--export=fixed={self.image},ro", f"--export=target={target}")

    def file(self, name):
        return self.folder / name

    def test_a_device_can_be_copied_in_both_directions(self):
        done = nbdkit(self.server.port, f"nbdcopy $uri {self.file('copy')}", "device=disk",
                      f"trace={self.file('trace')}", f"status={self.file('status')}")
        assert done.returncode == 0, done.stderr
        assert self.file("copy").read_bytes() == self.image.read_bytes()
        status = json.loads(self.file("status").read_text())
        assert status["request_errors"] == 0
        assert len(status["paths"]) == 2
        assert self.file("trace").stat().st_size > 1000
        done = nbdkit(self.server.port, f"nbdcopy --flush {self.image} $uri && nbdcopy $uri {self.file('back')}",
                      "device=scratch")
        assert done.returncode == 0, done.stderr
        assert self.file("back").read_bytes() == self.image.read_bytes()

    def test_sigusr1_writes_the_last_trace_records(self):
        pid, seen = self.file("pid"), self.file("seen")
        os.mkfifo(seen)
        # nbdinfo succeeds only if the plugin runs. The timeout ends the test if the signal kills the plugin.
        commands = f"nbdinfo --size $uri && kill -USR1 $(cat {pid}) && timeout 60 cat {seen}"
        command = nbdkit_command(self.server.port, commands, "device=disk")
        command[1:1] = ["-P", str(pid)]
        with subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as client:
            others = []
            for told in client.stderr:
                if "last records" in told:
                    break
                others.append(told)
            else:
                pytest.fail(f"nothing was said of the last records: {others}")
            dump = self.file(f"nbdkit-urtrs-{pid.read_text().strip()}.rtrc")
            seen.write_text("go on")
            client.communicate()
        assert f"wrote the last records to {dump}" in told
        assert dump.stat().st_size > 1000
        stat = subprocess.run([program("urtrs-replay"), "stat", "--json", dump], capture_output=True, text=True, check=False)
        assert "seed" not in json.loads(stat.stdout), stat
        assert client.returncode == 0

    def test_the_export_has_the_properties_of_the_device(self):
        done = nbdkit(self.server.port, "nbdinfo --json $uri", "device=disk")
        assert done.returncode == 0, done.stderr
        export = json.loads(done.stdout)["exports"][0]
        assert export["export-size"] == SIZE
        assert export["can_multi_conn"] and export["can_flush"] and export["can_fua"]
        assert not export["is_read_only"]
        assert export["block_size_minimum"] == 512
        assert export["can_trim"] and export["can_zero"] and export["can_fast_zero"]
        assert not export["can_cache"]
        assert (export["export-name"], export["description"].split(" over ")[0]) == ("disk", "device disk")
        done = nbdkit(self.server.port, "nbdinfo --is read-only $uri", "device=fixed", "access_mode=ro")
        assert done.returncode == 0, done.stderr

    def test_io_survives_a_killed_and_restarted_server(self):
        os.mkfifo(self.file("begun"))
        commands = (f"nbdcopy {self.image} $uri & echo >{self.file('begun')}; wait $! && "
                    f"nbdcopy $uri {self.file('back')}")
        with subprocess.Popen(nbdkit_command(self.server.port, commands, "device=target",
                                             f"status={self.file('status')}"),
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
            self.file("begun").read_text()
            self.server.end(signal.SIGKILL)
            self.server.start().ready()
            _, errors = client.communicate()
        assert client.returncode == 0, errors
        assert self.file("back").read_bytes() == self.image.read_bytes()
        assert json.loads(self.file("status").read_text())["request_errors"] == 0

    def test_errors_at_the_start_are_explained(self):
        for parameters, words in (
                (("device=nothing",), "the server exports no device named 'nothing'"),
                (("device=fixed",), "the server refuses to open 'fixed' for writing: Permission denied"),
                (("device=disk", "fabric=libfabric", "provider=nonsense"), "provider 'nonsense'"),
                (("device=disk", "trace=/no/such/directory/trace"), "cannot write the trace"),
                (("device=disk", "path=@"), "the source address is empty"),
                (("device=disk", "prot=1"), "unknown parameter 'prot'")):
            done = nbdkit(self.server.port, "nbdinfo $uri", *parameters)
            assert done.returncode != 0
            assert words in done.stderr

    def test_the_device_is_opened_only_once(self):
        done = nbdkit(self.server.port, "nbdinfo --size $uri", "device=disk")
        assert done.returncode == 0, done.stderr
        self.server.end()
        assert len(re.findall(r'opened .*"disk"', self.server.text())) == 1, self.server.text()
        self.server.start().ready()

    def test_a_failed_start_in_the_background_is_reported_by_the_command(self):
        socket_file, pid = self.file("socket"), self.file("pid")
        daemon = ["nbdkit", "-P", str(pid), "-U", str(socket_file), str(PLUGIN), "path=127.0.0.1",
                  f"port={self.server.port}"]
        done = subprocess.run([*daemon, "device=nothing"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 1
        assert "the server exports no device named 'nothing'" in done.stderr
        socket_file.unlink(missing_ok=True)
        done = subprocess.run([*daemon, "device=disk"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
        self.ends.callback(os.kill, int(pid.read_text()), signal.SIGTERM)
        assert subprocess.run(["nbdinfo", "--size", f"nbd+unix:///?socket={socket_file}"], check=True,
                                        capture_output=True, text=True).stdout.strip() == str(SIZE)

    @pytest.mark.parametrize("how", [("-f",), (), ("-U", "-", "--run", "true")], ids=["foreground", "background", "run"])
    def test_a_signal_cancels_the_start(self, how):
        """The status file appears when the session starts to connect. connect_timeout is longer than the test."""
        self.server.end()
        status, socket_file = self.file("status"), self.file("socket")
        where = () if "-U" in how else ("-U", str(socket_file))
        run = how[2:] if "--run" in how else ()
        command = ["nbdkit", *(how[:2] if run else how), *where, str(PLUGIN), "path=127.0.0.1", f"port={self.server.port}",
                   "device=disk", "connect_timeout=600s", f"status={status}", *run]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
            until("the session starts to connect", lambda: status.exists() and status.stat().st_size)
            client.send_signal(signal.SIGTERM)
            _, errors = client.communicate(timeout=BOUND)
        self.server.start().ready()
        assert client.returncode == 1, errors
        assert "asked to exit before 'disk' was open" in errors
        until("the socket file is removed", lambda: not socket_file.exists())

    def test_a_server_with_another_fabric_is_not_reported_as_a_name_in_use(self):
        for fabric in "libfabric", "tcp":
            if fabric == "tcp":
                self.server.end()
                self.server = start_server(self.urtrsd, "--fabric=libfabric", f"--export=disk={self.image}")
            done = nbdkit(self.server.port, "nbdinfo $uri", "device=disk", f"fabric={fabric}", "connect_timeout=1s")
            assert done.returncode != 0
            assert "both ends use the same fabric" in done.stderr
            assert "session name" not in done.stderr
            self.server.logged("same fabric|another fabric")

    def test_read_only_of_nbdkit_opens_the_device_for_reading(self):
        holder = nbdkit_command(
            self.server.port, f"nbdinfo --size $uri; echo up >{self.file('up')}; cat {self.file('end')}", "device=disk")
        os.mkfifo(self.file("up"))
        os.mkfifo(self.file("end"))
        with subprocess.Popen(holder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
            self.file("up").read_text()
            command = nbdkit_command(self.server.port, "nbdinfo --size $uri", "device=disk")
            refused = subprocess.run(command, capture_output=True, text=True, check=False)
            command[1] = "-fr"
            read_only = subprocess.run(command, capture_output=True, text=True, check=False)
            self.file("end").write_text("now")
        assert "for writing" in refused.stderr
        assert read_only.returncode == 0, read_only.stderr

    def test_the_error_names_the_address_of_a_missing_server(self):
        self.server.end()
        done = nbdkit(self.server.port, "nbdinfo $uri", "device=disk", "connect_timeout=1s")
        self.server.start().ready()
        assert done.returncode != 0
        assert "no path came up within 1 s (connect_timeout)" in done.stderr
        assert f"no server listens at 127.0.0.1:{self.server.port}" in done.stderr

