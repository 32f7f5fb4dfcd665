"""urtrs-conform with urtrsd over TCP: cases, reports and exit codes."""
import json
import signal
import subprocess

import pytest
from junitparser import JUnitXml
from programs import free_port, program

LIMIT = 250


def conform(*arguments):
    return subprocess.run([program("urtrs-conform"), *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT,
                          check=False)


@pytest.fixture
def port(urtrsd, tmp_path):
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    return urtrsd("--listen=127.0.0.1", "--listen=127.0.0.2", f"--export=disk0={image}", "--sess-queue-depth=48").port


def test_help_has_defaults_and_usage_errors_exit_with_2():
    usage = conform("--help-all").stdout
    assert "Examples:" in usage
    for default in ("=1234", "--fabric tcp|libfabric|verbs=tcp", "--provider NAME=tcp", "=120", "default all", "default none"):
        assert default in usage, ("default in the help", default)
    for wrong in (["--target", "127.0.0.1", "--role", "sever"], ["--role", "server"], ["--nonsense"],
                  ["--target", "127.0.0.1", "--role", "server", "--case", "C999"],
                  ["--target", "127.0.0.1", "--role", "server", "--baseline", "/nonexistent"]):
        done = conform(*wrong)
        assert done.returncode == 2 and done.stderr.startswith("urtrs-conform: "), (wrong, done)
    listed = json.loads(conform("--list", "--json").stdout)["cases"]
    assert len(listed) >= 60, ("cases", len(listed))
    assert {one["role"] for one in listed} == {"server", "client"}, "both roles"
    absent = conform("--target", "127.0.0.1", "--port", free_port(), "--role", "server")
    assert absent.returncode == 4 and "is the server running there" in absent.stderr, ("nobody listens", absent)


def test_a_signal_ends_the_program_with_its_exit_code():
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen([program("urtrs-conform"), "--target", "127.0.0.1", "--port", str(free_port()), "--role",
                               "client"],
                              stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as waiting:
            assert waiting.stderr.readline().startswith("Listening on ")
            waiting.send_signal(number)
            assert waiting.wait(LIMIT) == -number, "exit code 1 would mean a failed case"


def test_cases_pass_against_urtrsd(port, tmp_path):
    where = ["--target", "127.0.0.1", "--target", "127.0.0.2", "--port", port, "--role", "server",
             "--device", "disk0", "--scratch"]
    report = tmp_path / "report.json"
    # Case C118 may take its whole time limit, because a server may leave its request unanswered.
    done = conform(*where, "--quick", "--json", report, "--junit", tmp_path / "report.xml")
    assert done.returncode == 0, (done.stdout, done.stderr)
    cases = json.loads(report.read_text())["cases"]
    passed = [one for one in cases if one["verdict"] == "passed"]
    assert len(passed) >= 140, ("passed", len(passed), done.stdout)
    assert JUnitXml.fromfile(str(tmp_path / "report.xml")).tests == len(cases)
    tap = conform(*where, "--case", "C012", "--tap", "--trace", tmp_path / "traces").stdout
    assert tap.startswith("TAP version 13\n1..1\nok 1 - C012"), tap
    assert (tmp_path / "traces" / "C012-connect-bad-magic.rtrc").stat().st_size > 0, "a trace"
    mistaken = conform("--target", "127.0.0.1", "--port", port, "--role", "server", "--device", "disk1")
    assert mistaken.returncode == 3 and "does not open the device 'disk1'" in mistaken.stderr, mistaken
    nothing = conform("--target", "127.0.0.1", "--port", port, "--role", "server", "--case", "C470")
    assert nothing.returncode == 77 and "--scratch" in nothing.stdout, nothing
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"schema_version": 1, "peer": "nobody", "deviations": [
        {"case": "C012-connect-bad-magic", "seen": "it is taken"}]}))
    mended = conform(*where, "--case", "C012", "--baseline", baseline)
    assert mended.returncode == 0 and "[passed, was known to deviate]" in mended.stdout, mended


def test_cve_reports_known_vulnerabilities(port):
    done = conform("--target", "127.0.0.1", "--port", port, "--cve")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(None, 1) for line in done.stdout.splitlines() if line.startswith("CVE-")]
    assert [(name, words.split("  ")[0]) for name, words in lines] == [
        ("CVE-2024-50062", "not vulnerable"), ("CVE-2026-43184", "not vulnerable"), ("CVE-2026-64033", "not known"),
        ("CVE-2026-64269", "not vulnerable"), ("CVE-2026-97413", "not vulnerable")]
    assert "compare the version of the kernel" in done.stdout
    wrong = conform("--target", "127.0.0.1", "--port", port, "--cve", "--role", "client")
    assert wrong.returncode == 2 and "--cve tests servers" in wrong.stderr, wrong
