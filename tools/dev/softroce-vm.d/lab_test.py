"""Tests the parts of tools/dev/softroce-vm that need no guest: selection of cells, verdicts, tables."""
import argparse
import pathlib
import re
import sys
import tempfile
import types
from unittest import mock

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lab import cells, environment, kernels, report, runner  # noqa: E402

CASES = cells.all_cases()
IMAGES = {name: types.SimpleNamespace(kernel=kernel, version=f"{name}.99", modules=name)
          for name, kernel in kernels.KERNELS.items()}


def judge(code, log="", dmesg="", reset="", clean=True, why="", deviations=()):
    """Returns the verdict of a cell whose folder contains these files."""
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        cell = cells.Cell("lose-both", "kernel", "kernel", "on", 2)
        folder = work / "boot" / cell.name
        folder.mkdir(parents=True)
        for name, text in (("log", log), ("dmesg", dmesg), ("reset.log", reset), ("figures", "gap 1.5 s\n")):
            (folder / name).write_text(text)
        lab = types.SimpleNamespace(work=work, images=IMAGES, programs_digest=lambda: "d", counted=False)
        options = argparse.Namespace(build_dir=work, fast=False, minutes=None, seconds=None, jobs=1)
        judging = runner.Runner(lab, CASES, options, lambda text: None)
        judging.deviations = list(deviations)
        judging._judge(cell, work / "boot", code, 2.0, clean, why)
        stored = runner.load_results(work / "results.json")[cell.name]
        return stored["verdict"], stored["reason"], stored["figures"]


