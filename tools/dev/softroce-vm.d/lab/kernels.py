"""Kernels that a guest can run: their packages, rtrs and rnbd modules, and initial file systems."""
import dataclasses
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from . import rnbd22, unpacked
from labs import Unavailable

from .tools import GUEST, run, which

DEFAULT = "6.12"
HOST = pathlib.Path("/")  # the root directory of this machine


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str
    series: str  # version series in the names of Debian's packages
    counted: bool  # True: the clock of the guest counts instructions
    edit: object = None  # Python module that patches the source of the kernel modules
    siw: bool = False  # True: also build software iWARP (siw), which Debian's kernel lacks
    release: str = ""  # Debian release whose backports have this kernel, which is unpacked and not installed


KERNELS = {kernel.name: kernel for kernel in (
    Kernel(DEFAULT, "6.12", True, siw=True),
    Kernel("6.1", "6.1", False),
    Kernel("6.12-rnbd2.2", "6.12", True, rnbd22),
    Kernel("7.3", "7.3", True, release="trixie"),
)}
GUEST_MODULES = {  # module -> parameters
    "9p": "", "9pnet_virtio": "", "virtio_pci": "", "overlay": "", "veth": "", "rdma_rxe": "", "ib_uverbs": "",
    "rdma_ucm": "", "loop": "", "nbd": "nbds_max=4 max_part=0", "nft_compat": "", "x_tables": ""}


def version_pattern(series):
    """Returns a pattern for the versions of a series: for 6.1 it matches 6.1.0-56-amd64, but not 6.12.117+deb12-amd64 or
    6.1.0-56-rt-amd64."""
    return rf"{re.escape(series)}\.\d+([-+][0-9a-z]+)?-amd64"


def newest(versions):
    return max(versions, key=lambda text: [int(n) for n in re.findall(r"\d+", text)], default=None)


def versions_with_both(series, names):
    """Returns the versions of the series for which `names` has both linux-image-VERSION and linux-headers-VERSION."""
    found = {}
    for name in names:
        match = re.fullmatch(rf"linux-(image|headers)-({version_pattern(series)})", name)
        if match:
            found.setdefault(match[2], set()).add(match[1])
    return [version for version, kinds in found.items() if len(kinds) == 2]


def installed(series):
    """Returns the newest version of the series that is installed with image and headers; None if there is none."""
    names = [f"linux-image-{path.name.removeprefix('vmlinuz-')}" for path in pathlib.Path("/boot").glob("vmlinuz-*")]
    return newest(versions_with_both(series, names + [path.name for path in pathlib.Path("/usr/src").iterdir()]))


def packages(series):
    """Returns the image and headers packages of the newest version in the package lists; [] if there are none."""
    found = subprocess.run(["apt-cache", "search", "--names-only", rf"^linux-(image|headers)-{re.escape(series)}\."],
                           capture_output=True, text=True, check=False).stdout
    version = newest(versions_with_both(series, [line.split()[0] for line in found.splitlines() if line.split()]))
    return [f"linux-{kind}-{version}" for kind in ("image", "headers")] if version else []


def missing_packages(kernel):
    """Returns the packages to install for this kernel. Raises Unavailable if the package lists have no such kernel."""
    missing = []
    if kernel.release:
        return missing
    source = f"linux-source-{kernel.series}"
    if not pathlib.Path(f"/usr/src/{source}.tar.xz").exists():
        missing.append(source)
    if installed(kernel.series) is None:
        found = packages(kernel.series)
        if not found:
            raise Unavailable(f"the package lists have no kernel {kernel.series} with both image and headers; "
                              "apt-get update, or leave it out with --kernel")
        missing += found
    return missing


RTRS, RNBD = "drivers/infiniband/ulp/rtrs", "drivers/block/rnbd"


def _extract(archive, source, log):
    source.mkdir(parents=True)
    run(["tar", "-xf", archive, "-C", source, "--strip-components=1", "--wildcards", f"*/{RTRS}/*", f"*/{RNBD}/*"], log)


