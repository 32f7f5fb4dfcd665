"""Checks the installed urtrsd.service with systemd-analyze."""
import pathlib
import subprocess

import pytest
from programs import BOUND, BUILD

# Maximum exposure level that `systemd-analyze security` may report; 10 is a service without restrictions.
MOST_EXPOSURE = 4.0


def run(*command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=BOUND)


@pytest.fixture(name="prefix", scope="module")
def _prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    done = run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "server")
    assert done.returncode == 0, done.stderr
    return prefix


@pytest.fixture(name="unit")
def _unit(prefix):
    return prefix / "lib/systemd/system/urtrsd.service"


def test_systemd_accepts_the_unit(unit):
    done = run("systemd-analyze", "verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_analyze_reports_an_error_in_a_unit(unit, tmp_path):
    wrong = tmp_path / "urtrsd.service"
    wrong.write_text(unit.read_text().replace("ProtectClock=yes", "ProtectClocks=yes"))
    done = run("systemd-analyze", "verify", "--man=no", wrong)
    assert "ProtectClocks" in done.stderr


def test_exposure_is_below_the_limit(unit):
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}", "--no-pager", unit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level for urtrsd.service" in done.stdout


def test_the_installed_configuration_is_valid(unit, tmp_path):
    command = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    program, option, file = command.removeprefix("ExecStart=").split()
    assert option == "--config"
    configuration = pathlib.Path(file)
    text = configuration.read_text()
    assert '"/var/lib/urtrs"' in text  # StateDirectory= of the unit
    copy = tmp_path / "urtrsd.toml"
    copy.write_text(text.replace("/var/lib/urtrs", str(tmp_path)))
    done = run(program, "--config", copy, "--check-config")
    assert done.returncode == 0, done.stderr


def test_installing_again_keeps_an_edited_configuration(prefix):
    configuration = prefix / "etc/urtrs/urtrsd.toml"
    kept = configuration.read_text()
    configuration.write_text("port = 4321\n")
    try:
        done = run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "server")
        assert done.returncode == 0, done.stderr
        assert configuration.read_text() == "port = 4321\n"
    finally:
        configuration.write_text(kept)


def test_sysusers_creates_the_user(prefix, tmp_path):
    (tmp_path / "etc").mkdir()
    done = run("systemd-sysusers", f"--root={tmp_path}", prefix / "lib/sysusers.d/urtrs.conf")
    assert done.returncode == 0, done.stderr
    assert "urtrs:" in (tmp_path / "etc/passwd").read_text()


def test_with_the_prefix_usr_the_configuration_is_in_etc(tmp_path):
    done = subprocess.run(["cmake", "--install", str(BUILD), "--prefix", "/usr", "--component", "server"], check=False,
                          capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "DESTDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc/urtrs/urtrsd.toml").is_file()
    unit = (tmp_path / "usr/lib/systemd/system/urtrsd.service").read_text()
    assert "ExecStart=/usr/bin/urtrsd --config /etc/urtrs/urtrsd.toml\n" in unit
