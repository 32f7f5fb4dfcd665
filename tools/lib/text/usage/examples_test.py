"""Runs the examples in the help of each program. Addresses are replaced by addresses of this host, folders by folders
of the test, large numbers by small ones. For urtrs-replay see tools/urtrs-replay/examples_test.py."""
import pathlib
import re
import shutil
import subprocess

import example_lines
import pytest
from example_lines import ended, here
from programs import BOUND, PLUGIN, ROOT, free_port, listens, program, until

HAS = {name: pathlib.Path(program(name)).exists() for name in ("urtrsd", "urtrs-perf", "urtrs-conform", "urtrs-mapd")}
CASE = '{"seed": 3, "worlds": "", "world": "", "rule": "O4", "place": "a read", "shown": "urtrs-sim 0.1.0", "fixed": ""}\n'
FAILING = "scenario U\n  delivered number=20\n  expect O9\n"  # O9 does not fire, so the expectation fails


def help_of(name, *words):
    return subprocess.run([program(name), *words, "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout


def examples(text, name):
    """Returns the lines below "Examples:", with continuation lines joined."""
    below = re.search(r"^Examples?:\n((?:  .*\n)+)", text, re.MULTILINE)[1].replace("\\\n", " ")
    return [line.strip() for line in below.splitlines() if re.match(rf"  (\S+=\S+ )*{name}( |$)", line)]


def shell(line, folder):
    done = example_lines.shell(line, folder)
    assert done.returncode != 2, (line, done.stderr)
    return done


def test_urtrs_sim(tmp_path):
    (tmp_path / "mine.scenarios").write_text(FAILING)
    (tmp_path / "ledger.jsonl").write_text(CASE)
    lost = "urtrs-sim shrink --scenario L01e --seed 3 --no-fence --time 2s --out small.choices"
    assert shell(lost, tmp_path).returncode == 1
    shown = help_of("urtrs-sim")
    commands = re.findall(r"^  ([a-z]+)  ", re.search(r"^Subcommands:\n((?:  .*\n)+)", shown, re.MULTILINE)[1], re.MULTILINE)
    # In this order, each example finds the files that earlier ones have written.
    lines = [line for command in commands for line in examples(help_of("urtrs-sim", command), "urtrs-sim")]
    assert len(lines) > 20 and set(examples(shown, "urtrs-sim")) < set(lines)
    for line in lines:
        # `explore` needs minutes for the other configurations; explore_test runs them.
        line = line + " --config small" if line.endswith("explore") else here(line, tmp_path)
        assert shell(line, tmp_path).returncode in (0, 1), line


@pytest.mark.skipif(not HAS["urtrsd"], reason="urtrsd is not built")
def test_urtrsd(tmp_path, ends):
    (tmp_path / "disk0.img").write_bytes(bytes(1 << 20))
    (tmp_path / "a.iso").write_bytes(bytes(1 << 20))
    (tmp_path / "urtrsd.toml").write_text('[[export]]\nname = "a"\nmem = "1M"\n')
    lines = examples(help_of("urtrsd"), "urtrsd")
    assert len(lines) >= 4
    for line in lines:
        line = re.sub(r"--port \d+", "", here(line, tmp_path).replace("mem:1G", "mem:1M")) + f" --port {free_port()}"
        if "-config" in line.replace("--config", ""):
            done = shell(line, tmp_path)
            assert done.returncode == 0 and done.stdout, (line, done.stderr)
            continue
        log = tmp_path / "log"
        with log.open("wb") as sink:
            ran = subprocess.Popen([program("urtrsd"), *line.split()[1:]], stdout=sink, stderr=sink)
        ends.callback(ran.kill)
        until(lambda: f"{line}: {log.read_text()}", lambda: " ready\n" in log.read_text() or ran.poll() is not None)
        ran.terminate()
        assert ran.wait(BOUND) == 0, (line, log.read_text())


@pytest.mark.skipif(not HAS["urtrs-perf"], reason="urtrs-perf is not built")
def test_urtrs_perf(tmp_path, ends):
    lines = examples(help_of("urtrs-perf"), "urtrs-perf")
    assert re.fullmatch(r"urtrs-perf +# the server", lines[0])
    port = free_port()
    server = subprocess.Popen([program("urtrs-perf"), "-p", str(port)], stdout=subprocess.DEVNULL)
    ends.callback(server.wait, BOUND)
    ends.callback(server.terminate)
    until("the server listens", lambda: listens(port))
    for line in lines[1:]:
        line = re.sub(r"-D \d+", "", here(line, tmp_path)).partition("#")[0]
        alone = "--compare-raw" in line
        line += " -D 0.1" if alone or "-n " not in line else ""
        done = shell(line if alone else f"{line} -p {port}", tmp_path)
        # On a busy machine the comparison has no verdict: exit code 3.
        assert done.returncode in ((0, 3) if alone else (0,)), (line, done.stderr)
    assert (tmp_path / "client.rtrc").stat().st_size > 1000


@pytest.mark.skipif(not HAS["urtrs-conform"], reason="urtrs-conform is not built")
def test_urtrs_conform(urtrsd, tmp_path):
    lines = examples(help_of("urtrs-conform"), "urtrs-conform")
    assert len(lines) >= 5
    (tmp_path / "conformance").symlink_to(ROOT / "conformance")
    server = urtrsd("--listen=127.0.0.2", "--export=disk0=mem:4M", "--sess-queue-depth=48")
    for line in lines:
        line = here(line, tmp_path).partition("#")[0]
        expected = {0}
        if "--role server" in line:
            line += f" --port {server.port} --case C01 --quick"
        if "--cve" in line:
            line += f" --port {server.port}"
        if "--role client" in line:
            line += f" --port {free_port()} --wait 1s"
            expected = {4}  # no server accepts a connection in time
        if "verbs" in line:
            expected = {3, 4}  # the device does not exist, or no server listens on the address
        done = shell(line, tmp_path)
        assert done.returncode in expected, (line, done.stdout, done.stderr)


def names(line):
    """Runs the examples of urtrs, which name one session, web1, and its path."""
    return ended(re.sub(r"ip:127[\d.]+@ip:127[\d.]+", "ip:127.0.0.1@ip:127.0.0.1", line))


@pytest.fixture(name="web1")
def _web1(urtrsd, tmp_path, ends, monkeypatch):
    if not PLUGIN.exists() or shutil.which("nbdkit") is None:
        pytest.skip("without the nbdkit plugin")
    monkeypatch.setenv("URTRS_RUNTIME_DIR", str(tmp_path / "run"))
    for name in ("disk1.img", "a.iso", "now.rtrc"):
        (tmp_path / name).write_bytes(bytes(1 << 20 if name != "now.rtrc" else 0))
    server = urtrsd("--export=disk0=mem:1M", "--export=disk2=mem:1M")
    process = subprocess.Popen(["nbdkit", "-f", "-U", tmp_path / "web1", PLUGIN, "path=127.0.0.1", f"port={server.port}", "session=web1",
                                "device=disk0", "reconnect_max=1s"], stdin=subprocess.DEVNULL)
    ends.callback(process.wait, BOUND)
    ends.callback(process.terminate)
    until("web1 is connected", lambda: b"connected" in subprocess.run([program("urtrs"), "client", "session", "list"],
                                                                      capture_output=True, check=False).stdout)


def test_urtrs(web1, tmp_path):
    """Every example must be a valid command. A command that only shows something must succeed and print it."""
    entries = help_of("urtrs", "--help-all") + "\n\n"
    lines = examples(entries, "urtrs")
    commands = re.findall(r"^  ([a-z]+(?: (?!start|dump FILE)[a-z]+){0,2})(?= |$)",
                          entries.partition("Positionals:\n")[2].partition("\n\n")[0], re.MULTILINE)
    for command in commands:
        found = examples(help_of("urtrs", *command.split()), "urtrs")
        assert found, command
        lines += found
    assert len(lines) > 80
    shows = re.compile(r"urtrs (client )?(session|path|device|export|reason|key) (list|show)|urtrs (client )?(stats|debug)|urtrs (version|daemons)")
    key = here("urtrs key new web1 /etc/urtrs/keys", tmp_path)
    lines.sort(key=lambda line: (not line.startswith("urtrs key new"), shows.match(line) is None))
    for line in lines:
        done = shell(names(here(line, tmp_path)), tmp_path)
        if shows.match(line):
            assert done.returncode == 0 and done.stdout, (line, done.stderr)
    assert (tmp_path / "keys").exists(), key
