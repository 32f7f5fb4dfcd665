"""`why` names the cause of failures of real runs: rows of tools/dev/failures/failures.py."""
import contextlib
import re
import sys

import pytest
from programs import PLUGIN, ROOT

pytest.importorskip("nbd", reason="without python3-libnbd")
pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="without the nbdkit plugin")

sys.path.append(str(ROOT / "tools/dev/failures"))
import failures  # noqa: E402  # pylint: disable=wrong-import-position
from real_runs import REAL  # noqa: E402  # pylint: disable=wrong-import-position
from scene import Scene, Unavailable  # noqa: E402  # pylint: disable=wrong-import-position

ROWS = {one.name: one for one in failures.FAILURES}


def test_the_list_has_enough_real_and_simulated_failures():
    assert len(ROWS) == len(failures.FAILURES) >= 20 and set(REAL) <= set(ROWS)
    assert len(REAL) >= 6 and len(ROWS) - len(REAL) >= 6


@pytest.mark.parametrize("name", REAL)
def test_real_failure(name, tmp_path):
    with contextlib.ExitStack() as ends:
        try:
            traces = REAL[name](Scene(tmp_path, ends))
        except Unavailable as error:
            pytest.skip(str(error))
    text = failures.said("why", *(trace.name for trace in traces), folder=traces[0].parent)
    assert re.search(ROWS[name].shows, text), text


@pytest.mark.parametrize("name", [name for name in ROWS if name not in REAL])
def test_simulated_failure(name, tmp_path):
    traces = failures.record(ROWS[name], tmp_path, 1)
    text = failures.said("why", *(trace.name for trace in traces), folder=tmp_path)
    assert re.search(ROWS[name].shows, text), text
