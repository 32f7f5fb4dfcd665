"""--follow: check and cat of a file that grows, that is rotated, that ends, and that stops growing."""
import json
import pathlib
import signal
import subprocess
import time

import pytest

from programs import BOUND, TRACES, program, until

REPLAY = program("urtrs-replay")
CLIENT, LONG = TRACES / "seed-420-client1.rtrc", TRACES / "seed-767-server.rtrc"  # LONG has several blocks


@pytest.fixture(name="follow")
def _follow(tmp_path):
    """Starts urtrs-replay, with its output in the file `out`; ends it after the test."""
    begun = []

    def start(*arguments):
        with (tmp_path / "out").open("w", encoding="utf-8") as out:
            begun.append(subprocess.Popen([REPLAY, *map(str, arguments)], stdout=out, stderr=subprocess.DEVNULL))
        return begun[-1]
    yield start
    for process in begun:
        process.kill()
        process.wait(BOUND)


def pieces(data, number):
    size = len(data) // number + 1
    return [data[at:at + size] for at in range(0, len(data), size)]


def without_file(text, file):
    return text.replace(str(file), "FILE")


@pytest.mark.parametrize("verb", ["check", "cat"])
def test_a_file_that_is_written_in_pieces_is_read_to_its_end(tmp_path, follow, verb):
    live = tmp_path / "live.rtrc"
    live.touch()
    process = follow(verb, "--follow", live)
    with live.open("ab", buffering=0) as file:
        for piece in pieces(CLIENT.read_bytes(), 37):  # the pieces end within headers, blocks and the trailer
            file.write(piece)
            time.sleep(0.01)  # so that most pieces are read alone
    code = process.wait(BOUND)
    whole = subprocess.run([REPLAY, verb, CLIENT], capture_output=True, text=True, timeout=BOUND, check=False)
    assert code == whole.returncode
    assert without_file((tmp_path / "out").read_text(encoding="utf-8"), live) == without_file(whole.stdout, CLIENT)


def test_records_are_printed_before_the_trace_ends(tmp_path, follow):
    data = LONG.read_bytes()
    live = tmp_path / "live.rtrc"
    live.write_bytes(data[:-2000])
    process = follow("cat", live, "--json", "--follow")
    until("a record is printed", lambda: (tmp_path / "out").read_text(encoding="utf-8").count("\n") > 2)
    assert process.poll() is None
    live.write_bytes(data)
    assert process.wait(BOUND) == 0
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines()[-1].startswith('{"end":')


def test_the_next_file_of_a_rotation_is_followed(tmp_path, follow):
    lines = subprocess.run([REPLAY, "cat", CLIENT, "--json"], capture_output=True, text=True, timeout=BOUND, check=True).stdout
    header, *records = map(json.loads, lines.splitlines()[:-1])
    parts = []
    for number, part in enumerate((records[:700], records[700:1200], records[1200:])):
        header["trace"]["flags"] = 1 if number else 0
        text = "".join(json.dumps(line) + "\n" for line in (header, *part, {"end": {"records": 0, "chain_hash": ""}}))
        file = tmp_path / f"part{number}"
        subprocess.run([REPLAY, "from-json", "--rehash", "-", file], input=text, text=True, timeout=BOUND, check=True)
        parts.append(file.read_bytes())
    live = tmp_path / "live.rtrc"
    live.write_bytes(parts[0][:5000])
    process = follow("cat", live, "--json", "--follow")
    with live.open("ab") as file:
        file.write(parts[0][5000:])
    for number, part in enumerate(parts[1:], 1):
        until("the file is read", lambda: (tmp_path / "out").read_text(encoding="utf-8").count("\n") > (0, 690, 1190)[number])
        for old in range(number - 1, -1, -1):
            (tmp_path / (f"live.rtrc.{old}" if old else "live.rtrc")).rename(tmp_path / f"live.rtrc.{old + 1}")
        live.write_bytes(part)
    assert process.wait(BOUND) == 0
    seen = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()[1:-1]]
    assert seen == records


def test_ctrl_c_ends_check_with_the_verdict_so_far(tmp_path, follow):
    live = tmp_path / "live.rtrc"
    live.write_bytes(CLIENT.read_bytes()[:-2000])
    process = follow("check", live, "--follow")

    def catches_sigint():
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("SigCgt:")[1].split()[0], 16) >> signal.SIGINT - 1 & 1
    until("the process catches SIGINT", catches_sigint)
    process.send_signal(signal.SIGINT)
    assert process.wait(BOUND) == 3
    assert "verdict: inconclusive" in (tmp_path / "out").read_text(encoding="utf-8")


def test_a_file_that_does_not_grow_ends_after_the_patience(tmp_path, follow):
    live = tmp_path / "live.rtrc"
    live.write_bytes(CLIENT.read_bytes()[:-2000])
    assert follow("cat", live, "--follow=200ms").wait(BOUND) == 5
    assert follow("cat", live, "--follow=x").wait(BOUND) == 2
