"""Tables of a plan and of its results."""
import labs


def clock(seconds):
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def remaining(plan, state):
    """Returns the remaining time in seconds."""
    return sum(state.seconds(chunk.item.name, chunk.item.seconds) for chunk in plan.sequence()
               if chunk.key not in state.done)


def print_plan(plan, state):
    rows = []
    total = 0.0
    for item in plan.items():
        count, seconds = plan.count(item), state.seconds(item.name, item.seconds)
        total += count * seconds
        each = f", {plan.size_of(item):,} seeds each" if item.size else ""
        rows.append((item.name, str(count), f"{seconds:.0f} s", clock(count * seconds), item.title + each))
    labs.print_table(("item", "chunks", "each", "together", "what it is"), rows)
    print(f"together about {clock(total)}, and the builds that are missing")


def outcome(chunk, one):
    return labs.Outcome(f"{chunk.item.name} {chunk.name}", one["verdict"], one["seconds"], one["reason"], one.get("folder", ""),
                        one.get("repeat", ""))


def outcomes(plan, state):
    return [outcome(chunk, state.done[chunk.key]) for chunk in plan.sequence() if chunk.key in state.done]


def print_results(plan, state):
    """Prints one row per item, because there are too many chunks for a table."""
    rows, others = [], []
    for item in plan.items():
        done = [(chunk, state.done[chunk.key]) for chunk in plan.sequence()
                if chunk.item.name == item.name and chunk.key in state.done]
        count = {verdict: sum(one["verdict"] == verdict for _, one in done) for verdict in ("pass", "fail", "skip")}
        seeds = sum(chunk.size for chunk, one in done if one["verdict"] == "pass")
        rows.append((item.name, f"{len(done)}/{plan.count(item)}", str(count["pass"]), str(count["fail"]),
                     str(count["skip"]), clock(sum(one["seconds"] for _, one in done)), f"{seeds:,}" if seeds else ""))
        others += [outcome(chunk, one) for chunk, one in done if one["verdict"] != "pass"]
    print()
    labs.print_table(("item", "done", "passed", "failed", "skipped", "time", "seeds"), rows)
    for one in others:
        print(f"{one.verdict} {one.name}: {one.reason}")
        if one.repeat:
            print(f"  everything about it: {one.folder}\n  again: {one.repeat}")


def is_complete(plan, state):
    return all(chunk.key in state.done for chunk in plan.sequence())
