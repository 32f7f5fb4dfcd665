"""Output of grep, stat, replay, diff and merge for traces of simulated runs."""

import json
import os
import re
import subprocess
import tempfile
import time

from programs import TRACES, program

PROGRAM = program("urtrs-replay")
CLIENT = os.path.join(TRACES, "seed-420-client1.rtrc")
SERVER = os.path.join(TRACES, "seed-420-server.rtrc")
OTHER = os.path.join(TRACES, "seed-0-client1.rtrc")


def run(*arguments, code=0, stdin=None):
    result = subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            input=stdin, timeout=120, check=False)
    if result.returncode != code:
        raise AssertionError(f"{arguments}: exit code {result.returncode}, not {code}: {result.stderr}")
    return result.stderr if code in (2, 3) else result.stdout


def records(*arguments, code=0):
    return [json.loads(line) for line in run(*arguments, "--json", code=code).splitlines()]


def everything(path):
    return [one for one in records("cat", path) if "event" in one]


class TestGrep:
    def test_event_and_path(self):
        found = records("grep", CLIENT, "--event", "Path*", "--path", "0")
        wanted = [one for one in everything(CLIENT) if one["event"].startswith("Path") and
                  one["fields"].get("path") == 0]
        assert found == wanted
        assert wanted

    def test_criteria_are_anded_and_values_are_ored(self):
        both = records("grep", CLIENT, "--event", "Submitted,Complete")
        one = records("grep", CLIENT, "--event", "Submitted")
        narrowed = records("grep", CLIENT, "--event", "Submitted,Complete", "--class", "input")
        assert len(both) > len(one)
        assert one == narrowed

    def test_permit_matches_request_and_response(self):
        found = records("grep", CLIENT, "--permit", "0")
        events = {one["event"] for one in found}
        assert {"Submitted", "PostRequest", "ImmReceived", "Complete"} <= events

    def test_time_range(self):
        all_records = everything(CLIENT)
        middle = (all_records[len(all_records) // 2]["time"] - all_records[0]["time"]) / 1e9
        found = records("grep", CLIENT, "--to", repr(middle))
        later = records("grep", CLIENT, "--from", repr(middle))
        assert len(found) > 10
        assert len(later) > 10
        assert len(found) + len(later) >= len(all_records)

    def test_server_session_and_connection(self):
        found = records("grep", SERVER, "--session", "0", "--connection", "0:1")
        assert found
        for one in found:
            assert (one["instance"], one["fields"]["key.con"]) == (1, 1)
            assert one["fields"]["key.path"] % 8 == 0

    def test_field_count_and_context(self):
        lost = run("grep", CLIENT, "--event", "PathChanged", "--field", "state=connected", "-c")
        assert int(lost) > 0
        text = run("grep", CLIENT, "--event", "EndSession", "-B", "2", "-A", "1")
        assert len(text.splitlines()) == 5

    def test_no_match_and_invalid_criteria(self):
        assert run("grep", CLIENT, "--permit", "60000", code=1).startswith("# times: ")
        assert "has no event 'Nope'" in run("grep", CLIENT, "--event", "Nope", code=2)
        assert "is not a connection" in run("grep", CLIENT, "--connection", "a:b", code=2)
        assert "the classes are" in run("grep", CLIENT, "--class", "x", code=2)
        assert "is not NAME=VALUE" in run("grep", CLIENT, "--field", "x", code=2)


class TestStat:
    def test_latencies_match_the_records(self):
        stat = records("stat", CLIENT)[0]
        took, open_since = [], {}
        for one in everything(CLIENT):
            if one["event"] == "Submitted":
                open_since[one["fields"]["permit"]] = one["time"]
            if one["event"] == "Complete":
                took.append(one["time"] - open_since.pop(one["fields"]["permit"]))
        assert sum(path["reads"] + path["writes"] for path in stat["requests"]) == len(took)
        assert max(path["latency_ns"]["max"] for path in stat["requests"]) == max(took)
        assert "latency" in run("stat", CLIENT)

    def test_server_and_gaps(self):
        stat = records("stat", SERVER)[0]
        assert sum(path["reads"] + path["writes"] for path in stat["requests"]) > 10
        lengths = [gap["length_ns"] for gap in records("stat", CLIENT)[0]["gaps"]]
        assert lengths == sorted(lengths, reverse=True)


    def test_seed_is_shown_only_for_simulated_runs(self, tmp_path):
        lines = run("cat", CLIENT, "--json").splitlines()
        for tool, seed, shown in (("urtrs-sim", 0, True), ("urtrs-sim", 420, True), ("nbdkit-urtrs", 0, False)):
            header = json.loads(lines[0])
            header["trace"].update({"tool": tool, "seed": seed})
            trace = str(tmp_path / f"{tool}{seed}.rtrc")
            run("from-json", "-", trace, stdin="\n".join([json.dumps(header), *lines[1:]]) + "\n")
            assert (re.search(r"^seed", run("stat", trace), re.MULTILINE) is not None) == shown
            assert ("seed" in json.loads(run("stat", "--json", trace))) == shown
            assert (", seed " in run("cat", trace).splitlines()[0]) == shown

    def test_simulated_clock_rate_is_in_the_header(self, tmp_path):
        subprocess.run([program("urtrs-sim"), "run", "--file", "/dev/stdin", "--seed", "1", "--trace", tmp_path / "w"],
                       input="scenario A\n set server_clock_num=2\n delivered number=1\n", text=True, check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        assert "clock=2/1" in run("stat", str(tmp_path / "w.server.rtrc"))
        assert "clock" not in run("stat", str(tmp_path / "w.client1.rtrc"))


class TestWords:
    def test_headers_without_rnbd_are_no_errors(self, tmp_path):
        subprocess.run([program("urtrs-sim"), "run", "--scenario", "L01a", "--seed", "1", "--trace", tmp_path / "w"],
                       check=True, stdout=subprocess.DEVNULL, timeout=60)
        said = run("seq", str(tmp_path / "w.client1.rtrc"), str(tmp_path / "w.server.rtrc"))
        assert re.search(r"IO_REQ write \d+ B, permit \d+: header of 24 bytes", said)
        assert "no message of RNBD" not in said

    def test_one_is_singular(self, tmp_path):
        assert ", 1 machine, " in run("replay", CLIENT)
        assert re.search(r"connections, 0 of them seen at both ends$",
                         run("pcap", CLIENT, "--output", str(tmp_path / "c.pcapng")).strip())


class TestReplay:
    def test_state_at_a_record(self):
        result = records("replay", CLIENT, "--stop-at", "40", "--state")[0]
        assert result["verdict"] == "identical"
        assert result["stopped"]
        assert result["at"]["record"] == 40
        state = result["at"]["state"]["0"]
        assert "paths[0].state" in state
        assert "before record 40:" in run("replay", CLIENT, "--stop-at", "40", "--state")

    def test_diff_state_lists_the_changes(self):
        submitted = next(one for one in everything(CLIENT) if one["event"] == "Submitted")
        at = submitted["seq"]
        result = records("replay", CLIENT, "--diff-state", str(at), "--stop-at", str(at + 1))[0]
        changes = result["at"]["changes"]["0"]
        assert any(line.startswith("permits") for line in changes), changes
        nothing = records("replay", CLIENT, "--diff-state", str(at), "--stop-at", str(at))[0]
        assert nothing["at"]["changes"]["0"] == []
        run("replay", CLIENT, "--diff-state", "9", "--stop-at", "8", code=2)

    def test_state_at_the_end(self):
        assert not records("replay", CLIENT, "--state")[0]["stopped"]

    def test_divergence_shows_the_records_before(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = run("cat", CLIENT, "--json").splitlines()
            at = next(i for i, line in enumerate(lines) if '"event":"Complete"' in line)
            lines[at] = lines[at].replace('"result":"ok"', '"result":"no_path"')
            text = "\n".join(line for line in lines if not line.startswith('{"end"')) + "\n"
            changed = os.path.join(folder, "changed.rtrc")
            run("from-json", "-", changed, stdin=text)
            result = records("replay", changed, code=1)[0]
            divergence = result["divergence"]
            assert divergence["record"] == json.loads(lines[at])["seq"]
            assert "result=no_path" in divergence["recorded"]
            assert "result=ok" in divergence["rerun"]
            assert len(divergence["before"]) == 20


class TestDiff:
    def test_equal_traces_have_no_difference(self):
        for mode in ("exact", "canonical", "state"):
            assert "no difference" in run("diff", "--mode", mode, CLIENT, CLIENT)

    def test_different_runs_differ(self):
        for mode in ("exact", "canonical", "state"):
            result = records("diff", "--mode", mode, CLIENT, OTHER, code=1)[0]
            assert not result["equal"]
        assert "first difference" in run("diff", CLIENT, OTHER, code=1)

    def test_canonical_ignores_times(self):
        with tempfile.TemporaryDirectory() as folder:
            shifted = os.path.join(folder, "shifted.rtrc")
            lines = run("cat", CLIENT, "--json").splitlines()
            text = ""
            for line in lines:
                one = json.loads(line)
                if "end" in one:
                    continue
                if "event" in one:
                    one["time"] += 1000
                    if "key.epoch" in one["fields"]:
                        one["fields"]["key.epoch"] += 7
                text += json.dumps(one) + "\n"
            run("from-json", "-", shifted, stdin=text)
            result = run("diff", "--mode", "exact", CLIENT, shifted, "--json", code=1)
            assert not json.loads(result)["equal"]
            # The content is equal. The missing trailer of one trace must be reported.
            result = run("diff", CLIENT, shifted, "--json", code=5)
            assert json.loads(result)["equal"]

    def test_first_difference_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            changed = os.path.join(folder, "changed.rtrc")
            lines = run("cat", CLIENT, "--json").splitlines()
            at = [i for i, line in enumerate(lines) if '"event":"PathChanged"' in line][1]
            one = json.loads(lines[at])
            one["fields"]["peer_errno"] = 77
            lines[at] = json.dumps(one)
            text = "\n".join(line for line in lines if not line.startswith('{"end"')) + "\n"
            run("from-json", "-", changed, stdin=text)
            for mode in ("canonical", "state"):
                result = json.loads(run("diff", "--mode", mode, CLIENT, changed, "--json", code=1))
                assert result["first"]["records"] == [one["seq"], one["seq"]]
                assert "peer_errno=77" in result["first"]["b"]


class TestMerge:
    def test_receives_follow_their_sends(self):
        merged = records("merge", CLIENT, SERVER)
        assert len(merged) == len(everything(CLIENT)) + len(everything(SERVER))
        for side in (0, 1):
            numbers = [one["record"]["seq"] for one in merged if one["file"] == side]
            assert numbers == sorted(numbers)
        first = {}
        for place, one in enumerate(merged):
            first.setdefault((one["file"], one["record"]["event"]), place)
        assert first[(0, "Connect")] < first[(1, "ConnectRequested")]
        assert first[(1, "Accept")] < first[(0, "Connected")]
        assert first[(0, "PostRequest")] < first[(1, "RequestArrived")]

    def test_merged_trace_replays_identically(self):
        with tempfile.TemporaryDirectory() as folder:
            both = os.path.join(folder, "both.rtrc")
            run("merge", CLIENT, SERVER, "--output", both)
            assert len(everything(both)) == len(everything(CLIENT)) + len(everything(SERVER))
            assert "identical" in run("replay", both)
            assert records("stat", both)[0]["role"] == "both"

    def test_text_and_errors(self):
        text = run("merge", CLIENT, SERVER)
        assert text.splitlines()[1].startswith("# A: ")
        assert "\nB " in text
        run("merge", CLIENT, "/nonexistent", code=2)


class TestArguments:
    def test_invalid_numbers_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            for seconds in ("nan", "-1", "1e300", "inf", "x"):
                for command in ("min", "simulate", "scenario", "lift"):
                    assert "--time" in run(command, CLIENT, "--out", out, "--time=" + seconds, code=2)
            for port in ("0", "65536", "-1"):
                assert "--port" in run("import", CLIENT, out, "--port=" + port, code=2)
                assert "--port" in run("pcap", CLIENT, "-o", out, "--port=" + port, code=2)
            assert os.listdir(folder) == []

    def test_writing_a_trace_to_standard_output_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in ("import", "from-json"):
                ran = subprocess.run([PROGRAM, command, CLIENT, "-"], cwd=folder, capture_output=True, text=True,
                                     timeout=120, check=False)
                assert (ran.returncode, os.listdir(folder)) == (2, []), ran.stderr
                assert "cannot write a trace to standard output; name a file" in ran.stderr

    def test_hung_predicate_is_killed_at_the_time_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            pids, out = os.path.join(folder, "pids"), os.path.join(folder, "out")
            hangs = f"echo $$ >> {pids}; sleep 1000 & echo $! >> {pids}; wait; :"
            assert "time ran out while" in run("min", CLIENT, "--out", out, "--time", "1", "--predicate", hangs,
                                                    code=3)
            with open(pids, encoding="utf-8") as file:
                numbers = file.read().split()
            assert len(numbers) == 2
            # A killed process that is not a child of `min` can exist for a short time after `min` has ended.
            end = time.monotonic() + 30
            while any(self.runs(number) for number in numbers):
                assert time.monotonic() < end, numbers

    def runs(self, number):
        try:
            with open(f"/proc/{number}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False


class TestHostile:
    def test_trace_without_a_valid_header_is_refused(self):
        with open(CLIENT, "rb") as file:
            whole = file.read()
        with tempfile.TemporaryDirectory() as folder:
            cut = os.path.join(folder, "cut.rtrc")
            for size in (0, 8, 16, 40, 1000):
                with open(cut, "wb") as file:
                    file.write(whole[:size])
                for command in (("merge", cut, SERVER), ("merge", SERVER, cut), ("merge", cut),
                                ("merge", SERVER, cut, "--output", os.path.join(folder, "both.rtrc")),
                                ("seq", SERVER, cut)):
                    assert "urtrs-replay: " in run(*command, code=3)

    def test_min_and_simulate_report_a_damaged_trace(self):
        with open(CLIENT, "rb") as file:
            whole = file.read()
        with tempfile.TemporaryDirectory() as folder:
            bad, out = os.path.join(folder, "bad.rtrc"), os.path.join(folder, "out")
            first = whole.index(b"BLK1")
            for data in (whole[:first + 60] + bytes([whole[first + 60] ^ 1]) + whole[first + 61:], whole[:first + 60]):
                with open(bad, "wb") as file:
                    file.write(data)
                for command in (("min", bad, "--out", out), ("min", bad, "--out", out, "--json"),
                                ("min", bad, "--out", out, "--for", "check"), ("min", bad, "--out", out, "--rerun"),
                                ("min", bad, "--out", out, "--shows", "Complete"), ("simulate", bad, "--out", out)):
                    assert re.search(r"bad.rtrc: byte \d+: .*; no record of it can be read", run(*command, code=3))
            assert not os.path.exists(out)

    def test_min_uses_the_readable_part(self):
        with open(CLIENT, "rb") as file:
            whole = file.read()
        with tempfile.TemporaryDirectory() as folder:
            cut = os.path.join(folder, "cut.rtrc")
            with open(cut, "wb") as file:
                file.write(whole[:-20])
            ran = subprocess.run([PROGRAM, "min", cut, "--out", os.path.join(folder, "o")], capture_output=True,
                                 text=True, timeout=120, check=False)
            count = len(everything(CLIENT))
            assert ran.returncode == 5, ran.stderr
            assert f"the trace is damaged: only the {count} records before it are used" in ran.stderr
            assert "the trace is damaged; of what can be read of it:" in ran.stdout
            found = records("min", cut, "--out", os.path.join(folder, "p"), "--shows", "Complete", code=1)[0]
            assert found["fails"] and found["damage"].startswith("byte "), found

    def test_min_and_simulate_refuse_invalid_configurations(self):
        with tempfile.TemporaryDirectory() as folder:
            for trace, event, field, value in ((CLIENT, "BeginClient", "max_depth", 65535),
                                               (CLIENT, "BeginClient", "con_num", 65535),
                                               (SERVER, "BeginServerSession", "queue_depth", 0),
                                               (SERVER, "BeginServerSession", "queue_depth", 65535)):
                lines = [json.loads(line) for line in run("cat", trace, "--json").splitlines()]
                begins = [line for line in lines if line.get("event") == event]
                assert begins
                begins[0]["fields"]["config." + field] = value
                bad = os.path.join(folder, f"{event}-{field}-{value}.rtrc")
                run("from-json", "-", bad, stdin="\n".join(json.dumps(line) for line in lines if "end" not in line) + "\n")
                why = f"record {begins[0]['seq']} ({event}): config.{field} is out of range"
                assert why in run("replay", bad, code=3)
                out = os.path.join(folder, "out")
                for command in (("min", bad, "--out", out), ("min", bad, "--out", out, "--rerun"),
                                ("min", bad, "--out", out, "--for", "invariant"), ("simulate", bad, "--out", out)):
                    assert why in run(*command, code=3)

    def test_trace_without_records_is_merged_as_empty(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = os.path.join(folder, "empty.rtrc")
            header = run("cat", CLIENT, "--json").splitlines()[0]
            another = os.path.join(folder, "another.rtrc")
            for name in empty, another:
                run("from-json", "-", name, stdin=header + "\n")
            for command in (("merge", empty, SERVER), ("merge", SERVER, empty), ("merge", empty, another)):
                run(*command, code=5)

    def test_names_in_a_trace_cannot_control_the_terminal(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = run("cat", CLIENT, "--json").splitlines()
            header = json.loads(lines[0])
            text = json.dumps(header)
            for name in ("PathChanged", "peer_errno", "urtrs-sim"):
                assert name in text
                text = text.replace(name, "n\\u001b[31m\\u009b1m\\u007f")
            body = "\n".join(lines[1:40]).replace("PathChanged", "n\\u001b[31m\\u009b1m\\u007f")
            body = body.replace("peer_errno", "n\\u001b[31m\\u009b1m\\u007f")
            hostile = os.path.join(folder, "hostile.rtrc")
            run("from-json", "-", hostile, stdin=text + "\n" + body + "\n")
            for command in (("stat",), ("cat",), ("merge",), ("replay",), ("check",), ("grep",), ("seq",),
                            ("stat", "--json"), ("merge", "--json"), ("seq", "--json")):
                ran = subprocess.run([PROGRAM, command[0], hostile, *command[1:]], capture_output=True, timeout=120,
                                     check=False)
                assert ran.returncode in (0, 1, 3, 5)
                for raw in (b"\x1b", b"\xc2\x9b", b"\x7f"):
                    assert raw not in ran.stdout + ran.stderr

    def test_output_is_readable_only_by_its_owner(self):
        with tempfile.TemporaryDirectory() as folder:
            both = os.path.join(folder, "both.rtrc")
            with open(both, "w"):
                os.chmod(both, 0o644)
            run("merge", CLIENT, SERVER, "--output", both)
            assert os.stat(both).st_mode & 0o777 == 0o600
            new = os.path.join(folder, "new.rtrc")
            run("merge", CLIENT, SERVER, "--output", new)
            assert os.stat(new).st_mode & 0o777 == 0o600

