"""tools/dev/fabric-bench measures and prints its table; what it measures is nobody's promise."""
import subprocess

from programs import BUILD, ROOT


def test_every_pair_has_a_row():
    done = subprocess.run([ROOT / "tools/dev/fabric-bench", "--build", BUILD, "--rounds", "1", "--seconds", "0.3", "--beside",
                           "raw,libfabric,tls,floor", "--loads", "4k:2"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in row.split("|")] for row in done.stdout.splitlines()[2:]]
    assert [(row[1], row[3]) for row in rows] == [(one, rw) for one in ("raw", "libfabric", "tls", "floor") for rw in ("write", "read")]
    assert all(float(one) > 0 for row in rows for one in row[4].split(","))


def test_a_word_that_it_does_not_know_is_refused():
    done = subprocess.run([ROOT / "tools/dev/fabric-bench", "--beside", "roce"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2
    assert "roce is none of raw, libfabric, tls, floor, ucx" in done.stderr
