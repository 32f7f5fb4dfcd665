"""nbdkit-urtrs runs nbdkit with the plugin of its own installation, whatever the installation prefix is."""
import shutil
import subprocess

import pytest
from programs import BOUND, BUILD


def run(*command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=BOUND)


@pytest.fixture(name="installed", params=["usr", "opt/urtrs"])
def _installed(request, tmp_path):
    prefix = tmp_path / request.param
    done = run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "nbdkit")
    assert done.returncode == 0, done.stderr
    return prefix / "bin/nbdkit-urtrs"


@pytest.mark.parametrize("begin", [[], ["-f", "-v"]])
def test_a_device_is_served_to_a_command(installed, urtrsd, begin):
    server = urtrsd("--export=disk=mem:3M")
    done = run(installed, *begin, "-U", "-", "path=127.0.0.1", f"port={server.port}", "device=disk", "--run",
               'nbdinfo --size "$uri"')
    assert (done.returncode, done.stdout) == (0, "3145728\n"), done.stderr


def test_the_script_works_through_a_symbolic_link(installed, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(installed)
    done = run(link, "--dump-plugin")
    assert done.returncode == 0, done.stderr
    assert "name=urtrs\n" in done.stdout
    assert f"path={installed.parent.parent}/lib" in done.stdout


def test_help_lists_the_parameters_of_the_plugin(installed):
    done = run(installed, "--help")
    assert done.returncode == 0, done.stderr
    assert "queue_timeout=" in done.stdout
    example = done.stdout.index("  nbdkit-urtrs -U /run/nbd.sock path=10.0.0.2 device=disk0\n")
    assert example < done.stdout.index("--ipv4-only")
    assert run(installed, "help").stdout == done.stdout


def test_help_explains_a_single_parameter(installed):
    done = run(installed, "help", "queue_timeout")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("queue_timeout=TIME|never ") and " ".join(done.stdout.split()).endswith("(default 2m)"), done.stdout
    assert run(installed, "help", "reconnect_max").stdout.startswith("reconnect_max=TIME ")
    assert run(installed, "help", "control_group").stdout == (
        "control_group=GROUP      group whose members may use the control socket; unset:\n" + 25 * " " + "that of the process\n")
    wrong = run(installed, "help", "queue_time")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == 'nbdkit-urtrs: unknown parameter "queue_time"; nbdkit-urtrs --help lists all\n'


def test_the_status_file_follows_the_umask(installed, urtrsd, tmp_path):
    server = urtrsd("--export=disk=mem:3M")
    done = run("sh", "-c", 'umask 077; exec "$@"', "sh", installed, "-U", "-", "path=127.0.0.1", f"port={server.port}", "device=disk",
               f"status={tmp_path}/status", "--run", "true")
    assert done.returncode == 0, done.stderr
    assert oct((tmp_path / "status").stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_lists_the_script_nbdkit_and_the_plugin(installed, option):
    done = run(installed, option)
    assert done.returncode == 0, done.stderr
    own, nbdkit, plugin = done.stdout.splitlines()
    assert own.removeprefix("nbdkit-urtrs ") == plugin.removeprefix("urtrs ")
    assert nbdkit.startswith("nbdkit 1.")


def test_a_missing_nbdkit_is_reported(installed, tmp_path):
    for needed in "dirname", "readlink", "sh":
        (tmp_path / needed).symlink_to(shutil.which(needed))
    done = run(shutil.which("env"), f"PATH={tmp_path}", "sh", installed)
    assert done.returncode == 127
    assert "nbdkit is not installed" in done.stderr
