"""Length of files and functions, and text rules such as leftover markers."""

import re

from source import Finding, blanked, is_code

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# The words are split so that this file passes its own check.
_LEFTOVERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
_NOT_A_FUNCTION = re.compile(r"(^|[\s;}])(namespace|class|struct|union|enum|extern)\b[^()]*$")
_CONTROL = re.compile(r"\b(if|for|while|switch|catch)\s*(constexpr\s*)?$")


def text_findings(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield Finding(path, number, "trailing space")
        if _LEFTOVERS.search(line):
            yield Finding(path, number, f"{_LEFTOVERS.search(line).group(1)}: do it or leave it out")
        if is_code(path) and "\t" in line:
            yield Finding(path, number, "tab")
    if text and not text.endswith("\n"):
        yield Finding(path, text.count("\n") + 1, "no newline at the end of the file")
    if path.endswith(".hpp") and "#pragma once" not in text:
        yield Finding(path, 1, "header without #pragma once")
    lines = text.count("\n")
    if path.endswith((".hpp", ".cpp", ".py", ".cmake")) and lines > MAX_FILE_LINES:
        yield Finding(path, lines, f"{lines} lines, at most {MAX_FILE_LINES}: split the file by reason for being")


def _without_directives(code):
    """Blanks preprocessor lines with their continuations, because braces of a macro body need not balance."""
    pattern = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), code)


def _name(head):
    """Returns the name before the first parenthesis at depth zero; for a test macro, the macro with its arguments."""
    macro = re.search(r"\b((?:TYPED_)?TEST(?:_[FP])?|RC_GTEST_\w+|BENCHMARK_\w+)\s*\(([^)]*)\)\s*$", head)
    if macro:
        return f"{macro.group(1)}({re.sub(chr(92) + 's+', ' ', macro.group(2).strip())})"
    pattern = r"((?:[\w~]+\s*(?:<[^()]*>)?\s*::\s*)*(?:operator\s*[^\s(]+|operator\s*\(\s*\)|~?\w+))\s*\("
    names = [re.sub(r"\s+", "", name) for name in re.findall(pattern, head)]
    return next((name for name in names if name not in ("requires", "decltype", "noexcept", "alignas")), None)


def _opens_function(head):
    """Returns True if a `{` after this text starts a function body, and not a type, a namespace or an initialiser."""
    if "(" not in head or _NOT_A_FUNCTION.search(head):
        return False
    stripped = head.rstrip()
    if re.search(r"[=,]$", stripped) or _CONTROL.search(stripped.split("(")[0]):
        return False
    # `Type name{` and `: member_{x}` end in an identifier without a parameter list before it.
    tail = stripped[stripped.rfind(")") + 1:]
    after_parameters = r"\s*(const|noexcept|override|final|mutable|&&?|try|->[\s\w:<>,&*]+|requires[^{]*|\s)*"
    return bool(re.fullmatch(after_parameters, tail))


_TABLE_LINE = re.compile(
    r"\s*(switch \(.*\) \{|case [^;{}]*|default:|(case [^;{}]*:|default:)?\s*return [^{}]*;|\}|using enum [^;]*;)?\s*")


def _is_table(body):
    """Returns True if a function is a switch that only maps enumerators to values. Such a switch grows with
    its enum, and splitting it would not make it clearer."""
    return all(_TABLE_LINE.fullmatch(line) for line in body.split("\n"))


def functions(text):
    """Yields (name, first line, number of lines) of each outermost function body; a table counts as one line."""
    code = _without_directives(blanked(text))
    depth, body_depth, start, name, body_line, body_start = 0, None, 0, None, 0, 0
    for position, character in enumerate(code):
        if character == "{":
            if body_depth is None:
                head = code[start:position]
                if _opens_function(head):
                    body_depth, name, body_start = depth, _name(head) or "?", position + 1
                    body_line = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
            depth += 1
            if body_depth is None:
                start = position + 1
        elif character == "}":
            depth -= 1
            if body_depth is not None and depth == body_depth:
                lines = code.count("\n", 0, position) + 2 - body_line
                yield name, body_line, 1 if _is_table(code[body_start:position]) else lines
                body_depth = None
            if body_depth is None:
                start = position + 1
        elif character == ";" and body_depth is None:
            start = position + 1


def read_ratchet(text):
    """Parses lines `path function lines`; `#` starts a comment."""
    entries = {}
    for line in text.split("\n"):
        words = line.split("#")[0].split()
        if words:
            entries[(words[0], " ".join(words[1:-1]))] = int(words[-1])
    return entries


def function_findings(path, text, ratchet):
    if not is_code(path):
        return
    longest = {}
    for name, line, lines in functions(text):
        if lines >= longest.get(name, (0, 0))[0]:
            longest[name] = (lines, line)
    for name, (lines, line) in sorted(longest.items()):
        granted = ratchet.pop((path, name), None)
        limit = granted or MAX_FUNCTION_LINES
        if lines > limit:
            yield Finding(path, line, f"{name} has {lines} lines, at most {limit}")
        elif granted and lines < granted:
            yield Finding(path, line, f"{name} shrank to {lines} lines: lower its entry in long_functions.txt")
