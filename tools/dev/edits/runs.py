"""Runs the verbs of urtrs-replay on edited traces and captures."""
import json
import pathlib
import subprocess
from typing import NamedTuple

import frames

ONE, BOTH, REPLAY, DIFF = "check of that side", "check of both sides", "replay", "diff with the trace before"
PAUSE = "check says that a process did not run"
STEP = 12  # records: a step and the next one


class Found(NamedTuple):
    verbs: tuple  # names of the verbs that find the edit
    near: bool | None  # the first violation names the edited record, its step or the next one
    text: str  # the first violation


class Tool:
    def __init__(self, replay, sim, folder):
        self.replay_program, self.sim, self.folder = replay, sim, pathlib.Path(folder)
        self.runs = {}
        self.pauses = {}

    def replay(self, *arguments, stdin=None):
        return subprocess.run([self.replay_program, *map(str, arguments)], capture_output=True, text=True, input=stdin,
                              timeout=120, check=False)

    def run(self, name):
        """Records a scenario ("BD03 1") or a seed ("3"). Returns the file and the records of each side."""
        if name not in self.runs:
            what = ["--scenario", name.split()[0], "--seed", name.split()[1]] if " " in name else ["--seed", name]
            base = self.folder / name.replace(" ", "-")
            subprocess.run([self.sim, "run", *what, "--trace", base], check=True, stdout=subprocess.DEVNULL, timeout=120)
            self.take(name, {path.name.split(".")[-2]: path for path in sorted(self.folder.glob(base.name + ".*.rtrc"))})
        return self.runs[name]

    def take(self, name, files):
        self.runs[name] = {side: (path, self.records(path)) for side, path in files.items()}
        judged = self.check(*files.values())
        assert judged["verdict"] != "violating", (name, judged)
        self.pauses[name] = pauses_of(judged)

    def records(self, path):
        lines = self.replay("cat", path, "--json").stdout.splitlines()
        return [one for one in map(json.loads, lines) if "end" not in one]

    def write(self, records, to):
        number, text = 0, []
        for one in records:
            if "event" in one:
                one = {**one, "seq": number}
                number += 1
            text.append(json.dumps(one))
        made = self.replay("from-json", "-", to, stdin="\n".join(text) + "\n")
        assert made.returncode == 0, made.stderr

    def check(self, *arguments):
        return json.loads(self.replay("check", "--json", *arguments).stdout)

    def edited(self, edit, to):
        """Applies the edit. Returns the changed files by side, and the number of the changed record in each; None if
        the run has no record for it."""
        sides = {side: list(records) for side, (_, records) in self.run(edit.run).items()}
        places = {}
        for side, event, which, change in edit.changes:
            records = sides[side]
            place = next((at for at, one in enumerate(records) if one.get("event") == event and which(one)), None)
            if place is None:
                return None
            places[side] = sum("event" in one for one in records[:place])
            change(records, place)
        files = {}
        for side in places:
            files[side] = self.folder / f"{to}.{side}.rtrc"
            self.write(sides[side], files[side])
        return files, places

    def find(self, edit, to="edited"):
        """Runs all verbs. Returns None if the run has no record for the edit."""
        made = self.edited(edit, to)
        if made is None:
            return None
        files, places = made
        originals = {side: path for side, (path, _) in self.run(edit.run).items()}
        both = self.check(*(files.get(side, path) for side, path in originals.items()))
        verbs = [ONE] * any(self.check(file)["verdict"] == "violating" for file in files.values())
        verbs += [BOTH] * (both["verdict"] == "violating")
        verbs += [PAUSE] * (pauses_of(both) > self.pauses[edit.run])
        verbs += [REPLAY] * any(self.replay("replay", file).returncode == 1 for file in files.values())
        verbs += [DIFF] * any(self.replay("diff", originals[side], file).returncode == 1 for side, file in files.items())
        near, text = first(both, files, places)
        for file in files.values():
            file.unlink()
        return Found(tuple(verbs), near, text)

    def heartbeat(self, run):
        """Arguments for the interval that both sides have; none if they differ."""
        begins = [one["fields"] for _, records in self.run(run).values() for one in records if one.get("event", "").startswith("Begin")]
        intervals = {fields["config.heartbeat.interval"] for fields in begins if "config.heartbeat.interval" in fields}
        return ("--heartbeat-interval-ms", intervals.pop() // 1_000_000) if len(intervals) == 1 else ()

    def capture(self, run, sides, to, change=None):
        """Judges the traces of both sides of a run, which may be edited, as a capture. Returns its verdict."""
        raw, trace = self.folder / f"{to}.pcapng", self.folder / f"{to}.rtrc"
        made = self.replay("pcap", *sides, "-o", raw)
        assert made.returncode in (0, 5), made.stderr  # 5: a process of the run was killed
        if change is not None:
            raw.write_bytes(frames.changed(raw.read_bytes(), change))
        self.replay("import", raw, trace)
        verdict = self.check(*self.heartbeat(run), trace)["verdict"]
        raw.unlink()
        trace.unlink()
        return verdict

    def find_in_capture(self, edit, to):
        """Returns the verdict of a capture of the edited run, None if the run has no record for the edit."""
        made = self.edited(edit, to)
        if made is None:
            return None
        originals = {side: path for side, (path, _) in self.run(edit.run).items()}
        verdict = self.capture(edit.run, [made[0].get(side, path) for side, path in originals.items()], to)
        for file in made[0].values():
            file.unlink()
        return verdict


def pauses_of(judged):
    return sum(len(trace["pauses"]) for trace in judged["traces"])


def first(both, files, places):
    if "first" not in both:
        return None, ""
    place, name = both["first"]["record"], both["first"]["file"]
    rules = [one["rule"] for trace in both["traces"] if trace["file"] == name for one in trace["findings"] if one["record"] == place]
    rules += [one["law"] for one in both["laws"]["findings"] if one["received"] == both["first"]]
    side = next((side for side, file in files.items() if str(file) == name), None)
    near = side is not None and -STEP <= place - places[side] <= STEP
    if side is None:
        near = any(one.get("sent", {}).get("file") == str(files[other]) and abs(one["sent"]["record"] - places[other]) <= STEP
                   for one in both["laws"]["findings"] for other in files if "sent" in one)
    return near, f"{rules[0] if rules else ''} {place - places[side] if side else 'other side'}"
