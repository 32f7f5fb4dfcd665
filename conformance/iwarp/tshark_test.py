"""Checks with tshark, an independent decoder, that core/iwarp writes well-formed FPDUs with correct CRCs."""
import collections
import os
import pathlib
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("URTRS_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build/release"))
SESSION = BUILD / "conformance/iwarp/iwarp_session"
# Heuristic dissectors that misread short SENDs. tshark prints nothing at all if a name is unknown.
OFF = ("rpcrdma_iwarp", "smb_direct_iwarp")

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")


def tshark(*arguments):
    done = subprocess.run(["tshark", *arguments], capture_output=True, text=True, timeout=120)
    errors = [line for line in done.stderr.splitlines() if "Running as user" not in line]
    assert done.returncode == 0 and not errors, (arguments, done.returncode, errors)
    return done.stdout


def decoded(path, *fields):
    off = [word for name in OFF for word in ("--disable-heuristic", name)]
    more = ["-T", "fields", *(word for field in fields for word in ("-e", field))] if fields else ["-V"]
    return tshark("-r", str(path), *off, *more)


def session(path, *arguments):
    done = subprocess.run([SESSION, path, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


def found(path):
    """Returns the number of FPDUs that tshark finds, by (direction, opcode)."""
    count = collections.Counter()
    for line in decoded(path, "ip.src", "iwarp_rdma.opcode").splitlines():
        source, _, opcodes = line.partition("\t")
        side = 0 if source.endswith(".1") else 1
        count.update((side, int(opcode, 0)) for opcode in opcodes.split(",") if opcode)
    return count


def test_heuristic_dissectors_are_off(tmp_path):
    path = tmp_path / "session.pcap"
    session(path, 60000)
    assert "Malformed" in tshark("-r", str(path), "-V")
    assert "Malformed" not in decoded(path)


@pytest.mark.parametrize("crc", (False, True), ids=("plain", "crc"))
@pytest.mark.parametrize("segment", (60000, 1448, 536))
def test_tshark_finds_every_fpdu_and_none_is_malformed(tmp_path, segment, crc):
    path = tmp_path / "session.pcap"
    written = collections.Counter(session(path, segment, *(["crc"] if crc else [])))
    assert sum(written.values()) == 2 + 2 * 8 * 3 + 1 + 4 + 2 + 1
    text = decoded(path)
    for word in ("Malformed", "Bad CRC", "incorrect", "Unreassembled"):
        assert word not in text, word
    assert text.count("Request frame header") == text.count("Reply frame header") == 1
    assert found(path) == written


def test_tshark_reads_the_expected_fields(tmp_path):
    path = tmp_path / "session.pcap"
    session(path, 60000, "crc")
    assert "0x11223344" in decoded(path, "iwarp_ddp.stag")
    assert str(0xabcdef01) in decoded(path, "iwarp_rdma.inval_stag")
    assert "Layer: DDP (0x1)" in decoded(path) and "Invalid STag (0x00)" in decoded(path)
    lines = decoded(path, *(f"iwarp_mpa.{name}" for name in ("crc_flag", "rev", "rej_flag", "marker_flag"))).splitlines()
    assert [line for line in lines if line.strip()] == ["1\t2\t0\t0"] * 2


def test_tshark_reports_a_wrong_crc(tmp_path):
    path = tmp_path / "session.pcap"
    session(path, 60000, "crc")
    octets = bytearray(path.read_bytes())
    at = octets.rindex(b"\x5a" * 512) + 100
    octets[at] ^= 1
    path.write_bytes(octets)
    assert "Bad CRC" in decoded(path) or "incorrect" in decoded(path)


def test_tshark_decodes_a_reject(tmp_path):
    path = tmp_path / "session.pcap"
    assert session(path, 60000, "reject") == []
    lines = decoded(path, "iwarp_mpa.rej_flag").split()
    assert lines == ["0", "1"]
    assert "Malformed" not in decoded(path)
