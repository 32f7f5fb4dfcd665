"""Runs cells in one or more parallel guests, booting as often as necessary, and judges them."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import tomllib

import labs

from . import cells as cell_rules
from . import report
from .environment import REPLAY
from .machine import Boot
from .tools import GUEST, HERE

GRACE = 45  # seconds that a cell may continue after the time limit of the run
SHARE = 24  # maximum number of cells per boot, if several guests run in parallel
# If the kernel crashed in one of these modules, the crash is not a bug of the emulator.
JUDGED_MODULES = re.compile(r"\[(rtrs_\w+|rnbd_\w+|rdma_\w+|ib_\w+|iw_cm|nbd|loop)\]")


def load_results(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save_results(path, results):
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(new, path)


class Runner:
    def __init__(self, lab, cases, options, say):
        self.lab, self.cases, self.options, self.say = lab, cases, options, say
        self.results_file = lab.work / "results.json"
        self.results = load_results(self.results_file)
        self.deviations = tomllib.loads((HERE / "deviations.toml").read_text(encoding="utf-8"))["deviation"]
        self.trouble, self.emulator = (
            [re.compile(line) for line in (GUEST / name).read_text(encoding="utf-8").splitlines()]
            for name in ("kernel-trouble", "emulator-trouble"))
        self.commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"],
                                     capture_output=True, text=True, check=False).stdout.strip()
        self.done = {}
        self.died = {}  # why the guest of a cell died in the emulator, by cell name
        self.total = 0
        self.guard = threading.Lock()  # protects the data shared by the guests: waiting cells, boots, results
        self.waiting, self.boots, self.ended = [], [], False

    def limit(self, cell):
        case = self.cases[cell.case]
        seconds = case.limit + 3 * self.duration(cell) // 2 + (90 if case.duration[0] else 0)
        return 3 * seconds if self.lab.counted else seconds

    def duration(self, cell):
        whole, fast = self.cases[cell.case].duration
        if whole and self.options.seconds:
            return self.options.seconds
        return fast if self.options.fast else whole

    def run(self, cells):
        """Runs the cells; returns their results by name."""
        self.total = len(cells)
        self.waiting = cell_rules.together(cells, self.cases)
        self.deadline = time.monotonic() + 60 * self.options.minutes if self.options.minutes else None
        with labs.stop_on_signal() as stop, concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            try:
                for guest in labs.completed([pool.submit(self._guest, number) for number in range(self.options.jobs)]):
                    if stop.is_set():
                        raise KeyboardInterrupt
                    if guest is not None:
                        guest.result()
            finally:
                self._end()
        if self.waiting:
            self.say(f"{self.options.minutes:g} minutes are over: {len(self.waiting)} cells were not run")
        return self.done

    def _end(self):
        """Kills the guests that still run; no further guest starts."""
        with self.guard:
            self.ended = True
            for boot in self.boots:
                boot.stop()

    def late(self):
        return self.ended or self.deadline is not None and time.monotonic() > self.deadline

    def _guest(self, number):
        """Runs guests one after another until no cell waits; one thread per parallel guest."""
        while not self.late():
            with self.guard:
                even = -(-len(self.waiting) // (2 * self.options.jobs))
                count = len(self.waiting) if self.options.jobs == 1 else min(SHARE, even)
                machine = self._machine(self.waiting[0]) if self.waiting else None
                share = [cell for cell in self.waiting if self._machine(cell) == machine][:count]
                self.waiting = [cell for cell in self.waiting if cell not in share]
            if not share:
                return
            done = self._boot(share, self.lab.work / (f"boot{number + 1}" if number else "boot"))
            with self.guard:
                self.waiting = share[done:] + self.waiting

    def _machine(self, cell):
        """Returns the key of the guest that a cell needs. Cells with equal keys can share a boot."""
        return cell.kernel, self.cases[cell.case].possible_cpus

    def _start(self, cells, out):
        """Starts a guest for the cells. Returns None if the run has ended."""
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / "plan").write_text("".join(
            f"{c.name} {c.case} {c.client} {c.server} {c.invalidate} {c.paths} {c.extension} {self.limit(c)} "
            f"{self.duration(c)}\n" for c in cells))
        image = self.lab.images[cells[0].kernel]
        write_settings(out, self.lab, image, self.options, **dict(one.split("=", 1) for one in self.options.set))
        with self.guard:
            if self.ended:
                return None
            self.boots.append(Boot(self.lab, image, out, {c.name: self.limit(c) for c in cells},
                                   self.deadline + GRACE if self.deadline else None,
                                   self.cases[cells[0].case].possible_cpus))
            self.say(f"boot {len(self.boots)}: {len(cells)} of {self.total} cells, {len(self.waiting)} wait; "
                     f"Linux {image.version}")
            return self.boots[-1]

    def _boot(self, share, out):
        """Boots once. Returns how many cells of the share have a verdict."""
        boot = self._start(share, out)
        if boot is None:
            return 0
        cells = {c.name: c for c in share}
        count, open_cell, trouble = 0, None, ""
        try:
            for event in boot.events():
                if event[1] == "boot":
                    trouble = f"the guest's network: {read(out / 'network.log')[-2000:]}"
                elif event[0] == "begin":
                    open_cell = cells[event[1]]
                    if self.options.verbose:
                        self.say(f"  {event[1]} ...")
                else:
                    if event[2] not in (0, 77) and self._once_more(open_cell, read(out / event[1] / "dmesg"), boot):
                        return count
                    open_cell = None
                    count += 1
                    self._judge(cells[event[1]], out, *event[2:])
                    if self.late():
                        return count
        finally:
            boot.stop()
        if boot.out_of_time or self.ended:
            return count
        why = trouble or boot.killed or "the guest ended (kernel panic?); see console.log"
        if open_cell is not None:
            if self._once_more(open_cell, last_words(out, open_cell), boot, why):
                return count
            (out / open_cell.name / "console.log").write_text(last_words(out, open_cell), encoding="utf-8")
            self._judge(open_cell, out, 254, 0.0, False, why)
            count += 1
        elif count == 0 and not self._once_more(share[0], last_words(out, share[0]), boot, why):
            return self._does_not_boot(share, out, why)
        return count

    def _once_more(self, cell, text, boot, why=""):
        """Returns whether to run a cell again after its guest died: once, and only if its log does not involve the tested
        modules.

        Software emulation sometimes executes a breakpoint that the kernel has placed temporarily to patch its code. An
        empty
        `why` means that the guest survived; then only this emulator bug justifies another run.
        """
        if any(pattern.search(text) for pattern in self.emulator):
            why = "the emulator executed a breakpoint that the kernel uses to change its code"
        elif not why or JUDGED_MODULES.search(text) and any(pattern.search(text) for pattern in self.trouble):
            return False
        with self.guard:
            if cell.name in self.died:
                return False
            self.died[cell.name] = why
        kept = self.lab.work / "died" / cell.name
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "console.log").write_text(last_words(boot.out, cell), encoding="utf-8")
        self.say(f"      {cell.name}: {why}; running it once more (console log: {kept})")
        return True

    def _does_not_boot(self, share, out, why):
        """Fails all waiting cells of this kernel, because two guests died before their first cell."""
        with self.guard:
            waiting = [cell for cell in self.waiting if cell.kernel == share[0].kernel]
            self.waiting = [cell for cell in self.waiting if cell not in waiting]
        for cell in share + waiting:
            (out / cell.name).mkdir(exist_ok=True)
            (out / cell.name / "console.log").write_text(last_words(out, cell), encoding="utf-8")
            self._judge(cell, out, 254, 0.0, False, f"the guest does not boot, tried twice: {why}")
        return len(share)

    def _judge(self, cell, out, code, seconds, clean, why=""):
        folder = out / cell.name
        log = read(folder / "log")
        reasons = []
        if code == 77:
            verdict, reasons = "skip", re.findall(r"SKIP: (.*)", log)[-1:]
        elif code == 0:
            verdict = "pass"
        else:
            verdict = "fail"
            last = re.findall(r"FAILED: (.*)", log)[-1:] or log.splitlines()[-1:]
            if code in (124, 137):
                reasons.append(f"not ready after {self.limit(cell)} s; last: {' '.join(log.splitlines()[-1:])}")
            else:
                reasons += [why] if why else last
        kernel = [line for line in read(folder / "dmesg").splitlines() + (read(folder / "console.log").splitlines() if why
                  else []) if any(pattern.search(line) for pattern in self.trouble)]
        if kernel:
            verdict = "fail"
            reasons.append(f"kernel log: {kernel[0].strip()}")
        left = [line for line in read(folder / "reset.log").splitlines() if line.startswith("left behind")]
        if not clean and not kernel and not why:
            verdict = "fail" if verdict == "pass" else verdict
            reasons.append("; ".join(left) or "could not be cleaned up")
        divergences = self._replay(folder)
        if divergences:
            verdict = "fail"
            reasons += divergences
        known = self._deviation(cell, verdict, reasons)
        if known:
            verdict = "known"
            reasons.append(f"kernel deviation: {known}")
        figures = {}
        for line in read(folder / "figures").splitlines():
            name, value, unit = line.split()
            figures[name] = [float(value), unit]
        result = {"verdict": verdict, "reason": "; ".join(filter(None, reasons)), "seconds": round(seconds, 1),
                  "figures": figures, "commit": self.commit, "programs": self.lab.programs_digest(),
                  "kernel": self.lab.images[cell.kernel].version, "counted": self.lab.counted, "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
        if cell.name in self.died:
            result["died"] = self.died[cell.name]
        if cell.client != cell_rules.EVERY:
            self._keep(cell, folder, result)
        elif verdict == "pass":
            for part in cell_rules.pairs_of(cell):
                of_pair = f":{part.client}-{part.server}"
                self._keep(part, folder, dict(result, together=True, figures={
                    name.removesuffix(of_pair): value for name, value in figures.items() if name.endswith(of_pair)}))
        else:
            # Runs the four cells separately, to find out which pair failed.
            self.say(f"      {verdict:5} {cell.name}  {result['reason'][:300]}; its four cells are run one by one")
            shutil.copytree(folder, self._folder(cell), dirs_exist_ok=True)
            with self.guard:
                self.waiting += cell_rules.pairs_of(cell)

    def _folder(self, cell):
        target = self.lab.work / "cells" / cell.name
        shutil.rmtree(target, ignore_errors=True)
        return target

    def _keep(self, cell, folder, result):
        target = self._folder(cell)
        shutil.copytree(folder, target)
        with self.guard:
            self.done[cell.name] = result
            self.results[cell.name] = dict(result, duration=self.duration(cell), **vars_of(cell))
            save_results(self.results_file, self.results)
        labs.tell(len(self.done), self.total, report.outcome(cell.name, result, target))

    def _replay(self, folder):
        """Replays every trace of our programs. A trace truncated by SIGKILL must replay up to its last record."""
        tool = pathlib.Path(self.options.build_dir) / REPLAY
        wrong = []
        for trace in sorted(folder.glob("*.rtrc")):
            done = subprocess.run([tool, "replay", trace], capture_output=True, text=True, check=False)
            (folder / f"{trace.stem}.replay").write_text(done.stdout + done.stderr, encoding="utf-8")
            if done.returncode != 0 and "identical" not in done.stdout + done.stderr:
                wrong.append(f"{trace.name} does not replay")
        return wrong

    def _deviation(self, cell, verdict, reasons):
        if verdict != "fail":
            return None
        text = "; ".join(reasons)
        for entry in self.deviations:
            if cell_rules.matches(entry, cell) and re.search(entry["shows"], text):
                return entry["name"]
        return None


def vars_of(cell):
    return {"case": cell.case, "client": cell.client, "server": cell.server, "invalidate": cell.invalidate,
            "paths": cell.paths, "extension": cell.extension, "series": cell.kernel}


def last_words(out, cell):
    """Returns the console output of a guest that died, and its kernel log since the start of the cell."""
    kernel = read(out / "kernel.log").split(f"softroce-vm: {cell.name} begins")[-1]
    return f"{read(out / 'console.log')}\n{kernel}"


def read(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def write_settings(out, lab, image, options, **more):
    settings = {"LAB_GUEST": GUEST, "LAB_BUILD": lab.programs, "LAB_MODULES": image.modules,
                "LAB_KERNEL": image.kernel.name, "LAB_UNPACKED": lab.work / "unpacked",
                "LAB_NOISE": lab.noise, "LAB_FABRIC": options.fabric,
                "LAB_CAPTURE": "yes" if options.capture else "", "LAB_COUNTED": "yes" if lab.counted else "",
                "URTRS_BLKTESTS": os.environ.get("URTRS_BLKTESTS", ""), **more}
    (pathlib.Path(out) / "settings").write_text("".join(f"{key}='{value}'\n" for key, value in settings.items()))
