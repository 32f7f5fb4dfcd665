"""The status file of the plugin always matches docs/schema/nbdkit-urtrs-status.json."""
import subprocess

import pytest

from programs import BOUND, PLUGIN, Urtrsd, until
from schemas import fits, is_schema

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="without the nbdkit plugin")


def test_the_status_fits_its_schema_while_paths_change(tmp_path):
    is_schema("nbdkit-urtrs-status")
    file, nbd = tmp_path / "status.json", tmp_path / "nbd.sock"
    server = Urtrsd(tmp_path / "log", "--export=disk0=mem:4M").ready()
    plugin = subprocess.Popen(["nbdkit", "-f", "-U", nbd, PLUGIN, f"path=127.0.0.1:{server.port}", f"path=127.0.0.2:{server.port}",
                               "device=disk0", "reconnect_min=50ms", "reconnect_max=100ms", f"status={file}"],
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def status(condition):
        def holds():
            found = fits(file.read_text(), "nbdkit-urtrs-status", "status") if file.exists() and file.stat().st_size else None
            return found if found and condition(found) else None
        return until("the status has the expected state", holds)

    try:
        status(lambda now: now["state"] == "open" and now["link"] == "up")
        subprocess.run(["nbdcopy", f"nbd+unix:///disk0?socket={nbd}", "null:"], check=True, timeout=BOUND)
        status(lambda now: now["reads"] > 0 and sum(phase["ios"] for phase in now["latency"].values()) > 0)
        server.end()
        lost = status(lambda now: now["link"] == "down" and any(path["failed_attempts"] for path in now["paths"]))
        assert lost["phase"] == "during" and any(event["what"] == "link_down" for event in lost["events"])
        server.start().ready()
        status(lambda now: now["link"] == "up" and now["state"] == "open")
    finally:
        plugin.terminate()
        plugin.wait(BOUND)
        server.end()
