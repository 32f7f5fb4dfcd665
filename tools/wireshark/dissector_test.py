#!/usr/bin/env python3
"""Tests the Wireshark dissector on captures of kernel peers: golden files, links in both directions, reordered packets.

Run as a program, this file updates the golden files.
"""
import json
import pathlib
import shutil
import subprocess

import pytest

LUA = pathlib.Path(__file__).resolve().parent / "urtrs.lua"
CAPTURES = pathlib.Path(__file__).resolve().parents[2] / "conformance/captures"
NAMES = ("invalidation", "path_loss", "rnr_nak")

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("tshark", "editcap"))), reason="needs tshark and editcap")


def tshark(*arguments):
    done = subprocess.run(["tshark", "-X", f"lua_script:{LUA}", *arguments], capture_output=True, text=True, timeout=120)
    errors = [line for line in done.stderr.splitlines() if "Running as user" not in line]
    assert done.returncode == 0 and not errors, (arguments, done.returncode, errors)
    assert "Lua Error" not in done.stdout, arguments
    return done.stdout


def values(layer):
    """Returns the fields of one protocol with their values; nested trees are flattened."""
    if isinstance(layer, list):
        return [values(one) for one in layer]
    result = {}

    def walk(tree):
        for name, value in tree.items():
            if isinstance(value, dict):
                walk(value)
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                for one in value:
                    walk(one)
            else:
                result[name] = value
    walk(layer)
    return result


def without_repeated_keys(pairs):
    """Collects the values of repeated keys, because tshark's JSON repeats the key of a repeated field."""
    result = {}
    for key, value in pairs:
        if key in result:
            former = result[key]
            result[key] = (former if isinstance(former, list) else [former]) + [value]
        else:
            result[key] = value
    return result


def decode(path, *more):
    """Returns a dictionary for each frame that contains RTRS."""
    text = tshark("-r", path, *more, "-T", "json", "-J", "frame rtrs rnbd")
    frames = []
    for packet in json.loads(text, object_pairs_hook=without_repeated_keys):
        layers = packet["_source"]["layers"]
        if "rtrs" in layers:
            one = {"frame": int(layers["frame"]["frame.number"]), "rtrs": values(layers["rtrs"])}
            if "rnbd" in layers:
                one["rnbd"] = values(layers["rnbd"])
            frames.append(one)
    return frames


def line(frame):
    """Returns a line of the golden file. The line has the path and the session only for connect requests; other messages name their
    connection."""
    fields = frame["rtrs"]
    if fields.get("rtrs.type") != "CON_REQ":
        fields = {name: value for name, value in fields.items() if name not in ("rtrs.path", "rtrs.session")}
    return json.dumps({**frame, "rtrs": fields}, sort_keys=True) + "\n"


def golden(name):
    return CAPTURES / f"{name}.jsonl"


def decoded(name):
    return [line(frame) for frame in decode(capture(name))]


@pytest.mark.parametrize("name", NAMES)
def test_output_matches_the_golden_files(name):
    expected, lines = golden(name).read_text(encoding="utf-8").splitlines(keepends=True), decoded(name)
    for number, (want, got) in enumerate(zip(expected, lines), 1):
        assert want == got, f"{golden(name)}:{number}"
    assert len(expected) == len(lines)


def capture(name):
    return str(CAPTURES / f"{name}.pcapng")


def count(path, display_filter, *more):
    return len(tshark("-r", path, "-Y", display_filter, *more).splitlines())


def test_display_filters_match():
    loss = capture("path_loss")
    assert count(loss, 'rtrs.type == "HB"') > 0
    assert count(loss, "rtrs.recon_cnt == 2") == 3
    errors = capture("invalidation")
    assert count(errors, "rtrs.errno == 2") == 1
    assert count(errors, 'rnbd.dev_name == "/dev/nope"') == 1
    assert count(errors, 'rtrs.type == "INVAL"') == 4
    assert count(errors, 'rtrs.type == "IO_RSP" && rtrs.type == "RKEY_RSP"') > 10


def times(name, display_filter):
    """Returns the times of the matching frames, in seconds since the first frame of the capture."""
    text = tshark("-r", capture(name), "-Y", display_filter, "-T", "fields", "-e", "frame.time_relative")
    return [float(one) for one in text.split()]


