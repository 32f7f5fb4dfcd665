"""The command line of tools/dev/netns-faults."""
import argparse
import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

from . import judge, network, pairs, report
from .cases import BY_NAME, CASES, SHORT, own
from .processes import Failure, own_cpu_count
from .run import Interrupted, Run
from .script import WORDS, parse

ROOT = pathlib.Path(__file__).resolve().parents[4]
PROGRAMS = ("tools/urtrsd/urtrsd", "tools/urtrs-replay/urtrs-replay", "conformance/netns/netns-load")
NEEDED = ("ip", "nft", "tc", "setpriv", "nsenter")
SKIPPED = 77

EXAMPLES = f"""
Examples:
  tools/dev/netns-faults                                   every case
  tools/dev/netns-faults --only link-down,loss --keep      two of them, with everything that they left
  tools/dev/netns-faults --list                            the cases and their scripts
  tools/dev/netns-faults --script 'run 1; drop 0 to-client; lost 0; heal 0; settle'
  tools/dev/netns-faults --update docs/netns-faults.md        every case, with the results in this document
  tools/dev/netns-faults --pairs 1000                      and: did anything happen that simulation never shows?

A case starts urtrsd and clients in two network namespaces that one veth pair a path joins, does what its script says, and
is judged by what the clients asked for and were answered, by the image, and by the traces of all processes: each is
replayed, together they are judged by the specification and the laws of reliable connections. How long a request may take
is computed from the timers that were configured and from what the script did.

Steps of a script, with a semicolon between them:{WORDS}
Exit codes: 0 all good, 1 a case failed, 2 wrong usage, 77 nothing could be run here (the reason is said).
"""


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def parser():
    top = argparse.ArgumentParser(prog="tools/dev/netns-faults", epilog=EXAMPLES,
                                  formatter_class=argparse.RawDescriptionHelpFormatter,
                                  description="Runs urtrsd and clients as processes over TCP, makes faults between them, and judges data, stalls and traces.")
    top.add_argument("--list", action="store_true", help="the cases and their scripts")
    top.add_argument("--only", metavar="NAME,...", help="only these cases")
    top.add_argument("--short", action="store_true", help=f"only {' and '.join(SHORT)}")
    top.add_argument("--script", metavar="STEPS", help="a case of your own")
    top.add_argument("--jobs", type=int, metavar="N", help="cases at a time; default: the processors, at most 2")
    top.add_argument("--seed", type=int, default=1, metavar="N", help="of the load; default: 1")
    top.add_argument("--pairs", type=int, metavar="N",
                     help="compare which event followed which on a connection with urtrs-sim: its scenarios and N random worlds")
    top.add_argument("--keep", action="store_true", help="keep the folders of cases that pass, too")
    top.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results as JSON")
    top.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the results as Markdown")
    top.add_argument("--update", type=pathlib.Path, metavar="FILE", help="write them between the markers of this document")
    top.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/release", help="default: build/release")
    top.add_argument("--work-dir", type=pathlib.Path, default=ROOT / "build/netns-faults", help="default: build/netns-faults")
    return top


def selected(options):
    if options.script is not None:
        parse(options.script)
        return [own(options.script)]
    names = options.only.split(",") if options.only is not None else SHORT if options.short else list(BY_NAME)
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise ValueError(f"no case is called '{unknown[0]}'; tools/dev/netns-faults --list")
    return [BY_NAME[name] for name in names]


