"""A namespace belongs to one folder, so that its name tells where its code is."""

import re

from source import Finding

# Namespaces that span several folders, and these folders. Each other namespace belongs to one folder of
# core/, tools/lib/, ...
SHARED = {
    "rtrs": ("core/base", "core/driver", "core/fabric", "core/proto", "core/record"),
    "rtrs::tcp": ("core/tcp", "backends/tcp"),
    "rtrs::trace": ("core/record", "tools/lib/trace"),
    "rtrs::sim": ("sim",),
    "rtrs::conformance": ("conformance",),
    "rtrs::tools": ("tools/lib",),
}

# Skips a namespace that begins with a using-declaration, because the declaration only keeps an old name.
_NAMESPACE = re.compile(r"^namespace (rtrs[\w:]*) \{\n(?!using )", re.MULTILINE)


def folder_of(path):
    """Returns the first two levels of the path, for example core/wire; three levels below tools/lib and tools/dev."""
    levels = 3 if path.startswith(("tools/lib/", "tools/dev/")) else 2
    return "/".join(path.split("/")[:-1][:levels])


def owner_of(namespace):
    """Returns the namespace that must have one folder: rtrs::wire for rtrs::wire::rnbd; rtrs for rtrs::test, the test helpers."""
    return "::".join(part for part in namespace.split("::")[:2] if part != "test")


def findings(sources):
    """Yields the findings for sources (path -> text). Skips the namespaces of single test files, for example
    rtrs::sim::world_test."""
    first, found = {}, set()
    for path, text in sorted(sources.items()):
        for match in _NAMESPACE.finditer(text):
            owner, folder = owner_of(match.group(1)), folder_of(path)
            if match.group(1).endswith("_test") or (owner, folder) in found:
                continue
            folders = SHARED.get(owner) or (first.setdefault(owner, folder),)
            if not any(path.startswith(other + "/") for other in folders):
                found.add((owner, folder))
                yield Finding(path, text.count("\n", 0, match.start()) + 1,
                              f"namespace {owner} is in {folder} and in {', '.join(folders)}: give one of them its own")
