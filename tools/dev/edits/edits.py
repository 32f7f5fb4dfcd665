#!/usr/bin/env python3
"""Makes single edits of recorded runs, and prints which verbs of urtrs-replay find each of them. Without traces, the
runs are simulated ones, and --write stores the result in tools/dev/edits/edits.md."""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import textwrap

import frames
import runs
import trace_edits

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("URTRS_BUILD_DIR", ROOT / "build/release"))
PAGE = ROOT / "tools/dev/edits/edits.md"
CAPTURED = trace_edits.BD03

INTRODUCTION = """# Single edits of a trace, and who finds them

For people who rely on `urtrs-replay`: what its verbs notice. `tools/dev/edits/edits.py --write` makes this page; the test
`urtrs_replay_edits_test` compares it. Each edit changes one record of a simulated run with block devices, or the notes of one
message on both sides. `edits.py CLIENT.rtrc SERVER.rtrc` makes the same edits of other traces.
"""


def make_tool(folder):
    return runs.Tool(BUILD / "tools/urtrs-replay/urtrs-replay", BUILD / "tools/urtrs-sim/urtrs-sim", folder)


def all_edits(words=""):
    return [edit for group in trace_edits.GROUPS for edit in group.edits if words in edit.name]


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items, range(len(items))))


def measure(tool, edits):
    for run in sorted({edit.run for edit in edits}):
        tool.run(run)
    return in_parallel(lambda edit, number: tool.find(edit, f"edit{number}"), edits)


def measure_captures(tool):
    """Returns the verdict of each edit of messages and of each change of frames."""
    edits = trace_edits.WIRE.edits + [edit for edit in trace_edits.TIMES.edits if edit.name in trace_edits.SILENT_CAPTURES]
    for run in sorted({edit.run for edit in edits}):
        tool.run(run)
    verdicts = in_parallel(lambda edit, number: tool.find_in_capture(edit, f"wire{number}"), edits)
    changes = frames.frame_changes()
    files = [path for path, _ in tool.run(CAPTURED).values()]
    assert tool.capture(CAPTURED, files, "unchanged") == "conforming"
    changed = in_parallel(lambda change, number: tool.capture(CAPTURED, files, f"frames{number}", change[1]), changes)
    return dict(zip([edit.name for edit in edits], verdicts)), dict(zip([name for name, _ in changes], changed))


def listed(title, names):
    text = f"**{title}** ({len(names)}): " + "; ".join(names) + "."
    return textwrap.fill(text, 128, break_long_words=False, break_on_hyphens=False)


def group_by(pairs):
    found = collections.defaultdict(list)
    for name, key in pairs:
        found[key].append(name)
    return sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))


def page(edits, results, captures):
    verbs = [(edit.name, ", ".join(found.verbs) or "nothing") for edit, found in zip(edits, results)]
    far = [edit.name for edit, found in zip(edits, results) if found.near is False]
    parts = [INTRODUCTION, f"## {len(edits)} edits of records\n"]
    parts += [listed(f"Found by {key}", names) + "\n" for key, names in group_by(verbs)]
    parts.append(listed("The first violation is later than the next step, or on the other side", far) + "\n")
    messages, changes = captures
    parts.append(f"## {len(messages)} edits of messages in a capture\n\nThe edited run is written by `pcap` and read by `import`.\n")
    parts += [listed(f"`check` is {key}", names) + "\n" for key, names in group_by(messages.items())]
    parts.append(f"## {len(changes)} changes of frames\n")
    parts += [listed(f"`check` is {key}", names) + "\n" for key, names in group_by(changes.items())]
    parts.append("## Why some stay silent\n")
    parts += [textwrap.fill(f"- {name}: {why}", 128, subsequent_indent="  ") for name, why in trace_edits.REASONS.items()]
    return "\n".join(parts) + "\n"


def current_page():
    with tempfile.TemporaryDirectory() as folder:
        tool = make_tool(folder)
        edits = all_edits()
        results = measure(tool, edits)
        assert None not in results, [edit.name for edit, found in zip(edits, results) if found is None]
        return page(edits, results, measure_captures(tool))


def show(edits, results):
    for edit, found in zip(edits, results):
        print(f"{edit.name}: no record" if found is None else
              f"{edit.name}: {', '.join(found.verbs) or 'nothing'}{'' if found.near is None else ' | near' if found.near else ' | far'} {found.text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="*", type=pathlib.Path, metavar="CLIENT SERVER", help="edit these traces of one run")
    parser.add_argument("--only", default="", metavar="WORDS", help="edits whose name has these words")
    parser.add_argument("--captures", action="store_true", help="only captures")
    parser.add_argument("--write", action="store_true", help=f"writes {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(current_page(), encoding="utf-8")
        return
    edits = all_edits(options.only)
    with tempfile.TemporaryDirectory() as folder:
        tool = make_tool(folder)
        if options.traces:
            tool.take("given", dict(zip((trace_edits.CLIENT, trace_edits.SERVER), options.traces)))
            edits = [edit._replace(run="given") for edit in edits]
        if options.captures:
            for part in measure_captures(tool):
                for name, verdict in part.items():
                    print(f"{name}: {verdict}")
            return
        show(edits, measure(tool, edits))


if __name__ == "__main__":
    sys.exit(main())
