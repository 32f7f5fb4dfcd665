#!/usr/bin/env python3
"""Fills a template of a manual page from the help of a program, and prints Markdown for pandoc.

Usage: man_page.py TEMPLATE [PROGRAM]...
  TEMPLATE  Markdown with lines such as <!-- options -->, which are replaced.
            From `PROGRAM --help`, or `PROGRAM --help-all` if it exists:
              synopsis    usage
              options     arguments and options, and those of each subcommand
              notes       text after the options: examples, notes and exit codes
            From `PROGRAM --help` of an nbdkit plugin:
              parameters  parameters of the plugin
            From the output of the program print_settings:
              settings    keys, ranges, defaults and descriptions
            From `urtrs COMMAND --help`, for each command:
              commands    help of all commands
            Without a program, relative to the template:
              include FILE
"""

import pathlib
import re
import subprocess
import sys

_PLACE = re.compile(r"^<!-- ([a-z]+)(?: (\S+))? -->\n", re.MULTILINE)
_HELP_COLUMN = 30  # kHelpColumn of tools/lib/text/help_text.hpp
_PARAMETER_COLUMN = 10  # continuation lines of a plugin parameter are indented by this


def escaped(text):
    return re.sub(r"([^\w\s])", r"\\\1", text)


def definition(term, text):
    return f"**{escaped(term)}**\n:   {escaped(text)}\n\n"


def verbatim(lines):
    return "".join(f"    {line}\n" for line in lines) + "\n"


def whole_help(command):
    text = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout
    if "--help-all" not in text or command[1:]:
        return text
    return subprocess.run([*command, "--help-all"], check=True, capture_output=True, text=True).stdout


class Help:
    """Help of a program: usage, then sections of entries, then lines of text."""

    def __init__(self, command):
        lines = whole_help(command).rstrip("\n").split("\n")
        first = next(at for at, line in enumerate(lines) if line.startswith("Usage: "))
        self.command, self.about = command, " ".join(lines[:first])
        # Further usage lines are indented like the first one.
        end = next(at for at, line in enumerate(lines[first + 1:] + [""], first + 1) if not line.startswith("       "))
        self.usages = [line[len("Usage: "):] for line in lines[first:end]]
        self.sections, self.notes, entries = {}, [], None
        for line in lines[end:]:
            if self.notes or (entries is None and line and line not in ("Positionals:", "Options:", "Subcommands:")):
                self.notes.append(line)
            elif line in ("Positionals:", "Options:", "Subcommands:"):
                entries = self.sections.setdefault(line.rstrip(":"), [])
            elif not line:
                entries = None
            elif line.startswith("  ") and line[2] != " ":
                # At least two spaces precede the description; after a longer name, it starts in the next line.
                fits = line[_HELP_COLUMN - 2:_HELP_COLUMN].strip() == ""
                entries.append([line[2:_HELP_COLUMN].rstrip(), line[_HELP_COLUMN:].strip()] if fits else [line[2:], ""])
            else:  # continuation of the description, or its start after a long name
                entries[-1][1] = f"{entries[-1][1]} {line.strip()}".strip()

    def entries(self, section):
        return "".join(definition(*entry) for entry in self.sections.get(section, []))

    def subcommands(self):
        """Returns (names, help) of each subcommand. The first name is called; the others are aliases."""
        return [(name, Help([*self.command, name.split(",")[0]])) for name, _ in self.sections.get("Subcommands", [])]


def notes_of(lines):
    """Splits the notes into sections. Examples follow a line `Example:` or `Examples:`; `Exit codes:` starts another
    section."""
    parts, block, examples = {"EXAMPLES": "", "NOTES": "", "EXIT STATUS": ""}, [], []
    for line in [*lines, ""]:
        if line.startswith("  ") and block and re.match(r"\d", block[0]):
            block.append(line.strip())
        elif line.startswith("  ") or re.fullmatch(r"Examples?:", line):
            examples += [line[2:]] if line.startswith("  ") else []
        elif line.startswith("Exit codes: "):
            parts["NOTES"] += escaped("\n".join(block)) + "\n\n" if block else ""
            block = [line.removeprefix("Exit codes: ")]
        elif line:
            block.append(line)
        elif block:
            exits = re.match(r"\d", block[0]) is not None
            parts["EXIT STATUS" if exits else "NOTES"] += escaped("\n".join(block)) + "\n\n"
            block = []
    parts["EXAMPLES"] = verbatim(examples) if examples else ""
    return parts


def synopsis(program):
    helps = [Help([program])]
    helps += [one for _, one in helps[0].subcommands()]
    return "".join(f"**{escaped(usage)}**\n\n" for one in helps for usage in one.usages)


def options(program):
    whole = Help([program])
    text = whole.entries("Positionals") + whole.entries("Options")
    subcommands = whole.subcommands()
    if subcommands:
        text += "# COMMANDS\n\n"
    for name, one in subcommands:
        text += f"## {escaped(name)}\n\n{escaped(one.about)}.\n\n" + one.entries("Positionals") + one.entries("Options")
        if one.notes != whole.notes:
            parts = notes_of(one.notes)
            exits = parts["EXIT STATUS"]
            text += parts["NOTES"] + parts["EXAMPLES"] + (f"Exit status: {exits}" if exits else "")
    return text


def notes(program):
    return "".join(f"# {name}\n\n{text}" for name, text in notes_of(Help([program]).notes).items() if text)


def commands(program):
    """Returns the help of each command. The command ends before its arguments: capitals, brackets, or the keywords of `trace`."""
    text = ""
    for term, _ in Help([program]).sections["Positionals"]:
        words = re.match(r"[a-z]+(?: (?!start|dump FILE)[a-z]+){0,2}(?= |$)", term)[0].split()
        lines = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout.split("\n")
        text += f"## {escaped(' '.join(words))}\n\n" + verbatim(lines[:-2])
    return text


def parameters(program):
    text = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    entries = []
    for line in text.split("\n"):
        if re.match(r"[a-z_]+=", line):
            entries.append(re.split(r"  +", line, maxsplit=1))
        elif entries and line.startswith(" " * _PARAMETER_COLUMN):
            entries[-1] = [entries[-1][0], " ".join([*entries[-1][1:], line.strip()])]
    return "".join(definition(entry[0], " ".join(entry[1:])) for entry in entries)


def settings(program):
    table = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    text = ""
    for key, expected, default, meaning in (line.split("\t") for line in table.splitlines()):
        text += definition(f"{key} = <{expected}>", meaning + "." + (f" Default: {default}." if default else ""))
    return text


def main():
    template, programs = pathlib.Path(sys.argv[1]), sys.argv[2:]
    fill = {"synopsis": synopsis, "options": options, "notes": notes, "parameters": parameters, "settings": settings,
            "commands": commands}

    def part(match):
        if match[1] == "include":
            return (template.parent / match[2]).read_text(encoding="utf-8")
        return fill[match[1]](programs[0])
    print(_PLACE.sub(part, template.read_text(encoding="utf-8")), end="")


if __name__ == "__main__":
    main()
