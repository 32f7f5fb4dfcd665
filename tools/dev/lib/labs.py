"""Command line, runner and report of the labs tools/dev/softroce-vm, netns-faults and soak."""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import fnmatch
import json
import os
import pathlib
import signal
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77
GOOD = ("pass", "known", "skip")
EXIT_CODES = """
Exit codes: 0 all good, 1 something failed or has no verdict, 2 wrong usage, 77 nothing could be run here (the reason is
said).
"""


class Unavailable(Exception):
    """The lab cannot run on this machine; the text says why and how to fix it."""


@dataclasses.dataclass
class Outcome:
    name: str
    verdict: str  # pass, fail, skip, or known (a failure that is listed as known)
    seconds: float = 0.0
    reason: str = ""
    folder: str = ""  # folder with the kept results
    repeat: str = ""  # command line that runs this item again
    more: dict = dataclasses.field(default_factory=dict)  # measurements of the item: column of the report -> value


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


# Command line: LAB list | run [PATTERN...] | further commands of the lab

def above_zero(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return int(text)


class CommandLine:
    """Argument parser with the options that all labs share; a lab adds its own commands to `commands`."""

    def __init__(self, lab, description, examples):
        self.lab = f"tools/dev/{lab}"
        self.top = argparse.ArgumentParser(prog=self.lab, description=description, epilog=examples + EXIT_CODES,
                                           formatter_class=argparse.RawDescriptionHelpFormatter)
        self.shared = argparse.ArgumentParser(add_help=False)
        self.shared.add_argument("--work-dir", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build" / lab,
                                 metavar="DIR", help=f"default: build/{lab}")
        self.commands = self.top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(self, name, words, **more):
        return self.commands.add_parser(name, help=words, parents=[self.shared], **more)

    def add_run(self, what, fast, jobs, keep="also keep the folders of passed items"):
        run = self.add("run", f"run {what}", epilog=self.top.epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
        run.add_argument("patterns", nargs="*", metavar="PATTERN", help="names, or patterns as 'lose-*'")
        run.add_argument("--all", action="store_true", help="everything")
        run.add_argument("--fast", action="store_true", help=fast)
        run.add_argument("--keep", action="store_true", help=keep)
        run.add_argument("--jobs", type=above_zero, metavar="N", default=jobs, help=f"at a time; default: {jobs}")
        run.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results")
        run.add_argument("--junit", type=pathlib.Path, metavar="FILE", help="write the results as JUnit XML")
        return run


def matching(patterns, names, lab):
    """Returns the names that match any pattern, in the order of `names`. Raises ValueError if a pattern matches no name."""
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ValueError(f"no name matches '{pattern}'; {lab} list shows all")
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def which(options, lab):
    """Returns the patterns of the command line, or ["*"] without patterns. Raises ValueError if neither patterns nor --fast or
    --all are given."""
    if not (options.patterns or options.fast or options.all):
        raise ValueError(f"give names, --fast or --all; {lab} list shows all names")
    return options.patterns or ["*"]


def main(command_line, act):
    """Parses the command line, calls act(options) and returns the exit code."""
    options = command_line.top.parse_args()
    # SIGTERM also raises KeyboardInterrupt. A lab cannot forward SIGTERM as SIGINT, because a shell script starts
    # its background jobs with SIGINT ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = act(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ValueError as error:
        print(f"{command_line.lab}: {error}", file=sys.stderr)
        return 2
    except (Unavailable, RuntimeError) as error:  # a dependency is missing, or an external tool failed
        print(f"{command_line.lab}: the lab cannot run here: {error}", file=sys.stderr)
        return SKIPPED
    except KeyboardInterrupt:
        return 130


@contextlib.contextmanager
def locked(work):
    """Context manager: holds the lock of the work directory. Waits while another run holds the lock."""
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "lock", "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run uses {work}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Functions that run the items.

def tell(done, total, outcome, more=""):
    reason = f"  {outcome.reason[:300]}" if outcome.reason else ""
    say(f"{done}/{total} {outcome.verdict:5} {outcome.name} ({outcome.seconds:.0f} s{more}){reason}")
    if outcome.verdict == "fail":
        for words, text in (("everything about it", outcome.folder), ("again", outcome.repeat)):
            if text:
                say(f"      {words}: {text}")


@contextlib.contextmanager
def stop_on_signal():
    """Yields an event that SIGINT and SIGTERM set. They raise no exception, which could arrive at any line, for example
    between the start of a thread and the code that ends it."""
    stop = threading.Event()
    handlers = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def completed(futures):
    """Yields the futures as they complete, and None at least every 0.2 s, so that the main thread can handle signals."""
    waiting = set(futures)
    while waiting:
        done, waiting = concurrent.futures.wait(waiting, 0.2, concurrent.futures.FIRST_COMPLETED)
        yield from done or [None]


def play_all(items, play, jobs, ended):
    """Calls play(item, number, stop) for each item, `jobs` at a time, and ended(result) for each result that is not
    None. SIGINT or SIGTERM sets the event `stop`, and no further item starts. Returns whether all items were
    started."""
    def one(item, number):
        return None if stop.is_set() else play(item, number, stop)

    with stop_on_signal() as stop, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in completed([pool.submit(one, item, number) for number, item in enumerate(items)]):
            if future is not None and (result := future.result()) is not None:
                ended(result)
    return not stop.is_set()


# Functions that report the results.

def summary(outcomes):
    count = {verdict: sum(one.verdict == verdict for one in outcomes) for verdict in (*GOOD, "fail")}
    known = f"{count['known']} failed as known, " if count["known"] else ""
    return f"{count['pass']} passed, {count['fail']} failed, {known}{count['skip']} skipped"


def print_table(columns, rows):
    """Prints a table as wide as the terminal, or 200 columns if the output is not a terminal. rich handles colours and NO_COLOR."""
    from rich.console import Console  # Debian: python3-rich; imported here because `list` and --help do not need it
    from rich.table import Table
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    colors = {"pass": "green", "known": "yellow", "skip": "yellow", "fail": "red"}
    for row in rows:
        table.add_row(*(f"[{colors[word]}]{word}[/]" if word in colors else word.replace("[", "\\[") for word in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


def print_outcomes(outcomes):
    """Prints the outcomes as a table. The first outcome with measurements defines the columns."""
    columns = next((list(one.more) for one in outcomes if one.more), [])
    rows = [(one.name, one.verdict, f"{one.seconds:.0f}", *(str(one.more.get(name, "")) for name in columns))
            for one in outcomes]
    print()
    print_table(("name", "verdict", "s", *columns), rows)
    for one in outcomes:
        if one.reason:
            print(f"{one.verdict} {one.name}: {one.reason}")


def write(path, lab, outcomes):
    """Writes the outcomes as JSON."""
    path.write_text(json.dumps({"lab": lab, "results": [dataclasses.asdict(one) for one in outcomes]}, indent=1, default=sorted)
                    + "\n", encoding="utf-8")


def write_junit(path, lab, outcomes):
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite
    suite = TestSuite(lab)
    for one in outcomes:
        case = TestCase(one.name, lab, round(one.seconds, 3))
        if one.verdict == "fail":
            case.result = [Failure(one.reason)]
        elif one.verdict == "skip":
            case.result = [Skipped(f"SKIP: {one.reason}")]
        elif one.reason:
            case.system_out = f"{one.verdict}: {one.reason}"
        suite.add_testcase(case)
    report = JUnitXml()
    report.add_testsuite(suite)
    report.write(str(path))


def finish(options, lab, outcomes, whole=True):
    """Writes the requested result files, prints the summary and returns the exit code."""
    if options.json:
        write(options.json, lab, outcomes)
    if options.junit:
        write_junit(options.junit, lab, outcomes)
    print(summary(outcomes))
    if not whole or any(one.verdict == "fail" for one in outcomes):
        return 1
    return SKIPPED if outcomes and all(one.verdict == "skip" for one in outcomes) else 0


def processors():
    return len(os.sched_getaffinity(0))