class TestCells:
    def test_every_case_has_a_title_and_valid_roles(self):
        assert len(CASES) > 20
        for name, case in CASES.items():
            assert case.title, name
            for role, value in case.only:
                assert value in {"client": cells.PEERS, "server": cells.PEERS, "paths": ("1", "2"),
                                      "invalidate": ("on", "off")}[role], name
            assert set(case.kernels) <= set(kernels.KERNELS), name

    def test_selection_is_the_product_of_roles_that_the_case_allows(self):
        roles = (("kernel", "urtrs"), ("kernel",), ("on", "off"), (1, 2), ("on",))
        names = [cell.name for cell in cells.select(CASES, ["verify"], roles)]
        assert len(names) == 8
        assert "verify.urtrs-kernel.off.2" in names
        assert {cell.client for cell in cells.select(CASES, ["poll-queues"], roles)} == {"kernel"}
        assert {cell.paths for cell in cells.select(CASES, ["cut-heal"], roles)} == {2}
        with pytest.raises(ValueError):
            cells.select(CASES, ["verify", "nonsense"], roles)
        with pytest.raises(ValueError):
            cells.select(CASES, ["verify.kernel-kernel.on.3"], roles)

    def test_cells_can_be_selected_by_name(self):
        names = ["lose-both.kernel-urtrs.on.2", "verify.urtrs-urtrs.off.1.client-off", "flush.urtrs-*.on.1"]
        found = [cell.name for cell in cells.select(CASES, names, (("kernel",), ("kernel",), ("on",), (1,), ("on",)))]
        assert found == names[:2] + ["flush.urtrs-kernel.on.1", "flush.urtrs-urtrs.on.1"]

    def test_extensions_are_disabled_only_between_our_programs(self):
        roles = (cells.PEERS, cells.PEERS, ("on",), (1,), ("client-off",))
        assert [cell.name for cell in cells.select(CASES, ["verify"], roles)] == ["verify.urtrs-urtrs.on.1.client-off"]

    def test_fast_selection_covers_pairs_and_kernels_without_slow_cases(self):
        fast = cells.fast_cells(CASES)
        assert all(CASES[cell.case].fast and CASES[cell.case].applies(cell) for cell in fast)
        assert len({cell.name for cell in fast}) == len(fast)
        assert "cut-heal" in {cell.case for cell in fast}
        every = {(c, s) for c in cells.PEERS for s in cells.PEERS}
        both_ways = {("kernel", "urtrs"), ("urtrs", "kernel")}
        pairs = {name: {cell.pair for cell in fast if cell.kernel == name} for name in kernels.KERNELS}
        assert pairs["6.12"] == every
        for name in set(kernels.KERNELS) - {"6.12"}:
            assert pairs[name] == both_ways
        for pair in both_ways:
            for name in ("6.12", "6.1"):
                met = [cell for cell in fast if cell.kernel == name and cell.pair == pair]
                assert "verify" in {cell.case for cell in met}
                without = (name, pair) == ("6.1", ("urtrs", "kernel"))
                assert {cell.invalidate for cell in met} == ({"off"} if without else {"on", "off"})
            # Every fast case must run against the kernel's modules, of any version, in both directions.
            assert {cell.case for cell in fast if cell.kernel == "7.3" and cell.pair == pair} == {"verify", "nounmap"}
            met = {cell.case for cell in fast if cell.pair == pair}
            assert "nounmap" in {cell.case for cell in fast if cell.kernel == "6.12-rnbd2.2" and cell.pair == pair}
            assert met == {name for name, case in CASES.items() if case.fast and not case.together}

    def test_cell_name_ends_with_a_non_default_kernel(self):
        roles = (("kernel",), ("urtrs",), ("on",), (1,), ("on",), ("6.12", "6.1"))
        names = ["verify.kernel-urtrs.on.1", "verify.kernel-urtrs.on.1@6.1"]
        assert [cell.name for cell in cells.select(CASES, ["verify"], roles)] == names
        # A cell pattern without a kernel must select the requested kernels.
        assert [cell.name for cell in cells.select(CASES, [names[0]], roles)] == names
        assert [cell.name for cell in cells.select(CASES, [names[0]], roles[:5])] == names[:1]
        assert [cell.name for cell in cells.select(CASES, [names[1]], roles[:5])] == names[1:]

    def test_left_out_cell_is_not_selected(self):
        roles = (("kernel",), ("kernel",), ("on", "off"), (1,), ("on",), ("6.12", "6.1"))
        assert [cell.name for cell in cells.select(CASES, ["verify"], roles)] == [
            "verify.kernel-kernel.on.1", "verify.kernel-kernel.off.1", "verify.kernel-kernel.off.1@6.1"]

    def test_programs_follow_from_roles_and_case(self):
        roles = (("kernel",), ("kernel",), (), (), ())
        needed = {name: CASES[name.split(".")[0]].programs(cells.select(CASES, [name], roles)[0]) for name in (
            "verify.kernel-kernel.on.1", "verify.kernel-urtrs.on.1", "conform-server.urtrs-kernel.on.2",
            "throughput.kernel-kernel.on.1")}
        ours = {*environment.UNDER_TEST, environment.REPLAY}
        assert list(needed.values()) == [set(), ours, {*ours, "tools/urtrs-conform/urtrs-conform"}, ours]

    def test_four_pairs_that_can_run_together_become_one_cell(self):
        roles = (cells.PEERS, cells.PEERS, ("on", "off"), (1, 2), ("on",))
        units = cells.together(cells.select(CASES, ["cut-heal", "connect"], roles), CASES)
        joint = [unit for unit in units if unit.case == "cut-heal"]
        assert [unit.name for unit in joint] == ["cut-heal.all-all.on.2", "cut-heal.all-all.off.2"]
        assert len(units) == 2 + 16
        assert {part.pair for part in cells.pairs_of(joint[0])} == set(report.pairs())
        three = cells.select(CASES, ["cut-heal.kernel-*.on.2", "cut-heal.urtrs-urtrs.on.2"], roles)
        assert cells.together(three, CASES) == three


class FakeBoot:
    """Fake guest. Like the real one, it stops its plan after a cell that failed (`bad`). `log` has the cells that were
    started.

    `dies` has console texts for a cell, or for "boot": each time, the guest dies with the next text; `log` has an entry
    for each try. In a cell of `oopses`, the guest survives with such a text, and the cell fails.
    """
    bad, log, out_of_time, killed = set(), [], False, ""
    dies, oopses, kernels, possible_cpus = {}, {}, [], []

    def __init__(self, lab, image, out, limits, end, possible_cpus):
        self.out, self.console = out, out / "console.log"
        self.console.write_text("")
        self.kernels.append(image.kernel.name)
        self.possible_cpus.append(possible_cpus)

    def dead(self, place):
        if not self.dies.get(place):
            return False
        # The first line goes to the console. The other lines go to the kernel log, after the marker of this
        # cell, because a real console may be incomplete.
        text = self.dies[place].pop(0)
        half = text.find("\n") + 1
        earlier = f"{PANIC}softroce-vm: {place} begins\n" if place != "boot" else ""
        self.console.write_text(text[:half])
        (self.out / "kernel.log").write_text(earlier + text[half:])
        return True

    def events(self):
        if self.dead("boot"):
            return
        for line in (self.out / "plan").read_text().splitlines():
            name = line.split()[0]
            (self.out / name).mkdir()
            (self.out / name / "figures").write_text("".join(
                f"rounds:{c}-{s} {n} rounds\n" for n, (c, s) in enumerate(report.pairs())) if "all-all" in name else "")
            self.log.append(name)
            yield "begin", name
            if self.dead(name):
                return
            oops = self.oopses[name].pop(0) if self.oopses.get(name) else ""
            (self.out / name / "dmesg").write_text(oops)
            failed = name in self.bad or bool(oops)
            yield "end", name, 1 if failed else 0, 1.0, not failed
            if failed:
                return

    def stop(self):
        pass


