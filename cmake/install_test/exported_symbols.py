#!/usr/bin/env python3
"""exported_symbols.py SOVERSION DIRECTORY HEADER: checks the shared libraries of a build. They export only namespace
rtrs, have a SONAME, and need no library of another component. The library for C exports exactly the functions of its
header."""

import pathlib
import re
import subprocess
import sys

# Demangled names of type information, tables and thunks have a prefix before the name of their type or function.
_OURS = re.compile(r"((typeinfo( name)?|vtable|VTT|construction vtable|guard variable) for "
                   r"|(non-virtual|virtual) thunk to )?rtrs::")
# Library -> a symbol that the library must export, and libraries that it must not depend on.
_LIBRARIES = {
    "liburtrs.so": ("rtrs::Client::open(", ("libfabric", "libibverbs", "librdmacm", "libboost", "libfmt")),
    "liburtrs-libfabric.so": ("rtrs::ofi::open_ofi_fabric(", ("libibverbs", "libboost")),
    "liburtrs-tcp.so": ("rtrs::tcp::open_tcp_fabric(", ("libfabric", "libibverbs", "librdmacm", "libboost")),
    "liburtrs-verbs.so": ("rtrs::verbs::open_verbs_fabric(", ("libfabric", "libboost")),
    "liburtrs-c.so": ("urtrs_session_new", ("libfabric", "libibverbs", "librdmacm", "libboost", "libfmt", "libssl")),
}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def declared(header):
    """Returns the functions that a C header declares."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(urtrs_\w+)\(", text))


def problems_of_c(names, header):
    missing, more = declared(header) - set(names), set(names) - declared(header)
    yield from (f"does not export {name}, which its header declares" for name in sorted(missing))
    yield from (f"exports {name}, which its header does not declare" for name in sorted(more))


def problems_of(library, soversion, header):
    must_have, must_not_need = _LIBRARIES[library.name]
    # Each line of nm ends with NAME@@VERSION. The version itself is listed as an absolute symbol (kind A).
    symbols = [line.split(None, 2) for line in output_of("nm", "-D", "-C", "--defined-only", library).splitlines()]
    names = [name.partition("@@")[0] for _, kind, name in symbols if kind != "A"]
    unversioned = [name for _, kind, name in symbols if kind != "A" and f"@@URTRS_{soversion}" not in name]
    if library.name == "liburtrs-c.so":
        yield from problems_of_c(names, header)
    else:
        yield from (f"exports {name}, which is not of namespace rtrs" for name in names if not _OURS.match(name))
    yield from (f"exports {name} without a version" for name in unversioned)
    if not any(name.startswith(must_have) for name in names):
        yield f"does not export {must_have}"
    dynamic = output_of("readelf", "-d", "-W", library)
    if f"Library soname: [{library.name}.{soversion}]" not in dynamic:
        yield f"has no SONAME {library.name}.{soversion}"
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if needed.startswith(must_not_need):
            yield f"needs {needed}"


def main():
    soversion, folder, header = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    libraries = sorted(folder.glob("*.so"))
    for name in ("liburtrs.so", "liburtrs-c.so"):
        if folder / name not in libraries:
            sys.exit(f"exported_symbols: {folder} has no {name}")
    failed = False
    for library in libraries:
        for problem in problems_of(library, soversion, header):
            print(f"{library.name} {problem}")
            failed = True
    print(f"exported_symbols: {', '.join(library.name for library in libraries)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
