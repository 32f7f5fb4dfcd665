"""urtrs-replay live: sends the requests of a recorded client to a running server."""
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from programs import BOUND, PLUGIN, free_port, program
from schemas import fits

REPLAY = program("urtrs-replay")
SIZE = 1 << 20
# Overlapping writes in sequence, a read of unwritten blocks, a discard, a flush.
WORK = ("h.pwrite(b'a' * 8192, 0); h.pwrite(b'b' * 4096, 4096); h.pwrite(b'c' * 512, 100 * 512); h.pread(4096, 4096); "
        "h.zero(512, 100 * 512); h.pwrite(b'd' * 512, 101 * 512); h.trim(4096, 64 * 1024); h.flush(); "
        # Eight reads in parallel.
        "b = [nbd.Buffer(4096) for _ in range(8)]; c = [h.aio_pread(one, 65536) for one in b]; "
        "[h.poll(-1) for _ in iter(h.aio_in_flight, 0)]; [h.aio_command_completed(one) for one in c]")


def image(file, content=b""):
    file.write_bytes(content + bytes(SIZE - len(content)))
    return file


@pytest.fixture(name="traced", scope="module")
def _traced(tmp_path_factory):
    """Returns the trace of a session and the image of its device. The server has stopped."""
    folder = tmp_path_factory.mktemp("traced")
    disk = image(folder / "disk.img")
    return folder, disk


@pytest.fixture(name="record")
def _record(traced, urtrsd):
    folder, disk = traced

    def record(detail):
        trace = folder / f"{detail}.rtrc"
        if not trace.exists():
            image(disk)
            server = urtrsd(f"--export=disk={disk}")
            subprocess.run(["nbdkit", "-U", "-", PLUGIN, "path=127.0.0.1", f"port={server.port}", "session=web1", "device=disk",
                            f"trace={trace}", f"trace_detail={detail}", "--run", f"/usr/bin/python3 -m nbd -u $uri -c {shlex.quote(WORK)}"],
                           check=True, timeout=BOUND)
            server.end()
        return trace
    return record


