"""Runs the verbs of urtrs-replay on edited traces."""
import json
import pathlib
import subprocess
from typing import NamedTuple

VERBS = ("check one side", "check both sides", "replay", "diff")


class Found(NamedTuple):
    verbs: tuple  # of each verb: whether it finds the edit
    first: int | None  # records from the edit to the first finding, None without one
    text: str  # first finding


class Tool:
    def __init__(self, replay, sim, folder):
        self.replay_program, self.sim, self.folder = replay, sim, pathlib.Path(folder)
        self.runs = {}

    def replay(self, *arguments, stdin=None):
        return subprocess.run([self.replay_program, *map(str, arguments)], capture_output=True, text=True, input=stdin,
                              timeout=120, check=False)

    def run(self, name):
        """Records a scenario ("BD03 1") or a seed ("3"). Returns the trace file of each side."""
        if name not in self.runs:
            what = ["--scenario", *name.split()[:1], "--seed", name.split()[1]] if " " in name else ["--seed", name]
            base = self.folder / name.replace(" ", "-")
            subprocess.run([self.sim, "run", *what, "--trace", base], check=True, stdout=subprocess.DEVNULL, timeout=120)
            self.take(name, {path.name.split(".")[-2]: path for path in sorted(self.folder.glob(base.name + ".*.rtrc"))})
        return self.runs[name]

    def take(self, name, files):
        self.runs[name] = {side: (path, self.records(path)) for side, path in files.items()}

    def records(self, path):
        lines = self.replay("cat", path, "--json").stdout.splitlines()
        return [one for one in map(json.loads, lines) if "end" not in one]

    def write(self, records, to):
        number = 0
        text = []
        for one in records:
            if "event" in one:
                one = {**one, "seq": number}
                number += 1
            text.append(json.dumps(one))
        made = self.replay("from-json", "-", to, stdin="\n".join(text) + "\n")
        assert made.returncode == 0, made.stderr

    def check(self, *files):
        return json.loads(self.replay("check", "--json", *files).stdout)

    def edited(self, edit, to):
        """Applies the edit. Returns the changed files by side, and the number of the changed record in each."""
        sides = {side: list(records) for side, (_, records) in self.run(edit.run).items()}
        places = {}
        for side, event, which, change in edit.changes:
            records = sides[side]
            place = next((at for at, one in enumerate(records) if one.get("event") == event and which(one)), None)
            if place is None:
                return None, None
            places[side] = sum("event" in one for one in records[:place])
            change(records, place)
        files = {}
        for side in places:
            files[side] = self.folder / f"{to}.{side}.rtrc"
            self.write(sides[side], files[side])
        return files, places

    def find(self, edit, to="edited"):
        """Runs all verbs. Returns None if the run has no record for the edit."""
        files, places = self.edited(edit, to)
        if files is None:
            return None
        originals = {side: path for side, (path, _) in self.run(edit.run).items()}
        one = [self.check(file) for file in files.values()]
        both = self.check(*(files.get(side, path) for side, path in originals.items()))
        replay = any(self.replay("replay", file).returncode == 1 for file in files.values())
        diff = any(self.replay("diff", originals[side], file).returncode == 1 for side, file in files.items())
        distance, text = self.first(both, files, places)
        for file in files.values():
            file.unlink()
        return Found((any(map(tells, one)), tells(both), replay, diff), distance, text)

    @staticmethod
    def first(both, files, places):
        sides = {str(file): side for side, file in files.items()}
        findings = []
        for trace in both["traces"]:
            side = sides.get(trace["file"], trace["file"].split(".")[-2])
            findings += [(one["record"] - places[side] if side in places else None, f"{side} {one['rule']}") for one in trace["findings"][:1]]
            if not trace["findings"]:
                findings += [(one["record"] - places[side] if side in places else None, f"{side} did not run") for one in trace["pauses"][:1]]
        findings += [(None, f"{one['law']} {one['text']}") for one in both["laws"]["findings"][:1]]
        near = [one for one in findings if one[0] is not None]
        return min(near, key=lambda one: one[0]) if near else findings[0] if findings else (None, "")


def tells(check):
    """A rule is broken, or a side is said not to have run."""
    return check["verdict"] == "violating"
