"""diff, grep, seq and merge with records of block devices."""

import json
import re
import subprocess

import pytest
from programs import program

REPLAY = program("urtrs-replay")
DEVICES = 1  # instance number of a client's device state machine
SERVER_DEVICES = 1024  # a server's device state machines have the instance numbers SERVER_DEVICES + 1 + session number


def run(*arguments, code=0, stdin=None):
    ran = subprocess.run([REPLAY, *map(str, arguments)], capture_output=True, text=True, input=stdin, timeout=120, check=False)
    assert ran.returncode == code, (arguments, ran.stdout[-2000:], ran.stderr)
    return ran.stdout


def lines(*arguments, code=0):
    return [json.loads(line) for line in run(*arguments, "--json", code=code).splitlines()]


def everything(path, code=0):
    return [one for one in lines("cat", path, code=code) if "event" in one]


def change(trace, to, edit):
    """Copies the trace; edit() modifies each record, or removes it by returning None. The copy has no trailer (exit code 5)."""
    out = []
    for one in lines("cat", trace):
        if "end" in one:
            continue
        if "event" in one and edit(one) is None:
            continue
        out.append(one)
    for number, one in enumerate(one for one in out if "event" in one):
        one["seq"] = number
    run("from-json", "-", to, stdin="".join(json.dumps(one) + "\n" for one in out))
    return to


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Records traces of a client and a server of block devices: map, IO, unmap, and server crashes."""
    folder = tmp_path_factory.mktemp("runs")
    subprocess.run([program("urtrs-sim"), "run", "--scenario", "BD22", "--seed", "1", "--trace", folder / "run"],
                   check=True, stdout=subprocess.DEVNULL, timeout=120)
    return folder / "run.client1.rtrc", folder / "run.server.rtrc"


def test_rerun_replays_the_session_of_a_client_with_devices(runs, tmp_path):
    out = tmp_path / "again.rtrc"
    run("min", runs[0], "--out", out, "--rerun")
    assert "identical" in run("replay", out)
    recorded, again = ([one["event"] for one in everything(path) if one["instance"] == 0 and one["event"] == "Submitted"]
                       for path in (runs[0], out))
    assert again == recorded
    assert again


def messages(records):
    return [one for one in records if one["fields"].get("header") or one["fields"].get("response")]


def with_u32(text, at, value):
    raw = bytearray.fromhex(text)
    raw[at:at + 4] = value(int.from_bytes(raw[at:at + 4], "little")).to_bytes(4, "little")
    return raw.hex()


# Offset of the device id, by kind of message: OPEN_RSP, IO and CLOSE.
ID_AT = {3: 4, 4: 4, 5: 4}


def renamed(one, name):
    """Replaces every device id by another id."""
    fields = one["fields"]
    if fields.get("device_id"):
        fields["device_id"] = name(fields["device_id"])
    for field in ("header", "response"):
        text = fields.get(field)
        kind = int.from_bytes(bytes.fromhex(text)[:2], "little") if text else None
        if text and kind in ID_AT:
            fields[field] = with_u32(text, ID_AT[kind], name)
    return one


def test_diff_compares_device_ids_as_handles(runs, tmp_path):
    for trace in runs:
        assert messages(everything(trace)), trace
        other = change(trace, tmp_path / f"other-{trace.name}", lambda one: renamed(one, lambda number: number + 4096))
        assert everything(other, code=5) != everything(trace)
        assert lines("diff", trace, other, code=5)[0]["equal"]
        # Replaces one device id by the id of another device, so that the records of the two devices get mixed
        # up.
        first = []

        def swap(number):
            first.append(number)
            return number + (1 if len(first) == 9 else 0)

        wrong = change(trace, tmp_path / f"wrong-{trace.name}", lambda one: renamed(one, swap))
        assert len(first) > 9
        assert not lines("diff", trace, wrong, code=1)[0]["equal"]


def test_diff_finds_changed_message_contents(runs, tmp_path):
    for trace, event, field, at in ((runs[0], "MessageDone", "response", 8), (runs[1], "DeviceRequest", "header", 8),
                                    (runs[1], "WriteBack", "response", 8)):
        changed = []

        def other_sector(one):
            text = one["fields"].get(field, "")
            if not changed and one["event"] == event and text[:4] in ("0300", "0400"):
                one["fields"][field] = with_u32(text, at, lambda number: number ^ 0x100)
                changed.append(one["seq"])
            return one

        other = change(trace, tmp_path / f"{event}.rtrc", other_sector)
        found = lines("diff", trace, other, code=1)[0]
        assert found["first"]["records"] == [changed[0]] * 2, found
        assert found["first"]["machine"].endswith("Devices 0"), found


def test_state_diff_includes_devices(runs, tmp_path):
    client, _ = runs
    states = [one for one in everything(client) if one["event"] == "DeviceChanged"]
    assert len(states) > 3

    def lost(one):
        return None if one["event"] == "DeviceChanged" and one["seq"] == states[2]["seq"] else one

    other = change(client, tmp_path / "state.rtrc", lost)
    found = lines("diff", "--mode", "state", client, other, code=1)[0]
    assert found["first"]["machine"] == "ClientDevices 0" and "DeviceChanged" in found["first"]["a"], found
    assert lines("diff", "--mode", "state", client, client)[0]["equal"]


def test_grep_session_includes_its_devices(runs):
    _, server = runs
    found = lines("grep", server, "--session", 0)
    assert {one["instance"] for one in found} == {1, SERVER_DEVICES + 1}
    assert found == [one for one in everything(server) if one["instance"] in (1, SERVER_DEVICES + 1)]


def test_grep_device_matches_handles_and_ids(runs):
    client, server = runs
    # Filter by the client's device handle.
    found = lines("grep", client, "--device", 0, "--event", "DeviceChanged,IoBegun,IoDone")
    wanted = [one for one in everything(client) if one["event"] in ("DeviceChanged", "IoBegun", "IoDone") and
              one["fields"]["device"] == 0]
    assert wanted and found == wanted
    # Filter by the server's device id, which occurs on both sides in OPEN_RSP, every IO, and CLOSE.
    opened = next(one for one in everything(server) if one["event"] == "WriteBack" and len(one["fields"]["response"]) == 112)
    device = int.from_bytes(bytes.fromhex(opened["fields"]["response"])[4:8], "little")
    for trace, events in ((server, {"WriteBack", "DeviceRequest"}), (client, {"MessageDone", "IoStarted"})):
        found = lines("grep", trace, "--device", device)
        assert events <= {one["event"] for one in found}, trace
        others = [one for one in everything(trace) if one not in found and
                  one["fields"].get("device_id") == device]
        assert not others
    assert run("grep", server, "--device", 4_000_000_000, code=1).startswith("# times: ")


def titles(*arguments):
    """Returns the text to the right of the lanes, for each row of the diagram."""
    text = run("seq", *arguments, "--ascii", "--hide", "heartbeat,connect")
    return [row.rsplit("  ", 1)[1].strip() for row in text.splitlines() if not row.startswith("#") and "  " in row]


def test_seq_shows_device_messages(runs):
    client, server = runs
    said = "\n".join(titles(client, server))
    for words in (r"IO_REQ read [0-9]+ B, permit \d+: OPEN \"", r"to storage, chunk \d+: OPEN \"", r"^message \d+: SESS_INFO",
                  r"^answer OPEN_RSP device \d+, ", r"^message \d+ ended: OPEN_RSP device ", r"^map \"", r"^device 0 is open$",
                  r"^open the export \"", r"^export \d+ opened$", r"to storage, chunk \d+: WRITE \d+ B at sector \d+ of device",
                  r"IO_REQ write .*, permit \d+: WRITE \d+ B at sector \d+ of device \d+"):
        assert re.search(words, said, re.M), (words, said)


def test_seq_shows_each_device_request_once(runs):
    _, server = runs
    requests = [one for one in everything(server) if one["event"] in ("DeviceRequest", "LongDeviceRequest")]
    behind = [title for title in titles(server) if re.match(r"to storage, chunk \d+(, .*)?: [A-Z_]+ ", title)]
    assert len(requests) == len(behind) > 10


def test_seq_of_a_merged_trace_assigns_devices_to_sessions(runs, tmp_path):
    client, server = runs
    both = tmp_path / "both.rtrc"
    run("merge", client, server, "--output", both)
    apart = [title for title in titles(client, server) if "device" in title or "export" in title]
    together = [title for title in titles(both) if "device" in title or "export" in title]
    assert len(apart) > 20 and sorted(apart) == sorted(together)
