"""All output of urtrs-conform with --json, including errors, matches docs/schema/urtrs-conform.json."""
import subprocess

import pytest

from programs import BOUND, ROOT, Urtrsd, program
from schemas import fits, is_schema

CONFORM = program("urtrs-conform")


def conform(part, *arguments, code=0):
    done = subprocess.run([CONFORM, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=2 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return fits(done.stdout, "urtrs-conform", part)


def test_list_output_fits_the_schema():
    is_schema("urtrs-conform")
    cases = conform("list", "--list")["cases"]
    assert {case["role"] for case in cases} == {"server", "client"} and len(cases) > 100
    assert conform("list", "--list", "--case", "C001")["cases"][0]["id"] == "C001-connect-honest"


def test_run_output_fits_the_schema(tmp_path):
    server = Urtrsd(tmp_path / "log", "--export=disk0=mem:16M").ready()
    try:
        told = ["--target", "127.0.0.1", "--port", server.port, "--role", "server", "--case", "C00"]
        run = conform("run", *told)
        assert run["cases"] and sum(run["summary"].values()) == len(run["cases"])
        known = conform("run", *told, "--baseline", ROOT / "conformance/cases/baseline-linux-6.12.json")
        assert "inux" in known["baseline"]
        asked = conform("run", "--target", "127.0.0.1", "--port", server.port, "--cve")
        assert {one["id"]: one["verdict"] for one in asked["cves"]} == {
            "CVE-2024-50062": "not vulnerable", "CVE-2026-43184": "not vulnerable", "CVE-2026-64033": "not known",
            "CVE-2026-64269": "not vulnerable", "CVE-2026-97413": "not vulnerable"}
        nothing = conform("run", "--target", "127.0.0.1", "--port", server.port, "--role", "server", "--case", "C1", code=0)
        assert nothing["cases"]
    finally:
        server.end()


@pytest.mark.parametrize("words", [["--nosuch"], [], ["--target", "127.0.0.1"], ["--list", "--case", "nosuch"],
                                   ["--target", "127.0.0.1", "--role", "sideways"]])
def test_error_output_fits_the_schema(words):
    error = conform("error", *words, code=2)["error"]
    assert error["code"] == "usage" and "urtrs-conform:" not in error["message"]
