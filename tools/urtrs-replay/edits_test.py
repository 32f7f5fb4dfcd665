"""`check` finds single edits of a trace: of what block devices do, and of what machines are told."""

import json
import subprocess

import pytest
from programs import program

REPLAY = program("urtrs-replay")


def replay(*arguments, stdin=None):
    return subprocess.run([REPLAY, *map(str, arguments)], capture_output=True, text=True, input=stdin, timeout=120, check=False)


@pytest.fixture(scope="module", name="traces")
def _traces(tmp_path_factory):
    """Records of both sides: refused and failed IO and syncs, resizes, lost caches, OPEN of an open device, CLOSE."""
    found = {}
    for scenario in ("BD03", "BD18", "BD27"):
        folder = tmp_path_factory.mktemp(scenario)
        subprocess.run([program("urtrs-sim"), "run", "--scenario", scenario, "--seed", "1", "--trace", folder / "run"],
                       check=True, stdout=subprocess.DEVNULL, timeout=120)
        for side in ("server", "client1"):
            said = replay("cat", folder / f"run.{side}.rtrc", "--json").stdout.splitlines()
            found[scenario, side] = [json.loads(line) for line in said]
    return found


def fields(**wanted):
    return lambda one: all(one["fields"].get(name) == value for name, value in wanted.items())


def put(**values):
    return lambda one: [{**one, "fields": {**one["fields"], **values}}]


def patched(field, at, width, value):
    """Changes a number in the bytes of a message."""
    def edit(one):
        raw = bytearray.fromhex(one["fields"][field])
        raw[at:at + width] = value(int.from_bytes(raw[at:at + width], "little")).to_bytes(width, "little")
        return [{**one, "fields": {**one["fields"], field: raw.hex()}}]
    return edit


def drop(_):
    return []


def twice(one):
    return [one, one]


def more(field, by):
    return lambda one: put(**{field: one["fields"][field] + by})(one)


READ, WRITE, FLUSH = fields(opcode="read"), fields(opcode="write"), fields(opcode="flush")
OPENED = fields(error=0)
OPEN_RSP = lambda one: one["fields"]["response"].startswith("0300")  # noqa: E731
ANY = fields()

