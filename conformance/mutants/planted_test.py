#!/usr/bin/env python3
"""Tests the replay tools with planted bugs: `replay` finds the first divergence, `min` shortens the trace, and
`scenario` makes a simulated run that fails only with the bug.

Usage: planted_test.py BUILD_DIR [scenarios | BUG...]

Without BUG, the bugs of the table below are used and every check must pass. "scenarios": `urtrs-sim scenarios` and
`sweep` must find the bugs that only the specification or the server's invariants detect. With ids from bugs.txt, or
"all", prints a table of the results for each bug; no check is required to pass.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

LONG = 2500   # records of a trace before it is shortened
SHORT = 50

# The planted bug, the seed of a run with a long client trace, the first difference (the recorded action and
# the action of the correct core), and the broken rule.
BUGS = [
    ("M29", 95, "FailedOver", "SendFenceReq", "replay-proof"),
    ("M20", 241, "FailedOver", "no further action", "replay-drained"),
    ("M41", 84, "Disconnect", "Disconnect", "path-teardown"),
]


# Planted bugs that no simulator oracle detects in their directed scenario: the bug, the scenario, and the rule
# of the specification that the run breaks.
SPECIFIED = [
    ("M20", "R58", "replay-drained"),
    ("M29", "L01e", "replay-proof"),
    ("P5", "F20g", "hb-ack"),
]
# Planted bugs that break a server invariant: the bug, the scenario, and the invariant.
INVARIANTS = [
    ("M04", "R02", "a connected path has all its connections"),
    ("M42", "L02a", "a used chunk belongs to an existing path"),
    ("M44", "L03", "a list of waiting answers ends"),
]
# A planted bug that only the specification detects in a sweep over these seeds.
SWEPT = ("M20", "0..20")


class Bench:
    def __init__(self, build, folder):
        build = pathlib.Path(build)
        self.sound_replay = build / "tools/urtrs-replay/urtrs-replay"
        self.sound_sim = build / "tools/urtrs-sim/urtrs-sim"
        self.planted = build / "conformance/mutants"
        self.folder = pathlib.Path(folder)

    def bugs(self):
        return [line.split("\t")[0] for line in (self.planted / "bugs.txt").read_text().splitlines()]

    def run(self, bug, program, *words):
        """Runs the build with the bug, or the correct build if `bug` is empty."""
        name = f"urtrs-{program}"
        path = self.planted / f"planted-{name}" if bug else {"replay": self.sound_replay, "sim": self.sound_sim}[program]
        environment = {key: value for key, value in os.environ.items() if key != "URTRS_MUTANT"}
        if bug:
            environment["URTRS_MUTANT"] = bug
        return subprocess.run([str(path), *(str(word) for word in words)], env=environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=240)

    def record(self, bug, seed):
        for old in self.folder.glob("run.*"):
            old.unlink()
        self.run(bug, "sim", "run", "--seed", seed, "--trace", "run")
        return sorted(self.folder.glob("run.*.rtrc"))

    def json(self, bug, *words):
        if "--out" in words:
            (self.folder / words[words.index("--out") + 1]).unlink(missing_ok=True)
        ran = self.run(bug, "replay", *words, "--json")
        try:
            return ran.returncode, json.loads(ran.stdout)
        except json.JSONDecodeError:
            return ran.returncode, {"error": ran.stderr.strip()}


def demand(holds, what, *shown):
    if not holds:
        sys.exit(f"FAILED: {what}: {' '.join(str(one) for one in shown)}")


def show_divergence(bench, bug, trace, recorded, rerun):
    code, replay = bench.json("", "replay", trace)
    demand(code == 1 and replay["verdict"] == "diverged", f"{bug}: the sound core diverges", code, replay)
    # If state hashes are ignored, this is the first action that differs.
    code, found = bench.json("", "min", trace, "--out", "short.rtrc")
    demand(code == 1 and found["fails"], f"{bug}: min of the sound build finds the difference", code, found)
    demand(found["records_before"] >= LONG, f"{bug}: the trace is long", found["records_before"])
    demand(found["records"] < SHORT and found["complete"], f"{bug}: and becomes short", found)
    code, short = bench.json("", "replay", "short.rtrc")
    demand(code == 1 and short["verdict"] == "diverged", f"{bug}: the short one diverges", short)
    words = short["divergence"]
    demand(words["recorded"].startswith(recorded) and words["rerun"].startswith(rerun),
           f"{bug}: as the long one", words["recorded"], "|", words["rerun"])
    code, again = bench.json(bug, "replay", "short.rtrc")
    demand(code == 0, f"{bug}: the short trace is what the bug does", again)
    print(f"{bug}: {found['records_before']} records -> {found['records']}, {found['runs']} attempts, "
          f"{found['seconds']:.1f} s; recorded {words['recorded']}; sound core {words['rerun']}")


def show_rule(bench, bug, trace, rule):
    code, found = bench.json(bug, "min", trace, "--out", "broken.rtrc")
    demand(code == 1 and found["fails"] and not found["recorded"], f"{bug}: it fails when run again", found)
    demand(found["records"] < SHORT and found["complete"], f"{bug}: and becomes short", found)
    code, check = bench.json("", "check", "broken.rtrc")
    demand(code == 1 and check["traces"][0]["findings"][0]["rule"] == rule, f"{bug}: breaks {rule}", check)
    print(f"{bug}: with the bug itself {found['records']} records, {found['failure']}")


def show_scenario(bench, bug, trace):
    code, found = bench.json(bug, "simulate", trace, "--out", "run.choices", "--time", 10)
    demand(code == 1 and found["fails"], f"{bug}: it can be found", code, found)
    failing = bench.run(bug, "sim", "run", "--choices", "run.choices")
    demand(failing.returncode in (1, 4), f"{bug}: the choice log fails with the bug", failing.stdout)
    sound = bench.run("", "sim", "run", "--choices", "run.choices")
    demand(sound.returncode == 0, f"{bug}: and not without it", sound.stdout)
    print(f"{bug}: found with {found['guess']}: {found['signature']}, {found['groups']} groups")
    code, found = bench.json("", "simulate", trace, "--out", "none.choices", "--seeds", 1)
    demand(code == 4 and "build that recorded it" in found["why"], f"{bug}: the sound build says why not", code, found)


def show_corpus(bench):
    """Checks that each stored trace of a planted bug still shows the bug."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "tools/dev/traces"
    entries = tomllib.loads((folder / "corpus.toml").read_text())["trace"]
    planted = [entry for entry in entries if "planted" in entry]
    demand(planted, "the corpus has traces of bugs that can be planted")
    for entry in planted:
        code, replay = bench.json(entry["planted"], "replay", folder / entry["file"])
        demand(code == 1 and replay["verdict"] == "diverged", f"{entry['file']} finds {entry['planted']}", replay)
        print(f"{entry['planted']}: found by {entry['file']}: {replay['divergence']['rerun']}")


