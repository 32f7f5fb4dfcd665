"""`why` names the cause of known failures: each row of FAILURES plays a fault and names the sentence that must explain it."""
import json
import pathlib
import re
import subprocess

import pytest
from programs import BOUND, program
from schemas import fits

REPLAY = program("urtrs-replay")
SCENARIOS = pathlib.Path(__file__).with_name("why.scenarios")

# Scenario; what is asked; a sentence of the answer. "cause: " in front: the sentence must be the cause.
FAILURES = [
    ("cut_link", "", r"cause: \d+ messages of the client \(first IO_REQ .*\) and 1 message of the server \(first HB\) did not arrive on path 1, "
                     r"while the process of the server ran"),
    ("cut_link", "path 1", r"4 requests in flight failed over to path 0, fenced"),
    ("cut_idle", "", r"cause: 1 message of the server \(first HB\) and 1 message of the client \(first HB\) did not arrive on connection 0 of path 0"),
    ("PR04", "", r"cause: the process of the server ended and began again"),
    ("long_stop", "", r"cause: the process of the server did not run for at least 19.300 s"),
    ("long_stop", "path 0", r"the last message that the client got on path 0 was IO_RSP ok, permit 0, 7.000 s before"),
    ("short_stop", "", r"cause: the process of the server did not run for at least 3.300 s"),
    ("client_stop", "", r"cause: the process of the client did not run for at least 19"),
    ("client_stop", "path 0", r"was disconnected by the server: heartbeat_lost"),
    ("server_crash", "", r"cause: the process of the server ended and began again"),
    ("client_crash", "", r"cause: the process of the client ended and began again"),
    ("operator", "", r"cause: an operator disconnected path 1 at the client"),
    ("operator", "path 1", r"an operator reconnected path 1"),
    ("brief_operator", "path 1", r"cause: an operator disconnected path 1 at the client"),
    ("removal", "", r"cause: an operator removed path 1 at the client"),
    ("server_operator", "", r"cause: an operator disconnected path 1 at the server"),
    ("expelled", "", r"cause: the session was closed by request, and with it path 0 at the server"),
    ("broken_connection", "", r"cause: connection 1 of path 0 ended at the client: transport_error"),
    ("swallowed", "", r"cause: \d messages of the client \(first IO_REQ write"),
    ("black_hole", "", r"nothing arrived on connection 1 of path 0 after .*, although the client sent IO_REQ write"),
    ("silent_storage", "", r"cause: storage has not completed it"),
    ("slow_storage", "", r"cause: storage took 2.000 s"),
    ("failing_storage", "", r"cause: the upper layer of the server \(storage or its block devices\) answered errno 5 \(EIO\)"),
    ("request_timeout", "", r"cause: storage had the request for \S+ m?s and had not completed it"),
    ("bad_answer", "path 0 --at 0.142", r"connecting failed|bad_conn_rsp"),
    ("bad_answer", "", r"cause: the server sent the message: CM rep, on connection 0 of path 0"),
    ("bad_immediate", "", r"cause: the client got the message: immediate 4294967295"),
    ("bad_immediate", "path 0", r"cause: the server violated the protocol on connection 1 of path 0"),
    ("bad_client", "", r"cause: the server got the message: immediate 4294967295"),
    ("bad_client", "path 0", r"cause: the client violated the protocol on connection 1 of path 0"),
    ("smaller_server", "", r"the server announced queue depth 4 and IO up to \d+ bytes, before 8 and \d+"),
    ("crowded", "path B0", r"cause: the server rejected the connect request .*: too_many_sessions"),
    ("unplugged", "", r"cause: connection 0 of path 0 ended at the client: fabric_gone"),
    ("never_connected", "", r"cause: 1 message of the client \(first CON_REQ 1 of 3, attempt 1\) did not arrive on path 1"),
    ("outage", "--slowest 1", r"client queue took most: the request waited 6.\d+ s until it could be sent again, after path 0 was lost"),
    ("outage", "", r"no path of the client was connected for"),
    ("late_disk", "device 0", r"the server refused the OPEN: device_absent \(the server has no device with this name\), errno 2 \(ENOENT\)"),
    ("late_disk", "device 0", r"cause: the process of the server ended and began again"),
    ("taken_away", "", r"cause: an operator of the server took the device away"),
    ("L24b", "", r"cause: it arrived 2 times, and the trace of the server shows that it was sent 1 time"),
    ("AD03", "", r"the client could not connect path 0: name_refused"),
    ("F38c", "", r"the last step of connecting was INFO_REQ, 2.000 s before"),
    ("KY03", "path 1 --at 1.85", r"4 messages of the client .* did not arrive on path 1, in flight when the connection ended"),
    ("KY03", "path 1 --at 1.85", r"path 0 stayed connected until the session was closed"),
    ("failing_flush", "", r"cause: storage failed an IO with errno 5 \(EIO\)"),
]


