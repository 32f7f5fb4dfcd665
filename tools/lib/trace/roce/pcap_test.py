"""Tests urtrs-replay import and pcap on the command line, and the captures in Wireshark."""
import json
import os
import shutil
import subprocess

import pytest
from programs import CAPTURES, ROOT, program

LUA = ROOT / "tools/wireshark/urtrs.lua"
REPLAY, SIM = program("urtrs-replay"), program("urtrs-sim")
SEEDS = (3, 14)


def run(*arguments, code=0):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def replay(*arguments, code=0):
    return run(REPLAY, *arguments, code=code)


def notes(trace):
    """Returns the notes without times, and without digests of data that a capture contains only as filler."""
    lines = []
    for text in replay("cat", trace, "--json").stdout.splitlines():
        record = json.loads(text)
        if not str(record.get("event", "")).startswith("Wire"):
            continue
        for name in ("time", "now", "seq", "offset"):
            record.pop(name, None)
        for part in (record, record.get("fields", {})):
            if part.get("digest", 0) != 0:
                part["digest"] = "some"
        lines.append(record)
    return lines


def test_real_captures_round_trip(tmp_path):
    for name in ("rnr_nak", "path_loss", "invalidation"):
        trace = os.path.join(tmp_path, name + ".rtrc")
        found = json.loads(replay("import", os.path.join(CAPTURES, name + ".pcapng"), trace, "--json").stdout)
        assert found["gaps"] == 0 and found["malformed_packets"] == 0 and found["bad_icrc"] == 0, found
        capture = os.path.join(tmp_path, name + ".pcapng")
        made = json.loads(replay("pcap", trace, "-o", capture, "--json").stdout)
        assert made["without_setup"] == 0 and made["connections"] == found["connections"], made
        again = os.path.join(tmp_path, name + "-again.rtrc")
        replay("import", capture, again)
        for before, after in zip(notes(trace), notes(again)):
            assert before == after, (name, before, after)
        assert len(notes(trace)) == len(notes(again)), name


def wireshark(capture):
    """Checks that Wireshark decodes every frame, with and without the RTRS dissector."""
    plain = run("tshark", "-r", capture, "-Y", "_ws.malformed || _ws.expert || !infiniband")
    assert plain.stdout == "", plain.stdout
    ours = run("tshark", "-X", f"lua_script:{LUA}", "-r", capture, "-Y",
               "_ws.malformed || rtrs.malformed || rtrs.type == UNKNOWN || rtrs.retransmission || rtrs.missing || "
               "_ws.lua.error")
    assert ours.stdout == "", ours.stdout
    answered = run("tshark", "-X", f"lua_script:{LUA}", "-r", capture, "-Y", "rtrs.type == IO_RSP && rtrs.response_to")
    assert answered.stdout, capture


@pytest.mark.parametrize("seed", SEEDS)
def test_simulated_worlds_round_trip(tmp_path, seed):
    captures = []
    prefix = os.path.join(tmp_path, f"seed{seed}")
    run(SIM, "run", "--seed", str(seed), "--without", "clock_rate,lie", "--trace", prefix)
    files = sorted(os.path.join(tmp_path, name) for name in os.listdir(tmp_path)
                   if name.startswith(f"seed{seed}.") and name.endswith(".rtrc"))
    clients = [name for name in files if ".client" in name]
    servers = [name for name in files if ".server" in name]
    for label, traces in (("both", files), ("client", clients), ("server", servers)):
        capture = os.path.join(tmp_path, f"seed{seed}-{label}.pcapng")
        made = json.loads(replay("pcap", *traces, "-o", capture, "--json").stdout)
        assert made["frames"] > 0 and made["drifting_clocks"] == 0, made
        assert (made["both_ends"] > 0) == (label == "both"), (label, made)
        captures.append(capture)
        replay("import", capture, capture + ".rtrc")
        replay("check", capture + ".rtrc")
        exact = os.path.join(tmp_path, f"seed{seed}-{label}-exact.pcapng")
        replay("pcap", *traces, "-o", exact, "--exact")
        replay("import", exact, exact + ".rtrc")
        assert notes(exact + ".rtrc") == notes(capture + ".rtrc"), (seed, label)
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not there, so the captures were not shown to Wireshark; tools/install-deps installs it")
    for capture in captures:
        wireshark(capture)


def test_pipes_and_mtu(tmp_path):
    """Input and output are pipes, and the packet sizes differ from the default."""
    trace = os.path.join(tmp_path, "piped.rtrc")
    with open(os.path.join(CAPTURES, "rnr_nak.pcapng"), "rb") as capture:
        piped = subprocess.run([REPLAY, "import", "-", trace], stdin=capture, capture_output=True, timeout=60)
    assert piped.returncode == 0, piped
    whole = subprocess.run([REPLAY, "pcap", trace, "-o", "-", "--mtu", "4096"], capture_output=True, timeout=60)
    assert whole.returncode == 0 and whole.stdout.startswith(b"\x0a\x0d\x0d\x0a"), whole.stderr
    small = os.path.join(tmp_path, "small.pcapng")
    replay("pcap", trace, "-o", small, "--mtu", "256")
    assert os.path.getsize(small) > len(whole.stdout)


def test_invalid_input_is_refused(tmp_path):
    text = os.path.join(tmp_path, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.write("hello, world, this is no capture and no trace either\n")
    out = os.path.join(tmp_path, "out")
    assert "the file is not a capture" in replay("import", text, out, code=3).stderr
    assert "not a trace" in replay("pcap", text, "-o", out, code=3).stderr
    assert "cannot open" in replay("import", "missing.pcapng", out, code=2).stderr
    assert "cannot open" in replay("pcap", "missing.rtrc", "-o", out, code=2).stderr
    replay("pcap", text, code=2)
    replay("pcap", text, "-o", out, "--mtu", "1000", code=2)
    cut = os.path.join(tmp_path, "cut.pcapng")
    with open(os.path.join(CAPTURES, "rnr_nak.pcapng"), "rb") as whole, open(cut, "wb") as part:
        part.write(whole.read(20001))
    assert "the file ends inside" in replay("import", cut, out + ".cut", code=5).stderr
    # Import a capture that begins after the connection setup.
    if shutil.which("editcap"):
        run("editcap", "-r", os.path.join(CAPTURES, "rnr_nak.pcapng"), cut, "40-98")
        assert "it contains no setup of an RTRS connection" in replay("import", cut, out + ".late", code=3).stderr
        run("editcap", os.path.join(CAPTURES, "rnr_nak.pcapng"), cut, "12")
        assert "misses 1 packets in 1 places" in replay("import", cut, out).stderr
        assert "WireGap" in replay("cat", out).stdout
