"""The static probes in the programs, as seen by perf and bpftrace, match the list in docs/management.md."""
import re
import shutil
import subprocess

import pytest
from programs import BUILD, PLUGIN, ROOT, program

SERVER = {"rtrs_srv:send_io_resp_imm", "rnbd_srv:create_sess", "rnbd_srv:destroy_sess", "rnbd_srv:process_rdma",
          "rnbd_srv:process_msg_sess_info", "rnbd_srv:process_msg_open", "rnbd_srv:process_msg_close"}
CLIENT = {"rtrs_clt:rtrs_clt_reconnect_work", "rtrs_clt:rtrs_clt_close_conns", "rtrs_clt:rtrs_rdma_error_recovery"}


def probes(file):
    notes = subprocess.run(["readelf", "-n", "--wide", file], capture_output=True, text=True, check=True).stdout
    return {f"{provider}:{name}" for provider, name in re.findall(r"Provider: (\S+)\s+Name: (\S+)", notes)}


@pytest.fixture(autouse=True)
def built_with_probes():
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    if "SDT_INCLUDE_DIR:PATH=/" not in (BUILD / "CMakeCache.txt").read_text():
        pytest.skip("was built without systemtap-sdt-dev")


def test_the_server_has_its_probes():
    assert SERVER <= probes(program("urtrsd"))


def test_the_plugin_has_its_probes():
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    assert CLIENT <= probes(PLUGIN)


def test_each_probe_is_documented():
    documented = set(re.findall(r"`((?:rtrs_clt|rtrs_srv|rnbd_srv):\w+)`", (ROOT / "docs/management.md").read_text()))
    assert documented == SERVER | CLIENT
