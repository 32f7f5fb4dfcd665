"""tools/dev/nbd-bench runs and prints its table. The results are not checked."""
import json
import shutil
import subprocess

import pytest
from programs import BUILD, ROOT


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
@pytest.mark.parametrize(("over", "others"), [("unix", ["handoff", "relay"]), ("tcp", [])])
def test_every_target_has_a_row(tmp_path, over, others):
    results = tmp_path / "results.json"
    done = subprocess.run([ROOT / "tools/dev/nbd-bench", "--build", BUILD, "--rounds", "1", "--seconds", "1", "--size", "8M",
                           "--rw", "randwrite", "--depths", "4", "--over", over, "--json", results,
                           *(["--floor", "--relay"] if others else [])],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[2:]
    assert [row.split("|")[2].strip() for row in rows] == ["memory", *others, "plugin"]
    measured = {one["target"]: one for one in json.loads(results.read_text())}
    assert set(measured["plugin"]["of"]) == {"fio", "nbdkit", "urtrsd"}
    assert all(set(measured[name]["of"]) == {"fio", "nbdkit"} for name in ["memory", *others])
    assert all(one["iops"] > 0 and one["cpu_us"] > 0 for one in measured.values())
