"""Programs load libfabric only if it is used, because its PSM libraries on Debian sleep for 0.2 s."""
import subprocess

import pytest
from programs import BOUND, PLUGIN, program


@pytest.mark.parametrize("file", [*map(program, ("urtrsd", "urtrs-perf", "urtrs-conform", "urtrs-replay", "urtrs")), PLUGIN])
def test_libfabric_is_not_linked(file):
    needed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    assert "libc.so" in needed and "libfabric" not in needed and "libpsm" not in needed