def show_last_records(bench, bug, seed):
    """Checks that a broken invariant ends the run, and that the traces end with the input that broke it."""
    ran = bench.run(bug, "sim", "run", "--seed", seed, "--trace", "aborted")
    demand(ran.returncode < 0 and "broken invariant" in ran.stderr, f"{bug}: the run aborts", ran.returncode, ran.stderr)
    broken = 0
    for trace in sorted(bench.folder.glob("aborted.*.rtrc")):
        code, stat = bench.json("", "stat", trace)
        demand(code == 0, f"{bug}: {trace.name} is whole", code, stat)
        again = bench.run(bug, "replay", "replay", trace)
        broken += "broken invariant" in again.stderr
    demand(broken == 1, f"{bug}: one trace leads to the broken invariant", broken)
    print(f"{bug}: the trace of an aborted run leads to its broken invariant")


def show_scenarios(bench):
    """Checks that `scenarios` and `sweep` judge every run by the specification."""
    for bug, scenario, rule in SPECIFIED:
        ran = bench.run(bug, "sim", "scenarios", "--only", scenario, "--seeds", "0..3")
        demand(ran.returncode == 1 and f" {rule}" in ran.stdout, f"{bug}: {scenario} breaks {rule}", ran.returncode,
               ran.stdout, ran.stderr)
        print(f"{bug}: {scenario} breaks {rule}")
    for bug, scenario, rule in INVARIANTS:
        ran = bench.run(bug, "sim", "scenarios", "--only", scenario, "--seeds", "0..3")
        demand(ran.returncode == 1 and f"server: not true that {rule}" in ran.stdout, f"{bug}: {scenario} breaks '{rule}'",
               ran.returncode, ran.stdout, ran.stderr)
        print(f"{bug}: in {scenario} it is not true that {rule}")
    scenarios = ",".join(one[1] for one in SPECIFIED + INVARIANTS)
    sound = bench.run("", "sim", "scenarios", "--only", scenarios, "--seeds", "0..3")
    demand(sound.returncode == 0, "the sound core keeps all of them", sound.stdout)
    bug, seeds = SWEPT
    for options, code in (([], 1), (["--no-specification"], 0)):
        ran = bench.run(bug, "sim", "sweep", "--seeds", seeds, "--jobs", 1, "--check-determinism", 0, *options)
        demand(ran.returncode == code, f"{bug}: a sweep {options} over {seeds} ends with {code}", ran.stdout, ran.stderr)
    print(f"{bug}: a sweep over {seeds} finds it by the specification alone")