def lacking(build):
    """Why nothing can be run here; None: it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}; tools/install-deps"
    missing = [name for name in PROGRAMS if not (build / name).exists()]
    if missing:
        return (f"not built in {build}: {', '.join(missing)}; cmake --preset release && cmake --build --preset release "
                f"--target {' '.join(pathlib.Path(name).name for name in missing)}")
    try:
        with network.Network("probe"):
            return None
    except network.Unavailable as error:
        return f"no network namespaces here: {error}"


def repeat_line(case, options):
    what = f"--script {shlex.quote(case.script)}" if case.name == "own" else f"--only {case.name}"
    return f"tools/dev/netns-faults {what} --seed {options.seed} --build-dir {shlex.quote(str(options.build_dir))} --keep"


def play(case, number, options, stop):
    """The result of one case; None when the whole was interrupted."""
    result = judge.Result(case.name, repeat=repeat_line(case, options))
    folder = options.work_dir / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result.folder = str(folder)
    run = Run(case, folder, options.build_dir, options.seed, stop)
    begin = time.monotonic()
    try:
        with contextlib.closing(run.play(str(number))) as course:
            for _ in course:
                judge.judge_load(run, result)
        judge.judge_stall(run, result)
        judge.judge_traces(run, result)
    except network.Unavailable as error:
        result.verdict, result.reasons = "skip", [str(error)]
    except (Failure, OSError) as error:
        result.fail(str(error))
    except Interrupted:
        return None
    result.seconds = time.monotonic() - begin
    result.lateness = run.lateness
    if result.seconds > case.seconds:
        result.fail(f"it took {result.seconds:.0f} s; {case.seconds} s are the most")
    (folder / "result.json").write_text(report.as_json([result]) + "\n", encoding="utf-8")
    if options.pairs:
        for trace in folder.glob("*.rtrc"):
            result.pairs |= pairs.of_trace(options.build_dir / "tools/urtrs-replay/urtrs-replay", trace)
    if result.verdict in judge.GOOD and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def tell(result, done, total):
    seen = f", worst stall {result.worst_stall:.2f} of {result.stall_bound:.2f} s" if result.stall_bound else ""
    say(f"{done}/{total} {result.verdict:5} {result.case} ({result.seconds:.0f} s{seen})")
    for reason in result.reasons:
        say(f"      {reason}")
    if result.verdict == "fail":
        say(f"      everything about it: {result.folder}")
        say(f"      again: {result.repeat}")


def play_all(cases, options):
    stop = threading.Event()
    results = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with concurrent.futures.ThreadPoolExecutor(options.jobs or min(2, own_cpu_count())) as pool:
        waiting = {pool.submit(lambda c=case, n=number: None if stop.is_set() else play(c, n, options, stop)): case
                   for number, case in enumerate(cases)}
        while waiting:
            # A timeout, so that signals are seen.
            done, _ = concurrent.futures.wait(waiting, 0.2, concurrent.futures.FIRST_COMPLETED)
            for future in done:
                case = waiting.pop(future)
                result = future.result()
                if result is not None:
                    results[case.name] = result
                    tell(result, len(results), len(cases))
    if stop.is_set():
        say(f"interrupted: {len(cases) - len(results)} cases have no verdict; nothing is left running")
    return [results[case.name] for case in cases if case.name in results], stop.is_set()


def compare_pairs(results, options):
    """What is to be said of it, for people and for the document."""
    say(f"playing every directed scenario and {options.pairs} random worlds to compare with")
    real = set().union(*(result.pairs for result in results))
    jobs = options.jobs or min(2, own_cpu_count())
    sim, directed, last = pairs.simulated(options.build_dir, options.pairs, jobs, say)
    gaps = pairs.only_real(real, sim)
    lines = [f"{len(real)} pairs of events that followed each other on a connection were seen; {directed} directed scenarios and "
             f"{options.pairs:,} random worlds show {len(sim)}, the last new one at seed {last}. {len(gaps) or 'None'} of the "
             f"real ones {'is' if len(gaps) < 2 else 'are'} missing there{':' if gaps else '.'}"]
    return "\n".join(lines + ([""] + [f"- {gap}" for gap in gaps] if gaps else []))


def provenance(options):
    commit = subprocess.run(("git", "-C", ROOT, "rev-parse", "--short", "HEAD"), capture_output=True, text=True,
                            check=False).stdout.strip()
    return (f"Seed {options.seed}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, commit {commit}, Linux "
            f"{os.uname().release}, {own_cpu_count()} processors.")


def write_results(results, options, more):
    if options.json:
        options.json.write_text(report.as_json(results) + "\n", encoding="utf-8")
    if not (options.markdown or options.update):
        return
    titles = {**BY_NAME, "own": own(options.script or "run 1")}
    text = report.markdown(results, titles, provenance(options)) + (f"\n\n{more}" if more else "")
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.update:
        options.update.write_text(report.update(options.update.read_text(encoding="utf-8"), text), encoding="utf-8")


def list_cases():
    width = max(len(case.name) for case in CASES)
    for case in CASES:
        print(f"{case.name:{width}}  {case.title}\n{'':{width}}  {case.script}")
    return 0


def lock(work):
    work.mkdir(parents=True, exist_ok=True)
    file = open(work / "lock", "w", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"another run uses {work}; waiting for it")
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def main():
    options = parser().parse_args()
    options.build_dir = options.build_dir.resolve()
    options.work_dir = options.work_dir.resolve()
    try:
        cases = selected(options)
        if options.pairs is not None and options.pairs < 1:
            raise ValueError("--pairs takes a number above 0")
        if options.pairs and not (options.build_dir / "tools/urtrs-sim/urtrs-sim").exists():
            raise ValueError(f"--pairs needs urtrs-sim in {options.build_dir}")
        if options.jobs is not None and not 1 <= options.jobs <= 64:
            raise ValueError("--jobs takes a number from 1 to 64")
    except ValueError as error:
        print(f"tools/dev/netns-faults: {error}", file=sys.stderr)
        return 2
    if options.list:
        return list_cases()
    why = lacking(options.build_dir)
    if why:
        print(f"SKIP: {why}", flush=True)
        results, interrupted = [judge.Result(case.name, "skip", [why]) for case in cases], False
    else:
        network.remove_left_over()
        with lock(options.work_dir):
            results, interrupted = play_all(cases, options)
        print("\n" + report.text_table(results))
    more = compare_pairs(results, options) if options.pairs and not interrupted and not why else ""
    if more:
        print(more)
    print(report.verdict_line(results))
    write_results(results, options, more)
    if any(result.verdict == "fail" for result in results) or interrupted:
        return 1
    return SKIPPED if all(result.verdict == "skip" for result in results) else 0
