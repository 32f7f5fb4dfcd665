"""The metrics page of a real urtrsd."""
import json
import re
import time
import urllib.request

from programs import BOUND, ROOT, free_port, until


def page(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=BOUND) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def test_a_scrape_returns_valid_samples(urtrsd):
    address = f"127.0.0.1:{free_port()}"
    server = urtrsd("--export=a=mem:1M", f"--metrics={address}")
    server.logged(f"metrics at {address}")
    lines = page(address).splitlines()
    assert 'urtrs_sessions 0' in lines
    values = [line for line in lines if not line.startswith("#")]
    # Each sample line is a name with labels, a space, and a number.
    assert all(len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) >= 0 for line in values)
    described = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.split("{")[0].split()[0] for line in values} == described


def test_an_unusable_address_fails_the_start(urtrsd):
    server = urtrsd("--export=a=mem:1M", "--metrics=nowhere:1", ready=False)
    assert server.process.wait(BOUND) == 2
    assert "is not an IP address" in server.text()


def test_a_non_loopback_address_causes_a_warning(urtrsd):
    server = urtrsd("--export=a=mem:1M", f"--metrics=0.0.0.0:{free_port()}")
    until("a warning", lambda: "can read the names of sessions" in server.text())


def test_the_dashboard_uses_only_documented_metrics():
    """Compares with the documentation, because the page has no metrics of paths while there are no sessions."""
    known = set(re.findall(r"`(urtrs_\w+)`", (ROOT / "docs/management.md").read_text()))
    board = json.loads((ROOT / "tools/urtrsd/grafana/urtrsd.json").read_text())
    asked = {name for panel in board["panels"] for target in panel["targets"] for name in re.findall(r"urtrs_\w+", target["expr"])}
    assert asked and {name.removesuffix("_bucket") for name in asked} <= known
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


def test_the_uptime_is_in_seconds(urtrsd):
    address, begun = f"127.0.0.1:{free_port()}", time.monotonic()
    urtrsd("--export=a=mem:1M", f"--metrics={address}")
    uptime = float(re.search(r"^urtrs_uptime_seconds (\S+)$", page(address), re.MULTILINE)[1])
    assert 0 < uptime <= time.monotonic() - begun


def test_a_unix_socket_is_used_by_one_daemon_only(urtrsd, tmp_path):
    metrics = tmp_path / "metrics.sock"
    first = urtrsd("--export=a=mem:1M", f"--metrics={metrics}")
    second = urtrsd("--export=a=mem:1M", f"--metrics={metrics}", ready=False)
    assert second.process.wait(BOUND) == 3 and "another process listens on it" in second.text()
    first.end(9)
    second.start().ready()
    assert second.end() == 0 and not metrics.exists()
