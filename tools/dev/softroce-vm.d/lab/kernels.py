"""The kernels that a guest can run: their packages on this machine, their rtrs and rnbd modules, their initial file system."""
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from . import rnbd22
from labs import Unavailable

from .tools import GUEST, run, which

DEFAULT = "6.12"


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str
    series: str  # of Debian's packages
    counted: bool  # it boots with a clock that counts instructions
    edit: object = None  # module with CHANGES that the source of its modules gets, and edit(source)
    siw: bool = False  # with software iWARP, which Debian leaves out too


KERNELS = {kernel.name: kernel for kernel in (
    Kernel(DEFAULT, "6.12", True, siw=True),
    Kernel("6.1", "6.1", False),
    Kernel("6.12-rnbd2.2", "6.12", True, rnbd22),
)}
GUEST_MODULES = {  # module: parameters
    "9p": "", "9pnet_virtio": "", "virtio_pci": "", "overlay": "", "veth": "", "rdma_rxe": "", "ib_uverbs": "",
    "rdma_ucm": "", "loop": "", "nbd": "nbds_max=4 max_part=0", "nft_compat": "", "x_tables": ""}


def version_pattern(series):
    """Matches the versions of a series: 6.1.0-56-amd64, but neither 6.12.117+deb12-amd64 nor 6.1.0-56-rt-amd64."""
    return rf"{re.escape(series)}\.\d+([-+][0-9a-z]+)?-amd64"


def newest(versions):
    return max(versions, key=lambda text: [int(n) for n in re.findall(r"\d+", text)], default=None)


def versions_with_both(series, names):
    """Versions of the series for which `names` has linux-image-VERSION and linux-headers-VERSION."""
    found = {}
    for name in names:
        match = re.fullmatch(rf"linux-(image|headers)-({version_pattern(series)})", name)
        if match:
            found.setdefault(match[2], set()).add(match[1])
    return [version for version, kinds in found.items() if len(kinds) == 2]


def installed(series):
    """The newest version of the series with both an image and headers on this machine, or None."""
    names = [f"linux-image-{path.name.removeprefix('vmlinuz-')}" for path in pathlib.Path("/boot").glob("vmlinuz-*")]
    return newest(versions_with_both(series, names + [path.name for path in pathlib.Path("/usr/src").iterdir()]))


def packages(series):
    """Names of the packages with image and headers of the newest version that the package lists have; [] when none."""
    found = subprocess.run(["apt-cache", "search", "--names-only", rf"^linux-(image|headers)-{re.escape(series)}\."],
                           capture_output=True, text=True, check=False).stdout
    version = newest(versions_with_both(series, [line.split()[0] for line in found.splitlines() if line.split()]))
    return [f"linux-{kind}-{version}" for kind in ("image", "headers")] if version else []


def missing_packages(kernel):
    """What has to be installed for this kernel. Unavailable: the package lists have no such kernel."""
    missing = []
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


def build_modules(work, kernel, version, say):
    """rtrs and rnbd, which Debian leaves out of its kernel, from Debian's kernel source. Modules lie side by side."""
    target = work / "modules" / version
    if kernel.edit:
        digest = hashlib.sha256(repr(kernel.edit.CHANGES).encode()).hexdigest()[:12]
        target = work / "modules" / f"{version}-{kernel.name}-{digest}"
    if (target / "rnbd-client.ko").exists():
        return target
    say(f"building the kernel's rtrs and rnbd modules for {target.name}")
    source, log = work / "source" / kernel.name, work / f"modules-{kernel.name}.log"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    rtrs, rnbd = "drivers/infiniband/ulp/rtrs", "drivers/block/rnbd"
    run(["tar", "-xf", f"/usr/src/linux-source-{kernel.series}.tar.xz", "-C", source, "--strip-components=1",
         "--wildcards", f"*/{rtrs}/*", f"*/{rnbd}/*"], log)
    if kernel.edit:
        kernel.edit.edit(source)
    make = ["make", "-C", f"/usr/src/linux-headers-{version}", f"-j{os.cpu_count()}"]
    run([*make, f"M={source / rtrs}", "CONFIG_INFINIBAND_RTRS=m", "CONFIG_INFINIBAND_RTRS_CLIENT=m",
         "CONFIG_INFINIBAND_RTRS_SERVER=m", "modules"], log)
    run([*make, f"M={source / rnbd}", "CONFIG_BLK_DEV_RNBD=y", "CONFIG_BLK_DEV_RNBD_CLIENT=m",
         "CONFIG_BLK_DEV_RNBD_SERVER=m", f"KBUILD_EXTRA_SYMBOLS={source / rtrs}/Module.symvers",
         f"KCFLAGS=-I{source / rtrs}", "modules"], log)
    new = work / "modules" / f"{target.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for module in (*(source / rtrs).glob("*.ko"), *(source / rnbd).glob("*.ko")):
        run(["strip", "--strip-debug", "-o", new / module.name, module], log)
    os.replace(new, target)
    return target


def build_siw(work, kernel, version, modules, say):
    """Software iWARP beside the other modules."""
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


def build_initrd(work, version, say):
    """busybox, the modules that reach the host's root directory, and guest/init."""
    digest = hashlib.sha256(version.encode() + repr(GUEST_MODULES).encode() + (GUEST / "init").read_bytes()).hexdigest()[:12]
    target = work / f"initrd-{digest}.gz"
    if target.exists():
        return target
    say(f"building the initial file system of the guest for {version}")
    root = work / "initrd"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(which("busybox"), root / "bin/busybox")
    for name in ("sh", "mount", "insmod", "mkdir", "sed", "chroot", "sleep", "tar"):
        (root / "bin" / name).symlink_to("busybox")
    shutil.copy(GUEST / "init", root / "init")
    order = _copy_modules(version, root / "modules")
    (root / "load-order").write_text("".join(f"{name} {GUEST_MODULES.get(name.removesuffix('.ko'), '')}\n" for name in order))
    subprocess.run("find . | cpio -o -H newc 2>/dev/null | gzip -1 > " + str(target) + ".new", shell=True, cwd=root, check=True)
    os.replace(f"{target}.new", target)
    return target


def _copy_modules(version, target):
    """Decompressed copies of GUEST_MODULES with all that they need; their names in the order in which they load."""
    order = []
    for module in GUEST_MODULES:
        lines = subprocess.run([which("modprobe"), "-S", version, "--show-depends", module], capture_output=True, text=True,
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
    """What a guest with this kernel is started from."""
    kernel: Kernel
    version: str
    modules: pathlib.Path
    initrd: pathlib.Path


def prepare(work, kernel, say):
    version = installed(kernel.series)
    if version is None:
        raise Unavailable(f"no kernel {kernel.series} with both image and headers on this machine")
    modules = build_modules(work, kernel, version, say)
    build_siw(work, kernel, version, modules, say)
    return Image(kernel, version, modules, build_initrd(work, version, say))
