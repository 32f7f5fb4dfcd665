"""The command line of tools/dev/netns-faults."""
import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import time

import labs
from labs import ROOT, say

from . import judge, network, pairs, report
from .cases import BY_NAME, CASES, SHORT, own
from .processes import Failure
from .run import Interrupted, Run
from .script import WORDS, parse

PROGRAMS = ("tools/urtrsd/urtrsd", "tools/urtrs-replay/urtrs-replay", "tools/dev/netns-faults.d/load/netns-load")
NEEDED = ("ip", "nft", "tc", "setpriv", "nsenter")
LAB = "tools/dev/netns-faults"

EXAMPLES = f"""
Examples:
  tools/dev/netns-faults list                              the cases and their scripts
  tools/dev/netns-faults run --all                         every case
  tools/dev/netns-faults run link-down 'loss*' --keep      some of them, and keep all files
  tools/dev/netns-faults run --script 'run 1; drop 0 to-client; lost 0; heal 0; settle'
  tools/dev/netns-faults run --all --update docs/netns-faults.md    with the results in this document
  tools/dev/netns-faults run --all --pairs 300             and: did anything happen that simulation never shows?
  tools/dev/netns-faults run --all --pairs 300 --record    with what happened for the first time in real_pairs.txt

A case starts urtrsd and clients in two network namespaces, connected by one veth pair per path, and runs its script. The
verdict comes from the requests and responses of the clients, the image, and the traces of all processes: each trace is
replayed, and the specification and the laws of reliable connections judge them together. The bound for a request is
computed from the configured timers and from the script.

Steps of a script, with a semicolon between them:{WORDS}"""


def command_line():
    line = labs.CommandLine("netns-faults", "Runs urtrsd and clients as processes over TCP, makes faults between them, and "
                            "judges data, stalls and traces.", EXAMPLES)
    line.add("list", "the cases and their scripts")
    run = line.add_run("cases", f"only {' and '.join(SHORT)}", min(2, labs.processors()))
    run.add_argument("--script", metavar="STEPS", help="a case of your own")
    run.add_argument("--seed", type=int, default=1, metavar="N", help="of the load; default: 1")
    run.add_argument("--pairs", type=labs.above_zero, metavar="N",
                     help="look in urtrs-sim for each pair of consecutive events on a connection: in all scenarios and in N random "
                          "worlds of each fabric. A new pair that no world shows is a failure")
    run.add_argument("--skip-new-pairs", action="store_true",
                     help=f"with --pairs: exit code {labs.SKIPPED} instead of 1 if all cases pass and only a new pair was seen, for "
                          "tests, which must not fail because of the timing of a busy machine")
    run.add_argument("--record", action="store_true", help="with --pairs: add the new pairs to netns-faults.d/real_pairs.txt")
    run.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the results as Markdown")
    run.add_argument("--update", type=pathlib.Path, metavar="FILE", help="write them between the markers of this document")
    run.add_argument("--build-dir", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build/release",
                     metavar="DIR", help="default: build/release")
    return line


def selected(options):
    if options.script is not None:
        parse(options.script)
        return [own(options.script)]
    names = SHORT if options.fast and not options.patterns else labs.matching(labs.which(options, LAB), list(BY_NAME), LAB)
    return [BY_NAME[name] for name in names]


def lacking(build):
    """Returns why this host cannot run any case; None if it can."""
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
    what = f"--script {shlex.quote(case.script)}" if case.name == "own" else case.name
    return f"{LAB} run {what} --seed {options.seed} --build-dir {shlex.quote(str(options.build_dir))} --keep"


def play(case, number, options, stop):
    """Runs one case. Returns its result, or None if the run was interrupted."""
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
    labs.write(folder / "result.json", LAB, [report.outcome(result)])
    if options.pairs:
        for trace in folder.glob("*.rtrc"):
            result.pairs |= pairs.of_trace(options.build_dir / "tools/urtrs-replay/urtrs-replay", trace)
    if result.verdict in judge.GOOD and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def play_all(cases, options):
    results = {}

    def ended(result):
        results[result.case] = result
        seen = f", worst stall {result.worst_stall:.2f} of {result.stall_bound:.2f} s" if result.stall_bound else ""
        labs.tell(len(results), len(cases), report.outcome(result), seen)

    whole = labs.play_all(cases, lambda case, number, stop: play(case, number, options, stop), options.jobs, ended)
    if not whole:
        say(f"interrupted: {len(cases) - len(results)} cases have no verdict; nothing is left running")
    return [results[case.name] for case in cases if case.name in results], whole


def compare_pairs(results, options):
    """Looks for the pairs of real runs in simulated worlds. Returns a text for the terminal and for the page, and whether
    each pair is known or simulated."""
    known = pairs.recorded()
    real = set().union(*(result.pairs for result in results))
    new = real - known.keys()
    say(f"{len(real)} pairs of events, {len(new)} of them not in {pairs.RECORDED.name}; looking for them in simulated worlds")
    found, number = pairs.search(options.build_dir, real, pairs.worlds(options.build_dir, known, options.pairs), options.jobs, say)
    gaps = pairs.only_real(real, found.keys())
    if options.record:
        pairs.record({**known, **{pair: found.get(pair) for pair in new}})
    lines = [f"{len(real)} pairs of events that followed each other on a connection were seen. {number} simulated worlds show "
             f"{'all of them.' if not gaps else f'all but {len(gaps)}:'}"]
    return "\n".join(lines + ([""] + [f"- {gap}" for gap in gaps] if gaps else [])), new <= found.keys()


def provenance(options):
    commit = subprocess.run(("git", "-C", ROOT, "rev-parse", "--short", "HEAD"), capture_output=True, text=True,
                            check=False).stdout.strip()
    return (f"Seed {options.seed}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, commit {commit}, Linux "
            f"{os.uname().release}, {labs.processors()} processors.")


def write_results(results, options, more):
    if not (options.markdown or options.update):
        return
    text = report.markdown(results, provenance(options)) + (f"\n\n{more}" if more else "")
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.update:
        options.update.write_text(report.update(options.update.read_text(encoding="utf-8"), text), encoding="utf-8")


def list_cases():
    width = max(len(case.name) for case in CASES)
    for case in CASES:
        print(f"{case.name:{width}}  {case.title}\n{'':{width}}  {case.script}")
    return 0


def run(options):
    cases = selected(options)
    if options.record and not options.pairs:
        raise ValueError("--record needs --pairs N")
    if options.pairs and not (options.build_dir / "tools/urtrs-sim/urtrs-sim").exists():
        raise ValueError(f"--pairs needs urtrs-sim in {options.build_dir}")
    why = lacking(options.build_dir)
    if why:
        say(f"SKIP: {why}")
        results, whole = [judge.Result(case.name, "skip", [why]) for case in cases], True
    else:
        network.remove_left_over()
        with labs.locked(options.work_dir):
            results, whole = play_all(cases, options)
        labs.print_outcomes([report.outcome(result) for result in results])
    more, simulated = compare_pairs(results, options) if options.pairs and whole and not why else ("", True)
    if more:
        print(more)
    write_results(results, options, more)
    code = labs.finish(options, LAB, [report.outcome(result) for result in results], whole)
    if code or simulated:
        return code
    if options.skip_new_pairs:
        print("SKIPPED [1] a pair of events that no simulated world shows, see above; add it with --record")
        return labs.SKIPPED
    return 1


def main():
    return labs.main(command_line(), lambda options: list_cases() if options.command == "list" else run(options))
