"""Tests the parts of the fault tests that need no network: scripts, rules, bounds, results."""
import dataclasses
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from netns import bounds, command_line, judge, pairs, report  # noqa: E402
from netns.cases import BY_NAME, CASES, SHORT  # noqa: E402
from netns.network import Network  # noqa: E402
from netns.run import Run  # noqa: E402
from netns.script import FORMS, parse  # noqa: E402

TIMING = bounds.Timing()


class TestScripts:
    def test_every_case_has_only_known_steps(self):
        for case in CASES:
            for step in parse(case.script):
                assert hasattr(Run, "do_" + step.word), step
        assert len(BY_NAME) == len(CASES)
        assert len(CASES) >= 20
        assert set(SHORT) <= set(BY_NAME)

    def test_every_step_is_implemented(self):
        for word in FORMS:
            assert hasattr(Run, "do_" + word), word

    def test_invalid_scripts_are_refused(self):
        for script in ("run", "run x", "drop 2 both", "link 1", "jump 1", "", "lose 0 0%", "heal 1 link"):
            with pytest.raises(ValueError, match="is not a step; steps are"):
                parse(script)

    def test_step_arguments_are_parsed(self):
        steps = parse("drop all to-server; run 0.5;start server --queue-depth 32")
        assert [list(steps[0].paths()), steps[1].seconds()] == [[0, 1], 0.5]
        assert steps[2].arguments == ("server", "--queue-depth", "32")


class TestRules:
    def test_packets_are_dropped_at_the_receiver(self):
        network = Network("x")
        network.faults[1] = {"drop": "to-client"}
        assert [list(network.rules("server")), list(network.rules("client"))] == [[], ["iifname c1 drop"]]
        network.faults[1] = {"drop": "both"}
        assert list(network.rules("server")) == ["iifname s1 drop"]


class TestBounds:
    def outages(self, *intervals):
        outages = bounds.Outages(2)
        for path, begin, end in intervals:
            outages.begin(path, begin)
            outages.end(path, end)
        return outages

    def test_bound_with_one_path_left_is_detection_only(self):
        bound = bounds.stall_bound(TIMING, self.outages((1, 10, 20)), may_lose=True, storage=0.5, lateness=0.01)
        assert bound.seconds == pytest.approx(1.4 + 0.5 + 0.5 + 0.25 + 0.1)

    def test_bound_without_a_path_includes_the_reconnect(self):
        gap = self.outages((0, 10, 20), (1, 15, 16)).longest_without_path(TIMING)
        assert gap == pytest.approx(16.4 + TIMING.comeback - 15)  # path 1 counts as usable until its loss is detected

    def test_reconnect_of_one_path_may_overlap_the_loss_of_the_other(self):
        assert self.outages((0, 10, 20), (1, 21, 22)).longest_without_path(TIMING) == pytest.approx(20 + TIMING.comeback - 21)
        assert self.outages((0, 10, 12), (1, 40, 50)).longest_without_path(TIMING) == 0

    def test_bound_without_lost_paths_includes_the_outage(self):
        bound = bounds.stall_bound(TIMING, self.outages((0, 1, 1.5), (1, 1, 1.5)), may_lose=False, storage=0, lateness=0)
        assert bound.seconds == pytest.approx(0.5 + 0.5 + 0.25)
        assert "outage 0.50" in str(bound)

    def test_intervals_are_merged_and_intersected(self):
        assert bounds.merged([(5, 6), (1, 3), (2, 4)]) == [(1, 4), (5, 6)]
        assert bounds.crossed([(1, 4), (5, 9)], [(3, 6)]) == [(3, 4), (5, 6)]


class TestVerdicts:
    def judged(self, case, summary, losses=()):
        client = type("Client", (), {"name": "client0", "killed": False, "device": 0, "last_states": {0: "connected", 1: "connected"},
                                     "losses": lambda self: losses, "summary": lambda self: summary})()
        run = type("FakeRun", (), {"case": case, "clients": [client], "healed_at": None})()
        result = judge.Result(case.name)
        original, judge.judge_cells = judge.judge_cells, lambda *_: None
        try:
            judge.judge_load(run, result)
        finally:
            judge.judge_cells = original
        return result

    SUMMARY = {"answered": 9, "failovers": 0, "errors": {}, "worst_ns": 5, "in_flight": 0, "unfenced_failovers": 0,
               "history_errno": 0}

    def test_fault_without_a_lost_path_fails(self):
        assert "never lost" in self.judged(BY_NAME["link-down"], self.SUMMARY).reasons[0]
        assert self.judged(BY_NAME["link-down"], self.SUMMARY, [(1, 0, "heartbeat_lost")]).verdict == "pass"

    def test_errors_and_unexpected_losses_fail(self):
        calm = BY_NAME["calm"]
        error = {"write: no path is connected": {"count": 3, "first": 1, "last": 2}}
        for change in ({"errors": error}, {"in_flight": 1}, {"unfenced_failovers": 1}, {"history_errno": 28}):
            assert self.judged(calm, {**self.SUMMARY, **change}).verdict == "fail", change
        assert self.judged(calm, self.SUMMARY, [(0, 0, "peer_closed")]).verdict == "fail"
        assert self.judged(calm, None).verdict == "fail"
        assert "did not reach the storage" in self.judged(BY_NAME["disk-full"], self.SUMMARY).reasons[0]

    def test_only_the_trace_of_a_killed_process_may_be_damaged(self):
        assert judge.replays({"verdict": "damaged", "records": 5}, 1, True)
        assert not judge.replays({"verdict": "damaged", "records": 5}, 1, False)
        assert not judge.replays({"verdict": "diverged", "records": 5}, 1, True)