def why(*arguments, code=0):
    done = subprocess.run([REPLAY, "why", *map(str, arguments)], capture_output=True, text=True, timeout=4 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module", name="run")
def _run(tmp_path_factory):
    """Returns the traces of a scenario, of why.scenarios or (in capitals) of the simulator: those of the clients, then that of the server."""
    folder = tmp_path_factory.mktemp("why")

    def play(scenario):
        if not (folder / f"{scenario}.server.rtrc").exists():
            own = ["--file", SCENARIOS] if scenario.islower() else []
            done = subprocess.run([program("urtrs-sim"), "run", *own, "--scenario", scenario, "--seed", "1",
                                   "--trace", folder / scenario], capture_output=True, text=True, timeout=4 * BOUND, check=False)
            assert (folder / f"{scenario}.server.rtrc").exists(), done.stdout + done.stderr
        return [*sorted(folder.glob(f"{scenario}.client*.rtrc")), folder / f"{scenario}.server.rtrc"]

    return play


@pytest.mark.parametrize("scenario, target, sentence", FAILURES)
def test_known_failure(run, scenario, target, sentence):
    traces = run(scenario)
    text = why(*traces, *target.split())
    assert re.search(sentence, text), text
    if "--slowest" in target:
        return
    answer = fits(why(*traces, *target.split(), "--json"), "urtrs-replay", "why")
    for one in answer["sentences"]:
        assert one["records"], one
        for record in one["records"]:
            assert record["file"] in map(str, traces)
    assert len([one for one in answer["sentences"] if one["cause"]]) == 1, text


@pytest.mark.parametrize("scenario, side, sentence, unknown", [
    ("cut_link", 0, "connection 1 of path 1 ended at the client: transport_error", "whether the process of the server ran"),
    ("cut_link", 1, "the client requested over another path that path 1 be closed", "there is no trace of the client"),
    ("long_stop", 0, "7.000 s before", "there is no trace of the server"),
    ("cut_with_disk", 1, "the server lost path 0: ", "whether the process of the client ran"),
    ("slow_storage", 0, "the request was on the wire, at the server or in storage: only a trace of the server tells where",
     "there is no trace of the server"),
    ("silent_storage", 0, "only a trace of the server tells whether it arrived", "there is no trace of the server"),
    ("silent_storage", 1, "storage has not completed it", "there is no trace of the client"),
    ("crowded", 1, "rejected by the server", "why the server rejected it: there is no trace of the server")])
def test_one_trace_says_what_it_does_not_tell(run, scenario, side, sentence, unknown):
    text = why(run(scenario)[side])
    assert sentence in text and re.search(rf"not known: .*{unknown}", text), text


def test_diagram_has_no_pause_between_two_processes(run):
    def drawn(scenario):
        return subprocess.run([REPLAY, "seq", *run(scenario)], capture_output=True, text=True, check=True, timeout=4 * BOUND).stdout

    assert "did not run" in drawn("long_stop")
    assert "did not run" not in drawn("server_crash")


def test_server_alone_knows_that_it_did_not_run(run):
    assert "cause: the process of the server did not run for at least 19.300 s" in why(run("long_stop")[1])


def test_stages(run):
    traces = run("slow_storage")
    both = fits(why(*traces, "--slowest", "1", "--json"), "urtrs-replay", "why")["requests"][0]
    assert both["longest"] == "storage" and both["stages_ns"]["storage"] > 1.9e9 and both["took_ns"] == sum(both["stages_ns"].values())
    client = fits(why(traces[0], "--slowest", "1", "--json"), "urtrs-replay", "why")["requests"][0]
    assert client["longest"] == "sent" and client["took_ns"] == both["took_ns"]
    assert len(json.loads(why(*traces, "--slower", "1s", "--json"))["requests"]) == 1
    assert json.loads(why(*traces, "--slower", "3s", "--json"))["requests"] == []
    for trace, stage in zip(traces, ("sent", "storage")):
        slow = json.loads(subprocess.run([REPLAY, "stat", "--json", trace], capture_output=True, check=True, timeout=BOUND).stdout)["slowest"][0]
        assert slow["stages_ns"][stage] > 1.9e9, slow


def test_stat_names_failed_requests_that_the_device_layer_sends_again(run):
    client = run("late_disk")[0]
    told = json.loads(subprocess.run([REPLAY, "stat", "--json", client], capture_output=True, check=True, timeout=BOUND).stdout)
    assert 0 < told["repeated"] <= sum(path["failed"] for path in told["requests"])
    text = subprocess.run([REPLAY, "stat", client], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    assert f"sent again      {told['repeated']} of the failed requests" in text


def test_target(run):
    traces = run("cut_link")
    whole = why(*traces, "path", "1")
    record = int(re.search(r"IO_REQ .*\[A(\d+) ", whole).group(1))
    request = why(*traces, "request", f"A{record}")
    assert "it moved from path 1 to path 0, fenced" in request and "cause: " in request
    assert why(*traces, "at", "2.0") == why(*traces, "--at", "2.0") == whole
    assert "no such path, request or device" in why(*traces, "path", "7", code=2)
    assert "no such path, request or device" in why(*traces, "request", "999999", code=2)
    assert "takes a number" in why(*traces, "path", "one", code=2)
    assert "is no time of these traces" in why(*traces, "at", "noon", code=2)
    assert "cannot read standard input" in why("-", code=2)
    assert "was never lost" in why(run("slow_storage")[0], "path", "0") or "session_closed" in why(run("slow_storage")[0], "path", "0")


def test_names_stay_on_one_line(run, tmp_path):
    copy = tmp_path / "two\nlines.rtrc"
    copy.write_bytes(run("operator")[0].read_bytes())
    assert "two\\x0alines.rtrc, client" in why(copy)


def test_violation_comes_first(run, tmp_path):
    """A client that fails over without asking for a fence."""
    client, server = run("cut_link")
    lines = subprocess.run([REPLAY, "cat", "--json", client], capture_output=True, text=True, check=True, timeout=BOUND).stdout.splitlines()
    records = [json.loads(line) for line in lines if '"end"' not in line]
    kept = [one for one in records if one.get("event") != "SendFenceReq"]
    for number, one in enumerate(one for one in kept if "event" in one):
        one["seq"] = number
    wrong = tmp_path / "wrong.rtrc"
    subprocess.run([REPLAY, "from-json", "-", wrong], input="".join(json.dumps(one) + "\n" for one in kept), text=True,
                   stdout=subprocess.DEVNULL, check=False, timeout=BOUND)
    done = subprocess.run([REPLAY, "why", wrong, server], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode in (0, 5) and "is violated" in done.stdout and "allowed would have been" in done.stdout
