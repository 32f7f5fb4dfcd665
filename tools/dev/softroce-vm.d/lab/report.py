"""Verdict tables as text, JSON and Markdown."""
import itertools
import json
import re
import statistics

import labs

from . import cells as cell_rules
from .kernels import DEFAULT, KERNELS

MARK = {"pass": "✓", "known": "k", "fail": "✗", "skip": "s", None: "·"}
NAMES = {"kernel": "kernel", "urtrs": "urtrs"}
FIGURES = (  # figures of the report: name, description
    ("lose_both_detected", "both directions lost: noticed by the client"),
    ("lose_both_gap", "both directions lost: longest time without IO"),
    ("lose_both_back", "both directions: healed to connected"),
    ("lose_to-server_detected", "towards the server lost: noticed by the client"),
    ("lose_to-server_gap", "towards the server lost: longest time without IO"),
    ("lose_to-server_back", "towards the server: healed to connected"),
    ("lose_to-client_detected", "towards the client lost: noticed by the client"),
    ("lose_to-client_gap", "towards the client lost: longest time without IO"),
    ("lose_to-client_back", "towards the client: healed to connected"),
    ("server_stop_reconnected", "server started again after a stop: all paths connected"),
    ("server_kill_reconnected", "server started again after a kill: all paths connected"),
    ("freeze_detected", "server frozen: noticed"),
    ("freeze_reconnect", "server goes on: all paths connected"),
    ("disconnect_back", "paths ended by the server: all connected again"),
    ("client_kill_forgotten", "client killed: forgotten by the server"),
)
RIVALS = {"nvme": "NVMe over RDMA (kernel)"}  # columns of the throughput table for alternatives to RNBD
THROUGHPUT = (("randread_4k", "random reads of 4 KiB"), ("randwrite_4k", "random writes of 4 KiB"),
              ("randread_64k", "random reads of 64 KiB"), ("randwrite_64k", "random writes of 64 KiB"))


def outcome(name, result, folder=""):
    died = f"  (tried twice; the first time: {result['died']})" if "died" in result else ""
    return labs.Outcome(name, result["verdict"], result["seconds"], result["reason"] + died, str(folder),
                        f"tools/dev/softroce-vm run {name}")


def pairs():
    return list(itertools.product(cell_rules.PEERS, cell_rules.PEERS))


def of_kernel(results, kernel):
    return {name: result for name, result in results.items() if result.get("series", DEFAULT) == kernel}


def build_of(result):
    return result.get("programs", result["commit"])


def _of_ours(results):
    """Returns the results with urtrs at one end or both, oldest first. Results between two kernels do not depend on the build."""
    return sorted((r for r in results.values() if "urtrs" in (r["client"], r["server"])), key=lambda r: r["when"])


def mark(result, results):
    """Returns the symbol for the verdict. A pass with an older build than the latest one has its own symbol."""
    if result is None:
        return MARK[None]
    newest = build_of(_of_ours(results)[-1]) if _of_ours(results) else None
    ours = "urtrs" in (result["client"], result["server"])
    return "o" if result["verdict"] == "pass" and ours and build_of(result) != newest else MARK[result["verdict"]]


