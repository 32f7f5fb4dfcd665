"""The command line of tools/dev/softroce-vm."""
import argparse
import fnmatch
import pathlib
import shutil
import subprocess

import labs
from labs import ROOT, say

from . import cells as cell_rules
from . import environment, machine, report
from .kernels import DEFAULT, KERNELS
from .runner import Runner, load_results, save_results, write_settings
from .tools import GUEST

EXAMPLES = """
A cell is a case with its roles, named CASE.CLIENT-SERVER.INVALIDATE.PATHS, as in lose-both.kernel-urtrs.on.2. Of a
kernel other than 6.12 the name ends with it, as in lose-both.kernel-urtrs.on.2@6.1.

Examples:
  tools/dev/softroce-vm list
  tools/dev/softroce-vm run --fast                    the stage interop of tools/test
  tools/dev/softroce-vm run verify discard --client kernel --server urtrs
  tools/dev/softroce-vm run 'lose-*' --paths 2 --invalidate off --capture
  tools/dev/softroce-vm run verify --kernel 6.1       with the modules of Linux 6.1 as the peer
  tools/dev/softroce-vm run --all                     the whole matrix, every kernel: hours in software emulation
  tools/dev/softroce-vm run --all --missing           only what has not been run yet
  tools/dev/softroce-vm run --all --counted           the guest's clock counts instructions: waiting takes no time, and a
                                                  busy machine makes no case fail
  tools/dev/softroce-vm run --all --counted --jobs 2  the same in two guests side by side
  tools/dev/softroce-vm shell                         a shell in the guest, with the functions of the cases
  tools/dev/softroce-vm matrix --update docs/interop.md

The guest runs one of Debian's kernels (--kernel) with rtrs and rnbd built from Debian's kernel source. The host's root
directory is its own, read-only. Only packages are installed on the host (their names are printed). The kernel of a later
release (7.3, of trixie-backports), what compiles modules for it, and mdadm are unpacked and not installed; --fast and
--all skip that kernel where it cannot be had. Modules, images and results are kept in build/softroce-vm. There,
cells/NAME holds a cell's log, kernel log, statuses, traces and captures.

"run" makes what its cells need and nothing else: packages and modules of their kernels, and in the build directory the
programs of urtrs that they run. A guest that dies in the emulator is started once more; the second time its cell fails.
"""
LAB = "tools/dev/softroce-vm"


def words(choices):
    def parse(text):
        values = text.split(",")
        for value in values:
            if value not in choices:
                raise argparse.ArgumentTypeError(f"'{value}' is not one of {', '.join(choices)}")
        return values
    return parse


def command_line():
    line = labs.CommandLine("softroce-vm", "Interoperation with the kernel's RTRS and RNBD over soft-RoCE, in a virtual "
                            "machine.", EXAMPLES)
    line.add("list", "the cases")
    add_kernel(line.add("prepare", "packages, modules and initial file system, nothing else"), "default: every one")
    add_run(line.add_run("cases", "a selection of cells of every kernel, about 14 minutes in software emulation", 1,
                         "has no effect: cells/NAME is kept in any case"))
    shell = line.add("shell", "a shell in the guest")
    add_build(shell)
    shell.add_argument("--kernel", choices=KERNELS, default=DEFAULT, help=f"default: {DEFAULT}")
    table = line.add("matrix", "the results of all runs so far")
    table.add_argument("--update", type=pathlib.Path, metavar="FILE", help="write them between the markers of this file")
    add_kernel(table, "only the parts of these; default: every one")
    table.add_argument("--json", action="store_true", help="as JSON")
    table.add_argument("--take", type=pathlib.Path, metavar="DIR", help="add the verdicts of another work directory; if both have a cell, the later verdict is kept")
    table.add_argument("--forget", metavar="PATTERN", help="drop the results of the cells that match, as 'lose-*.kernel-*'")
    return line


def add_kernel(command, words_of_default):
    command.add_argument("--kernel", type=words(KERNELS), help=f"{','.join(KERNELS)}; {words_of_default}")


def add_build(command):
    command.add_argument("--build-dir", default=ROOT / "build/release", help="where urtrs is built; default: build/release")
    command.add_argument("--fabric", default="verbs", help="of urtrsd and the plugin; default: verbs")
    command.add_argument("--capture", action="store_true", help="record the packets of every path")


def add_run(run):
    run.add_argument("--missing", action="store_true", help="leave out cells that have a verdict from an earlier run")
    run.add_argument("--failed", action="store_true", help="only cells that failed in an earlier run")
    run.add_argument("--minutes", type=float, metavar="N", help="start no cell after N minutes; the remaining cells are not run")
    run.add_argument("--seconds", type=int, metavar="N", help="duration of the load in long cases (cut-heal)")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                     help="a variable of the guest, as CONFORM_OPTIONS='--case C2'")
    run.add_argument("--client", type=words(cell_rules.PEERS), default=cell_rules.PEERS, help="kernel,urtrs")
    run.add_argument("--server", type=words(cell_rules.PEERS), default=cell_rules.PEERS, help="kernel,urtrs")
    run.add_argument("--invalidate", type=words(("on", "off")), default=("on", "off"), help="on,off")
    run.add_argument("--paths", type=words(("1", "2")), default=("1", "2"), help="1,2")
    run.add_argument("--extension", type=words(cell_rules.EXTENSIONS), default=("on",),
                     help=f"between peers of ours: {','.join(cell_rules.EXTENSIONS)}")
    add_kernel(run, f"default: {DEFAULT}, and every one with --fast and --all")
    run.add_argument("--counted", action="store_true", help="the guest's clock counts instructions, and jumps when there "
                     "is nothing to do: ratios and times do not depend on what else this machine does, and waiting is free; "
                     "its two processors take turns")
    run.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="the matrix of all runs so far")
    run.add_argument("--verbose", action="store_true", help="print the start of each cell")
    add_build(run)


