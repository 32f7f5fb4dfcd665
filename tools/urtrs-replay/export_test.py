"""urtrs-replay export: the query of docs/replay.md over the JSON for Perfetto gives the percentiles of stat, and fio does the IO
of an iolog."""
import collections
import decimal
import json
import re
import shutil
import sqlite3
import subprocess

import pytest

from programs import BOUND, ROOT, TRACES, program
from schemas import fits

REPLAY = program("urtrs-replay")
CLIENT, SERVER = TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"


def run(*arguments, code=0, stdin=None):
    done = subprocess.run([REPLAY, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


def export(*arguments):
    return fits(run("export", *arguments, "--json"), "urtrs-replay", "export")["counts"]


def events_of(file):
    return json.loads(file.read_text(encoding="utf-8"), parse_float=decimal.Decimal)["traceEvents"]


def as_tables(events):
    """The tables slice and args that Perfetto makes of the events, with the columns that the query uses."""
    tables = sqlite3.connect(":memory:")
    tables.execute("CREATE TABLE slice (id INTEGER, ts INTEGER, dur INTEGER, category TEXT, name TEXT, arg_set_id INTEGER)")
    tables.execute("CREATE TABLE args (arg_set_id INTEGER, key TEXT, int_value INTEGER, string_value TEXT)")
    begun = {}
    for number, event in enumerate(events):
        if event["ph"] not in "bei":
            continue
        at = int(event["ts"] * 1000)
        track = (event["pid"], event.get("cat"), str(event.get("id2")))
        if event["ph"] == "e":
            tables.execute("UPDATE slice SET dur = ? WHERE id = ?", (at - begun[track][0], begun.pop(track)[1]))
            continue
        if event["ph"] == "b":
            assert track not in begun, "two slices of one permit at a time"
            begun[track] = at, number
        tables.execute("INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?)",
                       (number, at, -1 if event["ph"] == "b" else 0, event["cat"], event["name"], number))
        for key, value in event["args"].items():
            tables.execute("INSERT INTO args VALUES (?, ?, ?, ?)", (number, "args." + key, *((None, value) if isinstance(value, str)
                                                                                           else (int(value), None))))
    return tables


def documented_query():
    text = (ROOT / "docs/replay.md").read_text(encoding="utf-8")
    query, = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return query


def seconds(at):
    return f"{at // 10**9}.{at % 10**9:09}"


def test_the_documented_query_gives_what_stat_gives(tmp_path):
    export(CLIENT, "-o", tmp_path / "run.json")
    tables = as_tables(events_of(tmp_path / "run.json"))
    rows = tables.execute(documented_query()).fetchall()
    assert {part for _, part, _, _ in rows} == {"before", "during", "after"}
    lost, = tables.execute("SELECT min(ts) FROM slice WHERE name = 'path_lost'").fetchone()
    first, = tables.execute("SELECT min(ts) FROM slice WHERE category = 'request' AND dur >= 0 AND ts + dur >= ?", (lost,)).fetchone()
    last, = tables.execute("SELECT max(ts) FROM slice WHERE name = 'failover'").fetchone()
    assert first < lost < last
    expected = []
    for part, limits in (("before", ["--to", seconds(first - 1)]), ("during", ["--from", seconds(first), "--to", seconds(last)]),
                         ("after", ["--from", seconds(last + 1)])):
        stat = fits(run("stat", CLIENT, *limits, "--json"), "urtrs-replay", "stat")
        expected += [(path["path"], part, path["reads"] + path["writes"], path["latency_ns"]["p99"] / 1e6)
                     for path in stat["requests"]]
    assert sorted(rows) == sorted(expected)


def test_every_request_moment_and_storage_operation_is_there(tmp_path):
    export(CLIENT, SERVER, "-o", tmp_path / "both.json")
    events = events_of(tmp_path / "both.json")
    names = collections.Counter(event["name"] for event in events if event["ph"] == "i")
    assert (names["failover"], names["heartbeat_missed"]) == (1, 1)
    ended = sum(event["ph"] == "e" for event in events)
    stats = [json.loads(run("stat", trace, "--json")) for trace in (CLIENT, SERVER)]
    assert ended == sum(path["reads"] + path["writes"] for stat in stats for path in stat["requests"]) == 139
    assert sum(event["ph"] == "B" for event in events) == sum(event["ph"] == "E" for event in events) > 0
    assert len({event["args"]["name"] for event in events if event.get("name") == "process_name"}) == 2
    assert export(TRACES / "seed-767-server.rtrc", "-o", tmp_path / "storage.json")["storage"] == 46


def test_damaged_traces_and_wrong_usage(tmp_path):
    cut = tmp_path / "cut.rtrc"
    cut.write_bytes(CLIENT.read_bytes()[:-20])
    run("export", cut, "-o", tmp_path / "cut.json", code=5)
    assert events_of(tmp_path / "cut.json")
    (tmp_path / "text.rtrc").write_text("no trace\n", encoding="utf-8")
    run("export", tmp_path / "text.rtrc", "-o", tmp_path / "none.json", code=3)
    assert not (tmp_path / "none.json").exists()
    run("export", CLIENT, "--as", "fio", "-o", tmp_path / "none.iolog", code=3)  # has no block devices
    assert not (tmp_path / "none.iolog").exists()
    run("export", CLIENT, SERVER, "--as", "fio", "-o", tmp_path / "two.iolog", code=2)
    run("export", CLIENT, "-o", tmp_path / "cut.json", code=2)


def server_with_all_operations(folder):
    """Makes some writes of a server's trace other operations. Returns the trace and its storage records."""
    header, *lines = run("cat", TRACES / "seed-767-server.rtrc", "--json").splitlines()
    records = [json.loads(line) for line in lines[:-1]]
    storage = [record for record in records if record["event"] == "Storage"]
    writes = [record["fields"] for record in storage if record["fields"]["opcode"] == "write"]
    writes[1]["fua"], writes[2]["preflush"] = True, True
    writes[3]["opcode"], writes[4]["opcode"] = "discard", "write_zeroes"
    writes[5].update(opcode="flush", sector=0, bytes=0)
    text = "\n".join([header, *map(json.dumps, records), lines[-1]]) + "\n"
    run("from-json", "--rehash", "-", folder / "all.rtrc", stdin=text)
    return folder / "all.rtrc", storage


def test_an_iolog_has_all_operations(tmp_path):
    trace, storage = server_with_all_operations(tmp_path)
    assert export(trace, "--as", "fio", "-o", tmp_path / "all.iolog") == {"read": 17, "write": 26, "trim": 2, "sync": 1}
    first, *lines = (tmp_path / "all.iolog").read_text(encoding="utf-8").splitlines()
    assert first == "fio version 3 iolog"
    expected = []
    words = {"discard": "trim", "write_zeroes": "trim", "flush": "sync"}
    for record in storage:
        fields, at = record["fields"], (record["time"] - storage[0]["time"]) // 1000
        expected += [f"{at} datasync 0 0"] * fields["preflush"]
        expected.append(f"{at} {words.get(fields['opcode'], fields['opcode'])} {fields['sector'] * 512} {fields['bytes']}")
        expected += [f"{at} datasync 0 0"] * fields["fua"]
    assert [line.replace(" urtrs-disk", "") for line in lines[2:]] == expected
    assert export(trace, "--as", "fio", "--device", "disk", "-o", tmp_path / "one.iolog")["read"] == 17
    run("export", trace, "--as", "fio", "--device", "other", "-o", tmp_path / "other.iolog", code=3)


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize("side", ["server", "client1"])
def test_fio_does_the_io_of_an_iolog(tmp_path, side):
    iolog, disk = tmp_path / "run.iolog", tmp_path / "disk"
    trace = server_with_all_operations(tmp_path)[0] if side == "server" else TRACES / f"seed-767-{side}.rtrc"
    counts = export(trace, "--as", "fio", "-o", iolog)
    disk.write_bytes(bytes(64 * 512))  # size of the device in these traces
    done = subprocess.run(["fio", "--name=replay", f"--read_iolog={iolog}", f"--replay_redirect={disk}", "--ioengine=psync",
                           "--write_lat_log=lat", "--log_offset=1", "--output-format=json"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    assert (job["error"], job["read"]["total_ios"], job["write"]["total_ios"]) == (0, counts["read"], counts["write"])
    lines = [line.split()[2:] for line in iolog.read_text(encoding="utf-8").splitlines()[3:]]
    assert job["sync"]["total_ios"] == counts.get("sync", 0)  # fio does not count datasync
    # Columns: time, latency, direction, length, offset, priority. fio 3.33 skips trims.
    log = [line.split(", ") for line in (tmp_path / "lat_lat.1.log").read_text(encoding="utf-8").splitlines()]
    does = [[("read", "write")[int(direction)], offset, length] for _, _, direction, length, offset, *_ in log if direction in "01"]
    assert does == [line for line in lines if line[0] in ("read", "write")]
