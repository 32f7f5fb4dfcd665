"""Requests without an answer at the end of a trace: `stat` and `check` name them and what they wait for."""
import json
import subprocess

import pytest
from programs import BOUND, program
from schemas import fits

REPLAY = program("urtrs-replay")

# Each run ends when the step that waits for the last request fails.
SCENARIOS = """
setup alone
  set paths=1 workload.requests=0

scenario storage: alone
  title storage never completes a write
  connected path=0
  write number=1
  completed number=1
  pass time=300ms
  storage number=1 time=10000s length=10000s
  write number=1 sector=8
  completed number=2
  expect O9

scenario black_hole: alone
  title one connection delivers nothing, until the client finds out
  connected path=0
  write number=1
  completed number=1
  pass time=300ms
  hang path=0 con=1
  write number=1 sector=8
  completed number=2

scenario stopped_server: alone
  title the server does not run for a while
  connected path=0
  write number=1
  completed number=1
  pass time=300ms
  pause client=0 time=4s
  write number=1 sector=8
  completed number=2
  pass time=3s
"""


def replay(*arguments, code=0, stdin=None):
    done = subprocess.run([REPLAY, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


class Run:
    """A run's traces as records. The tests cut and edit them."""

    def __init__(self, folder, *arguments):
        subprocess.run([program("urtrs-sim"), "run", *arguments, "--seed", "1", "--trace", folder / "run"], check=True,
                       stdout=subprocess.DEVNULL, timeout=4 * BOUND)
        self.folder = folder
        self.sides = {side: [json.loads(line) for line in replay("cat", folder / f"run.{side}.rtrc", "--json").splitlines()]
                      for side in ("client1", "server")}

    def write(self, side, to, seconds=None, drop=()):
        """Writes the records of the first `seconds`, without those in `drop`. Returns the file."""
        kept = [one for number, one in enumerate(self.sides[side])
                if "end" not in one and number not in drop and (seconds is None or one.get("time", 0) <= seconds * 1e9)]
        for number, one in enumerate(one for one in kept if "event" in one):
            one["seq"] = number
        text = "".join(json.dumps(one) + "\n" for one in kept)
        file, draft = to / f"{side}.rtrc", to / "draft.rtrc"
        replay("from-json", "-", draft, stdin=text)
        read = json.loads(replay("stat", "--json", draft, code=5))
        draft.unlink()
        file.unlink(missing_ok=True)
        end = {"end": {"records": read["records"], "chain_hash": read["chain_hash"]}}
        replay("from-json", "-", file, stdin=text + json.dumps(end) + "\n")
        return file

    def find(self, side, event, nth=-1):
        return [number for number, one in enumerate(self.sides[side]) if one.get("event") == event][nth]


@pytest.fixture(name="run")
def _run(tmp_path):
    file = tmp_path / "hangs.scenarios"
    file.write_text(SCENARIOS)
    (tmp_path / "run").mkdir()
    return lambda scenario: Run(tmp_path / "run", "--file", file, "--scenario", scenario)


def unanswered(verb, *files, code):
    return fits(replay(verb, "--json", *files, code=code), "urtrs-replay", verb)["unanswered"]


def test_silent_storage(run, tmp_path):
    traces = run("storage")
    client, server = traces.write("client1", tmp_path, 5), traces.write("server", tmp_path, 5)
    mine, = unanswered("stat", client, code=0)
    assert mine["stage"] == "sent" and mine["write"] and mine["age_ns"] > 3e9
    assert mine["record"] == traces.sides["client1"][traces.find("client1", "Submitted")]["seq"]
    assert [one["stage"] for one in unanswered("stat", server, code=0)] == ["storage"]
    both, = unanswered("check", client, server, code=3)
    assert both["stage"] == "storage" and both["file"] == str(client)
    assert [(one["side"], one["event"]) for one in both["last"]] == [("client", "PostRequest"), ("server", "Deliver")]
    text = replay("check", client, server, code=3)
    assert "unanswered: write of 64 bytes, permit 0" in text and "storage has not completed it" in text and "inconclusive" in text
    assert unanswered("check", client, server, "--hang-after", "10s", code=0) == []
    assert "storage has not completed it" in replay("stat", server)


def test_black_hole(run, tmp_path):
    traces = run("black_hole")
    client, server = traces.write("client1", tmp_path, 5.5), traces.write("server", tmp_path, 5.5)
    assert [one["stage"] for one in unanswered("check", client, server, code=3)] == ["wire"]
    assert unanswered("check", server, code=0) == []


def test_run_that_recovers_has_no_hang(run, tmp_path):
    traces = run("stopped_server")
    assert unanswered("check", traces.write("client1", tmp_path), traces.write("server", tmp_path), code=0) == []
    slow = fits(replay("stat", "--json", tmp_path / "client1.rtrc"), "urtrs-replay", "stat")["slowest"][0]
    assert slow["took_ns"] >= 3.9e9 and slow["write"]
    assert slow["record"] == traces.sides["client1"][traces.find("client1", "Submitted", 1)]["seq"]


def test_forgotten_response(run, tmp_path):
    """Edits of a trace of a server whose storage answered, as a server with this bug would record it."""
    traces = run("stopped_server")
    for event in ("PostResponse", "Responded"):
        place = traces.find("server", event, 1)
        later = [number for number, one in enumerate(traces.sides["server"]) if number > place and one.get("event") == "WireSent"]
        response = traces.find("server", "PostResponse", 1)
        file = traces.write("server", tmp_path, 6, {place, response, later[0]})
        verdict = json.loads(replay("check", "--json", file, code=1 if event == "PostResponse" else 3))
        assert [one["stage"] for one in verdict["unanswered"]] == ["finished" if event == "PostResponse" else "storage"]
        if event == "PostResponse":
            assert verdict["traces"][0]["findings"][0]["rule"] == "response-due"


def test_stopped_process(run, tmp_path):
    """The trace of a process that did not run says so; the other side's does not."""
    traces = run("stopped_server")
    client, server = traces.write("client1", tmp_path), traces.write("server", tmp_path)
    pause, = fits(replay("stat", "--json", server), "urtrs-replay", "stat")["pauses"]
    assert pause["from"] < 1.1e9 and pause["to"] > 4.2e9 and pause["silent_since"] < 0.4e9
    assert fits(replay("stat", "--json", client), "urtrs-replay", "stat")["pauses"] == []
    assert "this process did not run from 1.0" in replay("stat", server)
    checked = fits(replay("check", "--json", client, server), "urtrs-replay", "check")
    assert [len(one["pauses"]) for one in checked["traces"]] == [0, 1]
    assert "this process did not run from 1.0" in replay("check", client, server)
    drawn = replay("seq", client, server)
    band, = [line for line in drawn.splitlines() if "this process did not run for at least 3.3" in line]
    assert f" B{pause['record']} " in band
    assert "on the way, or waiting for this process, for 4.0" in drawn
    marked = replay("seq", client, server, "--mark", f"B{pause['record']}:here")
    assert marked.count("VIOLATION") == 1


@pytest.mark.parametrize("side, event", [("client1", "Submitted"), ("server", "RequestArrived")])
def test_min_keeps_the_hang(run, tmp_path, side, event):
    file = run("storage").write(side, tmp_path, 5)
    found = fits(replay("min", "--json", file, "--out", tmp_path / "short.rtrc", "--unanswered", code=1), "urtrs-replay", "min")
    assert "is not answered" in found["failure"] and found["records"] < found["records_before"] / 2
    again, = unanswered("stat", tmp_path / "short.rtrc", code=0)
    assert again["write"] and again["age_ns"] >= 1e9
    record = again["record"]
    replay("min", tmp_path / "short.rtrc", "--out", tmp_path / "that.rtrc", f"--unanswered={record}", code=1)
    answered = replay("min", file, "--out", tmp_path / "none.rtrc", "--unanswered", "--hang-after", "9s")
    assert answered.startswith("every request is answered")
    wrong = subprocess.run([REPLAY, "min", file, "--out", tmp_path / "none.rtrc", "--unanswered=1"], capture_output=True, text=True,
                           timeout=BOUND, check=False)
    assert wrong.returncode == 2 and "record 1 is no unanswered request" in wrong.stderr


def hanging_world(trace, folder):
    """Makes a world of a client's trace. Returns what `simulate` found and what `urtrs-sim` says of the world."""
    log = folder / "hang.choices"
    found = fits(replay("simulate", "--json", trace, "--out", log, "--unanswered", "--seeds", "3", "--time", "20s", code=1), "urtrs-replay",
                 "simulate")
    said = subprocess.run([program("urtrs-sim"), "run", "--choices", log], capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert said.returncode == 4 and "FAIL" in said.stdout, said.stdout
    return found, said.stdout


@pytest.mark.parametrize("scenario, seconds, cause", [("storage", 5, "storage that never completes"),
                                                      ("stopped_server", 4, "a server that does not run"),
                                                      ("black_hole", 5.5, "connections that deliver nothing")])
def test_simulated_world_hangs_as_the_trace(run, tmp_path, scenario, seconds, cause):
    found, said = hanging_world(run(scenario).write("client1", tmp_path, seconds), tmp_path)
    assert cause in found["guess"] and "never came: completed number=2" in found["seen"]
    assert "never came: completed number=2" in said and "client 1: 1 requests in flight" in said


def test_simulate_of_a_trace_without_a_hang(run, tmp_path):
    file = run("stopped_server").write("client1", tmp_path)
    said = replay("simulate", file, "--out", tmp_path / "none.choices", "--unanswered")
    assert said.startswith("every request is answered")
