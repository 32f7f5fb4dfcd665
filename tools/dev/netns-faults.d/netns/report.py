"""The results: as a table for people, as JSON, as the table of docs/netns-faults.md."""
import dataclasses
import json
import re

COLUMNS = ("case", "verdict", "s", "requests", "failed", "taken over", "lost paths", "worst stall", "bound", "check")


def row(result):
    if result.verdict == "skip":
        return (result.case, "skip", f"{result.seconds:.0f}", *[""] * 7)
    losses = " ".join(f"{path}:{count}" for path, count in sorted(result.losses.items()))
    return (result.case, result.verdict, f"{result.seconds:.0f}", str(result.requests), str(result.errors),
            str(result.failovers), losses or "-", f"{result.worst_stall:.2f} s", f"{result.stall_bound:.2f} s",
            result.check or "-")


def text_table(results):
    rows = [COLUMNS, *(row(result) for result in results)]
    widths = [max(len(line[at]) for line in rows) for at in range(len(COLUMNS))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in rows]
    for line, result in zip(lines[1:], results):
        if result.reasons:
            lines[lines.index(line)] = "\n".join([line, *(f"    {reason}" for reason in result.reasons)])
    return "\n".join(lines)


def verdict_line(results):
    count = {verdict: sum(result.verdict == verdict for result in results) for verdict in ("pass", "fail", "skip")}
    return f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped"


def as_json(results):
    return json.dumps([dict(dataclasses.asdict(result), pairs=sorted(result.pairs)) for result in results], indent=1)


def markdown(results, cases, provenance):
    lines = [provenance, "", "| case | what happens | " + " | ".join(COLUMNS[1:]) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for result in results:
        words = row(result)
        lines.append(f"| `{result.case}` | {cases[result.case].title} | " + " | ".join(words[1:]) + " |")
    total = sum(result.records for result in results)
    messages = sum(result.laws[1] for result in results)
    lines += ["", f"{verdict_line(results)}. {total:,} records of traces replayed, every state identical; {messages:,} messages "
              "judged from both ends by the laws of reliable connections."]
    other = [f"- `{result.case}`: {result.verdict}: {'; '.join(result.reasons)}" for result in results if result.reasons]
    return "\n".join(lines + ([""] + other if other else []))


def update(document, text):
    """The document with the part between its markers made anew. ValueError: it has none."""
    pattern = re.compile(r"(<!-- results begin -->\n).*?(<!-- results end -->)", re.DOTALL)
    if not pattern.search(document):
        raise ValueError("the document has no '<!-- results begin -->'")
    return pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", document)
