"""Each manual page of the build contains the complete help of its program."""
import gzip
import re
import shutil
import subprocess
import sys

import pytest
from programs import BOUND, BUILD, ROOT, program

PAGES = BUILD / "docs/man"
TOOLS = {"urtrsd.8": "urtrsd", "urtrs-sim.1": "urtrs-sim", "urtrs-replay.1": "urtrs-replay", "urtrs-perf.1": "urtrs-perf",
         "urtrs-conform.1": "urtrs-conform", "urtrs.1": "urtrs", "urtrs-fs.1": "urtrs-fs", "urtrs-mapd.8": "urtrs-mapd"}
ALL = [*TOOLS, "urtrs.toml.5", "urtrs-protocol.7", "nbdkit-urtrs.1"]


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=BOUND).stdout


def words(text):
    """Returns the text without escapes of roff and of the formatter."""
    text = re.sub(r"\\f\[\w*\]|\\&|\\\|", "", text).replace(r"\-", "-").replace(r"\[dq]", '"').replace(r"\[aq]", "'")
    text = re.sub(r"\\\[(ha|ti|ga|rs|at)\]", lambda name: {"ha": "^", "ti": "~", "ga": "`", "rs": "\\", "at": "@"}[name[1]], text)
    return re.sub(r"\s+", " ", text)


def page(name):
    return words(gzip.open(PAGES / f"{name}.gz", "rt", encoding="utf-8").read())


def helps(path):
    text = output(path, "--help")
    if "--help-all" in text:
        text = output(path, "--help-all")
    yield text
    for match in re.finditer(r"^  (\w[\w-]*)", text.partition("Subcommands:\n")[2].partition("\n\n")[0], re.MULTILINE):
        yield output(path, match[1], "--help")


def said(text):
    """Yields names and descriptions of options and arguments, one line each."""
    section = None
    for line in text.split("\n"):
        if line in ("Positionals:", "Options:", "Subcommands:"):
            section = line
        elif not line:
            section = None
        elif section:
            yield words(line)


@pytest.mark.parametrize("name", TOOLS)
def test_each_line_of_help_is_in_the_page(name):
    whole = page(name)
    missing = [part for text in helps(program(TOOLS[name])) for line in said(text) for part in re.split(r"  +", line.strip())
               if part and not all(word in whole for word in part.split())]
    assert missing == []
    options = {option for text in helps(program(TOOLS[name])) for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)}
    assert options and [option for option in options if option not in whole] == []


def test_each_setting_is_in_the_page():
    whole = page("urtrs.toml.5")
    table = output(BUILD / "tools/urtrsd/config/print_settings").splitlines()
    assert len(table) > 20
    for line in table:
        key, expected, default, meaning = line.split("\t")
        assert f"{key} = <{expected}>" in whole
        assert words(meaning) in whole
        assert not default or f"Default: {default}." in whole


def test_each_parameter_of_the_plugin_is_in_the_page():
    whole = page("nbdkit-urtrs.1")
    parameters = re.findall(r"^[a-z_]+=", output(BUILD / "tools/nbdkit/nbdkit-urtrs", "--help"), re.MULTILINE)
    assert "queue_timeout=" in parameters
    assert [parameter for parameter in parameters if parameter not in whole] == []


def test_each_heading_of_the_protocol_is_in_the_page():
    whole = page("urtrs-protocol.7").replace("`", "")
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs/protocol.md").read_text(), re.MULTILINE)
    assert len(headings) > 20
    assert [one for one in headings if words(one.replace("`", "")) not in whole] == []


def test_each_command_of_urtrs_has_its_help_in_the_page():
    whole = page("urtrs.1")
    for command in ("session list", "path disconnect", "doctor", "trace"):
        lines = output(program("urtrs"), *command.split(), "--help").splitlines()[:-1]
        assert [line for line in lines if words(line).strip() not in whole] == [], command


@pytest.mark.parametrize("name", ALL)
def test_the_formatter_has_nothing_to_complain_about(name):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    text = gzip.open(PAGES / f"{name}.gz").read()
    done = subprocess.run(["groff", "-man", "-t", "-Tutf8", "-wmac", "-z", "-rLL=80n", "-Kutf8"], input=text, check=False,
                          capture_output=True, timeout=BOUND)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_an_option_that_only_the_page_lacks_is_found(tmp_path):
    """A page changes when the help changes."""
    liar = tmp_path / "liar"
    liar.write_text("#!/bin/sh\nprintf 'About.\\nUsage: liar [OPTIONS]\\n\\nOptions:\\n"
                    "  --new-option TEXT           what is new\\n                              and long\\n"
                    "  --another-long-option=<one of a, b>\\n                              what is below\\n\\nExit codes: 0 fine.\\n'\n")
    liar.chmod(0o755)
    made = output(sys.executable, ROOT / "docs/man/man_page.py", ROOT / "docs/man/urtrs-perf.1.md", liar)
    assert "**\\-\\-new\\-option TEXT**\n:   what is new and long\n" in made
    assert "**\\-\\-another\\-long\\-option\\=\\<one of a\\, b\\>**\n:   what is below\n" in made
    assert "# EXIT STATUS\n\n0 fine\\.\n" in made
