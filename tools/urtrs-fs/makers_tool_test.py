"""The unmodified command `rnbd` of the RNBD developers, on urtrs-fs in a separate mount namespace.

To run this test, get github.com/ionos-enterprise/rnbd, run `make rnbd`, and set URTRS_MAKERS_RNBD to the program.
"""
import json
import os
import shutil
import subprocess

import pytest
from programs import BOUND, until

TOOL = os.environ.get("URTRS_MAKERS_RNBD")
NAMESPACE = 'mount --make-rprivate / && mount --bind "$0" /sys && exec "$@"'

pytestmark = pytest.mark.skipif(not TOOL, reason="URTRS_MAKERS_RNBD does not name the makers' rnbd command")


@pytest.fixture(name="rnbd")
def _rnbd(mounted):
    """Runs the command with the tree as /sys. Returns its output."""
    def run(*words, code=0):
        done = subprocess.run(["unshare", "-m", shutil.which("sh"), "-c", NAMESPACE, mounted, TOOL, "server", *words],
                              capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout
    return run


def sessions(rnbd):
    """Returns the number of paths by session name. The command prints nothing if there is no session."""
    printed = rnbd("session", "list", "json")
    found = json.loads(printed)["incoming sessions"] if printed.strip() else None
    return {one["sessname"]: one["path_cnt"] for one in found or []}


def test_the_rnbd_tool_lists_sessions_paths_and_devices(rnbd):
    assert sessions(rnbd) == {"web0": 1, "web1": 1}
    paths = json.loads(rnbd("path", "list", "json"))["incoming paths"]
    assert [(one["sessname"], one["hca_port"], one["src_addr"]) for one in paths] == [
        (f"web{n}", 1, "ip:127.0.0.1") for n in (0, 1)]
    exports = json.loads(rnbd("device", "list", "json"))["exports"]
    assert sorted((one["sessname"], one["mapping_path"], one["devname"], one["access_mode"]) for one in exports) == [
        (f"web{n}", f"disk{n}", f"disk{n}", "rw") for n in (0, 1)]


def test_the_rnbd_tool_prints_tables(rnbd):
    for noun, words in (("session", ("web0", "web1", "ip:127.0.0.1@ip:127.0.0.1")), ("path", ("web0", "ip:127.0.0.1")),
                        ("device", ("web1", "disk1", "rw"))):
        printed = rnbd(noun, "list")
        assert all(word in printed for word in words), printed


def test_the_rnbd_tool_shows_one_object(rnbd):
    shown, = json.loads(rnbd("session", "show", "web0", "json"))
    assert (shown["sessname"], shown["path_cnt"], shown["direction"]) == ("web0", 1, "incoming")
    assert "disk1" in rnbd("device", "show", "disk1")


def test_the_rnbd_tool_disconnects_a_session(rnbd, mounted):
    before = (mounted / "class/rtrs-server/web1/paths/ip:127.0.0.1@ip:127.0.0.1/stats/rdma").read_text()
    rnbd("session", "disconnect", "web0")
    until("web0 has connected again", lambda: sessions(rnbd) == {"web0": 1, "web1": 1})
    after = (mounted / "class/rtrs-server/web1/paths/ip:127.0.0.1@ip:127.0.0.1/stats/rdma").read_text()
    assert after.split()[0] == before.split()[0]  # the command must not affect the other session


def test_the_rnbd_tool_closes_a_device(rnbd):
    rnbd("device", "close", "disk0", "web0")
    until("the device is closed", lambda: "disk0" not in rnbd("device", "list"))
    assert "disk1" in rnbd("device", "list")
