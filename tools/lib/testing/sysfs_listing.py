#!/usr/bin/python3
"""sysfs_listing.py SYSFS LISTING [ROOT...]: compares the attributes below SYSFS with a listing of those of Linux.

Prints each difference: a file that is missing or not in the listing, another mode, another format, another errno of a
write. With ROOT, for example class/rtrs-server, only files below it are compared; without ROOT, all files.
The writes that succeed are done last, in the order of the listing, because some of them remove the file that is
written.
"""
import errno
import os
import pathlib
import re
import stat
import sys
import time
import tomllib

BOUND = 60  # maximum time in seconds to wait until a file that an earlier write removed exists again
PAUSE = 0.1
NET = "10.1.0."  # address prefix in the listing; read_listing() replaces all occurrences, including those in texts to be written


def pattern_of(path):
    """Returns the pattern of a path in which a star stands for one or more characters of a name."""
    return re.compile("".join("[^/]+" if part == "*" else re.escape(part) for part in re.split(r"(\*)", path)))


def read_listing(path, net=NET):
    """Returns the files of the listing, and patterns of the entries that every Linux device has. Addresses are moved to
    the network `net`."""
    listing = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8").replace(NET, net))
    return listing["file"], [pattern_of(path) for path in listing["driver_core"]]


def is_below(path, roots):
    return not roots or any(path == root or path.startswith(root + "/") for root in roots)


def entries(sysfs, listed):
    """Returns all paths below the folders in which the listing has files, relative to sysfs. The links directly in a
    class folder are followed."""
    tops = sorted({"/".join(path.split("/")[:2 if path.startswith("class/") else 3]) for path in listed})
    found = []

    def walk(folder, follow):
        for entry in sorted(folder.iterdir()):
            is_folder = stat.S_ISDIR((entry.stat() if follow else entry.lstat()).st_mode)
            if is_folder:
                walk(entry, False)
            else:
                found.append(str(entry.relative_to(sysfs)))

    for top in tops:
        for folder in sorted(sysfs.glob(top)):
            walk(folder, top.startswith("class/"))
    return found


def write(path, text):
    """Writes the text. Returns the name of the errno with which opening or writing failed, or OK."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "OK"


def shape(sysfs, listed, driver_core):
    """Yields the differences of presence, mode and contents."""
    found = entries(sysfs, [file["path"] for file in listed])
    patterns = [(file, pattern_of(file["path"])) for file in listed]
    for file, pattern in patterns:
        if not any(pattern.fullmatch(path) for path in found):
            yield f"{file['path']}: missing"
    for path in found:
        of = next((file for file, pattern in patterns if pattern.fullmatch(path)), None)
        if of is None:
            if not any(pattern.fullmatch(path) for pattern in driver_core):
                yield f"{path}: not in the listing"
            continue
        kind = os.lstat(sysfs / path)
        if of.get("link", False) != stat.S_ISLNK(kind.st_mode):
            yield f"{path}: {'not ' if of.get('link') else ''}a link"
        elif not of.get("link"):
            if stat.S_IMODE(kind.st_mode) != of["mode"]:
                yield f"{path}: mode {stat.S_IMODE(kind.st_mode):04o}, not {of['mode']:04o}"
            text = (sysfs / path).read_text(encoding="utf-8")
            if not re.fullmatch(of["format"], text):
                yield f"{path}: reads {text!r}, not as {of['format']}"


def first(sysfs, path):
    """Waits for a file that matches `path` and returns the first one; None if there is none within BOUND."""
    end = time.monotonic() + BOUND
    while True:
        found = sorted(sysfs.glob(path))
        if found or time.monotonic() > end:
            return found[0] if found else None
        time.sleep(PAUSE)


def answers(sysfs, file, texts):
    for text, expected in texts:
        path = first(sysfs, file["path"])
        if path is None:
            yield f"{file['path']}: gone before {text!r} is written"
            return
        answer = write(path, text)
        if answer != expected:
            yield f"{path.relative_to(sysfs)}: writing {text!r} ends with {answer}, not {expected}"


def differences(sysfs, listing, roots=(), net=NET):
    """Yields the differences from the listing, one sentence each."""
    sysfs = pathlib.Path(sysfs)
    files, driver_core = read_listing(listing, net)
    listed = [file for file in files if is_below(file["path"], roots)]
    yield from shape(sysfs, listed, driver_core)
    for file in listed:
        yield from answers(sysfs, file, file.get("refused", []))
    for file in listed:
        yield from answers(sysfs, file, [(text, "OK") for text in file.get("accepted", [])])


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    found = list(differences(arguments[0], arguments[1], arguments[2:]))
    print("\n".join(found) if found else "as listed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