def live(trace, *words, code=0):
    done = subprocess.run([REPLAY, "live", trace, *words], capture_output=True, text=True, timeout=2 * BOUND, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def answer(trace, *words, code=0):
    done = subprocess.run([REPLAY, "live", trace, "--json", *words], capture_output=True, text=True, timeout=2 * BOUND, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    fits(done.stdout, "urtrs-replay", "live")
    return json.loads(done.stdout)


def test_equal_server_has_no_differences_and_the_same_blocks(record, traced, urtrsd, tmp_path):
    trace = record("payload")
    other = image(tmp_path / "other.img", b"other")
    server = urtrsd(f"--export=disk={other}")
    at = ("path=127.0.0.1", f"port={server.port}")
    assert "6 requests that change blocks" in live(trace, *at, code=2)
    skipped = answer(trace, *at, "--writes", "skip")
    assert (skipped["differences"], skipped["left_out"]) == ([], 6)
    assert other.read_bytes()[:5] == b"other"
    sent = answer(trace, *at, "--writes", "send", "--as-recorded")
    assert (sent["differences"], sent["left_out"], sent["unanswered"]) == ([], 0, 0)
    assert sent["asked"] >= 9 and sent["latency_ns"]["p50"]["live"] > 0
    assert other.read_bytes() == traced[1].read_bytes()
    assert "0 differences" in live(trace, *at, "--writes=send")


def test_writes_without_recorded_payload_are_zeroes(record, urtrsd, tmp_path):
    other = image(tmp_path / "other.img", b"x" * 16384)
    server = urtrsd(f"--export=disk={other}")
    answer(record("wire"), "path=127.0.0.1", f"port={server.port}", "--writes", "send")
    assert other.read_bytes() == bytes(8192) + b"x" * 8192 + bytes(SIZE - 16384), "only the blocks that the trace wrote"


def test_first_difference_has_field_and_position(record, urtrsd):
    server = urtrsd("--export=disk=mem:512k", "--export=elsewhere=mem:1M")
    at = ("path=127.0.0.1", f"port={server.port}", "--writes", "skip")
    first = answer(record("wire"), *at, code=1)["differences"][0]
    assert {**first, "record": 0} == {"request": "OPEN \"disk\" rw", "field": "nsectors", "record": 0, "offset": 8, "recorded": "2048",
                                      "live": "1024"}
    assert "nsectors (bytes 8 to 15 of the answer): recorded 2048, live 1024" in live(record("wire"), *at, code=1)
    assert "nsectors" not in live(record("wire"), *at, "device=elsewhere", code=1), "only the cache policy differs"
    refused = answer(record("wire"), *at, "device=nothing", code=1)
    assert [(one["field"], one["live"]) for one in refused["differences"]] == [("errno", "2 (No such file or directory)")]
    assert refused["asked"] == 1 and refused["without_device"] > 0


def test_granted_limits_are_compared(record, urtrsd, tmp_path):
    server = urtrsd(f"--export=disk={image(tmp_path / 'd')}", "--max-chunk-size=8192", "--sess-queue-depth=4")
    found = answer(record("wire"), "path=127.0.0.1", f"port={server.port}", "--writes", "send", code=1)["differences"]
    assert [(one["request"], one["field"], one["live"]) for one in found[:2]] == [("the session", "max_io_size", "4096"),
                                                                                 ("the session", "queue_depth", "4")]
    assert any(one["live"] == "8192 bytes exceed the maximum of 4096 of an IO" for one in found)


def test_silent_server_times_out(record, urtrsd, tmp_path):
    server = urtrsd(f"--export=disk={image(tmp_path / 'd')},delay_ms=60000")
    found = answer(record("wire"), "path=127.0.0.1", f"port={server.port}", "--writes", "skip", "--patience=1s", code=1)
    assert [one["live"] for one in found["differences"]] == ["no answer"], "no request is sent after the timeout"
    server.process.kill()
    server.process.wait()


@pytest.mark.parametrize("words, code, said", [
    ([], 2, "path= is missing"), (["path"], 2, "is not a parameter KEY=VALUE"), (["trace=x", "path=::1"], 2, "only for the plugin"),
    (["path=127.0.0.1", "frobnicate=1"], 2, "unknown parameter"), (["path=127.0.0.1", "--writes=all"], 2, "--writes"),
    (["path=127.0.0.1", "device=a", "device=b", "--writes=skip"], 2, "device= requires a trace with one device"),
    (["path=127.0.0.1", "port=FREE", "connect_timeout=1s", "--writes=skip"], 3, "connection refused"),
    (["path=127.0.0.1", "--max-size=1k"], 3, "longer than 1024 bytes")])
def test_invalid_arguments(record, words, code, said):
    words = [word.replace("FREE", str(free_port())) for word in words]
    assert said in live(record("wire"), *words, code=code)


def test_unusable_traces_are_refused(record, tmp_path):
    at = ("path=127.0.0.1", f"port={free_port()}", "connect_timeout=1s", "--writes=skip")
    assert "record it with trace_detail=wire" in live(record("machines"), *at, code=3)
    assert "cannot" in live(tmp_path / "none", *at, code=2)
    cut = tmp_path / "cut.rtrc"
    cut.write_bytes(record("wire").read_bytes()[:-20])
    assert "connection refused" in live(cut, *at, code=3), "the requests before the damage are sent"
    os.truncate(cut, cut.stat().st_size - 200)
    assert "the trace is damaged" in live(cut, *at, code=3)
    os.truncate(cut, 40)
    live(cut, *at, code=5)


def test_help_examples(record, urtrsd, tmp_path):
    shutil.copy(record("payload"), tmp_path / "client.rtrc")
    server = urtrsd(f"--export=disk={image(tmp_path / 'disk')}", f"--export=test={image(tmp_path / 'test')}")
    text = subprocess.run([REPLAY, "live", "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    examples = re.findall(r"^  (urtrs-replay live .*)$", text, re.MULTILINE)
    assert len(examples) == 2
    for line in examples:
        words = line.replace("path=10.0.0.2", f"path=127.0.0.1 port={server.port}").split()
        done = subprocess.run([REPLAY, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=BOUND)
        assert (done.returncode, "0 differences" in done.stdout) == (0, True), (line, done.stdout, done.stderr)