class TestPairs:
    def record(self, event, epoch=1, instance=0, **fields):
        key = {"key.path": 0, "key.con": 1, "key.epoch": epoch}
        return json.dumps({"seq": 0, "time": 0, "instance": instance, "event": event, "fields": {**key, **fields}})

    def test_pairs_are_consecutive_events_of_one_connection(self):
        seen = pairs.pairs_of([self.record("BeginClient"), self.record("Connected"), self.record("Connected", epoch=2),
                               self.record("StateHash"), self.record("ConnectionLost", reason="peer_closed"),
                               '{"end": 1}'])
        assert seen == {("client", "-", "BeginClient"), ("client", "BeginClient", "Connected"),
                                ("client", "-", "Connected"), ("client", "Connected", "ConnectionLost:peer_closed")}

    def test_pairs_missing_in_simulation_are_listed(self):
        sim = {("client", "-", "Connected"), ("client", "Connected", "Lost")}
        assert pairs.only_real(sim, sim) == []
        assert pairs.only_real({("client", "-", "Lost"), ("server", "-", "Odd")}, sim) == [
            "client: - -> Lost", "server: - -> Odd (the event itself is new)"]

    def test_the_list_of_recorded_pairs_can_be_read_back(self, tmp_path):
        found = {("server", "-", "Accept"): ["--seed", "7", "--fabric", "tcp"], ("client", "Lost", "Odd"): None}
        pairs.record(found, tmp_path / "list")
        assert pairs.recorded(tmp_path / "list") == found
        assert "client\tLost\tOdd\tmissing: no simulated" in (tmp_path / "list").read_text()

    def test_search_ends_with_the_last_wanted_pair(self, monkeypatch):
        shown = {"1": {"a"}, "2": {"a", "b"}, "3": {"c"}}
        monkeypatch.setattr(pairs, "of_world", lambda build, seed: shown.get(seed, set()))
        worlds = [(str(number),) for number in range(100)]
        assert pairs.search(None, {"a", "b"}, worlds, 1, print) == ({"a": ["1"], "b": ["2"], "c": ["3"]}, 8)
        found, number = pairs.search(None, {"a", "d"}, worlds, 1, print)
        assert "d" not in found and number == 100

    @pytest.mark.parametrize("event, simulated", [("Lost", True), ("Odd", False)])
    def test_a_new_pair_that_no_world_shows_is_reported(self, monkeypatch, event, simulated):
        monkeypatch.setattr(pairs, "recorded", lambda: {("client", "-", "Known"): ["1"]})
        monkeypatch.setattr(pairs, "worlds", lambda *_: [("1",)])
        monkeypatch.setattr(pairs, "of_world", lambda *_: {("client", "-", "Known"), ("client", "-", "Lost")})
        options = type("Options", (), {"pairs": 1, "record": False, "build_dir": None, "jobs": 1})()
        result = judge.Result("calm", pairs={("client", "-", "Known"), ("client", "-", event)})
        text, good = command_line.compare_pairs([result], options)
        assert good == simulated
        assert ("- client: - -> Odd" in text) == (not simulated)


class TestReports:
    def test_document_gets_the_new_table(self):
        results = [judge.Result("calm", requests=10, check="conforming"),
                   judge.Result("link-down", "fail", ["why not"], losses={1: 2}), judge.Result("rst", "skip", ["no nft"])]
        assert report.outcome(results[1]).reason == "why not"
        assert report.outcome(results[1]).more["lost paths"] == "1:2"
        document = report.update("a\n<!-- results begin -->\nold\n<!-- results end -->\nz\n",
                                 report.markdown(results, "today"))
        assert "| `link-down`, fail | " in document
        assert "old" not in document
        with pytest.raises(ValueError):
            report.update("no markers", "")

    def test_repeat_command_selects_the_same_case(self):
        parser = command_line.command_line().top
        options = parser.parse_args(["run", "rst", "--seed", "7"])
        line = command_line.repeat_line(BY_NAME["rst"], options)
        again = parser.parse_args(line.split()[1:])
        assert (again.patterns, again.seed) == (["rst"], 7)
        assert command_line.selected(again) == [BY_NAME["rst"]]
        own = dataclasses.replace(BY_NAME["calm"], name="own", script="run 1; settle")
        assert "--script 'run 1; settle'" in command_line.repeat_line(own, options)
