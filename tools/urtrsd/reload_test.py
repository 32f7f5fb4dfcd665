"""Reloads urtrsd during IO, with valid, invalid and missing configuration files."""
import os
import signal
import subprocess

import pytest
from hostile_tcp_test import Beside
from programs import BOUND, program, until

URTRS, URTRSD = program("urtrs"), program("urtrsd")
CONFIG = """
log_level = "info"
[[export]]
name = "d"
mem = "16M"
"""


@pytest.fixture(name="folder")
def _folder(tmp_path):
    (tmp_path / "urtrsd.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture(name="server")
def _server(folder, urtrsd):
    return urtrsd(f"--config={folder / 'urtrsd.toml'}", f"--control={folder / 'control'}")


def urtrs(folder, *arguments):
    return subprocess.run([URTRS, f"--socket={folder / 'control'}", *arguments], capture_output=True, text=True, timeout=BOUND, check=False)


KINDS = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a device": lambda path: os.symlink("/dev/zero", path),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_must_be_a_regular_file(folder, server, kind):
    beside = Beside(server)
    config = folder / "urtrsd.toml"
    config.unlink()
    KINDS[kind](config)
    done = urtrs(folder, "reload")
    assert done.returncode == 1 and f"is {kind}, and a configuration is a regular file" in done.stderr, done
    server.process.send_signal(signal.SIGHUP)
    until("the reload by signal has ended", lambda: server.text().count("reload: nothing was changed") == 2)
    beside.end()
    start = subprocess.run([URTRSD, f"--config={config}"], capture_output=True, text=True, timeout=BOUND, check=False)
    assert start.returncode == 2 and f"{config}: is {kind}" in start.stderr, start


def test_concurrent_reloads_apply_a_change_once(folder, server):
    config = folder / "urtrsd.toml"
    config.write_text(CONFIG + '[[export]]\nname = "e"\nmem = "1M"\n')
    asked = [subprocess.Popen([URTRS, f"--socket={folder / 'control'}", "reload"], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for one in asked:
        out, _ = one.communicate(timeout=BOUND)
        assert one.returncode == 0, out
    assert server.text().count('exporting "e"') == 1


def test_a_warning_about_a_new_export_is_logged_once(folder, server):
    (folder / "urtrsd.toml").write_text(CONFIG + '[[export]]\nname = "e"\nmem = "1000"\n')
    done = urtrs(folder, "reload")
    assert done.returncode == 0 and 'export "e" has 1000 bytes, not a multiple of 512' in done.stdout, done
    assert server.end() == 0 and server.text().count("has 1000 bytes") == 1


def test_reloads_do_not_delay_io(folder, server):
    """Each of 100 reloads adds an export, removes one and changes a list. URTRS_LONGEST_IO_MS limits the duration of the
    longest IO during the reloads."""
    beside = Beside(server)
    config = folder / "urtrsd.toml"
    for number in range(100):
        config.write_text(f'allow_sessions = "other{number}"\n{CONFIG}[[export]]\nname = "e{number}"\nmem = "8M"\n')
        done = urtrs(folder, "reload")
        assert done.returncode == 0 and f'"e{number}" is added' in done.stdout, done
    beside.end()
