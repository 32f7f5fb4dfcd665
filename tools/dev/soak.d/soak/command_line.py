"""The command line of tools/dev/soak."""
import pathlib
import shutil

import labs
from labs import ROOT, say

from . import report
from .plan import Plan, items
from .runner import Interrupted, Runner
from .state import State

LAB = "tools/dev/soak"
EXAMPLES = """
Examples:
  tools/dev/soak run --all --hours 8         overnight; continue an interrupted run with: tools/dev/soak run
  tools/dev/soak list --all --hours 8        what that would be, and how long each part takes
  tools/dev/soak run sweep --chunks 500      ten million seeds
  tools/dev/soak run fuzz --hours 1          every fuzzer, its corpus is kept
  tools/dev/soak run --all --fresh --hours 2 forget what was done

Everything that is needed is built first, in build/PRESET. The work is cut into chunks of about a minute; each is remembered
when it is done, so Ctrl-C costs a minute at most. What fails is kept with all its output and the line that repeats it,
and the rest goes on. The exit code is 1 too while something is not done yet.
"""


def command_line():
    line = labs.CommandLine("soak", "Runs seeds, searches, fuzzers, planted bugs and real processes for hours; can be "
                            "interrupted and continued.", EXAMPLES)
    shown = line.add("list", "the items; with a plan, how long they take")
    shown.add_argument("patterns", nargs="*", metavar="PATTERN", help="names of items, or patterns; fuzz is all of its kind")
    shown.add_argument("--all", action="store_true", help="everything")
    shown.add_argument("--fast", action="store_true", help="as for run")
    run = line.add_run("items, or continue the saved plan", "one small chunk of each item", labs.processors())
    for command in shown, run:
        command.add_argument("--hours", type=float, metavar="H", help="about how long; default: 1")
        command.add_argument("--chunks", type=int, metavar="N", help="number of chunks of each item, instead of --hours")
        command.add_argument("--size", type=int, metavar="N",
                             help="seeds of a chunk of sweep; chunks of other items change in proportion")
        command.add_argument("--first-seed", type=int, metavar="N", help="where sweeps begin; default: 0")
        command.add_argument("--fresh", action="store_true", help="discard saved results and failures")
    run.add_argument("--again", action="store_true", help="repeat failed chunks")
    run.add_argument("--no-build", action="store_true", help="do not build")
    run.add_argument("--build-root", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build", metavar="DIR",
                     help="default: build")
    return line


def asked_for(options):
    """Returns the members of Plan that the command line sets."""
    given = {name: getattr(options, name) for name in ("hours", "chunks", "size", "first_seed")}
    asked = {name: value for name, value in given.items() if value is not None}
    if options.fast:
        asked = {"chunks": 1, "size": 500} | asked
    if options.patterns:
        asked["only"] = labs.matching(options.patterns, ["fuzz", *(item.name for item in items())], LAB)
    for name, value in asked.items():
        if name != "only" and (value < 0 or (value == 0 and name != "first_seed")):
            raise ValueError(f"--{name.replace('_', '-')} must be above 0")
    return asked


def plan_of(options, state):
    """Returns (plan, is_new): the saved plan or a new one. Raises ValueError if options differ from the saved plan."""
    asked = asked_for(options)
    if state.plan is None:
        plan = Plan(**asked)
        plan.sequence()  # raises ValueError for an unknown item
        return plan, True
    plan = Plan(**state.plan)
    changed = [name for name, value in asked.items() if plan.as_json()[name] != value]
    if changed:
        raise ValueError(f"a soak with another plan is in {options.work_dir} (--{changed[0].replace('_', '-')} was "
                         f"{plan.as_json()[changed[0]]}); --fresh, or another --work-dir")
    return plan, False


def soak(plan, state, runner):
    """Runs the remaining chunks. Returns False if interrupted."""
    sequence = plan.sequence()
    waiting = [chunk for chunk in sequence if chunk.key not in state.done]
    if waiting and state.done:
        say(f"continuing: {len(state.done)} of {len(sequence)} chunks are done")

    def play(chunk, _number, stop):
        runner.stop = stop
        try:
            return None if runner.build(chunk.item, plan.items()) else report.outcome(chunk, runner.run(chunk))
        except Interrupted:
            return None

    def ended(outcome):
        labs.tell(len(state.done), len(sequence), outcome, f"; {report.clock(report.remaining(plan, state))} to go")

    # Runs one chunk at a time, because each chunk uses all processors.
    return labs.play_all(waiting, play, 1, ended)


def finish(plan, state, options, runner, whole):
    report.print_results(plan, state)
    unbuilt = [why for why in runner.built.values() if why]
    for why in unbuilt:
        print(f"fail {why}")
    if not whole:
        print("interrupted; tools/dev/soak run goes on where this one stopped")
    print(f"{len(state.done)} of {len(plan.sequence())} chunks done")
    return labs.finish(options, LAB, report.outcomes(plan, state), report.is_complete(plan, state) and not unbuilt)


def start(options):
    state = State(options.work_dir / "state.json", options.fresh)
    if options.command == "list":
        report.print_plan(plan_of(options, state)[0], state)
        return 0
    if state.plan is None:
        labs.which(options, LAB)
    plan, is_new = plan_of(options, state)
    with labs.locked(options.work_dir):
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
    return labs.main(command_line(), start)
