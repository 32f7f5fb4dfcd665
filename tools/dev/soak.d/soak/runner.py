"""Builds the required targets and runs chunks."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

from labs import ROOT, SKIPPED


class Interrupted(Exception):
    """The user interrupted the soak; the running chunk has no result."""


class Runner:
    def __init__(self, options, state, say):
        self.options, self.state, self.say = options, state, say
        self.work = options.work_dir
        self.built = {}  # why the build of a CMake preset failed, or ""
        self.stop = None  # threading.Event, set when the user interrupts the soak
        self.commit = subprocess.run(("git", "-C", ROOT, "describe", "--always", "--dirty"), capture_output=True,
                                     text=True, check=False).stdout.strip()

    def build_dir(self, item):
        return self.options.build_root / item.build

    # Building the targets.

    def build(self, item, all_items):
        """Builds the preset of the item if necessary. Returns why the item cannot run; empty if it can."""
        if item.build not in self.built:
            targets = sorted({target for one in all_items if one.build == item.build for target in one.targets})
            self.built[item.build] = "" if self.options.no_build else self._build(item, targets)
        return self.built[item.build]

    def _build(self, item, targets):
        folder, log = self.build_dir(item), self.work / f"build-{item.build}.log"
        steps = [("cmake", "-S", ROOT, "--preset", item.build, "-B", folder),
                 ("ninja", "-C", folder, f"-j{self.options.jobs}", *targets)]
        self.say(f"building {item.build}: {' '.join(targets)}")
        with open(log, "wb") as output:
            for step in steps:
                code = self._run([str(word) for word in step], ROOT, output, None, lambda: _last_line(log))
                if code != 0:
                    return f"{item.build} does not build: {log}"
        return ""

    # Running the chunks.

    def run(self, chunk):
        """Runs one chunk, saves its result and returns it."""
        folder = self.work / "run" / f"{chunk.item.name}-{chunk.name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if chunk.item.name.startswith("fuzz-"):
            (self.work / "corpus" / chunk.item.name[len("fuzz-"):]).mkdir(parents=True, exist_ok=True)
        words = chunk.words(self.options.jobs, self.build_dir(chunk.item), self.work)
        limit = 600 + 20 * chunk.item.seconds
        begin = time.monotonic()
        try:
            with open(folder / "output", "wb") as output:
                code = self._run(words, folder, output, limit, lambda: "")
        except OSError as error:
            code = f"{words[0]}: {error.strerror}"
        except Interrupted:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        result = {"verdict": {0: "pass", SKIPPED: "skip"}.get(code, "fail"), "reason": "", "commit": self.commit,
                  "seconds": round(time.monotonic() - begin, 2)}
        if result["verdict"] != "pass":
            result["reason"] = self._reason(code, folder / "output", limit)
        if result["verdict"] == "fail":
            result["folder"] = str(self._keep(folder))
            result["repeat"] = f"cd {shlex.quote(result['folder'])} && {shlex.join(words)}"
            (pathlib.Path(result["folder"]) / "repeat").write_text(result["repeat"] + "\n", encoding="utf-8")
        elif not self.options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        self.state.record(chunk.key, result)
        return result

    def _keep(self, folder):
        kept = self.work / "failures" / folder.name
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        shutil.move(folder, kept)
        return kept

    @staticmethod
    def _reason(code, output, limit):
        if isinstance(code, str):
            return code
        if code is None:
            return f"not finished after {limit:.0f} s"
        return f"exit code {code}: {_last_line(output)}"

    def _run(self, words, folder, output, limit, progress):
        """Returns the exit code, or None if the command exceeded `limit` seconds. Raises Interrupted."""
        child = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        begin = shown = time.monotonic()
        try:
            while child.poll() is None:
                if self.stop.is_set():
                    raise Interrupted
                now = time.monotonic()
                if limit is not None and now - begin > limit:
                    return None
                if now - shown > 20:
                    shown = now
                    self.say(f"  {pathlib.Path(words[0]).name} since {now - begin:.0f} s {progress()}".rstrip())
                try:
                    child.wait(0.1)
                except subprocess.TimeoutExpired:
                    pass
            return child.returncode
        finally:
            self._end(child)

    @staticmethod
    def _end(child):
        """Ends the process group with SIGTERM, and with SIGKILL if it still runs after 15 s."""
        for number, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
            try:
                os.killpg(child.pid, number)
            except ProcessLookupError:
                break
            try:
                child.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        child.wait()


def _last_line(path):
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
