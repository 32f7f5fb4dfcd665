"""Tests the output of urtrs on a real terminal of 80 columns, and to a pipe."""
import re
import shutil
import subprocess

import pytest

from programs import BOUND, PLUGIN, accepts, program, until
from screens import Screen

URTRS, SIM = program("urtrs"), program("urtrs-sim")
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed; tools/install-deps")


@pytest.fixture(name="screen")
def _screen(tmp_path, ends):
    def show(*command, **options):
        screen = Screen(tmp_path, command, **options)
        ends.callback(screen.end)
        return screen
    return show


@pytest.fixture(name="client")
def _client(urtrsd, tmp_path, monkeypatch, ends):
    """A client with the session web1 and disk0 open."""
    if not PLUGIN.exists():
        pytest.skip("without the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    server = urtrsd("--export=disk0=mem:1M")
    process = subprocess.Popen(["nbdkit", "-f", "-U", tmp_path / "nbd", PLUGIN, f"path=127.0.0.1:{server.port}", "session=web1",
                                "device=disk0", "reconnect_min=50ms"], stdin=subprocess.DEVNULL)
    ends.callback(process.wait, BOUND)
    ends.callback(process.terminate)
    until("the device is open", lambda: accepts(tmp_path / "nbd") and "disk0" in subprocess.run(
        [URTRS, "device", "list"], capture_output=True, text=True, check=False, timeout=BOUND).stdout)


def read_the_device(tmp_path):
    subprocess.run(["nbdcopy", f"nbd+unix:///disk0?socket={tmp_path}/nbd", "null:"], check=True, timeout=BOUND)


@pytest.mark.parametrize("words", [["top"], ["client", "top"]])
def test_top_redraws_its_table_in_place(client, screen, tmp_path, words):
    shown = screen(URTRS, *words, "--interval=0.2")
    shown.until(lambda lines: any(line.startswith("web1 ") for line in lines))

    def traffic(lines):
        read_the_device(tmp_path)
        row = next((line.split() for line in lines if line.startswith("web1 ")), [])
        return any(re.fullmatch(r"[1-9]\d*", field) for field in row)
    lines = shown.until(traffic)
    assert len(lines) == 2 and lines[0].startswith("Session ")
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in "".join(shown.lines(styled=True))
    shown.keys("C-c")
    assert shown.code() == 0


@pytest.mark.parametrize("words", [["top"], ["client", "top"]])
def test_top_in_a_pipe_has_no_escape_sequences(client, words):
    done = subprocess.run([URTRS, *words, "--interval=0.1", "--count=2"], capture_output=True, text=True, check=True, timeout=BOUND)
    assert "\x1b" not in done.stdout and "\r" not in done.stdout
    assert done.stdout.count("Session ") == 2


@pytest.mark.parametrize("columns", [80, 132])
def test_wide_terminals_show_more_columns(client, screen, columns):
    """A terminal of 80 characters omits the columns of a table that do not fit, and wraps no line."""
    shown = screen(URTRS, "client", "top", "--interval=0.2", columns=columns)
    lines = shown.until(lambda lines: any(line.startswith("web1 ") for line in lines))
    assert len(lines) == 2
    assert ("Inflight" in lines[0]) == (columns == 132)


def test_monitor_prints_events_as_they_happen(client, screen):
    shown = screen(URTRS, "monitor", columns=200)

    def cut(lines):
        # Repeats the disconnect, because the monitor may not be watching yet. The command fails while the path
        # is disconnected.
        subprocess.run([URTRS, "path", "disconnect", "web1", "0"], capture_output=True, check=False, timeout=BOUND)
        return any(" path " in line and "reason=requested" in line for line in lines)
    shown.until(cut)
    shown.until(lambda lines: any("state=connected" in line for line in lines))
    assert "\x1b" not in "".join(shown.lines(styled=True))
    shown.keys("C-c")
    assert shown.code() == 0


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_progress_is_one_line_and_ctrl_c_prints_a_summary(screen, environment):
    shown = screen(SIM, "sweep", "--seeds", "0..100000000", "--jobs", "1", "--no-block-devices", environment=environment)
    lines = shown.until(lambda lines: re.search(r"of 100,000,000 seeds, [\d,]+/s", lines[0]))
    assert len(lines) == 1 and len(lines[0]) <= 80
    first = lines[0]
    assert len(shown.until(lambda lines: lines[0] != first and " seeds" in lines[0])) == 1
    assert "\x1b" not in shown.lines(styled=True)[0]
    shown.keys("C-c")
    assert shown.code() == 130
    assert any("stopped by a signal" in line for line in shown.lines())
    assert any(line.startswith("continue with: urtrs-sim sweep") for line in shown.lines())


def test_progress_in_a_pipe_is_not_redrawn():
    done = subprocess.run([SIM, "sweep", "--seeds", "0..50"], capture_output=True, check=True, timeout=2 * BOUND)
    assert b"\r" not in done.stdout + done.stderr and b"\x1b" not in done.stdout + done.stderr


def test_lists_fit_the_terminal(client, screen):
    shown = screen("sh", "-c", f"{URTRS} session list; {URTRS} client session list; {URTRS} device list; echo all")
    lines = shown.until(lambda lines: "all" in lines)
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.startswith("Session") for line in lines) >= 2 and sum("web1" in line for line in lines) >= 2
