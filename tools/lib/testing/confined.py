#!/usr/bin/env python3
"""Runs a command as Docker would run it with --userns-remap, --read-only and the default seccomp profile:

    confined.py [--host=NAME] [--no-groups] FOLDER COMMAND...

The command runs as user 1000 and group 1000 of a user namespace, as process 1 of a PID namespace, on a host called NAME
(default: web). Without --no-groups it also has the supplementary group GROUP. /proc is not mounted, every file system
except FOLDER is read-only, and the io_uring calls fail with EPERM. Needs root."""
import ctypes
import os
import signal
import struct
import sys

FIRST_ID = 100000  # number that the host uses for user 0 of the namespace
USER = 1000
GROUP = 4242
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000
_RDONLY, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_SETATTR = -100, 0x8000, 442
_IO_URING = range(425, 428)


def _check(result):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _mount(source, target, kind, flags):
    _check(_LIBC.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), None))


def _read_only_but(folder):
    _mount(None, "/", None, _REC | _PRIVATE)
    attributes = struct.pack("=4Q", 1, 0, 0, 0)
    _check(_LIBC.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes))))
    _mount(os.fsencode(folder), folder, None, _BIND)
    _mount(None, folder, None, _REMOUNT | _BIND)
    _mount(b"none", "/proc", b"tmpfs", _RDONLY)


def _refuse_io_uring():
    load, jump_if_equal, give = 0x20, 0x15, 0x06
    program = [struct.pack("=HBBI", load, 0, 0, 0)]
    for place, number in enumerate(_IO_URING):
        program.append(struct.pack("=HBBI", jump_if_equal, len(_IO_URING) - place, 0, number))
    program.append(struct.pack("=HBBI", give, 0, 0, 0x7fff0000))
    program.append(struct.pack("=HBBI", give, 0, 0, 0x00050000 | 1))
    text = ctypes.create_string_buffer(b"".join(program))
    filter_of_it = struct.pack("@HP", len(program), ctypes.addressof(text))
    _check(_LIBC.prctl(38, 1, 0, 0, 0))
    _check(_LIBC.prctl(22, 2, filter_of_it, 0, 0))


def _inside(groups, command):
    os.setgroups(groups)
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    _refuse_io_uring()
    os.execvp(command[0], command)


def _wait(child):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(child, number))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _namespace(mapped, groups, command):
    """Runs in the child of main(): creates the namespaces, waits until main() has mapped the users, starts process 1
    and waits for its exit."""
    _check(_LIBC.unshare(_NEWUSER | _NEWPID))
    mapped[0].write("\n")
    mapped[0].close()
    if not mapped[1].readline():
        return 1
    child = os.fork()
    if child == 0:
        _inside(groups, command)
    return _wait(child)


def main(arguments):
    host, groups = "web", [GROUP]
    while arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--no-groups":
            groups = []
        else:
            host = option.removeprefix("--host=")
    folder, *command = arguments
    _check(_LIBC.unshare(_NEWNS | _NEWUTS | _NEWIPC))
    _check(_LIBC.sethostname(host.encode(), ctypes.c_size_t(len(host))))
    (unshared, tells), (may_go, goes) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(unshared)
        os.close(goes)
        with os.fdopen(tells, "w", encoding="ascii") as tell, os.fdopen(may_go, encoding="ascii") as wait:
            return _namespace((tell, wait), groups, command)
    os.close(tells)
    os.close(may_go)
    os.read(unshared, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
            file.write(f"0 {FIRST_ID} 65536")
    _read_only_but(folder)
    os.write(goes, b"\n")
    return _wait(child)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
