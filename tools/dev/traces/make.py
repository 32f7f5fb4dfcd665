#!/usr/bin/env python3
"""Records the traces of corpus.toml again, each minimized to its bug, and updates the table in README.md.

Usage: make.py [--rehash] BUILD_DIR [FILE...]

BUILD_DIR contains urtrs-sim, urtrs-replay and, for bugs that can be planted again, planted-urtrs-replay (ninja
planted-urtrs-replay). With FILE, only those traces are recorded. Each run of urtrs-sim is minimized by `urtrs-replay
min`:
 - `planted`: to the shortest trace on which the core with that bug of conformance/mutants behaves differently;
 - `shows`: to the shortest trace with these records in this order. For bugs outside the core, which a trace cannot show
   directly; the records are the conditions that triggered the bug.

With --rehash, only the state hashes are computed again; inputs and actions stay. Use it when the machines store
different state but behave as before.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent


def run(words, accepted, **options):
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if ran.returncode not in accepted:
        sys.exit(f"{shlex.join(str(word) for word in words)}\nends with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def min_words(entry):
    if "planted" in entry:
        return ["--reference", "urtrs-replay"]
    return [word for mark in entry["shows"] for word in ("--shows", mark)]


def same_records(replay, new, old):
    def records(path):
        lines = run([replay, "cat", path], (0,)).splitlines()[1:]
        # Hashes and configurations may differ between the two traces.
        return [re.sub(r"( \* \w+).*", r"\1", line) for line in lines]

    if records(new) != records(old):
        shutil.copy(old, new)
        sys.exit(f"{new}: its records would change, so it was not updated; run without --rehash")


def make(build, entry, rehash):
    replay = build / "tools/urtrs-replay/urtrs-replay"
    with tempfile.TemporaryDirectory(prefix="urtrs-corpus-") as folder:
        source = f"run.{entry['side']}.rtrc"
        if rehash:
            shutil.copy(HERE / entry["file"], f"{folder}/{source}")
        else:
            run([build / "tools/urtrs-sim/urtrs-sim", "run", *entry["run"].split(), "--trace", "run"], (0,), cwd=folder)
        program, environment = replay, dict(os.environ, PATH=f"{replay.parent}:{os.environ['PATH']}")
        if "planted" in entry:
            program = build / "conformance/mutants/planted-urtrs-replay"
            environment["URTRS_MUTANT"] = entry["planted"]
        out = run([program, "min", source, *min_words(entry), "--hashes", "--out", "small.rtrc"], (1,), cwd=folder,
                  env=environment)
        shutil.copy(f"{folder}/small.rtrc", HERE / entry["file"])
        if rehash:
            same_records(replay, HERE / entry["file"], f"{folder}/{source}")
    run([replay, "replay", HERE / entry["file"]], (0,))
    print(f"{entry['file']}: {next(line for line in out.splitlines() if ' -> ' in line)}", flush=True)


def command(entry):
    planted = f"URTRS_MUTANT={entry['planted']} planted-" if "planted" in entry else ""
    return (f"`urtrs-sim run {entry['run']} --trace run`, `{planted}urtrs-replay min run.{entry['side']}.rtrc "
            f"{shlex.join(min_words(entry))} --hashes`")


def write_table(entries):
    path = HERE / "README.md"
    text = path.read_text()
    head = text[:text.index("| trace |")]
    rows = ["| trace | bug | what it shows | made by |", "|---|---|---|---|"]
    rows += [f"| {entry['file']} | {entry['bug']} | {entry['holds']} | {command(entry)} |" for entry in entries]
    path.write_text(head + "\n".join(rows) + "\n")


def main():
    rehash = "--rehash" in sys.argv[1:2]
    arguments = sys.argv[2:] if rehash else sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    with open(HERE / "corpus.toml", "rb") as file:
        entries = tomllib.load(file)["trace"]
    wanted = arguments[1:]
    unknown = set(wanted) - {entry["file"] for entry in entries}
    if unknown:
        sys.exit("not in corpus.toml: " + ", ".join(sorted(unknown)))
    for entry in entries:
        if not wanted or entry["file"] in wanted:
            make(pathlib.Path(arguments[0]).resolve(), entry, rehash)
    write_table(entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
