"""`urtrs-sim sweep --histories` writes what docs/simulation.md describes. An error that the protocol hides from O4 is in
the history, too."""
import json
import subprocess

import pytest
from programs import BOUND, program

SIM = program("urtrs-sim")
INVOKE = {"at", "client", "event", "disk", "op", "type"}
KEYS = {
    "ok": [{"at", "client", "event", "disk", "op"}, {"at", "client", "event", "disk", "op", "read"}],
    "failed": [{"at", "client", "event", "disk", "op", "error"}],
    "unknown": [{"at", "client", "event", "disk", "op", "error"}],
    "invoke": [INVOKE | {"sector", "sectors"}],
    "crash": [{"at", "client", "event"}],
    "session_ended": [{"at", "client", "event"}],
    "cut": [{"at", "client", "event", "disk", "why"}],
}


def sweep(folder, *options, seeds="0..60", code=0):
    done = subprocess.run([SIM, "sweep", "--seeds", seeds, "--no-specification", "--histories", folder, *options, "--json"],
                          capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("histories") / "new"
    summary = sweep(folder)
    files = sorted(folder.iterdir())
    assert len(files) == summary["histories"]
    assert summary["histories_left_out"] > 0
    # One seed in eight also plays BD24.
    assert summary["histories"] + summary["histories_left_out"] == 60 + 8
    return {file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files}


def test_first_line_names_format_and_world(histories):
    for name, (first, *_) in histories.items():
        assert first["format"] == "urtrs-history-1"
        assert set(first) == {"format", "seed", "world"}
        assert name.startswith(f"seed-{first['seed']:08d}.")
        assert first["world"] == "disks" or ".BD24." not in name
    assert {first["world"] for first, *_ in histories.values()} == {"session", "block_device", "disks"}


def test_each_event_has_its_keys_and_times_increase(histories):
    seen = set()
    for name, (_, *events) in histories.items():
        assert [one["at"] for one in events] == sorted(one["at"] for one in events), name
        for one in events:
            assert set(one) in KEYS[one["event"]], (name, one)
            seen.add(one["event"])
    assert seen == set(KEYS)


def test_an_operation_begins_once_and_returns_at_most_once(histories):
    kinds, unanswered = set(), 0
    for name, (_, *events) in histories.items():
        begun, returned, cut = {}, set(), set()
        for one in events:
            if one["event"] == "cut":
                cut.add(one["disk"])
            if "op" not in one:
                continue
            key = (one["disk"], one["op"])
            assert one["disk"] not in cut, (name, one)
            if one["event"] == "invoke":
                assert key not in begun, (name, one)
                begun[key] = one
                kinds.add(one["type"])
                continue
            assert key in begun and key not in returned, (name, one)
            assert begun[key]["client"] == one["client"]
            returned.add(key)
            if begun[key]["type"] == "read" and one["event"] == "ok":
                assert len(one["read"]) == begun[key]["sectors"], (name, one)
        unanswered += len(begun.keys() - returned)
    assert kinds == {"read", "write", "flush", "discard", "write-zeroes"}
    assert unanswered > 0


def test_reads_return_operations_that_wrote_the_sector(histories):
    reads = 0
    for name, (_, *events) in histories.items():
        written, sectors = {}, {}
        for one in events:
            if one["event"] == "invoke":
                sectors[one["disk"], one["op"]] = range(one["sector"], one["sector"] + one["sectors"])
            if one["event"] == "invoke" and one["type"] == "write":
                written[one["disk"], one["op"]] = one
            for sector, writer in zip(sectors.get((one.get("disk"), one.get("op")), ()), one.get("read", ())):
                reads += writer != 0
                assert writer == 0 or sector in sectors[one["disk"], writer], (name, one)
                assert writer == 0 or (one["disk"], writer) in written, (name, one)
    assert reads > 100


def test_the_history_does_not_change_the_run(tmp_path):
    def hash_of(*options):
        return sweep(tmp_path / "histories", "--check-determinism", "100", *options, seeds="0..20")["events"]
    plain = subprocess.run([SIM, "sweep", "--seeds", "0..20", "--no-specification", "--json"], capture_output=True, text=True,
                           timeout=2 * BOUND, check=True)
    assert hash_of() == json.loads(plain.stdout)["events"]


@pytest.mark.parametrize("options, why", [
    (["--excuse", "O3"], "--excuse requires --histories"),
    (["--histories", "/proc/self/no"], "cannot make /proc/self/no"),
    (["--histories", "here", "--excuse", "O3,O99"], "no oracle 'O99'"),
])
def test_mistakes_are_refused(tmp_path, options, why):
    done = subprocess.run([SIM, "sweep", "--seeds", "0..2", *options], cwd=tmp_path, capture_output=True, text=True, timeout=BOUND,
                          check=False)
    assert done.returncode == 2, done.stdout
    assert why in done.stderr
    assert done.stderr.startswith("urtrs-sim: ") and done.stderr.count("\n") == 1


def test_an_unwritable_folder_ends_the_sweep(tmp_path):
    (tmp_path / "seed-00000000.jsonl").mkdir()
    (tmp_path / "seed-00000001.jsonl").mkdir()
    (tmp_path / "seed-00000002.jsonl").mkdir()
    done = subprocess.run([SIM, "sweep", "--seeds", "0..3", "--histories", tmp_path], capture_output=True, text=True, timeout=BOUND,
                          check=False)
    assert done.returncode == 2, done.stdout
    assert f"cannot write a history to {tmp_path}: Is a directory (errno 21)" in done.stderr
