"""Judges a finished case from the request histories of the clients, the content of the device, and the traces."""
import dataclasses
import json
import re
import subprocess

from .processes import BASE
from .script import PATHS

GOOD = ("pass", "skip")


@dataclasses.dataclass
class Result:
    case: str
    verdict: str = "pass"
    reasons: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    errors: int = 0
    failovers: int = 0
    worst_stall: float = 0.0
    stall_bound: float = 0.0
    stall_terms: str = ""
    lateness: float = 0.0
    losses: dict = dataclasses.field(default_factory=dict)  # number of losses of each path
    waits: list = dataclasses.field(default_factory=list)  # (description, seconds, bound, terms)
    check: str = ""
    laws: list = dataclasses.field(default_factory=lambda: [0, 0])  # connections recorded by both ends, and their messages
    records: int = 0  # number of records that were replayed with identical state
    pairs: set = dataclasses.field(default_factory=set)  # pairs of consecutive events, see pairs.py
    repeat: str = ""
    folder: str = ""

    def fail(self, reason):
        self.verdict = "fail"
        self.reasons.append(reason)


def tool(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def judge_load(run, result):
    """Judges the results of the clients while the server still runs."""
    for client in run.clients:
        for path, _, _ in client.losses():
            result.losses[path] = result.losses.get(path, 0) + 1
        summary = client.summary()
        if summary is None:
            if not client.killed:
                result.fail(f"{client.name} printed no summary")
            continue
        take_summary(run, result, client, summary)
    never = run.case.lost - set(result.losses)
    if never:
        result.fail(f"the fault did not reach path {', '.join(map(str, sorted(never)))}: it was never lost")
    unexpected = set(result.losses) - run.case.lost - run.case.may_lose
    if unexpected:
        result.fail(f"path {', '.join(map(str, sorted(unexpected)))} was lost")
    judge_cells(run, result)


def take_summary(run, result, client, summary):
    result.requests += summary["answered"]
    result.failovers += summary["failovers"]
    result.errors += sum(error["count"] for error in summary["errors"].values())
    result.worst_stall = max(result.worst_stall, summary["worst_ns"] / 1e9)
    if summary["in_flight"]:
        result.fail(f"{client.name}: {summary['in_flight']} requests were never answered")
    if summary["unfenced_failovers"]:
        result.fail(f"{client.name}: {summary['unfenced_failovers']} requests were resent without a fence")
    if summary["history_errno"]:
        result.fail(f"{client.name}: its history could not be written (errno {summary['history_errno']})")
    judge_errors(run, result, client, summary["errors"])
    if run.case.heals:
        wrong = [f"{path}: {state}" for path, state in sorted(client.last_states.items())
                 if state not in ("connected", "absent")]
        if wrong or list(client.last_states.values()).count("connected") != PATHS:
            result.fail(f"{client.name}: at the end not every path is connected: {', '.join(wrong)}")


def judge_errors(run, result, client, errors):
    for words, error in errors.items():
        if not any(re.fullmatch(pattern, words) for pattern in run.case.errors):
            result.fail(f"{client.name}: {error['count']} requests failed: {words}")
        elif run.healed_at and error["last"] > run.healed_at + run.stall_bound().seconds * 1e9:
            result.fail(f"{client.name}: {words}, long after the storage fault ended")
    for pattern in run.case.errors:
        if client is run.clients[0] and run.case.name != "own" and not any(re.fullmatch(pattern, words) for words in errors):
            result.fail(f"{client.name}: no request failed as '{pattern}': the fault did not reach the storage")


def judge_cells(run, result):
    for device in range(run.case.clients):
        histories = [client.history for client in run.clients if client.device == device]
        done = tool(run.build / "tools/dev/netns-faults.d/load/netns-load", "judge", *histories, "--base", BASE, "--image",
                    run.server.image_as_seen(device))
        (run.folder / f"device{device}.judgement").write_text(done.stdout + done.stderr, encoding="utf-8")
        if done.returncode == 0:
            continue
        try:
            broken = json.loads(done.stdout)["broken"]
        except ValueError:
            broken = [done.stderr.strip()]
        result.fail(f"device {device}: {len(broken)} rules broken, first: {broken[0]}")


def judge_stall(run, result):
    bound = run.stall_bound()
    result.stall_bound, result.stall_terms = bound.seconds, str(bound)
    if result.worst_stall > bound.seconds:
        result.fail(f"a request took {result.worst_stall:.2f} s; the bound is {bound}")
    result.waits = [(words, took, limit.seconds, str(limit)) for words, took, limit in run.notes]


def judge_traces(run, result):
    """Every trace must replay identically. All traces together are checked against the specification and the laws of
    the fabric."""
    replay = run.build / "tools/urtrs-replay/urtrs-replay"
    cut = {client.trace for client in run.clients if client.killed} | run.server.killed
    traces = [*(client.trace for client in run.clients), *run.server.traces]
    for trace in traces:
        done = tool(replay, "replay", "--json", trace)
        (run.folder / f"{trace.name}.replay").write_text(done.stdout + done.stderr, encoding="utf-8")
        try:
            said = json.loads(done.stdout)
        except ValueError:
            said = {}
        result.records += said.get("records", 0)
        if not replays(said, done.returncode, trace in cut):
            result.fail(f"{trace.name} does not replay: {(done.stdout + done.stderr).strip()[:200]}")
    done = tool(replay, "check", "--json", *traces)
    (run.folder / "check").write_text(done.stdout + done.stderr, encoding="utf-8")
    try:
        said = json.loads(done.stdout)
    except ValueError:
        result.fail(f"check printed no result: {done.stderr.strip()[:200]}")
        return
    result.check = said["verdict"]
    result.laws = [said["laws"]["connections"], said["laws"]["messages"]]
    if result.check == "conforming" or (result.check == "inconclusive" and cut):
        return
    result.fail(f"check: {result.check}: {first_finding(said)}")


def first_finding(said):
    for trace in said["traces"]:
        for finding in trace["findings"]:
            return f"{trace['file']} record {finding['record']}: {finding['rule']}: {finding['seen']}"
    for finding in said["laws"]["findings"]:
        return f"{finding['law']}: {finding['text']}"
    doubts = [doubt for trace in said["traces"] for doubt in trace["not_judged"]] + said["laws"]["not_judged"]
    return "; ".join(str(doubt) for doubt in doubts) or "no reason given"


def replays(said, code, was_cut):
    """Returns True if the trace replays identically. The trace of a killed process may be truncated; the rest must be identical."""
    return code == 0 or (was_cut and said.get("verdict") == "damaged" and said.get("records", 0) > 0)
