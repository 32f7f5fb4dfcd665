"""All output of urtrs-sim with --json, including errors, is one line that matches docs/schema/urtrs-sim.json."""
import json
import os
import re
import signal
import subprocess

import pytest
from programs import BOUND, ROOT, program, until

jsonschema = pytest.importorskip("jsonschema")

SIM = program("urtrs-sim")
SCHEMA = json.loads((ROOT / "docs/schema/urtrs-sim.json").read_text())
LOST = ["--scenario", "L01e", "--seed", "3", "--no-fence"]


def fits(text, part):
    assert text.endswith("\n") and text.count("\n") == 1, text
    answer = json.loads(text)
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{part}"}).validate(answer)
    return answer


def sim(part, *arguments, code=0):
    done = subprocess.run([SIM, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=2 * BOUND, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return fits(done.stdout, part)


def test_each_command_has_a_schema_part():
    text = subprocess.run([SIM, "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
    commands = re.findall(r"^  ([a-z]+)  ", text.partition("Subcommands:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(commands) == 11
    assert set(commands) <= set(SCHEMA["$defs"])
    for command in commands:
        help_text = subprocess.run([SIM, command, "--help"], capture_output=True, text=True, check=True, timeout=BOUND).stdout
        assert "  --json " in help_text, command


def test_output_of_run(tmp_path):
    assert sim("run", "run", "--seed", "3")["verdict"] == "ok"
    traces = sim("run", "run", "--seed", "3", "--trace", tmp_path / "w")["traces"]
    assert traces and all(os.path.exists(trace) for trace in traces)
    lost = sim("run", "run", *LOST, "--verbose", code=1)
    assert (lost["verdict"], lost["scenario"], lost["failure"]["oracle"]) == ("violated", "L01e", "O4")
    left = sim("run", "run", *LOST, "--artifacts", tmp_path / "found", code=1)["artifacts"]
    assert any(file.endswith(".html") for file in left)
    assert len(sim("runs", "run", "--scenario", "L01", "--seed", "3")["runs"]) > 5


def test_output_of_sweep_and_hash(tmp_path):
    sweep = sim("sweep", "sweep", "--seeds", "0..20", "--check-determinism", "50", "--replay-check")
    assert sweep["seeds"] == 20 and sweep["run_twice"] > 0 and sweep["traces_replayed"] > 0
    assert sum(sweep["faults"].values()) > 0 and any(mark["seeds"] for mark in sweep["marks"])
    result = sim("sweep", "sweep", "--seeds", "0..4", "--result", tmp_path / "r")
    assert result["result"] == str(tmp_path / "r") and result["failures"]["total"] == 0
    merged = sim("merge", "merge", tmp_path / "r", "--out", tmp_path / "m")
    ledger = ["--ledger", tmp_path / "l", "--html", tmp_path / "h"]
    assert sim("ledger", "ledger", "add", tmp_path / "m", *ledger)["sweeps"] == sim("ledger", "ledger", *ledger)["sweeps"] != []
    assert merged["seeds"] == "0..4" and merged["results"] == 1 and merged["seeds_per_process_s"] > 0
    assert "--seeds" in sim("sweep", "sweep", "--seeds", "0..10000000", "--time", "1s")["go_on"]
    assert sim("hash", "hash", "--seeds", "0..5")["hash"] == subprocess.run(
        [SIM, "hash", "--seeds", "0..5"], capture_output=True, text=True, check=True, timeout=BOUND).stdout.strip()


@pytest.mark.parametrize("number, code, verdict", [(signal.SIGSEGV, 5, "nondeterministic"), (signal.SIGINT, 130, "stopped")])
def test_output_of_an_interrupted_sweep(tmp_path, number, code, verdict):
    """A worker process is killed, or the whole sweep is stopped."""
    command = [SIM, "sweep", "--seeds", "0..100000000", "--jobs", "1", "--no-block-devices", "--traces", tmp_path, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        def children():
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                return file.read().split()
        worker = int(until("a worker", children)[0])
        os.kill(process.pid if number == signal.SIGINT else worker, number)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == code, err
    answer = fits(out, "sweep")
    assert answer["verdict"] == verdict
    if number == signal.SIGSEGV:
        assert answer["run"]["seed"] == int(answer["reproduce"].split("--seed ")[1])


def test_output_of_other_commands(tmp_path):
    assert sim("scenarios", "scenarios", "--only", "L01", "--seeds", "0..2")["failed"] == []
    assert sim("scenarios", "scenarios", "--only", "L01", "--seeds", "0..2", "--result", tmp_path / "r")["failures"]["total"] == 0
    failed = sim("scenarios", "scenarios", "--only", "L01e", "--seeds", "0..30", "--no-fence", code=1)["failed"]
    assert failed[0]["id"] == "L01e" and "--no-fence" in failed[0]["reproduce"]
    listed = sim("list", "list")
    assert {"O1", "O16"} <= {oracle["id"] for oracle in listed["oracles"]} and len(listed["scenarios"]) > 50
    assert "deliver" in sim("steps", "list", "--steps")["reference"]
    assert sim("coverage", "coverage", "--seeds", "0..3", code=1)["missing"] > 0
    assert "choice_log" not in sim("shrink", "shrink", "--seed", "3")
    small = sim("shrink", "shrink", *LOST, "--time", "2s", "--out", tmp_path / "small", code=1)
    assert sum(small["after"].values()) < sum(small["before"].values()) and os.path.exists(small["choice_log"])
    assert "points" not in sim("blame", "blame", "--seed", "3")
    blamed = sim("blame", "blame", *LOST, "--points", "8", "--redraws", "4", "--page", tmp_path / "page.html", code=1)
    assert blamed["step"]["rate_before"] < blamed["step"]["rate_after"] and os.path.exists(blamed["page"])
    searches = sim("explore", "explore", "--config", "small", "--out", tmp_path / "lost.json")["searches"]
    assert [search["fence"] for search in searches] == [True, False] and searches[1]["findings"]
    assert sim("replayed", "explore", "--replay", tmp_path / "lost.json", code=1)["broken"]


@pytest.mark.parametrize("words", [["frob"], ["run"], ["run", "--sed", "3"], ["sweep", "--seeds", "3..1"], ["run", "--choices", "/nonexistent"],
                                   ["run", "--scenario", "nosuch", "--seed", "3"], ["scenarios", "--file", "/nonexistent"],
                                   ["run", "--seed", "3", "--trace", "/nonexistent/w"], ["explore", "--config", "nosuch"],
                                   ["coverage", "--rare", "/nonexistent"], ["sweep", "--state", "/nonexistent/s"],
                                   ["sweep", "--result", "/nonexistent/r"], ["merge", "/nonexistent", "--out", "r"],
                                   ["ledger", "--ledger", "/nonexistent"], ["sweep", "--ledger", "/nonexistent"],
                                   ["blame"],
                                   ["blame", "--seed", "1", "--points", "1"]])
def test_usage_errors(words):
    error = sim("error", *words, code=2)["error"]
    assert error["code"] == "usage" and "urtrs-sim:" not in error["message"]


def test_help_and_version_are_text():
    for word in ("--help", "--version"):
        done = subprocess.run([SIM, "run", word, "--json"] if word == "--help" else [SIM, word, "--json"], capture_output=True, text=True,
                              timeout=BOUND, check=True)
        assert done.stdout.startswith(("play one seed", "urtrs-sim "))
