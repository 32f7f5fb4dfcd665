"""`check` accuses nobody in captures of honest runs: of scenarios written by `pcap` and read by `import`, and of captures of
which one frame is lost, is in another place, or has the clock of another host."""
import json
import struct
import subprocess

import pytest
from programs import CAPTURES, ROOT, program

REPLAY, SIM = program("urtrs-replay"), program("urtrs-sim")
PACKET = 6
# Scenarios of all kinds. In HC10 and L14b, the reconnect counter of a client goes back on the wire, which is a violation.
SCENARIOS = ("BD01 BD03 BD11 BD16 BD22 BD24 F08b F20o F52a F52b F52c HB08 HB09 HB10 HC09 BD06 BD18 HS04 HS18 L01 L02a L14 PK09 PK10 "
             "R01f R28 R28b R29a R31 R58").split()


def run(*arguments):
    return subprocess.run([str(one) for one in arguments], capture_output=True, text=True, timeout=120, check=False)


def judged(capture, trace):
    """Returns the verdict and the broken rules; None if the capture has no connection."""
    trace.unlink(missing_ok=True)
    if run(REPLAY, "import", capture, trace).returncode == 3:
        return None, []
    found = json.loads(run(REPLAY, "check", "--json", trace).stdout)
    return found["verdict"], [one["rule"] for one in found["traces"][0]["findings"]]


def captured(folder, scenario):
    prefix, capture = folder / scenario, folder / f"{scenario}.pcapng"
    run(SIM, "run", "--scenario", scenario, "--seed", 1, "--trace", prefix)
    traces = sorted(folder.glob(f"{scenario}.*.rtrc"))
    assert traces, scenario
    run(REPLAY, "pcap", *traces, "-o", capture)
    return capture


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_simulated_run_is_not_accused(tmp_path, scenario):
    assert judged(captured(tmp_path, scenario), tmp_path / "trace")[0] in ("conforming", "inconclusive"), scenario


class Pcapng:
    def __init__(self, raw):
        self.order = "<" if raw[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
        self.blocks, at = [], 0
        while at < len(raw):
            kind, size = struct.unpack_from(self.order + "II", raw, at)
            self.blocks.append((kind, raw[at:at + size]))
            at += size
        self.frames = [self.parts(block) for kind, block in self.blocks if kind == PACKET]

    def parts(self, block):
        return block[8:20], block[28:28 + struct.unpack_from(self.order + "I", block, 20)[0]]

    def block(self, head, data):
        padded = data + bytes(-len(data) % 4)
        size = 32 + len(padded)
        return (struct.pack(self.order + "II", PACKET, size) + head + struct.pack(self.order + "II", len(data), len(data)) + padded +
                struct.pack(self.order + "I", size))

    def whole(self, frames):
        return b"".join(block for kind, block in self.blocks if kind != PACKET) + b"".join(self.block(*one) for one in frames)


class Pcap:
    """A little-endian capture of tcpdump."""
    def __init__(self, raw):
        self.head, self.frames, at = raw[:24], [], 24
        while at < len(raw):
            size = struct.unpack_from("<I", raw, at + 8)[0]
            self.frames.append((raw[at:at + 8], raw[at + 16:at + 16 + size]))
            at += 16 + size

    def whole(self, frames):
        return self.head + b"".join(head + struct.pack("<II", len(data), len(data)) + data for head, data in frames)


def lost(frames):
    for place in range(len(frames)):
        yield f"frame {place} is lost", frames[:place] + frames[place + 1:]


def moved(frames):
    """Exchanges the contents of two frames; the times stay in order."""
    for apart in (2, 3):
        for place in range(0, len(frames) - apart):
            (time, data), (other_time, other) = frames[place], frames[place + apart]
            yield (f"frames {place} and {place + apart} change places",
                   frames[:place] + [(time, other)] + frames[place + 1:place + apart] + [(other_time, data)] + frames[place + apart + 1:])


def captures(tmp_path):
    yield "rnr_nak", Pcapng((CAPTURES / "rnr_nak.pcapng").read_bytes())
    yield "tcp_session", Pcap((ROOT / "tools/wireshark/tcp_session.pcap").read_bytes())
    yield "R28", Pcapng(captured(tmp_path, "R28").read_bytes())


def test_lost_and_moved_frames_accuse_nobody(tmp_path):
    raw, trace = tmp_path / "raw", tmp_path / "trace"
    doubted = 0
    for name, capture in captures(tmp_path):
        # In the simulated run, neighbours may be a reconnect pause apart, which no capture point mistakes.
        for changes in (lost,) if name == "R28" else (lost, moved):
            every = max(1, len(capture.frames) // 60)
            for number, (what, frames) in enumerate(changes(capture.frames)):
                if number % every:
                    continue
                raw.write_bytes(capture.whole(frames))
                verdict, rules = judged(raw, trace)
                assert verdict != "violating", (name, what, rules)
                doubted += verdict == "inconclusive"
    assert doubted > 100

