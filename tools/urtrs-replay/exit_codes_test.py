"""Tests the exit codes of the commands of urtrs-replay."""

import os
import resource
import re
import struct
import subprocess

import pytest
from programs import ROOT, TRACES, program

PROGRAM = program("urtrs-replay")
CLIENT = os.path.join(TRACES, "seed-420-client1.rtrc")
SERVER = os.path.join(TRACES, "seed-420-server.rtrc")
OTHER = os.path.join(TRACES, "seed-0-client1.rtrc")


def run(*arguments, code):
    ran = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    if ran.returncode != code:
        raise AssertionError(f"{arguments}: exit code {ran.returncode}, not {code}: {ran.stderr}")
    return ran.stdout


class TestExitCodes:
    """Tests the table in docs/replay.md."""

    @pytest.fixture(autouse=True)
    def given(self, tmp_path):
        self.folder = tmp_path
        self.cut, self.text = (os.path.join(self.folder, name) for name in ("cut.rtrc", "text"))
        with open(CLIENT, "rb") as file:
            whole = file.read()
        with open(self.cut, "wb") as file:
            file.write(whole[:-20])
        with open(self.text, "w", encoding="utf-8") as file:
            file.write("no trace\n")

    def test_help_lists_the_documented_codes(self):
        with open(os.path.join(ROOT, "docs/replay.md"), encoding="utf-8") as file:
            codes = set(re.findall(r"^\| (\d) \|", file.read(), re.MULTILINE))
        told = run("--help", code=0).split("Exit codes:")[1]
        assert codes == set(re.findall(r"\b(\d) (?!in\b)", told)) == set("012345")

    def verbs(self, trace):
        out = str(self.folder / "out")
        return (("cat", trace), ("stat", trace), ("why", trace), ("replay", trace), ("seq", trace), ("merge", trace, SERVER),
                ("diff", trace, CLIENT), ("grep", trace, "--event", "Complete"), ("grep", trace, "--permit", "60000"),
                ("min", trace, "--out", out), ("min", trace, "--out", out + "2", "--rerun"),
                ("simulate", trace, "--out", out, "--seeds", "1"))

    def test_damaged_trace(self):
        for command in self.verbs(self.cut):
            run(*command, code=5)
        run("check", self.cut, code=3)

    def test_trace_given_twice_is_refused(self):
        link = self.folder / "link"
        link.symlink_to(CLIENT)
        for verb in "check", "merge", "seq", "why":
            run(verb, CLIENT, SERVER, CLIENT, code=2)
            run(verb, CLIENT, link, code=2)
        assert "given twice; give each trace once" in subprocess.run([PROGRAM, "check", CLIENT, CLIENT], capture_output=True, text=True,
                                                                      timeout=120, check=False).stderr

    def test_negative_result_of_a_damaged_trace(self):
        assert "first difference" in run("diff", self.cut, OTHER, code=1)
        run("min", self.cut, "--out", os.path.join(self.folder, "shown"), "--shows", "Complete", code=1)

    def test_missing_end_of_a_damaged_trace_is_no_difference(self):
        with open(CLIENT, "rb") as file:
            whole = file.read()
        with open(self.cut, "wb") as file:
            file.write(whole[:whole.rindex(b"BLK1") + 50])
        for pair in ((self.cut, CLIENT), (CLIENT, self.cut)):
            assert "nothing more in " + self.cut in run("diff", *pair, code=5)

    def test_trace_above_max_size(self):
        size = os.path.getsize(CLIENT)
        for command in (("min", CLIENT, "--out", os.path.join(self.folder, "a")),
                        ("simulate", CLIENT, "--seeds", "1", "--out", os.path.join(self.folder, "b"))):
            run(*command, "--max-size", f"{size - 1}B", code=3)
            assert not os.path.exists(command[-1])
            run(*command, "--max-size", f"{size}B", code=0)
            run(*command, "--max-size", "much", code=2)

    def test_foreign_file_missing_file_and_full_output(self):
        for command in self.verbs(self.text):
            run(*command, code=3)
        for command in self.verbs(os.path.join(self.folder, "nothing")):
            run(*command, code=2)
        run("cat", self.folder, code=2)
        for command in (("cat", CLIENT), ("diff", CLIENT, CLIENT), ("grep", CLIENT)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                ran = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.DEVNULL, timeout=120, check=False)
            assert ran.returncode == 2, command

    def test_full_disk_is_reported_as_a_write_error(self):
        lines, trace = self.folder / "lines.json", self.folder / "again.rtrc"
        with open(lines, "w", encoding="utf-8") as file:
            subprocess.run([PROGRAM, "cat", "--json", CLIENT], stdout=file, timeout=120, check=True)
        # Python ignores SIGXFSZ and the process inherits this, so the write fails with EFBIG.
        ran = subprocess.run([PROGRAM, "from-json", lines, trace], capture_output=True, text=True, timeout=120, check=False,
                             restore_signals=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        assert (ran.returncode, ran.stderr) == (2, f"urtrs-replay: cannot write {trace}: File too large\n")

    def test_tcp_connection_without_a_valid_setup_is_counted(self):
        def capture(name, payload):
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
            tcp = struct.pack(">HHIIBBHHH", 40000, 1234, 1, 0, 0x50, 0x18, 1000, 0, 0)
            frame = bytes(12) + b"\x08\0" + ip + tcp + payload
            path = self.folder / "tcp.pcap"
            path.write_bytes(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1) +
                             struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame)
            ran = subprocess.run([PROGRAM, "import", path, self.folder / f"{name}.rtrc"], capture_output=True, text=True, timeout=120,
                                 check=False)
            assert ran.returncode == 3
            return ran.stderr
        counted = "1 TCP segments, 1 of unknown connections"
        assert counted in capture("mpa", b"MPA ID Req Frame\x10\x02\0\0")
        assert counted in capture("http", b"GET / HTTP/1.1\r\n")
        assert "encrypted by TLS" in capture("tls", b"\x16\3\1\0\x80")
