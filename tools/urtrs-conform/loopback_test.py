#!/usr/bin/env python3
"""urtrs-conform as people use it: against urtrsd over libfabric's tcp, its reports, its exit codes."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

TOOL, SERVER = sys.argv[1:3]
LIMIT = 250


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def conform(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT)


def expect(holds, *what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def wait_for_server(server, port):
    while server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    sys.exit("urtrsd ended")


def check_usage():
    usage = conform("--help").stdout
    expect("Examples:" in usage, "help has examples")
    for default in ("=1234", "=libfabric", "=tcp", "=120", "default all", "default none"):
        expect(default in usage, "default in the help", default)
    for wrong in (["--target", "127.0.0.1", "--role", "sever"], ["--role", "server"], ["--nonsense"],
                  ["--target", "127.0.0.1", "--role", "server", "--case", "C999"],
                  ["--target", "127.0.0.1", "--role", "server", "--baseline", "/nonexistent"]):
        done = conform(*wrong)
        expect(done.returncode == 2 and done.stderr.startswith("urtrs-conform: "), wrong, done)
    listed = json.loads(conform("--list", "--json").stdout)["cases"]
    expect(len(listed) >= 60, "cases", len(listed))
    expect({one["role"] for one in listed} == {"server", "client"}, "both roles")
    absent = conform("--target", "127.0.0.1", "--port", free_port(), "--role", "server")
    expect(absent.returncode == 4 and "is the server running there" in absent.stderr, "nobody listens", absent)


def check_cases(port, folder):
    where = ["--target", "127.0.0.1", "--target", "127.0.0.2", "--port", port, "--role", "server",
             "--device", "disk0", "--scratch"]
    report = folder / "report.json"
    # 118 waits for what the server may leave unanswered on purpose.
    done = conform(*where, "--quick", "--json", report, "--junit", folder / "report.xml")
    expect(done.returncode == 0, done.stdout, done.stderr)
    cases = json.loads(report.read_text())["cases"]
    passed = [one for one in cases if one["verdict"] == "passed"]
    expect(len(passed) >= 140, "passed", len(passed), done.stdout)
    expect(len(xml.parse(folder / "report.xml").getroot()) == len(cases), "JUnit has all")
    tap = conform(*where, "--case", "C012", "--tap", "--trace", folder / "traces").stdout
    expect(tap.startswith("TAP version 13\n1..1\nok 1 - C012"), tap)
    expect((folder / "traces" / "C012-connect-bad-magic.rtrc").stat().st_size > 0, "a trace")
    mistaken = conform("--target", "127.0.0.1", "--port", port, "--role", "server", "--device", "disk1")
    expect(mistaken.returncode == 3 and "does not open the device 'disk1'" in mistaken.stderr, mistaken)
    nothing = conform("--target", "127.0.0.1", "--port", port, "--role", "server", "--case", "C470")
    expect(nothing.returncode == 77 and "--scratch" in nothing.stdout, nothing)
    baseline = folder / "baseline.json"
    baseline.write_text(json.dumps({"schema_version": 1, "peer": "nobody", "deviations": [
        {"case": "C012-connect-bad-magic", "seen": "it is taken"}]}))
    mended = conform(*where, "--case", "C012", "--baseline", baseline)
    expect(mended.returncode == 0 and "[passed, was known to deviate]" in mended.stdout, mended)


def main():
    check_usage()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image = folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(4 << 20)
        port = free_port()
        server = subprocess.Popen([SERVER, "--listen", "127.0.0.1", "--listen", "127.0.0.2", "--port", str(port),
                                   "--export", f"disk0={image}", "--sess-queue-depth", "48",
                                   "--log-level", "error"])
        try:
            wait_for_server(server, port)
            check_cases(port, folder)
        finally:
            server.terminate()
            # A sanitizer that found something says so here.
            expect(server.wait(LIMIT) == 0, "urtrsd ends well", server.returncode)


main()
