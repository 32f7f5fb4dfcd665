#!/usr/bin/env python3
"""Records simulated runs with each planted bug of the block devices and judges them with `urtrs-replay check`: a table
of the rules that find the bug on the traces of both sides alone.

Usage: check_traces.py [--only D1,DV2] [--seeds N] [--build-dir DIR] [--write]

Needs mutant-urtrs-sim and urtrs-replay (ninja mutant-urtrs-sim urtrs-replay). --write stores the table in
conformance/mutants/found_by_check.md. Exit code: 0 if each bug was found or has a reason, 1 otherwise.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
_LOADER = importlib.machinery.SourceFileLoader("run", str(HERE / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", _LOADER))
_LOADER.exec_module(run)

TABLE = HERE / "found_by_check.md"
BESIDE = "BD24"  # the scenario of several block devices that a sweep plays beside each seed
# Rules of block devices. The simulator's faults break others, such as the laws of the fabric.
RULES = set(re.findall(r'"([a-z-]+)", "O19"', (run.ROOT / "conformance/spec/rules.hpp").read_text()))
# Bugs that no trace shows, and why.
REASONS = {
    "D3": "not judged: the time of a retry is an input of the machine",
    "D5": "the assertion of the machine ends the process before the step is recorded",
    "D6": "what storage says is an input: the trace has no other word of it",
    "D7": "not judged: the sessions of a server are judged one by one",
    "D8": "not judged: the sessions of a server are judged one by one",
    "E22": "a request that fails before it begins is in no trace",
    "N15": "no run of these seeds reaches it",
    "N17": "not judged: a server accepts discards of any length",
    "PR3": "not judged: the time of a retry is an input of the machine",
}


def device_bugs():
    """Bugs in core/rnbd, and the other D rows."""
    return [mutant for mutant in run.catalogue() if re.fullmatch(r"D\d+", mutant["id"]) or
            any(edit["file"].startswith("core/rnbd/") for edit in mutant["edit"])]


def runs_of(mutant, row, scenarios, seeds):
    """Yields scenario and seed of the runs to try, first those in which the matrix says that an oracle fails."""
    if sweep := row.get("sweep"):
        yield sweep["oracle"].partition(" in ")[2], sweep["seed"]
    if own := row.get("scenario"):
        yield own["scenario"], own["seed"]
    if "scenario" in mutant:
        yield from ((mutant["scenario"], seed) for seed in range(10))
    for seed in range(seeds):
        yield from ((BESIDE, seed), ("", seed))
        if seed < 5:
            yield from ((scenario, seed) for scenario in scenarios)


class Bench:
    def __init__(self, build, folder):
        self.sim = build / "conformance/mutants/mutant-urtrs-sim"
        self.replay = build / "tools/urtrs-replay/urtrs-replay"
        self.folder = pathlib.Path(folder)

    def scenarios(self):
        listed = subprocess.run([self.sim, "list"], capture_output=True, text=True, check=True, timeout=60).stdout
        return sorted(set(re.findall(r"\bBD\d+[a-z]?\b", listed)))

    def judge(self, bug, scenario, seed):
        """Returns the first broken rule of the traces of a run; None if no rule is broken."""
        for old in self.folder.glob("run.*"):
            old.unlink()
        words = ["--scenario", scenario] if scenario else []
        environment = dict(os.environ, URTRS_MUTANT=bug)
        try:
            subprocess.run([self.sim, "run", *words, "--seed", str(seed), "--trace", self.folder / "run"], env=environment,
                           capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return None
        traces = sorted(self.folder.glob("run.*.rtrc"))
        if not traces:
            return None
        judged = subprocess.run([self.replay, "check", "--json", *traces], capture_output=True, text=True, timeout=120, check=False)
        broken = [(one["time"], one["rule"], "client" if ".client" in trace["file"] else "server")
                  for trace in json.loads(judged.stdout)["traces"] for one in trace["findings"] if one["rule"] in RULES]
        return "{1} ({2})".format(*min(broken)) if broken else None

    def find(self, mutant, row, scenarios, seeds):
        for tried, (scenario, seed) in enumerate(runs_of(mutant, row, scenarios, seeds), 1):
            if rule := self.judge(mutant["id"], scenario, seed):
                return {"rule": rule, "run": f"{scenario or 'seed'} {seed}", "tried": tried}
        return None


def kept():
    """Cells of the rows of the table, by id."""
    if not TABLE.is_file():
        return {}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    return {row[0]: row for row in rows}


def write(rows):
    head = ["# Planted bugs of the block devices, found by `urtrs-replay check`", "",
            "Written by `conformance/mutants/check_traces.py --write`. For each bug of the block devices: the first run of "
            "`urtrs-sim run` whose traces of both sides are violating, the rule that is broken first, and the side of the "
            "record. The simulator's own oracles are not asked.", "",
            "| id | bug | rule | run |", "|---|---|---|---|"]
    lines = [f"| {row[0]} | {row[1]} | {row[2] if row[3] else REASONS.get(row[0], 'MISSED')} | {row[3]} |" for row in rows]
    found = [row for row in rows if row[3]]
    TABLE.write_text("\n".join(head + lines + ["", f"{len(found)} of {len(rows)} found."]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--build-dir", type=pathlib.Path, default=run.ROOT / "build/release")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else []
    matrix = run.kept_rows(HERE / "matrix.md")
    rows = kept()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="urtrs-mutants-") as folder:
        bench = Bench(options.build_dir.resolve(), folder)
        scenarios = bench.scenarios()
        for mutant in device_bugs():
            name = mutant["id"]
            if wanted and name not in wanted:
                continue
            found = bench.find(mutant, matrix.get(name, {}), scenarios, options.seeds)
            why = REASONS.get(name, "MISSED")
            rows[name] = [name, mutant["bug"], found["rule"] if found else why, found["run"] if found else ""]
            missed += not found and name not in REASONS
            print(*rows[name], f"run {found['tried']}" if found else "", sep=" | ", flush=True)
    if options.write:
        write([rows[mutant["id"]] for mutant in device_bugs() if mutant["id"] in rows])
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
