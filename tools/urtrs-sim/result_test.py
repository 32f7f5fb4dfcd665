"""`sweep --result` and `merge`: the sum of the parts of a range is the result of the whole range, byte for byte. A failure
or a crash of a seed does not end a part."""
import json
import os
import re
import signal
import subprocess

import pytest
from programs import BOUND, BUILD, program, until

SIM = program("urtrs-sim")
PLANTED = str(BUILD / "conformance/mutants/planted-urtrs-sim")
needs_bugs = pytest.mark.skipif(not os.path.exists(PLANTED), reason="needs planted-urtrs-sim")


def sim(*arguments, code=0, bug=None):
    environment = os.environ if bug is None else {**os.environ, "URTRS_MUTANT": bug}
    done = subprocess.run([SIM if bug is None else PLANTED, *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=2 * BOUND, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def part(folder, seeds, *options, **how):
    file = folder / f"{seeds}.json"
    sim("sweep", "--seeds", seeds, "--result", file, *options, **how)
    return file


def test_parts_add_up_to_the_whole(tmp_path):
    options = ["--check-determinism", "20"]
    whole = part(tmp_path, "10..130", "--jobs", "2", *options)
    parts = [part(tmp_path, seeds, "--jobs", jobs, *options) for seeds, jobs in (("10..11", 1), ("11..70", 3), ("70..130", 1))]
    out = tmp_path / "out"
    # The order of the parts does not matter, and a repeated part counts once.
    said = sim("merge", parts[2], parts[0], parts[1], parts[0], "--out", out)
    assert out.read_bytes() == whole.read_bytes()
    assert re.search(r"^[1-9][0-9]* seeds in .* seeds/s each$", said, re.MULTILINE) and "0 failures; result of seeds 10..130" in said
    # Sums of sums.
    first, other = tmp_path / "first", tmp_path / "other"
    sim("merge", parts[0], parts[1], "--out", first)
    sim("merge", first, parts[2], "--seeds", "10..130", "--out", other)
    assert other.read_bytes() == whole.read_bytes()
    read = json.loads(whole.read_text())
    assert read["hash"] == sim("hash", "--seeds", "10..130").strip()
    assert read["counts"]["seeds"] == 120 and 0 < read["counts"]["run_twice"] < 120
    assert any(mark["seeds"] > 1 and mark["first"] > 10 for mark in read["marks"])
    assert any(pair["name"] == "connected/connected" and pair["first"] == 10 for pair in read["pairs"])
    assert json.loads((tmp_path / "out.times").read_text())["seeds"] == 120


def test_repeated_part_has_the_same_bytes(tmp_path):
    file = part(tmp_path, "0..20", "--jobs", "1")
    before = file.read_bytes()
    file.write_text("left over from a task that was killed")
    assert part(tmp_path, "0..20", "--jobs", "3").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0..20.json", "0..20.json.times"]


@needs_bugs
@pytest.mark.parametrize("bug, options, rule, world", [
    ("M09", [], "O8", ""),
    ("M40", [], r"signal 6", ""),
    ("M11", [], r"signal 6", "BD24"),
])
def test_failures_are_grouped_and_do_not_end_the_sweep(bug, options, rule, world, tmp_path):
    whole = part(tmp_path, "0..96", "--jobs", "2", *options, code=1, bug=bug)
    parts = [part(tmp_path, "40..96", "--jobs", "3", *options, code=1, bug=bug)]
    file = tmp_path / "0..40.json"
    done = subprocess.run([PLANTED, "sweep", "--seeds", "0..40", "--jobs", "1", *options, "--result", file], capture_output=True, text=True,
                          timeout=2 * BOUND, check=False, env={**os.environ, "URTRS_MUTANT": bug})
    assert done.returncode in (0, 1), done
    out = tmp_path / "out"
    said = sim("merge", *parts, file, "--out", out, code=1)
    assert out.read_bytes() == whole.read_bytes()
    failures = json.loads(whole.read_text())["failures"]
    groups = [group for group in failures["groups"] if re.match(rule, group["rule"]) and group["world"] == world]
    assert groups, failures
    assert failures["total"] == sum(group["failures"] for group in failures["groups"])
    for group in failures["groups"]:
        assert group["seeds"] == sorted(set(group["seeds"])) and len(group["seeds"]) == min(8, group["failures"])
        assert re.search("[0-9]", group["place"]) is None
    again = re.search(r"reproduce: urtrs-sim (run .*?)  #", said)[1].split()
    repeated = subprocess.run([PLANTED, *again], capture_output=True, text=True, timeout=BOUND, check=False,
                              env={**os.environ, "URTRS_MUTANT": bug})
    assert repeated.returncode not in (0, 2), repeated


@needs_bugs
def test_parts_of_scenarios_add_up_to_the_whole(tmp_path):
    # A failing oracle, and a process that ends with a signal.
    for bug, only in (("M13", "R45,F12b"), ("M40", "L28i,TD08")):
        folder = tmp_path / bug
        folder.mkdir()

        def play(seeds, only=only, bug=bug, folder=folder):
            file = folder / seeds
            done = subprocess.run([PLANTED, "scenarios", "--only", only, "--seeds", seeds, "--result", file], capture_output=True, text=True,
                                  check=False, timeout=2 * BOUND, env={**os.environ, "URTRS_MUTANT": bug})
            assert done.returncode in (0, 1), done
            return file
        whole, parts = play("0..9"), [play("0..4"), play("4..9")]
        out = folder / "out"
        code = 1 if json.loads(whole.read_text())["failures"]["total"] else 0
        said = sim("merge", *parts, "--out", out, code=code)
        assert out.read_bytes() == whole.read_bytes()
        read = json.loads(whole.read_text())
        assert read["counts"]["seeds"] == 9 and read["counts"]["runs"] % 9 == 0 and read["counts"]["events"] > 0
        if code:
            again = re.search(r"reproduce: urtrs-sim (run --scenario .*?)  #", said)[1].split()
            assert subprocess.run([PLANTED, *again], capture_output=True, timeout=BOUND, check=False,
                                  env={**os.environ, "URTRS_MUTANT": bug}).returncode not in (0, 2)
    failing = [json.loads((tmp_path / bug / "0..9").read_text())["failures"]["total"] for bug in ("M13", "M40")]
    assert min(failing) > 2, "a scenario goes on after its first failure"
    said = sim("merge", tmp_path / "M40/0..4", "--seeds", "0..5", "--out", tmp_path / "gap", code=2)
    assert "urtrs-sim scenarios --only L28i,TD08 --seeds 4..5 --result 4..5.json" in said
    part(tmp_path, "4..6")
    assert "only results of one version and of the same options" in sim(
        "merge", tmp_path / "M40/0..4", tmp_path / "4..6.json", "--out", tmp_path / "gap", code=2)
    assert "--result excludes --no-fence" in sim("scenarios", "--only", "L01", "--no-fence", "--result", tmp_path / "r", code=2)


def test_output_of_an_earlier_merge_is_no_part(tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    for seeds in ("0..2", "2..4"):
        part(parts, seeds)
    out = parts / "all.json"
    sim("merge", parts / "0..2.json", parts / "2..4.json", "--out", out)
    before = out.read_bytes()
    part(parts, "4..5")
    for again in (sorted(parts.glob("*.json")), [parts]):
        assert f"{out} is the output of an earlier merge" in sim("merge", *again, "--out", out)
        assert json.loads(out.read_text())["seeds"] == "0..5" and out.read_bytes() != before
    # The output may be one of the parts, which the merged result then replaces.
    sim("merge", parts / "0..2.json", parts / "2..4.json", "--out", parts / "2..4.json")
    assert (parts / "2..4.json").read_bytes() == before
    # Nothing is lost if a part is missing.
    (parts / "0..2.json").unlink()
    (parts / "2..4.json").unlink()
    said = sim("merge", out, parts / "4..5.json", "--out", out, code=2)
    assert "has the seeds 0..5, and the other results only 4..5" in said and json.loads(out.read_text())["seeds"] == "0..5"


def test_missing_ranges_are_named_with_the_command_that_makes_them(tmp_path):
    parts = [part(tmp_path, seeds, "--without", "crash") for seeds in ("0..2", "3..4", "6..7")]
    out = tmp_path / "out"
    said = sim("merge", *parts, "--seeds", "0..9", "--out", out, code=2)
    assert "3 ranges of seeds missing" in said
    commands = re.findall(r"^  urtrs-sim (sweep .*)$", said, re.MULTILINE)
    assert [re.search(r"--seeds (\S+)", command)[1] for command in commands] == ["2..3", "4..6", "7..9"]
    assert not out.exists()
    for command in commands:
        subprocess.run([SIM, *command.split()], cwd=tmp_path, check=True, timeout=BOUND, stdout=subprocess.DEVNULL)
    sim("merge", tmp_path, "--seeds", "0..9", "--out", out)
    assert out.read_bytes() == part(tmp_path, "0..9", "--without", "crash").read_bytes()


def test_results_that_do_not_fit_are_refused(tmp_path):
    one, out = part(tmp_path, "0..4"), tmp_path / "out"
    other = tmp_path / "other"
    text = part(tmp_path, "4..8").read_text()

    def refused(changed, *words):
        assert changed != text
        other.write_text(changed)
        said = sim("merge", one, other, "--out", out, code=2)
        assert all(word in said for word in words) and not out.exists(), said
    refused(text.replace('"version": "urtrs-sim ', '"version": "urtrs-sim of old '), "only results of one version")
    refused(re.sub("--check-determinism [0-9]+", "--check-determinism 6", text), "has options", "--check-determinism 6")
    refused(text.replace('"4..8"', '"3..8"'), "overlap", "0..4 and 3..8")
    refused(one.read_text().replace('"requests": ', '"requests": 1'), "different results of the seeds 0..4")
    refused(text.replace('"block_worlds"', '"worlds"'), "do not fit")
    refused(re.sub(r'"events": [0-9]+', f'"events": {2**64 - 1}', text), "do not fit")
    other.unlink()
    (tmp_path / "0..4.json.times").write_text("x")
    assert "it has no times" in sim("merge", one, "--out", out, code=2)


def test_damaged_files_are_refused(tmp_path):
    out, file = tmp_path / "out", part(tmp_path, "0..4")
    text = file.read_text()
    group = '{"rule": "O4", "place": "", "world": "", "failures": 1, "seeds": [9], "seen": ""}'
    for damaged in ("", "{}", "[1]", "[" * 100000, text[:-9], text.replace('"0..4"', '"4..0"'), text.replace('"0..4"', '"00..4"'),
                    text.replace('"total": 0', '"total": -1'), text.replace('"total": 0', '"total": 1'),
                    text.replace('"groups": []', f'"groups": [{group}]').replace('"total": 0', '"total": 1'),
                    re.sub(r'"hash": "[0-9a-f]', '"hash": "g', text), text.replace('"worlds": ""', '"worlds": "; reboot"'),
                    re.sub(r'"seeds": 4,', '"seeds": 5,', text), re.sub(r'"first": [0-9]+', '"first": 4', text, count=1)):
        assert damaged != text
        file.write_text(damaged)
        assert "it is not a result of urtrs-sim" in sim("merge", file, "--out", out, code=2), damaged[:300]
    file.write_text(text.replace('"schema_version": 1', '"schema_version": 2'))
    assert "another format" in sim("merge", file, "--out", out, code=2)
    assert "No such file" in sim("merge", tmp_path / "missing", "--out", out, code=2)
    assert "larger than" in sim("merge", "/dev/zero", "--out", out, code=2)
    (tmp_path / "empty").mkdir()
    assert "no file *.json" in sim("merge", tmp_path / "empty", "--out", out, code=2)
    assert not out.exists()


def test_wrong_use_of_result(tmp_path):
    for option in (["--state", "s"], ["--time", "1s"], ["--artifacts", tmp_path / "a"]):
        assert f"--result excludes {option[0]}" in sim("sweep", "--seeds", "0..4", "--result", tmp_path / "r", *option, code=2)
    assert "cannot write" in sim("sweep", "--seeds", "0..4", "--result", tmp_path / "missing/r", code=2)
    assert not (tmp_path / "r").exists()
    # A file that cannot be replaced is reported before the seeds are run.
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path, tmp_path / "pipe"):
        said = sim("sweep", "--seeds", "0..4", "--result", file, code=2)
        assert "cannot write" in said and "seeds/s" not in said
    assert (tmp_path / "pipe").is_fifo()


def test_result_is_the_same_with_histories(tmp_path):
    one = part(tmp_path, "0..9")
    before = one.read_bytes()
    assert part(tmp_path, "0..9", "--histories", tmp_path / "histories").read_bytes() == before
    (tmp_path / "other.json").symlink_to("pipe")
    os.mkfifo(tmp_path / "pipe")  # reading it would never end
    sim("merge", tmp_path, "--out", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize("number, code, said", [(signal.SIGTERM, 143, "no result was written, run the same command again"),
                                                (signal.SIGKILL, 5, "not when the seed was run again; there is no result")])
def test_no_result_of_an_incomplete_sweep(number, code, said, tmp_path):
    """The sweep is stopped, or something that is not the seed kills a worker."""
    file = tmp_path / "r"
    with subprocess.Popen([SIM, "sweep", "--seeds", "0..100000000", "--jobs", "2", "--result", file], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        def workers():
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
                return children.read().split()
        victim = int(until("two workers", lambda: len(workers()) == 2 and workers())[0])
        os.kill(process.pid if number == signal.SIGTERM else victim, number)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == code and said in err, out + err
    assert list(tmp_path.iterdir()) == []
