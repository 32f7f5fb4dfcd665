"""Programs do not load libfabric before somebody asks for it: on Debian its PSM libraries sleep for a fifth of a second."""
import subprocess

import pytest
from programs import BOUND, PLUGIN, program


@pytest.mark.parametrize("file", [*map(program, ("urtrsd", "urtrs-perf", "urtrs-conform", "urtrs-replay", "urtrs")), PLUGIN])
def test_libfabric_is_no_part_of(file):
    needed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    assert "libc.so" in needed and "libfabric" not in needed and "libpsm" not in needed
