#!/usr/bin/env python3
"""Writes the tables of docs/fabric.md: the capabilities of each fabric, and the cases of the contract that need one.

Usage:
  table.py --write PROGRAM...   runs the contract programs (build/release/conformance/contract/*_contract_test) and writes
                                the tables
  table.py --check PROGRAM...   fails if the tables name other cases or variants than the programs have (runs nothing)

If this machine cannot run a fabric (verbs without an RDMA device), the table lists what its sources declare. If a case
fails, --write reports it and changes nothing. Exit code: 0 on success, 1 on failure, 2 for wrong usage.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/fabric.md"
BEGIN, END = "<!-- table.py: begin -->", "<!-- table.py: end -->"
CAPABILITIES = ["imm_consumes_receive", "send_invalidate", "send_invalidate_is_slow", "per_io_keys", "invalidation",
                "invalidation_fences", "invalidation_breaks_on_packet_loss", "done_means_delivered", "detects_silent_peer"]


def listed(program):
    """Yields (suite, variant, case) for every test of the program."""
    suite = ""
    output = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name.split("/")[0]
        elif "/" in name:
            case, variant = name.split("/", 1)
            yield suite, variant, case


def needs():
    """Maps each case to the capability that it needs, if any."""
    found = {}
    for path in sorted((ROOT / "conformance/contract").glob("contract_*_cases.cpp")):
        for case, body in re.findall(r"TEST_P\(FabricContract, (\w+)\) \{(.*?)\n\}\n", path.read_text(), re.DOTALL):
            match = re.search(r"!capabilities\(\)\.(\w+)\) GTEST_SKIP", body)
            found[case] = match.group(1) if match else ""
    return found


def declared():
    """Returns the capabilities that the verbs backend declares in its source, for machines without a device."""
    text = (ROOT / "backends/verbs/verbs_device.cpp").read_text()
    true = set(re.findall(r"can\.(\w+) = (?:true|options\.invalidation != Invalidation::off);", text))
    return {name: name in true for name in CAPABILITIES}


def played(program):
    """Runs a program; returns {variant: ({case: skipped for a missing capability}, capabilities)}. Capabilities are empty if
    no case could run. Raises if a case failed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, f"--gtest_output=json:{file.name}", "--gtest_brief=1"], check=True)
        report = json.load(open(file.name))
    columns = {}
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            case, variant = test["name"].split("/", 1)
            cells, can = columns.setdefault(variant, ({}, {}))
            can.update({name: test[name] == "1" for name in CAPABILITIES if name in test})
            cells[case] = test["result"] == "SKIPPED"
    return columns


def columns_of(programs):
    """Yields a table column: (suite, variants with equal results, declared only, cells, capabilities)."""
    wanted = needs()
    for program in programs:
        suite = next(listed(program))[0].lower()
        alike = []
        for variant, (cells, can) in played(program).items():
            run = bool(can)
            if not run:
                can = declared()
                cells = {case: bool(need) and not can[need] for case, need in wanted.items()}
            for case, left_out in cells.items():
                if left_out and (not wanted[case] or can[wanted[case]]):
                    raise SystemExit(f"table.py: {suite} {variant} leaves out {case} for no capability that it lacks")
            for column in alike:
                if column[2:] == (not run, cells, can):
                    column[1].append(variant)
                    break
            else:
                alike.append((suite, [variant], not run, cells, can))
        yield from alike


def tables(programs):
    columns = [(f"{suite} {', '.join(variants)}" + (" (declared)" if only_declared else ""), cells, can)
               for suite, variants, only_declared, cells, can in columns_of(programs)]
    cases = sorted(needs())
    for name, cells, _ in columns:
        if sorted(cells) != cases:
            raise SystemExit(f"table.py: {name} has other cases than contract_*_cases.cpp")
    names = [name for name, _, _ in columns]
    yield "| capability | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    nowhere = [capability for capability in CAPABILITIES if not any(can[capability] for _, _, can in columns)]
    for capability in CAPABILITIES:
        if capability not in nowhere:
            yield f"| `{capability}` | " + " | ".join("yes" if can[capability] else "no" for _, _, can in columns) + " |"
    if nowhere:
        yield ""
        yield "No for all of them: " + ", ".join(f"`{capability}`" for capability in nowhere) + "."
    yield ""
    wanted = needs()
    some = [case for case in cases if wanted[case]]
    yield f"{len(cases)} cases. {len(cases) - len(some)} need no capability and run on every fabric. The others:"
    yield ""
    yield "| case | needs |"
    yield "|---|---|"
    for case in some:
        yield f"| `{case}` | `{wanted[case]}` |"


def check(programs):
    before, rest = DOCUMENT.read_text().split(BEGIN, 1)
    text = rest.split(END, 1)[0]
    wanted = needs()
    named = set(re.findall(r"`(\w+)`", before))
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", text, re.MULTILINE))
    heads = re.search(r"^\| capability \| (.*) \|$", text, re.MULTILINE).group(1).split(" | ")
    heads = {f"{head.split(' ', 1)[0]} {variant}" for head in heads
             for variant in head.removesuffix(" (declared)").split(" ", 1)[1].split(", ")}
    good = True
    for case, _ in sorted({item for item in wanted.items() if item[1]} ^ set(rows.items())):
        print(f"docs/fabric.md: {case} is not in both contract_*_cases.cpp and the table, or needs something else")
        good = False
    for case in sorted(set(wanted) - named):
        print(f"docs/fabric.md: the table of clauses does not name {case}")
        good = False
    counted = re.search(r"^(\d+) cases\. (\d+) need no capability", text, re.MULTILINE)
    if not counted or [int(number) for number in counted.groups()] != [len(wanted), len(wanted) - len(rows)]:
        print("docs/fabric.md: the number of cases is wrong")
        good = False
    for program in programs:
        seen = list(listed(program))
        variants = {f"{suite.lower()} {variant}" for suite, variant, _ in seen}
        of_suite = {head for head in heads if head.split(" ")[0] == seen[0][0].lower()}
        for variant in sorted(variants ^ of_suite):
            print(f"docs/fabric.md: {variant} is not in both {pathlib.Path(program).name} and the table")
            good = False
        for case in sorted({case for _, _, case in seen} ^ set(wanted)):
            print(f"docs/fabric.md: {case} is not in both {pathlib.Path(program).name} and contract_*_cases.cpp")
            good = False
    if not good:
        print("write it again: conformance/contract/table.py --write build/release/conformance/contract/*_contract_test")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    given = parser.parse_args()
    if given.check:
        return check(given.programs)
    try:
        lines = "\n".join(tables(given.programs))
    except subprocess.CalledProcessError as failed:
        print(f"table.py: {failed}", file=sys.stderr)
        return 1
    head, rest = DOCUMENT.read_text().split(BEGIN, 1)
    DOCUMENT.write_text(f"{head}{BEGIN}\n{lines}\n{END}{rest.split(END, 1)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
