#!/usr/bin/env python3
"""Tests the error messages for mistakes that users make.

Each block of a *.mistakes file in this folder is a mistake:

    $ command              run by bash in a folder of its own, with the functions and variables of box.sh
    urtrsd: what is wrong  standard error, with variables in place of text that differs between runs
    > {"error": ...}       standard output, for commands with --json
    exit 2

Every output must follow the rules for error messages (`judge`), and must match the file exactly (`test_answers`).
`mistakes_test.py --write [WORDS]` runs the blocks (only those with WORDS in their command) and updates their output.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib/testing"))

from programs import BUILD, CAPTURES, ROOT, TRACES, Urtrsd, free_port  # noqa: E402

FILES = sorted(HERE.glob("*.mistakes"))
BOUND = 40  # seconds for one mistake; the longest one waits 30 s for a daemon that does not answer
CODES = {0, 1, 2, 3, 4, 5, 77, 130, 141, 143}
INTERNALS = re.compile(r"terminate called|what\(\)|std::|basic_string|[Aa]ssert|Aborted|Sanitizer|CLI::|core dumped|"
                       r"Traceback|boost|nlohmann|json\.exception|toml::|libfabric:\d+")
NAMES = ("urtrsd", "urtrs", "urtrs-mapd", "urtrs-fs", "urtrs-sim", "urtrs-replay", "urtrs-perf", "urtrs-conform", "nbdkit",
         "tools/demo", "tools/test")


class Mistake:
    def __init__(self, command, answer):
        self.command, self.answer = command, answer  # answer: list of expected lines
        self.seconds = 0

    @staticmethod
    def read(file):
        """Returns the comments and blocks of a file, in order."""
        parts = []
        for block in file.read_text(encoding="utf-8").strip().split("\n\n"):
            lines = block.split("\n")
            while lines and lines[0].startswith("#"):
                parts.append(lines.pop(0))
            if lines:
                assert lines[0].startswith("$ "), f"{file.name}: a block begins with '$ ', not {lines[0]!r}"
                parts.append(Mistake(lines[0][2:], lines[1:]))
        return parts

    @property
    def needs_root(self):
        return re.search(r"\b(nobody|small|privileged) ", self.command) is not None


class Box:
    """Environment in which the commands run: sample files, a running daemon, sockets that do not answer."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        os.chmod(self.folder, 0o755)
        files = self.folder / "files"
        files.mkdir()
        client = (TRACES / "seed-420-client1.rtrc").read_bytes()
        capture = sorted(CAPTURES.glob("*.pcapng"))[0].read_bytes()
        for name, content in {"empty": b"", "text": b"no trace, no image\n", "client.rtrc": client, "cut.rtrc": client[:-20],
                              "server.rtrc": (TRACES / "seed-420-server.rtrc").read_bytes(), "capture.pcapng": capture,
                              "cut.pcapng": capture[:200], "image": bytes(1 << 20), "odd": bytes(1000),
                              "secret": bytes(4096)}.items():
            (files / name).write_bytes(content)
        (files / "folder").mkdir()
        os.chmod(files / "secret", 0o600)
        os.mkfifo(files / "pipe")
        run = self.folder / "run"
        run.mkdir()
        self.listeners = []
        self.mute_port = self.listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        self.listen(socket.AF_UNIX, str(self.folder / "mute.sock"))
        self.listen(socket.AF_UNIX, str(self.folder / "dead.sock")).close()
        self.free_port = free_port()
        self.daemon = Urtrsd(self.folder / "log", f"--control={self.folder}/urtrsd.sock", "--export=disk0=mem:1M",
                             f"--export=locked={files}/image", "--export=readonly=mem:1M,ro").ready()
        self.lines = {str(self.daemon.port): "$PORT", str(self.free_port): "$FREE", str(self.mute_port): "$MUTE"}
        self.env = {"PATH": ":".join([*(str(BUILD / "tools" / name) for name in os.listdir(BUILD / "tools")),
                                      "/usr/sbin:/usr/bin:/sbin:/bin"]),
                    "F": str(files), "B": str(self.folder), "ROOT": str(ROOT), "PORT": str(self.daemon.port),
                    "FREE": str(self.free_port), "MUTE": str(self.mute_port), "URTRS_RUNTIME_DIR": str(run),
                    "BASH_ENV": str(HERE / "box.sh"), "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TERM": "dumb"}

    def listen(self, family, address):
        server = socket.socket(family)
        server.bind(address)
        server.listen()
        self.listeners.append(server)
        return server

    def made(self, number, mistake):
        """Runs the command of a mistake and returns the lines of its output."""
        folder = self.folder / f"box{number}"
        folder.mkdir()
        os.chmod(folder, 0o777)
        begin = time.monotonic()
        with subprocess.Popen(["bash", "-c", mistake.command], cwd=folder, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as ran:
            try:
                out, err = ran.communicate(timeout=BOUND)
            except subprocess.TimeoutExpired:
                os.killpg(ran.pid, 9)
                return [f"no end within {BOUND} s"]
            finally:
                mistake.seconds = time.monotonic() - begin
        lines = err.decode(errors="replace").splitlines()
        if "--json" in mistake.command or (not lines and ran.returncode != 0):
            lines += ["> " + line for line in out.decode(errors="replace").splitlines()]
        code = ran.returncode
        return [self.general(line, folder) for line in lines] + [f"exit {code}"]

    def general(self, line, folder):
        for what, name in ((str(folder), "$PWD"), (self.env["F"], "$F"), (str(self.folder), "$B"), (str(ROOT), "$ROOT")):
            line = line.replace(what, name)
        for port, name in self.lines.items():
            line = re.sub(rf"\b{port}\b", name, line)
        line = re.sub(r"after \d+\.\d+ s", "after N s", line)
        line = re.sub(r"\b(process|pid) \d+", r"\1 PID", re.sub(r"\b(urtrsd|urtrs-mapd)-\d+", r"\1-PID", line))
        line = re.sub(r"\b(127\.0\.0\.1:)\d{5}\b", r"\1$ANY", line)
        return re.sub(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+Z? ", "TIME ", line)

    def close(self):
        for listener in self.listeners:
            listener.close()
        return self.daemon.end()


def is_error(line):
    try:
        error = json.loads(line)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(error["code"], str) and bool(error["message"])


def judge(mistake, answer):
    """Returns the broken rules for error messages; empty if the output is correct."""
    code = int(answer[-1].removeprefix("exit ")) if answer[-1].startswith("exit ") else None
    told = [line for line in answer[:-1] if not line.startswith("> ")]
    wrong = []
    if code not in CODES:
        wrong.append(f"{answer[-1]} is none of {sorted(CODES)}")
    if INTERNALS.search("\n".join(told)):
        wrong.append("it shows the program's internals")
    if len(told) > 5:
        wrong.append(f"{len(told)} lines, more than 5")
    if code not in (0, 130) and len(answer) == 1:
        wrong.append("it says nothing")
    for line in told:
        if not re.match(r"(TIME \w+ +)?(" + "|".join(map(re.escape, NAMES)) + r"): ", line) and not line.startswith("TIME "):
            wrong.append(f"without the program's name: {line!r}")
    if re.search(r"--json(?!=| \$| .*>)", mistake.command) and code in (1, 2, 3, 4):
        out = [line[2:] for line in answer if line.startswith("> ")]
        if not is_error("\n".join(out)) and not any(map(is_error, out)):
            wrong.append("--json, but no object with \"error\"")
    return wrong


def answers(mistakes):
    """Returns the output of every mistake, in file order. Mistakes with long timeouts start first."""
    with tempfile.TemporaryDirectory(prefix="urtrs-mistakes-") as folder:
        box = Box(folder)
        try:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                order = sorted(range(len(mistakes)), key=lambda i: "mute.sock" not in mistakes[i].command)
                futures = {i: pool.submit(box.made, i, mistakes[i]) for i in order}
                return [futures[i].result() for i in range(len(mistakes))]
        finally:
            assert box.close() == 0, box.daemon.text()


def can_run(mistake):
    return os.geteuid() == 0 or not mistake.needs_root


def test_answers():
    mistakes = [part for file in FILES for part in Mistake.read(file) if isinstance(part, Mistake) and can_run(part)]
    wrong = []
    for mistake, answer in zip(mistakes, answers(mistakes)):
        if answer != mistake.answer:
            wrong.append("\n".join(["$ " + mistake.command, "is expected:", *mistake.answer, "is said:", *answer]))
        wrong += [f"$ {mistake.command}\n{each}" for each in judge(mistake, answer)]
    assert not wrong, "\n\n".join([f"{len(wrong)} of {len(mistakes)}; mistakes_test.py --write renews what is expected", *wrong])


def test_mistakes_are_many_and_unique():
    commands = [part.command for file in FILES for part in Mistake.read(file) if isinstance(part, Mistake)]
    assert len(commands) >= 200 and len(set(commands)) == len(commands), sorted(x for x in commands if commands.count(x) > 1)


def write(words):
    parts = {file: Mistake.read(file) for file in FILES}
    chosen = [part for file in FILES for part in parts[file]
              if isinstance(part, Mistake) and words in part.command and can_run(part)]
    told = answers(chosen)
    for mistake, answer in zip(chosen, told):
        mistake.answer = answer
    for file, found in parts.items():
        text = ""
        for part in found:
            text += "\n".join(["$ " + part.command, *part.answer]) + "\n\n" if isinstance(part, Mistake) else part + "\n"
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    for mistake, answer in zip(chosen, told):
        for each in judge(mistake, answer):
            print(f"$ {mistake.command}\n   {each}")
        if mistake.seconds > 3:
            print(f"$ {mistake.command}\n   {mistake.seconds:.1f} s")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit("mistakes_test.py --write [WORDS]: writes what the programs say now; without --write: pytest mistakes_test.py")
    write(" ".join(sys.argv[2:]))
