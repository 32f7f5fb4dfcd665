"""Archive of frequently started programs, which the guest unpacks into its memory when it boots.

In emulation each access to the host's file system takes milliseconds, and starting a program needs hundreds of them.
"""
import pathlib
import random
import re
import shutil
import subprocess
import tarfile

# Size in bytes. Larger libraries are left out of the archive, because the guest reads only small parts of
# them, and only once.
LARGEST = NOISE = 8 << 20
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
STARTED = ("awk", "basename", "bash", "blkdiscard", "blockdev", "chmod", "cmp", "cp", "cut", "dd", "dmesg", "du", "e2fsck",
           "env", "fio", "fstrim", "head", "ip", "iptables", "kill", "kmod", "losetup", "ls", "mkfs.ext4", "mount",
           "nbd-client", "nbdkit", "ps", "python3", "rdma", "sed", "setsid", "sha256sum", "sort", "sync", "tail", "timeout",
           "touch", "tr", "truncate", "umount", "uniq", "wc")
# Files that these programs read: the library cache, drivers of libibverbs, extensions of iptables for "-i DEVICE -j
# DROP".
READ = ("/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/mke2fs.conf", "/etc/libibverbs.d/*",
        "/usr/lib/*/libibverbs/*.so", "/usr/lib/*/xtables/libxt_standard.so")
# Prints the files of the Python modules that the scripts of the guest (guest/bin) import.
PYTHON = "import json, mmap, os, random, statistics, sys, time\n" \
         "for module in list(sys.modules.values()):\n" \
         "    for name in (getattr(module, '__file__', None), getattr(module, '__cached__', None)):\n" \
         "        if name: print(name)"


def _chain(path):
    """Yields every symbolic link from the path to the file, and the file. Directories are resolved, such as /lib to
    /usr/lib."""
    path = pathlib.Path(path)
    while True:
        path = path.parent.resolve() / path.name
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _libraries(programs):
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    return set(re.findall(r"(/\S+) \(0x", done.stdout))


def files(programs, more):
    """Returns all files of the archive, including `more` and the files below it. Missing files are left out."""
    programs = [path for path in programs if path.exists()]
    programs += [found for name in STARTED if (found := shutil.which(name, path=PATH))]
    first = [*programs, *_libraries(programs), *more, *(path for folder in more for path in folder.rglob("*"))]
    for pattern in READ:
        first += pathlib.Path("/").glob(pattern[1:])
    python = shutil.which("python3", path=PATH)
    first += subprocess.run([python, "-c", PYTHON], capture_output=True, text=True, check=False).stdout.splitlines()
    wanted = {path for name in first for path in _chain(name)}
    return sorted(path for path in wanted if path.is_symlink() or path.is_file() and path.stat().st_size <= LARGEST)


def make_noise(target):
    """Writes random test data for the cases, because the guest needs 1 s to generate 4 MiB."""
    target.write_bytes(random.Random(1).randbytes(NOISE))


def pack(target, programs, more):
    """Writes the archive; its paths are absolute, without the leading slash."""
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in files(programs, more):
            archive.add(path, str(path)[1:], recursive=False)
