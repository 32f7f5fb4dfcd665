"""The instructions of an event stay within 3 % of cost.json; `URTRS_BUILD_DIR=build/release python3 cost_test.py --write`
renews it. Counted are the instructions of the program itself: those of the C library depend on the processor."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib/testing"))
import pytest
from programs import program

STORED = pathlib.Path(__file__).with_name("cost.json")
SEEDS = {"sim": "0..24", "tcp": "0..12", "verbs-mock": "0..12"}
MARGIN = 0.03


def own_instructions(profile):
    """The instructions that callgrind counted in urtrs-sim, without calls into libraries."""
    total, own, of_call = 0, False, False
    with open(profile, encoding="utf-8") as lines:
        names = {}
        for line in lines:
            if found := re.match(r"ob=\((\d+)\)(?: (.*))?", line):
                names.setdefault(found[1], found[2])
                own = names[found[1]].endswith("/urtrs-sim")
            elif found := re.match(r"cob=\((\d+)\) (.*)", line):
                names.setdefault(found[1], found[2])
            elif line.startswith("calls="):
                of_call = True  # the next line is the cost of the callee
            elif re.match(r"[0-9+*-]", line):
                total += int(line.split()[1]) if own and not of_call else 0
                of_call = False
    return total


def cost(fabric):
    words = [program("urtrs-sim"), "sweep", "--seeds", SEEDS[fabric], "--fabric", fabric, "--jobs", "1", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={folder}/%p"]
        ran = subprocess.run([*valgrind, *words], capture_output=True, text=True, timeout=500, check=True)
        events = json.loads(ran.stdout)["events"]
        return sum(own_instructions(profile) for profile in pathlib.Path(folder).iterdir()) // events


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("fabric", SEEDS)
def test_event_costs_as_many_instructions_as_stored(fabric):
    stored = json.loads(STORED.read_text(encoding="utf-8"))[fabric]
    now = cost(fabric)
    assert abs(now - stored) <= MARGIN * stored, (
        f"an event over {fabric} takes {now} instructions, {STORED.name} has {stored}: if this is intended, renew it "
        f"(first lines of {pathlib.Path(__file__).name})")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    STORED.write_text(json.dumps({fabric: cost(fabric) for fabric in SEEDS}, indent=2) + "\n", encoding="utf-8")
