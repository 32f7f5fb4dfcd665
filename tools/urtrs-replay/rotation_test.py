"""The files of one rotation are one trace for every verb, and each of them is judged from its snapshots."""

import json
import os
import shutil
import subprocess

import pytest

from programs import TRACES, program

PROGRAM = program("urtrs-replay")
CLIENT = os.path.join(TRACES, "seed-420-client1.rtrc")
SERVER = os.path.join(TRACES, "seed-420-server.rtrc")
FILES = 4


def run(*arguments, code=0, stdin=None):
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, input=stdin, timeout=120, check=False)
    assert result.returncode == code, (arguments, result.returncode, result.stderr)
    return result.stderr if code in (2, 3) else result.stdout


def events(text):
    """Returns the records of cat --json, without the numbers that depend on the file."""
    return [{**one, "seq": 0} for one in map(json.loads, text.splitlines()) if "event" in one]


@pytest.fixture
def rotated(tmp_path):
    """Divides a trace into the files of a rotation. A recorder also writes snapshots, which no test here needs."""
    head, *lines = run("cat", CLIENT, "--json").splitlines()
    lines = [line for line in lines if '"event"' in line]
    for part in range(FILES):
        header = json.loads(head)
        header["trace"]["flags"] = 1 if part else 0
        if part:
            header["trace"]["start"] = 12345  # the first file has no record yet when its header is written
        number = FILES - 1 - part
        name = tmp_path / ("run.rtrc" + (f".{number}" if number else ""))
        some = lines[part * len(lines) // FILES:(part + 1) * len(lines) // FILES]
        some = [json.dumps({**json.loads(line), "seq": seq}) for seq, line in enumerate(some)]
        body = "\n".join([json.dumps(header), *some]) + "\n"
        run("from-json", "-", str(name), stdin=body)
        end = {"records": len(some), "chain_hash": json.loads(run("stat", str(name), "--json", code=5))["chain_hash"]}
        os.unlink(name)
        run("from-json", "-", str(name), stdin=body + json.dumps({"end": end}) + "\n")
    return tmp_path / "run.rtrc"


def test_every_verb_reads_the_files_as_one_trace(rotated, tmp_path):
    name = f"{rotated}.*"
    assert events(run("cat", name, "--json")) == events(run("cat", CLIENT, "--json"))
    assert "identical" in run("replay", name)
    assert run("grep", name, "--event", "Complete", "-c") == run("grep", CLIENT, "--event", "Complete", "-c")
    assert run("seq", name).split("\n")[2:] == run("seq", CLIENT).split("\n")[2:]
    assert run("stat", name, "--json").replace(name, "") != ""
    assert "no difference" in run("diff", CLIENT, name)
    assert run("check", name, SERVER).splitlines()[-1] == run("check", CLIENT, SERVER).splitlines()[-1]
    assert "\nB " in run("merge", name, SERVER)
    for verb in (("pcap", "-o"), ("min", "--rerun", "--out")):
        run(verb[0], name, *verb[1:], str(tmp_path / verb[0]))


def test_files_given_one_by_one_are_ordered(rotated):
    files = [f"{rotated}.1", str(rotated), f"{rotated}.3", f"{rotated}.2"]
    assert events(run("cat", *files, "--json")) == events(run("cat", CLIENT, "--json"))
    assert "expected one trace" in run("cat", CLIENT, SERVER, code=2)


def test_missing_file_is_named(rotated):
    os.unlink(f"{rotated}.2")
    for verb in ("cat", "check", "seq", "replay"):
        assert f"{rotated}.2 is missing between {rotated}.3 and {rotated}.1" in run(verb, f"{rotated}.*", code=2)
    assert "no file has this name" in run("cat", f"{rotated}x.*", code=2)


def test_file_of_another_run_is_refused(rotated):
    shutil.copy(SERVER, f"{rotated}.4")
    assert f"{rotated}.3 does not continue {rotated}.4: it is of another run" in run("cat", f"{rotated}.*", code=2)
    shutil.move(f"{rotated}.3", f"{rotated}.4")
    shutil.copy(f"{rotated}.1", f"{rotated}.3")
    said = run("cat", f"{rotated}.*", code=2)
    assert f"{rotated}.2 does not continue {rotated}.3: it begins before the end of that file" in said


def test_damaged_file_is_named(rotated):
    os.truncate(f"{rotated}.2", os.path.getsize(f"{rotated}.2") - 40)
    result = subprocess.run([PROGRAM, "replay", f"{rotated}.*"], capture_output=True, text=True, check=False)
    assert result.returncode == 5
    assert f"{rotated}.2, byte " in result.stderr


@pytest.mark.parametrize("verb", ["check", "seq", "replay"])
def test_input_that_breaks_the_core_ends_with_its_record(tmp_path, verb):
    """A request is submitted to a session that has no path, in what looks like a dump of a ring."""
    head, *lines = run("cat", CLIENT, "--json").splitlines()
    header = json.loads(head)
    header["trace"]["flags"] = 2
    lines = [json.loads(line) for line in lines]
    kept = [next(one for one in lines if one.get("event") == event) for event in ("BeginClient", "Submitted")]
    kept = [json.dumps({**one, "seq": seq}) for seq, one in enumerate(kept)]
    dump = str(tmp_path / "dump.rtrc")
    run("from-json", "-", dump, stdin="\n".join([json.dumps(header), *kept]) + "\n")
    done = subprocess.run([PROGRAM, verb, dump], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "urtrs-replay: the core stopped in record 1"), done
