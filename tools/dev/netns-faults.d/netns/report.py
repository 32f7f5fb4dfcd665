"""Converts results to outcomes of labs.py, and to the table in docs/netns-faults.md."""
import re

import labs

COLUMNS = ("requests", "failed", "taken over", "lost paths", "worst stall", "bound", "check")
# Columns of the page: name -> heading. A verdict other than "pass", and one of `urtrs-replay check` other than "conforming", is
# shown after the name of the case.
PAGE = {"worst stall": "worst stall (s)", "bound": "bound (s)"}


def outcome(result):
    losses = " ".join(f"{path}:{count}" for path, count in sorted(result.losses.items()))
    values = (result.requests, result.errors, result.failovers, losses or "-", f"{result.worst_stall:.2f} s",
              f"{result.stall_bound:.2f} s", result.check or "-")
    return labs.Outcome(result.case, result.verdict, result.seconds, "; ".join(result.reasons), result.folder, result.repeat,
                        {} if result.verdict == "skip" else dict(zip(COLUMNS, values)))


def markdown(results, provenance):
    lines = [provenance, "", "| case | " + " | ".join(PAGE.values()) + " |", "|---" * (len(PAGE) + 1) + "|"]
    for result in results:
        values = outcome(result).more
        verdict = [result.verdict] * (result.verdict != "pass") + [result.check] * (result.check not in ("", None, "conforming"))
        words = (str(values.get(name, "")).removesuffix(" s") for name in PAGE)
        lines.append(f"| {', '.join([f'`{result.case}`', *verdict])} | " + " | ".join(words) + " |")
    total = sum(result.records for result in results)
    messages = sum(result.laws[1] for result in results)
    lines += ["", f"{labs.summary(results)}. {total:,} records of traces replayed, every state identical; {messages:,} messages "
              "judged from both ends by the laws of reliable connections."]
    other = [f"- `{result.case}`: {result.verdict}: {'; '.join(result.reasons)}" for result in results if result.reasons]
    return "\n".join(lines + ([""] + other if other else []))


def update(document, text):
    """Returns the document with new text between its markers. Raises ValueError if it has no markers."""
    pattern = re.compile(r"(<!-- results begin -->\n).*?(<!-- results end -->)", re.DOTALL)
    if not pattern.search(document):
        raise ValueError("the document has no '<!-- results begin -->'")
    return pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", document)
