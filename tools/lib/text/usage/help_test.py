"""The help of every program and of each of its commands is ASCII, at most 80 columns wide, and fits on a screen."""
import pathlib
import re
import subprocess

import pytest
from programs import BOUND, program

PROGRAMS = [name for name in ("urtrsd", "urtrs", "urtrs-sim", "urtrs-replay", "urtrs-perf", "urtrs-conform", "urtrs-mapd",
                              "urtrs-fs") if pathlib.Path(program(name)).exists()]
COLUMNS = 80
LINES = 50


def said(name, *words):
    done = subprocess.run([program(name), *words], capture_output=True, timeout=BOUND, check=True)
    assert done.stderr == b"", (name, words)
    return done.stdout.decode("ascii")


def commands(name):
    """Yields the words to put before --help: none, each command, and each noun of urtrs."""
    yield ()
    if name == "urtrs":
        entries = said(name, "--help-all").partition("Positionals:\n")[2].partition("\n\n")[0]
        whole = re.findall(r"^  ([a-z]+(?: (?!start|dump FILE)[a-z]+){0,2})(?= |$)", entries, re.MULTILINE)
        found = {tuple(command.split()) for command in whole}
        yield from sorted(found | {command[:-1] for command in found if len(command) > 1})
    else:
        entries = said(name, "--help").partition("Subcommands:\n")[2].partition("\n\n")[0]
        yield from ((command,) for command in re.findall(r"^  ([a-z][\w-]*)", entries, re.MULTILINE))


def too_wide(text):
    return [line for line in text.splitlines() if len(line) > COLUMNS]


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_fits_a_screen(name):
    texts = {words: said(name, *words, "--help") for words in commands(name)}
    assert len(texts) >= {"urtrs": 50, "urtrs-sim": 8, "urtrs-replay": 13}.get(name, 1)
    assert {words: too_wide(text) for words, text in texts.items() if too_wide(text)} == {}
    long = {words: len(text.splitlines()) for words, text in texts.items() if len(text.splitlines()) > LINES}
    assert long == {}
    assert all(text.endswith("\n") and "\n\n\n" not in text for text in texts.values())


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "--help-all" in said(name, "--help")])
def test_help_all_has_more_options_than_help(name):
    short = said(name, "--help")
    whole = said(name, "--help-all")
    assert too_wide(whole) == []
    options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", short))
    assert options < set(re.findall(r"(?<![\w-])--[a-z][\w-]*", whole))


# Topics of "help TOPIC" for each program: an option, or a command with one of its options.
TOPICS = {"urtrsd": ["port"], "urtrs-sim": ["sweep", "seeds"], "urtrs-replay": ["cat", "last"], "urtrs-perf": ["--port"],
          "urtrs-conform": ["baseline"], "urtrs-mapd": ["state", "queue_timeout"], "urtrs-fs": ["--socket"]}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name in TOPICS])
def test_help_topic_shows_only_that_topic(name):
    assert said(name, "help") == said(name, "--help")
    for topic in TOPICS[name]:
        text = said(name, "help", topic)
        if (topic,) in commands(name):
            assert text == said(name, topic, "--help")
        else:
            assert topic in text and len(text.splitlines()) < 12, text
            assert text.startswith(("  -", "of ")) or "=" in text.split()[0], text
    wrong = subprocess.run([program(name), "help", "nosuchthing"], capture_output=True, text=True, timeout=BOUND, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "nosuchthing" in wrong.stderr and wrong.stderr.count("\n") == 1
