"""All output of urtrs with --json matches docs/schema/urtrs.json, which has a part for each command."""
import json
import os
import re
import subprocess

import pytest
from programs import BOUND, BUILD, PLUGIN, ROOT, accepts, program, until

jsonschema = pytest.importorskip("jsonschema")

URTRS = program("urtrs")
SCHEMA = json.loads((ROOT / "docs/schema/urtrs.json").read_text())
# Part of the schema for each command, as the descriptions of the parts say.
PRINTED_BY = "Printed by: "
PARTS = {command: part for part, schema in SCHEMA["$defs"].items()
         for command in schema.get("description", "").removeprefix(PRINTED_BY).split(", ")
         if schema.get("description", "").startswith(PRINTED_BY)}


def fits(text, part):
    answer = json.loads(text)
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{part}"}).validate(answer)
    return answer


def urtrs(*arguments, code=0):
    done = subprocess.run([URTRS, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    assert done.stderr == ""
    return done.stdout


def commands():
    """Commands listed by --help-all, without arguments."""
    text = subprocess.run([URTRS, "--help-all"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    lines = re.findall(r"^  (\S.*?)(?:  |$)", text.partition("Positionals:\n")[2].partition("\n\n")[0], re.MULTILINE)
    return [re.match(r"[a-z]+( [a-z]+){0,2}(?= |$)", re.sub(r" start.*", "", line))[0] for line in lines]


@pytest.fixture(name="client")
def _client(urtrsd, tmp_path, monkeypatch):
    """A client with the session web1 and disk0 open."""
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    server = urtrsd("--export=disk0=mem:1M")
    nbd = tmp_path / "nbd.sock"
    process = subprocess.Popen(["nbdkit", "-f", "-U", nbd, PLUGIN, f"path=127.0.0.1:{server.port}", "session=web1",
                                "device=disk0"], stdin=subprocess.DEVNULL)
    until("nbdkit listens or has exited", lambda: accepts(nbd) or process.poll() is not None)
    until("the device is open", lambda: json.loads(urtrs("device", "list"))["devices"])
    yield f"nbd+unix:///disk0?socket={nbd}"
    process.terminate()
    process.wait(BOUND)


def test_each_command_has_a_schema_part():
    assert sorted([*commands(), "doctor --rdma"]) == sorted(PARTS)


def test_each_field_is_documented():
    docs = (ROOT / "docs/management.md").read_text()
    helps = "".join(subprocess.run([URTRS, *command.split(), "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
                    for command in commands())
    explained = set(re.findall(r"^  (\w+)\*?  ", helps, re.MULTILINE))
    fields = {field for part in SCHEMA["$defs"].values() for field in part.get("properties", {})}
    assert [field for field in fields if field not in explained and f"`{field}`" not in docs] == []


def test_output_of_queries_fits_the_schema(client):
    for command in ("session list", "path list", "device list", "export list", "stats", "daemons", "version", "reason list", "debug dump", "limits"):
        fits(urtrs(*command.split()), PARTS[command])
    for command in ("session show web1", "path show web1 0", "device show disk0", "reason show heartbeat_lost", "top --count=1 --interval=0.1"):
        fits(urtrs(*command.split()), PARTS[re.sub(r" (web1|disk0|heartbeat_lost|--).*", "", command)])


def test_output_without_objects_fits_the_schema(urtrsd, tmp_path, monkeypatch):
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    assert fits(urtrs("daemons"), "daemons")["daemons"] == []
    assert {one["set"] for one in fits(urtrs("limits"), "limits")["limits"]} == {None}
    urtrsd(f"--dev-search-path={tmp_path}")
    for noun in ("session", "path", "device", "export"):
        assert fits(urtrs(noun, "list"), noun + "s")[noun + "s"] == []


def test_output_of_changes_fits_the_schema(client, tmp_path):
    fits(urtrs("export", "add", "more=mem:1M"), "done")
    fits(urtrs("export", "remove", "more"), "done")
    fits(urtrs("log", "info"), "done")
    fits(urtrs("reset"), "done")
    fits(urtrs("reload"), "reload")
    fits(urtrs("trace", "start", tmp_path / "a.rtrc"), "traced")
    fits(urtrs("trace", "stop"), "done")
    fits(urtrs("trace", "dump", tmp_path / "b.rtrc"), "traced")
    fits(urtrs("device", "close", "disk0"), "closed")
    fits(urtrs("path", "disconnect", "web1", "0"), "done")
    subprocess.run(["nbdcopy", client, "null:"], check=True, timeout=BOUND)
    fits(urtrs("session", "disconnect", "web1"), "done")


def test_output_of_mappings_fits_the_schema(urtrsd, tmp_path, monkeypatch, ends):
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    server = urtrsd("--export=disk0=mem:1M")
    fits(urtrs("mapping", "list", code=3), "error")
    mapd = subprocess.Popen([program("urtrs-mapd"), f"--state={tmp_path}/state.json", f"--nbdkit={BUILD}/tools/nbdkit/nbdkit-urtrs", "--end-devices"],
                            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ends.callback(mapd.wait, BOUND)
    ends.callback(mapd.terminate)
    until("urtrs-mapd answers", lambda: subprocess.run([URTRS, "mapping", "list"], capture_output=True, check=False, timeout=BOUND).returncode == 0)
    assert fits(urtrs("mapping", "list"), "mappings")["mappings"] == []
    assert fits(urtrs("map", "disk0", "from", "127.0.0.1", f"--port={server.port}"), "map")["mapped"]
    assert not fits(urtrs("map", "disk0", "from", "127.0.0.1", "--idempotent"), "map")["mapped"]
    assert len(fits(urtrs("mapping", "list"), "mappings")["mappings"]) == 1
    fits(urtrs("mapping", "show", "disk0"), "mapping_show")
    fits(urtrs("map", "disk0", "from", "127.0.0.1", code=1), "error")
    fits(urtrs("mapping", "show", "disk1", code=1), "error")
    fits(urtrs("remap", "disk0", code=1), "error")
    fits(urtrs("unmap", "disk0"), "done")


def test_output_of_events_fits_the_schema(client):
    watch = subprocess.Popen([URTRS, "monitor", "--json", "--count=3"], stdout=subprocess.PIPE, text=True)

    def cut():
        """Repeats the disconnect: the monitor may not be watching yet, and a disconnected path cannot be disconnected."""
        subprocess.run([URTRS, "path", "disconnect", "web1", "0"], capture_output=True, check=False, timeout=BOUND)
        return watch.poll() is not None
    until("three events", cut)
    lines = watch.stdout.read().splitlines()
    assert len(lines) == 3
    for line in lines:
        fits(line, "event")


def test_error_output_fits_the_schema(client):
    fits(urtrs("sesion", code=2), "error")
    fits(urtrs("log", "loud", code=2), "error")
    fits(urtrs("session", "show", "nobody", code=1), "error")
    fits(urtrs("session", "disconnect", "nobody", code=1), "error")
    fits(urtrs("stats", "--socket=/nonexistent", code=3), "error")


def test_output_of_doctor_rdma_fits_the_schema():
    """Works with and without RDMA devices. An unreachable peer is a failed check, not a usage error."""
    for words in ((), ("--rdma-device=nosuch0",), ("0.0.0.1", "--rounds=1")):
        done = subprocess.run([URTRS, "doctor", "--rdma", *words, "--json"], capture_output=True, text=True, timeout=BOUND,
                              check=False)
        checks = fits(done.stdout, "doctor_rdma")["checks"]
        assert done.stderr == ""
        assert done.returncode in (0, 1, 4)
        assert (done.returncode != 0) == any(check["grade"] == "failed" for check in checks)
        assert all(check.get("remedy") for check in checks if check["grade"] != "ok")


def test_output_of_doctor_fits_the_schema(tmp_path):
    """Runs on any host; the findings are not checked."""
    done = subprocess.run([URTRS, "doctor", "--json"], capture_output=True, text=True, timeout=BOUND, check=False,
                          env={**os.environ, "URTRS_RUNTIME_DIR": str(tmp_path)})
    checks = fits(done.stdout, "doctor")["checks"]
    assert done.returncode == any(check["grade"] == "fail" for check in checks)
    assert all(check.get("remedy") for check in checks if check["grade"] != "ok")
