"""backends/bindings/python/urtrs_trace.py gives the objects that `urtrs-replay cat --json` prints."""
import json
import random
import subprocess
import sys

import pytest

from programs import BOUND, ROOT, program

sys.path.insert(0, str(ROOT / "backends/bindings/python"))
import urtrs_trace  # noqa: E402, found in the folder above

CORPUS = sorted((ROOT / "tools/dev/traces").rglob("*.rtrc"))


def cat(trace):
    """Returns the lines of `cat --json` as objects, and the exit code."""
    done = subprocess.run([program("urtrs-replay"), "cat", str(trace), "--json"], capture_output=True, timeout=BOUND, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def read(trace):
    lines = []
    with urtrs_trace.Trace(str(trace)) as opened:
        lines.append({"trace": opened.header})
        lines.extend(opened)
        lines.append({"end": opened.end})
    return lines


@pytest.mark.parametrize("trace", CORPUS, ids=lambda trace: trace.stem)
def test_every_record_is_equal(trace):
    expected, code = cat(trace)
    assert code == 0 and len(expected) > 2
    assert read(trace) == expected


def test_damaged_traces_are_refused(tmp_path):
    """Bytes are changed and cut. The reader may raise only its own error, and only where cat finds damage, too."""
    draw = random.Random(1)
    whole = (ROOT / "tools/dev/traces/seed-0-client1.rtrc").read_bytes()
    refused = 0
    for _ in range(60):
        data = bytearray(whole[:draw.randrange(len(whole))] if draw.random() < 0.3 else whole)
        if data and draw.random() < 0.8:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (tmp_path / "damaged.rtrc").write_bytes(data)
        expected, code = cat(tmp_path / "damaged.rtrc")
        try:
            lines = read(tmp_path / "damaged.rtrc")
        except urtrs_trace.TraceError:
            assert code != 0
            refused += 1
        else:
            assert lines[:-1] == expected[:len(lines) - 1]
    assert refused > 30


def test_a_record_before_the_damage_is_read(tmp_path):
    trace = ROOT / "tools/dev/traces/whole/seed-420-client1.rtrc"
    (tmp_path / "cut.rtrc").write_bytes(trace.read_bytes()[:-20])
    records = []
    with urtrs_trace.Trace(tmp_path / "cut.rtrc") as opened:
        with pytest.raises(urtrs_trace.TraceError, match="ends"):
            for record in opened:
                records.append(record)
    assert opened.end is None
    assert records == cat(trace)[0][1:-1]
