"""Subcommands that write files never replace an existing file, including their own input."""

import fcntl
import os
import pty
import struct
import subprocess
import tempfile
import termios

import pytest
from programs import TRACES, program

PROGRAM = program("urtrs-replay")
CLIENT = os.path.join(TRACES, "seed-420-client1.rtrc")


def run(*arguments, code=0):
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    if result.returncode != code:
        raise AssertionError(f"{arguments}: exit code {result.returncode}, not {code}: {result.stderr}")
    return result.stdout if code in (0, 1) else result.stderr


def everything(path):
    return run("cat", path, "--json")


class TestOutputs:
    """An existing file is not replaced, neither directly nor through a symbolic link."""

    @pytest.fixture(autouse=True)
    def given(self, tmp_path):
        self.capture, self.json = (str(tmp_path / name) for name in ("capture.pcap", "trace.json"))
        run("pcap", CLIENT, "--output", self.capture)
        with open(self.json, "w", encoding="utf-8") as file:
            file.write(run("cat", CLIENT, "--json"))

    def commands(self, trace, out):
        return (("min", trace, "--out", out, "--shows", "Complete"), ("min", trace, "--out", out, "--rerun"),
                ("pcap", trace, "--output", out), ("seq", trace, "--html", out), ("simulate", trace, "--out", out),
                ("merge", trace, CLIENT, "--output", out), ("import", self.capture, out), ("from-json", self.json, out))

    def test_capture_above_max_size_is_refused(self, tmp_path):
        told = run("pcap", CLIENT, "--output", str(tmp_path / "long"), "--max-size", "1K", code=2)
        assert "longer than 1024 bytes; allow more with --max-size" in told
        assert not (tmp_path / "long").exists()

    def test_existing_files_are_not_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, other, link = (os.path.join(folder, name) for name in ("a.rtrc", "other", "link"))
            with open(CLIENT, "rb") as whole, open(trace, "wb") as copy:
                copy.write(whole.read())
            with open(other, "w", encoding="utf-8") as file:
                file.write("mine")
            os.symlink(trace, link)
            before = everything(trace)
            for out in (trace, other, link, folder, "/dev/null"):
                for command in self.commands(trace, out):
                    said = run(*command, code=2)
                    assert f"{out}: the file exists and is not empty" in said
            assert everything(trace) == before
            with open(other, encoding="utf-8") as file:
                assert file.read() == "mine"

    def test_empty_file_and_dangling_link_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("page", "trace"):
                os.symlink(name, os.path.join(folder, name + ".link"))
            page, short = (os.path.join(folder, name + ".link") for name in ("page", "trace"))
            with open(page, "w", encoding="utf-8"):
                pass
            run("seq", CLIENT, "--html", page)
            assert os.path.getsize(page) > 1000
            run("min", CLIENT, "--out", short, "--shows", "Complete", code=1)
            assert everything(short)
            assert os.stat(short).st_mode & 0o777 == 0o600

    def test_undocumented_standard_output_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in (("min", CLIENT, "--out", "-"), ("seq", CLIENT, "--html", "-"), ("simulate", CLIENT, "--out", "-")):
                ran = subprocess.run([PROGRAM, *command], cwd=folder, capture_output=True, text=True, timeout=120,
                                     check=False)
                assert (ran.returncode, os.listdir(folder)) == (2, []), ran.stderr
                assert "cannot write to standard output here; name a file" in ran.stderr


def on_a_terminal(columns, *arguments):
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(mine, 65536):
                text += part
        except OSError:  # EIO: the other end of the pseudo-terminal was closed
            pass
    os.close(mine)
    assert process.returncode == 0
    return text.decode().replace("\r\n", "\n").splitlines()


def test_cat_cuts_lines_only_on_a_terminal():
    whole = run("cat", CLIENT).splitlines()
    assert max(map(len, whole)) > 120
    for columns, width in ((100, 100), (0, 120)):
        cut = on_a_terminal(columns, "cat", CLIENT)
        assert [len(line) for line in cut] == [min(len(line), width) for line in whole]
        assert all(short == line or short == line[:width - 3] + "..." for short, line in zip(cut, whole))
    assert on_a_terminal(100, "cat", CLIENT, "--wide") == whole
