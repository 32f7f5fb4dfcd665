"""Prepares packages, kernel modules and our programs on this machine. They are created once and reused."""
import hashlib
import os
import pathlib
import shutil
import subprocess

from labs import ROOT, Unavailable

from . import kernels, quick, unpacked
from .tools import GUEST, HERE, run, which

PROGRAMS = {  # program -> package
    "qemu-system-x86_64": "qemu-system-x86", "cpio": "cpio", "modprobe": "kmod", "xz": "xz-utils", "make": "make",
    "gcc": "gcc", "strip": "binutils", "rdma": "iproute2", "ip": "iproute2", "iptables": "iptables", "tcpdump": "tcpdump", "fio": "fio",
    "nbdkit": "nbdkit", "nbd-client": "nbd-client", "mkfs.ext4": "e2fsprogs", "pkill": "procps", "gzip": "gzip"}
LIBRARIES = ("rdma-core", "ibverbs-providers", "librdmacm1", "libibverbs1", "busybox-static")

UNDER_TEST = ("tools/urtrsd/urtrsd", "tools/nbdkit/nbdkit-urtrs-plugin.so")
REPLAY = "tools/urtrs-replay/urtrs-replay"  # runs on the host; replays the traces of the tested programs
TARGETS = {"nbdkit-urtrs-plugin.so": "nbdkit-urtrs-plugin"}  # program -> CMake target, if its name differs


def missing_packages(wanted):
    missing = {package for program, package in PROGRAMS.items() if not which(program)}
    for package in LIBRARIES:
        state = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True,
                               check=False).stdout
        if state != "installed":
            missing.add(package)
    for kernel in wanted:
        missing.update(kernels.missing_packages(kernel))
    return sorted(missing)


def install_packages(wanted, say, log):
    if not which("dpkg-query"):
        raise Unavailable("not a Debian system; the lab needs Debian's kernels with their source")
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"]
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if os.geteuid() != 0:
        apt = ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive", *apt]
    try:
        missing = missing_packages(wanted)
    except Unavailable:
        # Updates the package lists, which may be missing or outdated.
        subprocess.run([*apt, "update"], stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False)
        missing = missing_packages(wanted)
    if not missing:
        return
    if os.geteuid() != 0 and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0:
        raise Unavailable("packages are missing and this is not root; install them once:\n  apt-get install "
                          "--no-install-recommends " + " ".join(missing))
    say(f"installing {' '.join(missing)} (log: {log})")
    try:
        subprocess.run([*apt, "update"], stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False)
        run([*apt, "install", "--no-install-recommends", *missing_packages(wanted)], log, env=environment)
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"packages cannot be installed: {error}") from error


class Lab:
    """Files that guests with these kernels need."""

    def __init__(self, work, names, say, demanded=True):
        """If `demanded` is False, an unavailable kernel of another Debian release is not an error: `without` has the
        reason."""
        self.work = work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        wanted = [kernels.KERNELS[name] for name in names]
        install_packages(wanted, say, self.work / "packages.log")
        self.images, self.without = {}, {}
        for kernel in wanted:
            try:
                self.images[kernel.name] = kernels.prepare(self.work, kernel, say)
            except Unavailable as error:
                if demanded or not kernel.release:
                    raise
                self.without[kernel.name] = str(error)
                say(f"without Linux {kernel.name}: {error}")
        self.programs = self.work / "programs"
        self.quick = self.work / "quick.tar"
        self.noise = self.work / "noise"
        self.counted = False  # True: the clock of the guest counts instructions

    def unpack_tools(self, names, say):
        """Unpacks missing programs from packages of the same name. A case is skipped if its program is still
        missing."""
        for name in sorted(name for name in names if not which(name)):
            try:
                unpacked.unpack_here(self.work / "unpacked" / name, name, self.work / "packages.log")
            except Unavailable as error:
                say(str(error))

    def build_programs(self, build_dir, programs, say):
        """Builds these programs in a build directory. A directory without CMakeCache.txt is used as it is."""
        build_dir = pathlib.Path(build_dir)
        if not programs:
            return
        if build_dir.resolve() == ROOT / "build/release" and not (build_dir / "CMakeCache.txt").exists():
            say(f"configuring {build_dir}")
            run(["cmake", "-S", ROOT, "--preset", "release"], self.work / "build.log")
        if (build_dir / "CMakeCache.txt").exists():
            targets = sorted(TARGETS.get(os.path.basename(name), os.path.basename(name)) for name in programs)
            say(f"building {' '.join(targets)} in {build_dir}")
            run(["cmake", "--build", build_dir, "-j", str(os.cpu_count()), "--target", *targets], self.work / "build.log")
        missing = sorted(name for name in programs if not (build_dir / name).exists())
        if missing:
            raise Unavailable(f"not in {build_dir}: {', '.join(missing)}; give --build-dir a build directory of urtrs")

    def take_programs(self, build_dir, programs):
        """Copies our programs without symbols: the guest loads them ten times as fast, and the build directory may
        change."""
        shutil.rmtree(self.programs, ignore_errors=True)
        in_guest = sorted(set(programs) - {REPLAY})
        for name in in_guest:
            target = self.programs / name
            target.parent.mkdir(parents=True, exist_ok=True)
            run(["strip", "-o", target, pathlib.Path(build_dir) / name], self.work / "programs.log")
            target.chmod(0o755)
        quick.make_noise(self.noise)
        quick.pack(self.quick, [self.programs / name for name in in_guest],
                   [self.noise, GUEST, HERE / "cases", *(image.modules for image in self.images.values())])

    def programs_digest(self):
        """Returns a digest that identifies the programs under test."""
        digest = hashlib.sha256()
        for name in UNDER_TEST:
            if (self.programs / name).exists():
                digest.update((self.programs / name).read_bytes())
        return digest.hexdigest()[:12]