def run(names, jobs, bad=(), dies=None, oopses=None):
    """Runs these cells and returns the content of results.json."""
    with tempfile.TemporaryDirectory() as work, mock.patch.object(runner, "Boot", FakeBoot):
        FakeBoot.bad, FakeBoot.log, FakeBoot.kernels, FakeBoot.possible_cpus = set(bad), [], [], []
        FakeBoot.dies, FakeBoot.oopses = dies or {}, oopses or {}
        work = pathlib.Path(work)
        lab = types.SimpleNamespace(work=work, images=IMAGES, programs=work, noise=work, programs_digest=lambda: "d",
                                    counted=False)
        options = argparse.Namespace(build_dir=work, fast=False, minutes=None, seconds=None, jobs=jobs, set=[],
                                     fabric="verbs", capture=False, verbose=False)
        roles = (cells.PEERS, cells.PEERS, ("on", "off"), (1, 2), ("on",))
        runner.Runner(lab, CASES, options, lambda text: None).run(cells.select(CASES, names, roles))
        return runner.load_results(work / "results.json")


class TestRuns:
    def test_every_cell_is_judged_once_despite_failures(self):
        bad = {"connect.kernel-kernel.on.1", "verify.urtrs-urtrs.off.2"}
        for jobs in (1, 3):
            results = run(["connect", "verify", "flush"], jobs, bad)
            assert len(results) == 48
            assert sorted(FakeBoot.log) == sorted(results)
            assert {name for name, result in results.items() if result["verdict"] == "fail"} == bad

    def test_passed_pairs_of_a_joint_cell_have_separate_results(self):
        results = run(["cut-heal"], 2)
        assert len(FakeBoot.log) == 2
        assert len(results) == 8
        assert results["cut-heal.urtrs-kernel.on.2"]["figures"] == {"rounds": [2.0, "rounds"]}

    def test_failed_joint_cell_is_split_into_its_pairs(self):
        results = run(["cut-heal"], 1, {"cut-heal.all-all.on.2", "cut-heal.urtrs-kernel.on.2"})
        assert len(FakeBoot.log) == 1 + 4 + 1
        assert [name for name, result in results.items() if result["verdict"] == "fail"] == ["cut-heal.urtrs-kernel.on.2"]
        assert len(results) == 8


EMULATOR = "[   41.0] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n[   41.0] RIP: 0010:sched_clock_cpu+0x1/0x20\n"
PANIC = "[   41.0] BUG: unable to handle page fault\n[   41.0] rxe_invalidate_mw+0x5/0x80 [rdma_rxe]\n"