def _make(version, source):
    """Returns the commands that build rtrs and rnbd from the source in this directory."""
    make = ["make", "-C", f"/usr/src/linux-headers-{version}", f"-j{os.cpu_count()}", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    return [[*make, f"M={source}/{RTRS}", "CONFIG_INFINIBAND_RTRS=m", "CONFIG_INFINIBAND_RTRS_CLIENT=m",
             "CONFIG_INFINIBAND_RTRS_SERVER=m", "modules"],
            [*make, f"M={source}/{RNBD}", "CONFIG_BLK_DEV_RNBD=y", "CONFIG_BLK_DEV_RNBD_CLIENT=m",
             "CONFIG_BLK_DEV_RNBD_SERVER=m", f"KBUILD_EXTRA_SYMBOLS={source}/{RTRS}/Module.symvers",
             f"KCFLAGS=-I{source}/{RTRS}", "modules"]]


def _keep_modules(source, target, log):
    new = target.parent / f"{target.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for module in (*(source / RTRS).glob("*.ko"), *(source / RNBD).glob("*.ko")):
        run(["strip", "--strip-debug", "-o", new / module.name, module], log)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(new, target)


def build_modules(work, kernel, version, say):
    """Builds rtrs and rnbd, which Debian's kernels lack, from Debian's kernel source. Returns the folder of the
    modules."""
    target = work / "modules" / version
    if kernel.edit:
        digest = hashlib.sha256(repr(kernel.edit.CHANGES).encode()).hexdigest()[:12]
        target = work / "modules" / f"{version}-{kernel.name}-{digest}"
    if (target / "rnbd-client.ko").exists():
        return target
    say(f"building the kernel's rtrs and rnbd modules for {target.name}")
    source, log = work / "source" / kernel.name, work / f"modules-{kernel.name}.log"
    shutil.rmtree(source, ignore_errors=True)
    _extract(f"/usr/src/linux-source-{kernel.series}.tar.xz", source, log)
    if kernel.edit:
        kernel.edit.edit(source)
    for command in _make(version, source):
        run(command, log)
    _keep_modules(source, target, log)
    return target


def unpacked_version(work, kernel):
    """Returns the version of the kernel that was unpacked and built in this work directory, or None."""
    found = [path.name for path in (work / "unpacked" / kernel.name / "lib/modules").glob("*")]
    return next((version for version in found if (work / "modules" / version / "rnbd-client.ko").exists()), None)


def unpack(work, kernel, say):
    """Unpacks the kernel of another Debian release and builds rtrs and rnbd with the compiler of that release."""
    log = work / f"modules-{kernel.name}.log"
    say(f"unpacking Linux {kernel.series} of {kernel.release}-backports and building its rtrs and rnbd (log: {log})")
    suite = unpacked.Suite(work / "suites" / kernel.release, kernel.release, log)
    suite.prepare()
    names = [name.replace("linux-binary-", "linux-image-")
             for name in suite.search(rf"^linux-(binary|headers)-{re.escape(kernel.series)}\.")]
    version = newest(versions_with_both(kernel.series, names))
    if version is None:
        raise Unavailable(f"{kernel.release}-backports has no Linux {kernel.series}; leave it out with --kernel")
    flavour = version.removesuffix("-amd64")
    packages = [f"linux-{part}" for part in (f"base-{version}", f"binary-{version}", f"modules-{version}", f"headers-{version}",
                                            f"headers-{flavour}-common", f"kbuild-{flavour}", f"source-{kernel.series}")]
    root = work / "suites" / kernel.name
    shutil.rmtree(root, ignore_errors=True)
    suite.unpack(suite.fetch(packages) + suite.fetch_all(unpacked.COMPILER), root)
    suite.forget_files()
    _extract(root / f"usr/src/linux-source-{kernel.series}.tar.xz", root / "lab", log)
    suite.run_in(root, "\n".join(map(shlex.join, _make(version, "/lab"))))
    _keep_modules(root / "lab", work / "modules" / version, log)
    run([which("depmod"), "-b", root / "usr", version], log)
    target = work / "unpacked" / kernel.name
    shutil.rmtree(target, ignore_errors=True)
    (target / "lib/modules").mkdir(parents=True)
    os.replace(root / "usr/lib/modules" / version, target / "lib/modules" / version)
    shutil.rmtree(root)
    return version


def build_siw(work, kernel, version, modules, say):
    """Builds software iWARP (siw) and puts it into the folder of the other modules."""
    target = modules / "siw.ko"
    if not kernel.siw or target.exists():
        return
    say(f"building the kernel's siw module for {version}")
    source, log = work / "source" / f"{kernel.name}-siw", work / f"modules-{kernel.name}-siw.log"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    folder = "drivers/infiniband/sw/siw"
    run(["tar", "-xf", f"/usr/src/linux-source-{kernel.series}.tar.xz", "-C", source, "--strip-components=1", "--wildcards",
         f"*/{folder}/*"], log)
    run(["make", "-C", f"/usr/src/linux-headers-{version}", f"-j{os.cpu_count()}", f"M={source / folder}",
         "CONFIG_RDMA_SIW=m", "modules"], log)
    new = work / "siw.ko.new"
    run(["strip", "--strip-debug", "-o", new, source / folder / "siw.ko"], log)
    os.replace(new, target)


def build_initrd(work, version, root, say):
    """Builds the initial file system: busybox, the modules to mount the host's root directory, and guest/init. `root`
    contains lib/modules of the kernel."""
    said = f"{version} {root} {GUEST_MODULES}"
    digest = hashlib.sha256(said.encode() + (GUEST / "init").read_bytes()).hexdigest()[:12]
    target = work / f"initrd-{digest}.gz"
    if target.exists():
        return target
    say(f"building the initial file system of the guest for {version}")
    files = work / "initrd"
    shutil.rmtree(files, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "modules"):
        (files / folder).mkdir(parents=True)
    shutil.copy(which("busybox"), files / "bin/busybox")
    for name in ("sh", "mount", "insmod", "ln", "mkdir", "sed", "chroot", "sleep", "tar"):
        (files / "bin" / name).symlink_to("busybox")
    shutil.copy(GUEST / "init", files / "init")
    order = _copy_modules(version, root, files / "modules")
    (files / "load-order").write_text("".join(f"{name} {GUEST_MODULES.get(name.removesuffix('.ko'), '')}\n" for name in order))
    (files / "more-modules").write_text("" if root == HOST else f"{root}/lib/modules/{version}\n")
    subprocess.run("find . | cpio -o -H newc 2>/dev/null | gzip -1 > " + str(target) + ".new", shell=True, cwd=files, check=True)
    os.replace(f"{target}.new", target)
    return target


def _copy_modules(version, root, target):
    """Copies GUEST_MODULES and their dependencies, decompressed. Returns their names in load order."""
    order = []
    for module in GUEST_MODULES:
        lines = subprocess.run([which("modprobe"), "-d", root, "-S", version, "--show-depends", module], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        for words in map(str.split, lines):
            if words[0] != "insmod" or words[1] in order:
                continue
            order.append(words[1])
            plain = target / os.path.basename(words[1]).removesuffix(".xz")
            if words[1].endswith(".xz"):
                plain.write_bytes(subprocess.run(["xz", "-dc", words[1]], stdout=subprocess.PIPE, check=True).stdout)
            else:
                shutil.copy(words[1], plain)
    return [os.path.basename(path).removesuffix(".xz") for path in order]


@dataclasses.dataclass(frozen=True)
class Image:
    """Files from which a guest with this kernel boots."""
    kernel: Kernel
    version: str
    vmlinuz: pathlib.Path
    modules: pathlib.Path
    initrd: pathlib.Path


def prepare(work, kernel, say):
    if kernel.release:
        version = unpacked_version(work, kernel) or unpack(work, kernel, say)
        root = work / "unpacked" / kernel.name
        return Image(kernel, version, root / "lib/modules" / version / "vmlinuz", work / "modules" / version,
                     build_initrd(work, version, root, say))
    version = installed(kernel.series)
    if version is None:
        raise Unavailable(f"no kernel {kernel.series} with both image and headers on this machine")
    modules = build_modules(work, kernel, version, say)
    build_siw(work, kernel, version, modules, say)
    return Image(kernel, version, pathlib.Path(f"/boot/vmlinuz-{version}"), modules, build_initrd(work, version, HOST, say))
