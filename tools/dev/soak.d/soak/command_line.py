"""The command line of tools/dev/soak."""
import argparse
import fcntl
import json
import os
import pathlib
import shutil
import sys
import time

from . import report
from .plan import ROOT, Plan
from .runner import Interrupted, Runner
from .state import State

EXAMPLES = """
Examples:
  tools/dev/soak --hours 8                   overnight; what is interrupted goes on with: tools/dev/soak
  tools/dev/soak --plan --hours 8            what that would be, and how long each part takes
  tools/dev/soak --only sweep --chunks 500   ten million seeds
  tools/dev/soak --only fuzz --hours 1       every fuzzer, its corpus is kept
  tools/dev/soak --fresh --hours 2           forget what was done

Everything that is needed is built first, in build/PRESET. The work is cut into chunks of about a minute; each is remembered
when it is done, so Ctrl-C costs a minute at most. What fails is kept with all its output and the line that repeats it,
and the rest goes on.

Exit codes: 0 all chunks passed (or were skipped, which is said), 1 something failed or is not done yet, 2 wrong usage.
"""


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def parser():
    top = argparse.ArgumentParser(prog="tools/dev/soak", description="Runs seeds, searches, fuzzers, planted bugs and real processes for hours; can be interrupted and continued.", epilog=EXAMPLES,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--hours", type=float, metavar="H", help="about how long; default: 1")
    top.add_argument("--only", metavar="ITEM,...", help="only these items; fuzz is all of its kind")
    top.add_argument("--chunks", type=int, metavar="N", help="so many chunks of each item, instead of hours")
    top.add_argument("--size", type=int, metavar="N", help="seeds of a chunk of sweep; chunks of other items shrink or grow alike")
    top.add_argument("--first-seed", type=int, metavar="N", help="where sweeps begin; default: 0")
    top.add_argument("--plan", action="store_true", help="only say what would be run")
    top.add_argument("--fresh", action="store_true", help="forget what was done, with what was kept of failures")
    top.add_argument("--again", action="store_true", help="run what failed once more")
    top.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="default: the processors")
    top.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all results")
    top.add_argument("--no-build", action="store_true", help="take the programs as they are")
    top.add_argument("--build-root", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="default: build")
    top.add_argument("--work-dir", type=pathlib.Path, default=ROOT / "build/soak", metavar="DIR",
                     help="state, failures and corpora; default: build/soak")
    return top


def asked_for(options):
    """The members of a plan that the command line names."""
    given = {name: getattr(options, name) for name in ("hours", "chunks", "size", "first_seed")}
    asked = {name: value for name, value in given.items() if value is not None}
    if options.only is not None:
        asked["only"] = options.only.split(",")
    for name, value in asked.items():
        if name != "only" and (value < 0 or (value == 0 and name != "first_seed")):
            raise ValueError(f"--{name.replace('_', '-')} must be above 0")
    if options.jobs < 1:
        raise ValueError("--jobs must be above 0")
    return asked


def plan_of(options, state):
    """The plan that goes on, or a new one. ValueError: another one is under way."""
    asked = asked_for(options)
    if state.plan is None:
        plan = Plan(**asked)
        plan.sequence()  # its mistakes
        return plan, True
    plan = Plan(**state.plan)
    changed = [name for name, value in asked.items() if plan.as_json()[name] != value]
    if changed:
        raise ValueError(f"a soak with another plan is in {options.work_dir} (--{changed[0].replace('_', '-')} was "
                         f"{plan.as_json()[changed[0]]}); --fresh, or another --work-dir")
    return plan, False


def soak(plan, state, runner):
    """Runs what is not done. False: interrupted."""
    sequence = plan.sequence()
    waiting = [chunk for chunk in sequence if chunk.key not in state.done]
    if waiting and state.done:
        say(f"going on: {len(state.done)} of {len(sequence)} chunks are done")
    for chunk in waiting:
        try:
            why = runner.build(chunk.item, plan.items())
            if why:
                continue
            result = runner.run(chunk)
        except Interrupted:
            return False
        done = len(state.done)
        say(f"{done}/{len(sequence)} {100 * done // len(sequence)}% {result['verdict']} {chunk.item.name} {chunk.name} "
            f"({result['seconds']:.0f} s); {report.clock(report.remaining(plan, state))} to go")
        if result["verdict"] != "pass":
            say(f"      {result['reason']}")
        if "repeat" in result:
            say(f"      again: {result['repeat']}")
    return True


def finish(plan, state, options, runner, whole):
    print("\n" + report.result_table(plan, state))
    unbuilt = [why for why in runner.built.values() if why]
    for why in unbuilt:
        print(f"fail {why}")
    if options.json:
        options.json.write_text(json.dumps({"plan": state.plan, "done": state.done}, indent=1) + "\n", encoding="utf-8")
    complete = report.is_complete(plan, state)
    failed = sum(one["verdict"] == "fail" for one in state.done.values())
    if not whole:
        print("interrupted; the same command goes on where this one stopped")
    print(f"{len(state.done)} of {len(plan.sequence())} chunks done, {failed} failed")
    return 0 if complete and not failed and not unbuilt else 1


def start(options):
    state = State(options.work_dir / "state.json", options.fresh)
    plan, is_new = plan_of(options, state)
    if options.plan:
        print(report.plan_table(plan, state))
        return 0
    options.work_dir.mkdir(parents=True, exist_ok=True)
    with open(options.work_dir / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another soak runs in {options.work_dir}") from None
        if is_new:
            for name in ("failures", "run"):
                shutil.rmtree(options.work_dir / name, ignore_errors=True)
            state.begin(plan.as_json())
        if options.again:
            state.done = {key: one for key, one in state.done.items() if one["verdict"] == "pass"}
        if report.is_complete(plan, state):
            say("this soak is complete; --fresh begins another one, --again repeats what failed")
        else:
            say(f"about {report.clock(report.remaining(plan, state))}; Ctrl-C at any time, the same command goes on")
        runner = Runner(options, state, say)
        whole = soak(plan, state, runner)
        return finish(plan, state, options, runner, whole)


def main():
    options = parser().parse_args()
    options.work_dir, options.build_root = options.work_dir.resolve(), options.build_root.resolve()
    try:
        return start(options)
    except ValueError as error:
        print(f"tools/dev/soak: {error}", file=sys.stderr)
        return 2