class TestDeaths:
    """A cell whose guest dies in the emulator is run a second time. If the guest dies again, the cell fails and is not
    skipped."""
    CELL = "connect.kernel-urtrs.on.1"

    def verdicts(self, **how):
        return {name: result["verdict"] for name, result in run(["connect.kernel-urtrs.*"], 1, **how).items()}

    def test_cell_is_retried_after_its_guest_died(self):
        for console in (EMULATOR, ""):
            results = run(["connect.kernel-urtrs.*"], 1, dies={self.CELL: [console]})
            assert {result["verdict"] for result in results.values()} == {"pass"}
            assert FakeBoot.log.count(self.CELL) == 2
            assert [name for name, result in results.items() if "died" in result] == [self.CELL]
            assert "tried twice" in " ".join(report.outcome(name, result).reason for name, result in results.items())

    def test_cell_fails_if_its_guest_dies_twice(self):
        verdicts = self.verdicts(dies={self.CELL: [EMULATOR, EMULATOR, EMULATOR]})
        assert verdicts.pop(self.CELL) == "fail"
        assert (set(verdicts.values()), len(verdicts)) == ({"pass"}, 3)
        assert FakeBoot.log.count(self.CELL) == 2

    def test_panic_in_a_tested_module_fails_at_once(self):
        verdicts = self.verdicts(dies={self.CELL: [PANIC]})
        assert (verdicts[self.CELL], FakeBoot.log.count(self.CELL)) == ("fail", 1)

    def test_survived_emulator_oops_counts_as_a_death(self):
        assert set(self.verdicts(oopses={self.CELL: [EMULATOR]}).values()) == {"pass"}
        assert self.verdicts(oopses={self.CELL: [EMULATOR, EMULATOR]})[self.CELL] == "fail"
        assert self.verdicts(oopses={self.CELL: [PANIC]})[self.CELL] == "fail"

    def test_kernel_that_fails_to_boot_twice_fails_all_its_cells(self):
        assert set(self.verdicts(dies={"boot": [EMULATOR]}).values()) == {"pass"}
        for console in (EMULATOR, ""):
            verdicts = self.verdicts(dies={"boot": [console] * 9})
            assert (set(verdicts.values()), len(verdicts), FakeBoot.log) == ({"fail"}, 4, [])
            assert len(FakeBoot.kernels) == 2

    def test_boot_has_cells_of_one_kernel(self):
        results = run(["connect.kernel-urtrs.on.?", "connect.kernel-urtrs.on.?@6.1"], 1)
        assert FakeBoot.kernels == ["6.12", "6.1"]
        assert FakeBoot.possible_cpus == [2, 2]
        assert {name: result["kernel"] for name, result in results.items()} == {
            name: "6.1.99" if name.endswith("@6.1") else "6.12.99" for name in FakeBoot.log}

    def test_boot_has_cells_with_the_same_possible_cpus(self):
        run(["many-connections.kernel-urtrs.on.?@6.1", "poll-queues.kernel-urtrs.on.?@6.1"], 1)
        assert FakeBoot.possible_cpus == [256, 2]


class TestVerdicts:
    def test_exit_code_and_log_decide_the_verdict(self):
        assert judge(0) == ("pass", "", {"gap": [1.5, "s"]})
        assert judge(77, "[1.0] SKIP: no device\n")[:2] == ("skip", "no device")
        assert judge(1, "x\n[1.0] FAILED: data differs\ny\n")[:2] == ("fail", "data differs")
        verdict, reason, _ = judge(124, "[1.0] waits\n")
        assert (verdict, "not ready after" in reason and "waits" in reason) == ("fail", True)
        assert judge(254, why="the guest ended")[:2] == ("fail", "the guest ended")

    def test_kernel_warning_is_a_failure(self):
        verdict, reason, _ = judge(0, dmesg="[1.0] fine\n[1.1] WARNING: CPU: 0 PID: 1 at rxe.c:1\n")
        assert (verdict, "WARNING: CPU" in reason) == ("fail", True)
        assert judge(0, dmesg="[1.0] rtrs_client L10: Error: reconnect\n")[0] == "pass"

    def test_leftover_resources_are_a_failure(self):
        left = "left behind: module rtrs_server"
        assert judge(0, reset=left + "\n", clean=False)[:2] == ("fail", left)

    def test_known_deviation_applies_only_to_matching_cells(self):
        known = {"name": "the kernel forgets", "cases": "lose-.*", "shows": "data .*iffers", "client": "kernel"}
        verdict, reason, _ = judge(1, "FAILED: data differs\n", deviations=[known])
        assert (verdict, "the kernel forgets" in reason) == ("known", True)
        assert judge(1, "FAILED: no path\n", deviations=[known])[0] == "fail"
        assert judge(1, "FAILED: data differs\n", deviations=[dict(known, client="urtrs")])[0] == "fail"