def test_captures_contain_the_events_of_the_readme():
    """Each capture contains the events that README.md lists for it."""
    for psn in (4121688, 4823524):
        unheard = times("path_loss", f"infiniband.bth.psn == {psn}")
        assert len(unheard) > 50 and min(unheard) > 6 and 30 < max(unheard) - min(unheard) < 40, (psn, unheard)
    goodbyes = times("path_loss", "infiniband.mad.attributeid == 0x0015")
    assert 40 < min(goodbyes) < 46, goodbyes
    again = times("path_loss", 'rtrs.type == "CON_REQ" && rtrs.recon_cnt == 2')
    assert len(again) == 3 and all(92 <= one < 93 for one in again), again
    assert not times("path_loss", 'rtrs.type == "CON_REQ" && rtrs.recon_cnt > 2')
    assert count(capture("invalidation"), "rtrs.sg_cnt == 2") == 1
    assert count(capture("invalidation"), "rtrs.sg_cnt == 2 && rtrs.response_in", "-2") == 0
    refused = times("rnr_nak", "infiniband.aeth.syndrome.opcode == 1")
    assert len(refused) == 5, refused


def test_no_frame_is_malformed():
    for name in NAMES:
        assert count(capture(name), "_ws.malformed || rtrs.malformed") == 0, name


def test_requests_and_responses_are_linked():
    """With two passes, as in the Wireshark GUI, every request has a link to its response."""
    frames = {frame["frame"]: frame["rtrs"] for frame in decode(capture("rnr_nak"), "-2")}
    answered = 0
    for number, fields in frames.items():
        if "rtrs.response_to" not in fields or fields["rtrs.type"] == "DATA":
            continue
        request = frames[int(fields["rtrs.response_to"])]
        assert request["rtrs.response_in"] == str(number), (number, request)
        assert float(fields["rtrs.time"]) > 0, fields
        answered += 1
    requests = [fields for fields in frames.values() if fields.get("rtrs.type") in ("IO_REQ", "INFO_REQ", "CON_REQ")]
    assert answered == len(requests) > 8, (answered, len(requests))


def test_reordered_packets_are_reassembled(tmp_path):
    """INFO_RSP is reassembled even if its packets (frames 9 to 17) are reordered."""
    pieces = []
    for number, frames in enumerate(["1-10", "17", "12-16", "11", "18-98"]):
        pieces.append(tmp_path / f"{number}.pcapng")
        subprocess.run(["editcap", "-r", capture("rnr_nak"), pieces[-1], frames], check=True, capture_output=True)
    swapped = tmp_path / "swapped.pcapng"
    subprocess.run(["mergecap", "-a", "-w", swapped, *pieces], check=True, capture_output=True)
    assert count(swapped, 'rtrs.type == "INFO_RSP" && rtrs.packets == 9') == 1
    assert count(swapped, "rtrs.missing") == 1
    # Chunk addresses come from INFO_RSP: the headers of requests are still found.
    assert count(swapped, "rnbd.op") == count(capture("rnr_nak"), "rnbd.op") > 4


def test_connections_without_a_captured_setup_are_decoded(tmp_path):
    """A capture that begins in the middle of a connection is decoded on request."""
    late = tmp_path / "late.pcapng"
    subprocess.run(["editcap", "-r", capture("rnr_nak"), late, "31-98"], check=True, capture_output=True)
    assert count(late, "rtrs") == 0
    assert count(late, "rnbd.op", "-o", "rtrs.unknown:TRUE") == count(capture("rnr_nak"), "rnbd.op")
    assert count(late, "rtrs.response_to && rtrs.type == IO_RSP", "-o", "rtrs.unknown:TRUE") > 4


def test_truncated_frames_are_decoded_as_far_as_possible(tmp_path):
    """The dissector shows the available part of a truncated frame, without errors."""
    for size in (58, 70, 100, 200, 1000):
        short = tmp_path / "short.pcapng"
        subprocess.run(["editcap", "-s", str(size), capture("invalidation"), short], check=True, capture_output=True)
        tshark("-r", short, "-V")
        assert size < 100 or count(short, 'rtrs.type == "INVAL"', "-o", "rtrs.unknown:TRUE") == 4, size