def test(bench):
    show_corpus(bench)
    show_last_records(bench, "M11", 1)
    for bug, seed, recorded, rerun, rule in BUGS:
        traces = bench.record(bug, seed)
        trace = next((one for one in traces if "client1" in one.name), None)
        demand(trace, f"{bug}: seed {seed} was recorded")
        show_divergence(bench, bug, trace, recorded, rerun)
        show_rule(bench, bug, trace, rule)
        show_scenario(bench, bug, trace)


def first_failure(bench, bug):
    ran = bench.run(bug, "sim", "sweep", "--seeds", "0..2000", "--jobs", 2, "--check-determinism", 10)
    for line in ran.stdout.splitlines():
        if "reproduce: urtrs-sim run --seed" in line:
            return int(line.split("--seed ")[1].split()[0])
    return None


def table(bench, bugs):
    for bug in bugs:
        seed = first_failure(bench, bug)
        if seed is None:
            print(f"{bug}: no failing seed", flush=True)
            continue
        for trace in bench.record(bug, seed):
            began = time.monotonic()
            _, sound = bench.json("", "min", trace, "--out", "sound.rtrc", "--time", 20)
            _, own = bench.json(bug, "min", trace, "--out", "own.rtrc", "--time", 20)
            words = []
            for name, found in (("sound", sound), ("own", own)):
                words.append(f"{name} {found['records_before']} -> {found['records']}" if found.get("fails") else f"{name} -")
            if sound.get("fails"):
                words.append("verified" if bench.json(bug, "replay", "sound.rtrc")[0] == 0 else "not verified")
            if "client" in trace.name:
                code, found = bench.json(bug, "simulate", trace, "--out", "l.choices", "--time", 20, "--seeds", 40)
                words.append(f"scenario {code} {found.get('signature', found.get('why', found.get('error', '')))}")
            print(f"{bug} seed {seed} {trace.name}: " + "; ".join(words) + f" ({time.monotonic() - began:.1f} s)", flush=True)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="urtrs-planted-") as folder:
        bench = Bench(pathlib.Path(sys.argv[1]).resolve(), folder)
        if len(sys.argv) == 2:
            test(bench)
        elif sys.argv[2] == "scenarios":
            show_scenarios(bench)
        else:
            table(bench, bench.bugs() if sys.argv[2] == "all" else sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
