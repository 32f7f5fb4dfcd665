"""Tables of a plan and of what came out."""


def clock(seconds):
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def table(rows):
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows)


def remaining(plan, state):
    """Seconds."""
    return sum(state.seconds(chunk.item.name, chunk.item.seconds) for chunk in plan.sequence()
               if chunk.key not in state.done)


def plan_table(plan, state):
    rows = [("item", "chunks", "each", "together", "what it is")]
    total = 0.0
    for item in plan.items():
        count, seconds = plan.count(item), state.seconds(item.name, item.seconds)
        total += count * seconds
        each = f", {plan.size_of(item):,} seeds each" if item.size else ""
        rows.append((item.name, str(count), f"{seconds:.0f} s", clock(count * seconds), item.title + each))
    return table(rows) + f"\ntogether about {clock(total)}, and the builds that are missing"


def result_table(plan, state):
    rows = [("item", "done", "passed", "failed", "skipped", "time", "seeds")]
    failures = []
    for item in plan.items():
        done = [(chunk, state.done[chunk.key]) for chunk in plan.sequence()
                if chunk.item.name == item.name and chunk.key in state.done]
        count = {verdict: sum(one["verdict"] == verdict for _, one in done) for verdict in ("pass", "fail", "skip")}
        seeds = sum(chunk.size for chunk, one in done if one["verdict"] == "pass")
        rows.append((item.name, f"{len(done)}/{plan.count(item)}", str(count["pass"]), str(count["fail"]),
                     str(count["skip"]), clock(sum(one["seconds"] for _, one in done)), f"{seeds:,}" if seeds else ""))
        failures += [(chunk, one) for chunk, one in done if one["verdict"] != "pass"]
    lines = [table(rows)]
    for chunk, one in failures:
        lines.append(f"{one['verdict']} {chunk.item.name} {chunk.name}: {one['reason']}")
        if "repeat" in one:
            lines.append(f"  everything about it: {one['folder']}\n  again: {one['repeat']}")
    return "\n".join(lines)


def is_complete(plan, state):
    return all(chunk.key in state.done for chunk in plan.sequence())
