#!/usr/bin/env python3
"""Copies the public headers and every header that they include, and rewrites the includes for applications:
"core/driver/client.hpp" becomes <urtrs/core/driver/client.hpp>. A public header that was moved is also installed at its
old path, where it includes the new one.

Usage: install_headers.py SOURCE DESTINATION BACKEND...
  SOURCE       root of the source tree; cmake/public_headers.txt lists the public headers
  DESTINATION  the folder `urtrs` of an include path; its previous content is removed
  BACKEND      copy the public headers of this backend; other headers below backends/ are left out
"""

import pathlib
import re
import shutil
import sys

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)"([^"\n]+)"', re.MULTILINE)
_PRIVATE = re.compile(r"(^|/)test_|_test\.|_impl\.")


def public_headers(source, backends):
    """Yields each public header with its former path, or None."""
    for line in (source / "cmake/public_headers.txt").read_text().splitlines():
        name, _, before = line.split("#")[0].strip().partition(" was ")
        if name and (not name.startswith("backends/") or name.split("/")[-2] in backends):
            yield name, before or None


def needed(source, roots):
    """Returns path -> text for the roots and for all headers that they include directly or indirectly."""
    found, todo = {}, [(name, "cmake/public_headers.txt") for name in roots]
    while todo:
        name, user = todo.pop()
        if name in found:
            continue
        if _PRIVATE.search(name) or not (source / name).is_file():
            sys.exit(f"install_headers: {user} needs {name}, which is private or does not exist")
        found[name] = (source / name).read_text()
        todo += [(target, name) for _, target in _INCLUDE.findall(found[name])]
    return found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    source, destination, backends = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    public = dict(public_headers(source, backends))
    headers = needed(source, public)
    headers.update((before, f'#pragma once\n// Moved; this file goes with the next release.\n#include "{name}"\n')
                   for name, before in public.items() if before)
    shutil.rmtree(destination, ignore_errors=True)
    for name, text in headers.items():
        file = destination / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_INCLUDE.sub(r"\1<urtrs/\2>", text))


if __name__ == "__main__":
    main()