def matrix(results, cases, kernel=DEFAULT):
    """Markdown table: one row for all cases with equal marks, one column per pair of peers, four symbols: on/1, on/2,
    off/1, off/2 (invalidation and number of paths), or one symbol if all are equal. Cases without results have a row for
    the default kernel only."""
    results = of_kernel(results, kernel)
    ran = {result["case"] for result in results.values()}
    head = " | ".join(f"{NAMES[c]} → {NAMES[s]}" for c, s in pairs())
    lines = [f"| cases | {head} |", "|---|" + "---|" * len(pairs())]
    equal = {}
    for name, case in cases.items():
        if kernel not in case.kernels or (kernel != DEFAULT and name not in ran):
            continue
        row = []
        for client, server in pairs():
            marks = []
            for invalidate, paths in itertools.product(("on", "off"), (1, 2)):
                cell = cell_rules.Cell(name, client, server, invalidate, paths, kernel=kernel)
                if not case.applies(cell):
                    marks.append("-")
                    continue
                marks.append(mark(results.get(cell.name), results))
            different = set(marks) - {"-"}
            row.append(" ".join(marks) if len(different) > 1 else "".join(different))
        equal.setdefault(" | ".join(row), []).append(f"`{name}`")
    lines += [f"| {', '.join(names)} | {row} |" for row, names in equal.items()]
    mixed = [r for r in results.values() if r["extension"] != "on"]
    if mixed:
        kinds = sorted({r["extension"] for r in mixed})
        lines += ["", "urtrs → urtrs with the extensions switched off on one side or both:", "",
                  "| case | invalidate | paths | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 3) + "|"]
        rows = {}
        for r in mixed:
            rows.setdefault((r["case"], r["invalidate"], r["paths"]), {})[r["extension"]] = mark(r, results)
        lines += [f"| `{case}` | {invalidate} | {paths} | " + " | ".join(row.get(kind, "") for kind in kinds) + " |"
                  for (case, invalidate, paths), row in sorted(rows.items())]
    lines += [f"\nLeft out: {entry['name']}." for entry in cell_rules.LEFT_OUT if entry.get("kernel", kernel) == kernel]
    return "\n".join(lines)


def values_of(results, name, **roles):
    """Returns the measured values of the cells with these roles whose verdict is pass or known."""
    return [r["figures"][name][0] for r in results.values()
            if name in r["figures"] and r["verdict"] in ("pass", "known") and r["extension"] == "on"
            and all(r[role] == value for role, value in roles.items())]


def figures(results):
    """Markdown table: one row per figure, one column per pair of peers with the values for one and for two paths;
    invalidation on and off merged."""
    head = " | ".join(f"{NAMES[c]} → {NAMES[s]}" for c, s in pairs())
    lines = [f"| seconds, with 1 path; 2 paths | {head} |", "|---|" + "---|" * len(pairs())]
    for name, words in FIGURES:
        row = []
        for client, server in pairs():
            one, two = (_spread(values_of(results, name, client=client, server=server, paths=paths)) for paths in (1, 2))
            row.append(f"{one or '-'}; {two or '-'}" if one or two else "")
        if any(row):
            lines.append(f"| {words} | " + " | ".join(row) + " |")
    return "\n".join(lines) if len(lines) > 2 else "None."


def throughput(results):
    """Markdown table: IOs per second with one path, absolute and relative to the kernel at both ends."""
    columns = [(f"{client}-{server}", f"{NAMES[client]} → {NAMES[server]}") for client, server in pairs()]
    columns += list(RIVALS.items())
    lines = ["| IOs a second | invalidate | " + " | ".join(words for _, words in columns) + " |",
             "|---|---|" + "---|" * len(columns)]
    for (name, words), invalidate in itertools.product(THROUGHPUT, ("on", "off")):
        values = [values_of(results, f"{name}:{column}", case="throughput", invalidate=invalidate) for column, _ in columns]
        if not any(values):
            continue
        base = values[0][0] if values[0] else None
        row = [f"{found[0]:.0f}" + (f" ({found[0] / base:.2f}×)" if base and number else "") if found else ""
               for number, found in enumerate(values)]
        cell = next(r for r in results.values() if r["case"] == "throughput" and r["invalidate"] == invalidate)
        clock = "" if cell.get("counted") else " (real clock)"
        lines.append(f"| {words}{clock} | {invalidate} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def cut_heal(results):
    """Markdown table: one row per pair of peers and invalidation. A passed cell had no errors."""
    lines = ["| pair | invalidate | seconds | rounds | blocks written, all but the last 64 read back "
             "| a loss is noticed after | healed to connected |", "|---|---|---|---|---|---|---|"]
    for (client, server), invalidate in itertools.product(pairs(), ("on", "off")):
        result = results.get(cell_rules.Cell("cut-heal", client, server, invalidate, 2).name)
        if result is None or result["verdict"] != "pass" or "cut_heal_blocks" not in result["figures"]:
            continue
        value = {name.removeprefix("cut_heal_"): number for name, (number, _) in result["figures"].items()}
        lines.append(f"| {NAMES[client]} → {NAMES[server]} | {invalidate} | {result['duration']} | {value['rounds']:.0f} | "
                     f"{value['blocks']:,.0f} | " + " | ".join(
                         f"{_spread((value[name + '_least'], value[name + '_most']))} s" for name in ("noticed", "healed"))
                     + " |")
    return "\n".join(lines)


def _spread(values):
    if not values:
        return ""
    middle = f"{statistics.median(values):.1f}"
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return middle if low == high else f"{low}–{high}"


def not_green(results):
    """Markdown list: one line per verdict and reason, with its cells. For a known deviation, the reason is its name."""
    found = {}
    for name, result in sorted(results.items()):
        if result["verdict"] in ("fail", "known", "skip"):
            # Removes the local path of the module source.
            reason = re.sub(r"/\S+/source/(?:[^/\s]+/)?(drivers/)", r"\1", result["reason"]) or "no reason given"
            if result["verdict"] == "known":
                reason = reason.rpartition("kernel deviation: ")[2]
            found.setdefault(f"{result['verdict']}: {reason}", []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}: {text}" for text, names in found.items()) or "None."


def provenance(results):
    if not results:
        return "Nothing has been run."
    kernels = ", ".join(sorted({r["kernel"] for r in results.values()}))
    when = [r["when"] for r in results.values()]
    builds = {}
    for r in _of_ours(results):
        builds[build_of(r)] = builds.get(build_of(r), 0) + 1
    newest = list(builds.values())[-1:] or [0]
    counted = sum(r.get("counted", False) for r in results.values())
    longest = max((r.get("duration", 0) for r in results.values() if r["case"] == "cut-heal"), default=0)
    heal = f" `cut-heal`: up to {longest} s." if longest else ""
    return (f"{len(results)} cells, {min(when)} to {max(when)} UTC, Linux {kernels}; {counted} with `--counted`. Builds of our "
            f"programs: {len(builds)}, the newest in {newest[0]} cell(s).{heal}")


def of_run(results, cases, kernels):
    """Markdown: matrix and figures of these kernels."""
    return "\n\n".join(f"Linux {kernel}\n\n{matrix(results, cases, kernel)}\n\n{figures(of_kernel(results, kernel))}"
                       for kernel in kernels)


def parts(results, cases, kernel):
    """Parts of a document about one kernel: name of the markers -> text."""
    of_it = of_kernel(results, kernel)
    found = {"provenance": provenance(of_it), "matrix": matrix(of_it, cases, kernel), "not-green": not_green(of_it)}
    if kernel != DEFAULT:
        if kernel in cell_rules.PLAIN:
            found["figures"] = figures(of_it)
        return {f"{name}-{kernel}": text for name, text in found.items()}
    return found | {"figures": figures(of_it), "throughput": throughput(of_it), "cut-heal": cut_heal(of_it)}


def update(document, results, cases, kernels=tuple(KERNELS)):
    """Returns the document with new text between the markers of these kernels. Raises ValueError if a marker is
    missing."""
    for name, text in (part for kernel in kernels for part in parts(results, cases, kernel).items()):
        pattern = re.compile(rf"(<!-- {re.escape(name)} begin -->\n).*?(<!-- {re.escape(name)} end -->)", re.DOTALL)
        if not pattern.search(document):
            raise ValueError(f"the document has no '<!-- {name} begin -->'")
        document = pattern.sub(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", document)
    return document


def as_json(done):
    return json.dumps(done, indent=1, sort_keys=True)
