"""Checks the installed units of urtrs-mapd with systemd-analyze."""
import re
import shlex
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
    done = run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "nbdkit")
    assert done.returncode == 0, done.stderr
    # The template unit runs `urtrs`, which is part of a different install component.
    (prefix / "bin/urtrs").symlink_to(BUILD / "tools/urtrs/urtrs")
    return prefix


@pytest.fixture(name="units")
def _units(prefix):
    return prefix / "lib/systemd/system"


def test_systemd_accepts_the_units(units):
    done = run("systemd-analyze", "verify", "--man=no", units / "urtrs-mapd.service", units / "urtrs-map@disk0.service",
               units / "urtrs-nbd.service")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", ["urtrs-mapd.service", "urtrs-nbd.service"])
def test_exposure_is_below_the_limit(units, unit):
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}", "--no-pager", units / unit)
    assert done.returncode == 0, done.stdout + done.stderr


def test_devices_and_files_outlive_the_service(units):
    text = (units / "urtrs-mapd.service").read_text()
    assert "KillMode=process\n" in text and "RuntimeDirectoryPreserve=yes\n" in text
    assert "--end-devices" not in text


def test_only_the_kernel_device_service_is_privileged(units):
    """urtrs-nbd starts with urtrs-mapd. Its files are in a directory that the user of urtrs-mapd cannot write to."""
    text = (units / "urtrs-nbd.service").read_text()
    assert "urtrs-mapd --kernel-devices\n" in text and "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_OVERRIDE\n" in text
    assert "RuntimeDirectory=urtrs-kernel-devices\n" in text
    mapd = (units / "urtrs-mapd.service").read_text()
    assert "CapabilityBoundingSet=\n" in mapd and re.search(r"^Wants=.*\burtrs-nbd\.service$", mapd, re.MULTILINE)


def settings(example):
    """Returns the variables in a file for EnvironmentFile=, including variables that are commented out."""
    return dict(re.findall(r"^#?([A-Z]+)=(.*)$", example.read_text(), re.MULTILINE))


def test_the_example_sets_the_variables_of_the_template(prefix, units):
    text = (units / "urtrs-map@.service").read_text()
    used = set(re.findall(r"\$\{?([A-Z]+)", text))
    given = settings(prefix / "share/urtrs/examples/map-example.conf")
    assert used == set(given)
    # Each variable without a default in the unit must be set in the example.
    defaults = dict(word.split("=", 1) for word in re.search(r"^Environment=(.*)$", text, re.MULTILINE)[1].split())
    needed = set(re.findall(r"^([A-Z]+)=", (prefix / "share/urtrs/examples/map-example.conf").read_text(), re.MULTILINE))
    assert needed == used - set(defaults)


def test_the_commands_of_the_template_are_valid(prefix, units, tmp_path):
    """Expands the commands with the example, as systemd would. They fail only because no urtrs-mapd runs."""
    text = (units / "urtrs-map@.service").read_text()
    given = {"DEVICE": "disk0", "MODE": "rw", **{key: value for key, value in settings(prefix / "share/urtrs/examples/map-example.conf").items()
                                                if key != "OPTIONS"}, "OPTIONS": "--port=7"}
    for line in re.findall(r"^Exec\w+=(.*)$", text, re.MULTILINE):
        words = []
        for word in shlex.split(line):
            if match := re.fullmatch(r"\$\{(\w+)\}", word):
                words.append(given[match[1]])
            elif match := re.fullmatch(r"\$(\w+)", word):
                words += given[match[1]].split()
            else:
                words.append(word)
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BOUND, env={"URTRS_RUNTIME_DIR": str(tmp_path)})
        assert done.returncode == 3 and "no urtrs-mapd has a control socket" in done.stderr, (words, done.stderr)