class TestTables:
    def result(self, cell, verdict, **figures):
        return dict(runner.vars_of(cell), verdict=verdict, reason="why not" if verdict == "fail" else "", seconds=1.0,
                    figures={name: [value, "s"] for name, value in figures.items()}, commit="c", kernel="6.12",
                    when="2026-01-01 00:00")

    def test_document_update_changes_only_marked_parts(self):
        results = {}
        for invalidate, verdict, gap in (("on", "pass", 3.0), ("off", "pass", 4.0)):
            cell = cells.Cell("lose-both", "urtrs", "kernel", invalidate, 2)
            results[cell.name] = self.result(cell, verdict, lose_both_gap=gap)
        cell = cells.Cell("verify", "kernel", "urtrs", "on", 1)
        results[cell.name] = self.result(cell, "fail")
        document = (environment.ROOT / "docs/interop.md").read_text(encoding="utf-8")
        new = report.update(document, results, CASES)
        assert "| `verify` | · | ✗ · · · |" in new
        assert re.search(r"`poll-queues`[^|]* \| · \| · \|  \|  \|", new)
        assert "both directions lost: longest time without IO |  |  | -; 3.0–4.0 |" in new
        assert "`verify.kernel-urtrs.on.1`: fail: why not" in new
        assert report.update(new, results, CASES) == new
        assert new.splitlines()[0] == document.splitlines()[0]
        with pytest.raises(ValueError):
            report.update("no markers", results, CASES)

    def test_each_kernel_has_a_separate_table(self):
        cell = cells.Cell("verify", "urtrs", "kernel", "off", 1, kernel="6.1")
        results = {cell.name: self.result(cell, "fail")}
        assert "| `verify` | · | · | - - ✗ · | · |" in report.matrix(results, CASES, "6.1")
        assert "Left out: rtrs-server with always_invalidate on 6.1" in report.matrix(results, CASES, "6.1")
        assert re.search(r"`verify`[^|]* \| · \| · \| · \| · \|", report.matrix(results, CASES))
        document = (environment.ROOT / "docs/interop.md").read_text(encoding="utf-8")
        new = report.update(document, results, CASES, ["6.1"])
        assert "`verify.urtrs-kernel.off.1@6.1`: fail: why not" in new
        of_default = document.split("<!-- matrix begin -->")[1].split("<!-- matrix end -->")[0]
        assert of_default in new

    def test_cut_heal_table_has_a_row_per_passed_pair(self):
        names = ("rounds", "blocks", "noticed_least", "noticed_most", "healed_least", "healed_most")
        figures = {f"cut_heal_{name}": float(number) for number, name in enumerate(names, 9)}
        cell = cells.Cell("cut-heal", "urtrs", "kernel", "off", 2)
        good = dict(self.result(cell, "pass", **figures), duration=600)
        rows = report.cut_heal({cell.name: good}).splitlines()[2:]
        assert rows == ["| urtrs → kernel | off | 600 | 9 | 10 | 11.0–12.0 s | 13.0–14.0 s |"]
        assert len(report.cut_heal({cell.name: dict(good, verdict="fail")}).splitlines()) == 2

    def test_provenance_counts_the_builds(self):
        results = {}
        for number, (client, commit) in enumerate((("kernel", "a"), ("urtrs", "a"), ("urtrs", "b"), ("urtrs", "b"))):
            cell = cells.Cell("verify", client, "kernel", "on", number + 1)
            results[cell.name] = dict(self.result(cell, "pass"), commit=commit, when=f"2026-01-01 00:0{number}")
        assert "Builds of our programs: 2, the newest in 2 cell(s)" in report.provenance(results)
        marks = {cell.name: report.mark(results.get(cell.name), results) for cell in cells.select(
            CASES, ["verify"], (cells.PEERS, ("kernel",), ("on",), (1, 2, 3, 4), ("on",)))}
        assert [marks[f"verify.{pair}.on.{paths}"] for pair, paths in (
            ("kernel-kernel", 1), ("kernel-kernel", 2), ("urtrs-kernel", 2), ("urtrs-kernel", 3))] == ["✓", "·", "o", "✓"]

    def test_throughput_is_relative_to_the_kernel(self):
        cell = cells.Cell("throughput", "kernel", "kernel", "off", 1)
        figures = {"randread_4k:kernel-kernel": 800.0, "randread_4k:kernel-urtrs": 1000.0, "randread_4k:nvme": 400.0}
        table = report.throughput({cell.name: self.result(cell, "pass", **figures)})
        assert "| random reads of 4 KiB (real clock) | off | 800 | 1000 (1.25×) |  |  | 400 (0.50×) |" in table
        assert "64 KiB" not in table