# name, scenario, side, event, which of its records, edit
EDITS = [
    ("an IO is answered twice", "BD03", "server", "Respond", ANY, twice),
    ("an IO is never answered", "BD03", "server", "Respond", ANY, drop),
    ("an EIO of storage becomes a success", "BD27", "server", "StorageDone", fields(error=5), put(error=0)),
    ("an EIO is answered with success", "BD27", "server", "Respond", fields(peer_errno=5), put(peer_errno=0)),
    ("a success is answered with EIO", "BD03", "server", "Respond", fields(peer_errno=0), put(peer_errno=5)),
    ("a write is answered without storage", "BD03", "server", "Storage", WRITE, drop),
    ("a write is done as a read", "BD03", "server", "Storage", WRITE, put(opcode="read")),
    ("a read is done as a write", "BD03", "server", "Storage", READ, put(opcode="write")),
    ("a flush is done as a read", "BD03", "server", "Storage", FLUSH, put(opcode="read")),
    ("another sector", "BD03", "server", "Storage", WRITE, more("sector", 8)),
    ("fewer bytes", "BD03", "server", "Storage", WRITE, put(bytes=1)),
    ("storage is asked twice", "BD03", "server", "Storage", WRITE, twice),
    ("another export", "BD03", "server", "Storage", WRITE, more("handle", 1)),
    ("another request", "BD03", "server", "Storage", WRITE, more("request", 1)),
    ("FUA is forgotten", "BD18", "server", "Storage", fields(fua=True), put(fua=False)),
    ("FUA is invented", "BD03", "server", "Storage", fields(opcode="write", fua=False), put(fua=True)),
    ("PREFLUSH is invented", "BD03", "server", "Storage", WRITE, put(preflush=True)),
    ("NOUNMAP is invented", "BD03", "server", "Storage", WRITE, put(nounmap=True)),
    ("another priority", "BD03", "server", "Storage", WRITE, more("prio", 1)),
    ("storage does not finish", "BD03", "server", "StorageDone", ANY, drop),
    ("the message names another sector", "BD18", "server", "DeviceRequest", lambda one: one["fields"]["header"][32:34] == "01",
     patched("header", 8, 8, lambda sector: sector ^ 8)),
    ("the message names another device", "BD03", "server", "DeviceRequest", lambda one: one["fields"]["header"].startswith("0400"),
     patched("header", 4, 4, lambda device: device ^ 0x100)),
    ("the message has another length", "BD18", "server", "DeviceRequest", lambda one: one["fields"]["header"][32:34] == "01",
     patched("header", 20, 4, lambda size: size + 512)),
    ("the message is a READ", "BD18", "server", "DeviceRequest", lambda one: one["fields"]["header"][32:34] == "01",
     put(direction="read")),
    ("a failed sync is not reported", "BD18", "server", "CacheDamaged", ANY, drop),
    ("a failed sync is reported for another export", "BD18", "server", "CacheDamaged", ANY, more("handle", 1)),
    ("a failed sync was no sync", "BD18", "server", "StorageDone", fields(sync_failed=True), put(sync_failed=False)),
    ("an export opens with another mode", "BD03", "server", "OpenExport", ANY, put(mode="migration")),
    ("an export opens with another name", "BD03", "server", "OpenExport", ANY, put(name="other")),
    ("an export is not opened", "BD03", "server", "OpenExport", ANY, drop),
    ("a doubled size is announced", "BD03", "server", "WriteBack", OPEN_RSP, patched("response", 8, 8, lambda size: 2 * size)),
    ("an export has a doubled size", "BD03", "server", "ExportOpened", OPENED,
     lambda one: put(**{"geometry.nsectors": 2 * one["fields"]["geometry.nsectors"]})(one)),
    ("another block size is announced", "BD03", "server", "WriteBack", OPEN_RSP, patched("response", 38, 2, lambda size: 2 * size)),
    ("another cache is announced", "BD03", "server", "WriteBack", OPEN_RSP, patched("response", 48, 8, lambda cache: cache ^ 1)),
    ("a response is not written", "BD03", "server", "WriteBack", OPEN_RSP, drop),
    ("an export is not closed", "BD03", "server", "CloseExport", ANY, drop),
    ("an export is closed twice", "BD03", "server", "CloseExport", ANY, twice),
    ("an export is not measured", "BD03", "server", "MeasureExport", ANY, drop),
    ("a session is not drained", "BD03", "server", "SessionDrained", ANY, drop),
    ("an OPEN names another device", "BD03", "client1", "SendMessage", fields(kind="open"),
     patched("header", 6, 1, lambda letter: letter ^ 1)),
    ("an OPEN has another mode", "BD03", "client1", "SendMessage", fields(kind="open"), patched("header", 4, 1, lambda mode: mode ^ 2)),
    ("a token is used twice", "BD03", "client1", "SendMessage", fields(kind="open"), put(token=1)),
    ("a CLOSE names another device", "BD03", "client1", "SendMessage", fields(kind="close"),
     patched("header", 4, 4, lambda device: device ^ 0x100)),
    ("an IO goes to another device", "BD03", "client1", "IoStarted", ANY, more("device_id", 1)),
    ("an IO does not know of a loss", "BD03", "client1", "IoStarted", fields(doomed=True), put(doomed=False)),
    ("an IO counts another loss", "BD03", "client1", "IoStarted", ANY, more("losses", 1)),
    ("a loss is told as a success", "BD03", "client1", "IoJudged", fields(disposition="lost"), put(disposition="ok")),
    ("a failure is told as a success", "BD27", "client1", "IoJudged", fields(disposition="fail"), put(disposition="ok")),
    ("a success is told as a failure", "BD03", "client1", "IoJudged", fields(disposition="ok"), put(disposition="fail")),
    ("an IO does not end", "BD03", "client1", "IoJudged", ANY, drop),
    ("a device opens with a doubled size", "BD03", "client1", "DeviceChanged", fields(state="open"),
     lambda one: put(**{"geometry.nsectors": 2 * one["fields"]["geometry.nsectors"]})(one)),
    ("a device opens without an OPEN", "BD03", "client1", "MessageDone", lambda one: one["fields"]["response"].startswith("0300"), drop),
    ("a lost cache is not told", "BD03", "client1", "CacheReplaced", ANY, drop),
    ("a lost cache had fewer changes", "BD03", "client1", "CacheReplaced", ANY, more("unflushed", 1)),
    ("a request arrives with another length", "BD03", "server", "RequestArrived", ANY, more("data_len", 512)),
    ("a request arrives for another direction", "BD03", "server", "RequestArrived", fields(direction="write"), put(direction="read")),
    ("a connection has other flags", "BD03", "client1", "Connected", ANY, more("flags", 1)),
    ("a connect request names another session", "BD03", "server", "ConnectRequested", ANY, put(sess_uuid="00" * 16)),
    ("an immediate changes on its way to the machine", "BD03", "client1", "ImmReceived", ANY, more("imm", 1)),
    ("a name is mapped twice", "BD03", "client1", "MapAnswered", fields(error=0), put(error=17)),
]


def test_traces_before_the_edit_conform(traces, tmp_path):
    for (scenario, side), records in traces.items():
        assert judge(records, tmp_path / f"{scenario}.{side}.rtrc")["violations"] == 0, (scenario, side)


def judge(records, to):
    kept = [one for one in records if "end" not in one]
    for number, one in enumerate(one for one in kept if "event" in one):
        one["seq"] = number
    made = replay("from-json", "-", to, stdin="".join(json.dumps(one) + "\n" for one in kept))
    assert made.returncode == 0, made.stderr
    return json.loads(replay("check", "--json", to).stdout)["traces"][0]


@pytest.mark.parametrize("name, scenario, side, event, which, edit", EDITS, ids=[one[0].replace(" ", "-") for one in EDITS])
def test_an_edit_is_a_violation(traces, tmp_path, name, scenario, side, event, which, edit):
    records = [dict(one) for one in traces[scenario, side]]
    place = next((at for at, one in enumerate(records) if one.get("event") == event and which(one)), None)
    assert place is not None, f"no record for: {name}"
    records[place:place + 1] = [dict(one) for one in edit(records[place])]
    verdict = judge(records, tmp_path / "edited.rtrc")
    assert verdict["violations"] > 0, name