def kernels_of(options):
    """Names of the requested kernels. Raises ValueError if one does not boot with the given options."""
    unfit = [name for name, kernel in KERNELS.items() if not kernel.counted] if options.counted else []
    if options.kernel is None:
        everything = (options.fast or options.all) and not options.patterns
        return [name for name in KERNELS if name not in unfit] if everything else [DEFAULT]
    for name in set(options.kernel) & set(unfit):
        raise ValueError(f"Linux {name} does not boot with an instruction-counting clock; omit --counted")
    return options.kernel


def cells_to_run(options, cases, results):
    kernels = kernels_of(options)
    if options.fast and not options.patterns:
        cells = [cell for cell in cell_rules.fast_cells(cases) if cell.kernel in kernels]
    else:
        roles = (options.client, options.server, options.invalidate, [int(n) for n in options.paths], options.extension,
                 kernels)
        cells = cell_rules.select(cases, options.patterns or ["*"], roles)
    if options.counted and any(not KERNELS[cell.kernel].counted for cell in cells):
        raise ValueError("a cell of a kernel that does not boot with an instruction-counting clock; omit --counted")
    if options.missing:
        cells = [cell for cell in cells if cell.name not in results]
    if options.failed:
        cells = [cell for cell in cells if results.get(cell.name, {}).get("verdict") == "fail"]
    return cells


def command_run(options):
    labs.which(options, LAB)
    if options.jobs > 16:
        raise ValueError("--jobs: at most 16 guests, each with 3 GiB of memory and a processor or two")
    cases = cell_rules.all_cases()
    cells = cells_to_run(options, cases, load_results(options.work_dir / "results.json"))
    if not cells:
        say("nothing to run")
        return 0
    with labs.locked(options.work_dir):
        lab = environment.Lab(options.work_dir, dict.fromkeys(cell.kernel for cell in cells), say, options.kernel is not None)
        lab.counted = options.counted
        lab.unpack_tools(set().union(*(cases[cell.case].unpacks for cell in cells)), say)
        programs = set().union(*(cases[cell.case].programs(cell) for cell in cells))
        lab.build_programs(options.build_dir, programs, say)
        lab.take_programs(options.build_dir, programs)
        runner = Runner(lab, cases, options, say)
        done = runner.run([cell for cell in cells if cell.kernel in lab.images])
    outcomes = [report.outcome(name, result) for name, result in done.items()]
    outcomes += [labs.Outcome(cell.name, "skip", reason=lab.without[cell.kernel]) for cell in cells if cell.kernel in lab.without]
    labs.print_outcomes(outcomes)
    if options.markdown:
        options.markdown.write_text(report.of_run(runner.results, cases, dict.fromkeys(cell.kernel for cell in cells)) + "\n",
                                    encoding="utf-8")
    return labs.finish(options, LAB, outcomes)


def command_shell(options):
    lab = environment.Lab(options.work_dir, [options.kernel], say)
    image = lab.images[options.kernel]
    out = lab.work / "shell"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    programs = {*environment.UNDER_TEST, *(name for case in cell_rules.all_cases().values() for name in case.runs
                                           if (pathlib.Path(options.build_dir) / name).exists())}
    lab.build_programs(options.build_dir, programs, say)
    lab.take_programs(options.build_dir, programs)
    write_settings(out, lab, image, options, LAB_SHELL="yes", CLIENT="kernel", SERVER="kernel", INVALIDATE="on", PATHS="2",
                   EXTENSION="on")
    say("CLIENT, SERVER, INVALIDATE and PATHS are variables; then for example: make_disks; server_start; client_map 0")
    say("'exit' ends the guest, Ctrl-A X ends it at once")
    return subprocess.run(machine.command(lab, image, out, GUEST / "main"), check=False).returncode


def command_matrix(options):
    results = load_results(options.work_dir / "results.json")
    cases = cell_rules.all_cases()
    if options.take:
        if not (options.take / "results.json").exists():
            raise ValueError(f"no results in {options.take}")
        more = load_results(options.take / "results.json")
        later = {name: result for name, result in more.items() if name not in results or result["when"] > results[name]["when"]}
        save_results(options.work_dir / "results.json", results | later)
        print(f"{len(later)} of {len(more)} results taken")
    elif options.forget:
        kept = {name: result for name, result in results.items() if not fnmatch.fnmatch(name, options.forget)}
        save_results(options.work_dir / "results.json", kept)
        print(f"{len(results) - len(kept)} results forgotten, {len(kept)} kept")
    elif options.json:
        print(report.as_json(results))
    elif options.update:
        options.update.write_text(report.update(options.update.read_text(encoding="utf-8"), results, cases,
                                                options.kernel or KERNELS), encoding="utf-8")
    else:
        print("\n\n".join(text for kernel in options.kernel or KERNELS
                          for text in (f"Linux {kernel}", *report.parts(results, cases, kernel).values())))
    return 0


def command_list(_options):
    for name, case in cell_rules.all_cases().items():
        only = f" [{' '.join('='.join(pair) for pair in case.only)}]" if case.only else ""
        kernels = "" if case.kernels == cell_rules.PLAIN else f" [kernel={','.join(case.kernels)}]"
        print(f"{name:18}{'fast  ' if case.fast else '      '}{case.title}{only}{kernels}")
    return 0


def command_prepare(options):
    environment.Lab(options.work_dir, options.kernel or KERNELS, say)
    return 0


def main():
    commands = {"list": command_list, "prepare": command_prepare, "run": command_run, "shell": command_shell,
                "matrix": command_matrix}
    return labs.main(command_line(), lambda options: commands[options.command](options))