def test_requests_sent_as_a_send_are_decoded(tmp_path):
    """Each RDMA_WRITE_ONLY_WITH_IMMEDIATE (opcode 11) becomes a SEND_ONLY_WITH_IMMEDIATE (5) with the same immediate."""
    octets = bytearray(pathlib.Path(capture("rnr_nak")).read_bytes())
    port, changed = bytes((0x12, 0xb7)), 0  # UDP port 4791 of RoCEv2
    at = octets.find(port)
    while at >= 0:
        bth = at + 6
        if octets[bth] == 11:
            octets[bth] = 5
            octets[bth + 12:bth + 16] = octets[bth + 28:bth + 32]
            changed += 1
        at = octets.find(port, at + 1)
    assert changed > 0
    sent = tmp_path / "sent.pcapng"
    sent.write_bytes(octets)
    assert "the immediate came without an RDMA write" in tshark("-r", str(sent), "-V")
    assert count(str(sent), 'rtrs.type == "IO_REQ" && rtrs.malformed') == changed


# The tcp fabric: a session of one path and two connections, recorded with an MTU of 1500.
TCP_SESSION = str(pathlib.Path(__file__).resolve().parent / "tcp_session.pcap")


def kinds(path, *more):
    """Returns the messages of each frame, with the direction of the first message."""
    text = tshark("-r", path, *more, "-Y", "rtrs.type", "-T", "fields", "-e", "rtrs.cid", "-e", "rtrs.type", "-E", "aggregator= ",
                  "-E", "separator=/t")
    return [(cid.split()[0], [word for word in types.split() if word != "RKEY_RSP"])
            for cid, types in (one.split("\t") for one in text.splitlines())]


def test_a_session_over_iwarp_is_decoded():
    both = kinds(TCP_SESSION)
    assert both[:7] == [("0", ["CON_REQ"]), ("0", ["CON_RSP"]), ("1", ["CON_REQ"]), ("1", ["CON_RSP"]), ("0", ["INFO_REQ"]),
                        ("0", ["INFO_RSP"]), ("0", ["IO_REQ"])]
    io = [types for cid, types in both if cid == "1"][2:]
    assert io == [["IO_REQ"], ["IO_RSP"], ["IO_REQ"], ["DATA", "IO_RSP"], ["IO_REQ"], ["IO_RSP"], ["IO_REQ"], ["IO_RSP"]]
    assert count(TCP_SESSION, 'rtrs.name == "web1"') == 1
    assert count(TCP_SESSION, 'rnbd.dev_name == "a"') == 1
    assert count(TCP_SESSION, "rnbd.op == 1 && rnbd.sector == 0 && rnbd.size == 8192") == 1
    assert count(TCP_SESSION, "rnbd.op == 0 && rnbd.sector == 8 && rnbd.size == 4096") == 1
    assert count(TCP_SESSION, 'rtrs.type == "HB_ACK" && rtrs.response_to') == 1
    assert count(TCP_SESSION, "_ws.malformed || rtrs.malformed || rtrs.orphan || rtrs.missing") == 0


def test_reordered_and_repeated_tcp_segments_are_decoded(tmp_path):
    """The two segments of the write (frames 24 and 26) are reordered, and the first one is retransmitted."""
    pieces = []
    for number, frames in enumerate(["1-23", "26", "24", "24", "27-48"]):
        pieces.append(tmp_path / f"{number}.pcap")
        subprocess.run(["editcap", "-r", TCP_SESSION, pieces[-1], frames], check=True, capture_output=True)
    swapped = tmp_path / "swapped.pcap"
    subprocess.run(["mergecap", "-a", "-w", swapped, *pieces], check=True, capture_output=True)
    assert kinds(swapped) == kinds(TCP_SESSION)
    assert count(swapped, "rtrs.missing") == 1
    assert count(swapped, "rtrs.retransmission") == 1


def test_truncated_and_partial_tcp_captures_cause_no_error(tmp_path):
    short, late = tmp_path / "short.pcap", tmp_path / "late.pcap"
    for size in (50, 60, 70, 90, 150, 1000):
        subprocess.run(["editcap", "-s", str(size), TCP_SESSION, short], check=True, capture_output=True)
        tshark("-r", short, "-V")
    assert kinds(short)[:3] == kinds(TCP_SESSION)[:3]
    subprocess.run(["editcap", "-r", TCP_SESSION, late, "5-48"], check=True, capture_output=True)
    assert not [types for cid, types in kinds(late) if cid == "0"]


if __name__ == "__main__":
    for one in NAMES:
        golden(one).write_text("".join(decoded(one)), encoding="utf-8")
