"""What the lab needs on this machine: packages, the kernel's modules, the initial file system. Built once, then re-used."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from . import quick

HERE = pathlib.Path(__file__).resolve().parent.parent
GUEST = HERE / "guest"
SERIES = "6.12"
PROGRAMS = {  # program: package
    "qemu-system-x86_64": "qemu-system-x86", "cpio": "cpio", "modprobe": "kmod", "xz": "xz-utils", "make": "make",
    "gcc": "gcc", "strip": "binutils", "rdma": "iproute2", "ip": "iproute2", "iptables": "iptables", "tcpdump": "tcpdump", "fio": "fio",
    "nbdkit": "nbdkit", "nbd-client": "nbd-client", "mkfs.ext4": "e2fsprogs", "pkill": "procps", "gzip": "gzip"}
LIBRARIES = ("rdma-core", "ibverbs-providers", "librdmacm1", "libibverbs1", "busybox-static", f"linux-source-{SERIES}")
KERNEL_PACKAGES = (f"linux-image-{SERIES}-amd64", f"linux-headers-{SERIES}-amd64")
GUEST_MODULES = {  # module: parameters
    "9p": "", "9pnet_virtio": "", "virtio_pci": "", "overlay": "", "veth": "", "rdma_rxe": "", "ib_uverbs": "",
    "rdma_ucm": "", "loop": "", "nbd": "nbds_max=4 max_part=0", "nft_compat": "", "x_tables": ""}

UNDER_TEST = ("tools/urtrsd/urtrsd", "tools/nbdkit/nbdkit-urtrs-plugin.so")
OURS = (*UNDER_TEST, "tools/urtrs-replay/urtrs-replay", "tools/urtrs-conform/urtrs-conform")
OURS_WITH_VERBS = ("conformance/fabric/verbs_contract_test",)


class Unavailable(Exception):
    """The lab cannot run here; the text says why and what would help."""


def run(command, log, **more):
    """Runs quietly, with its output in `log`; RuntimeError with the end of it when the command fails."""
    with open(log, "ab") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False, **more)
    if done.returncode != 0:
        tail = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise RuntimeError(f"{' '.join(map(str, command))} failed; whole output in {log}\n  " + "\n  ".join(tail))


def which(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def installed_kernel():
    """The newest kernel of the series that has both an image and headers, or None."""
    found = []
    for image in pathlib.Path("/boot").glob(f"vmlinuz-{SERIES}*"):
        version = image.name.removeprefix("vmlinuz-")
        if pathlib.Path(f"/usr/src/linux-headers-{version}").is_dir():
            found.append(version)
    return max(found, key=lambda text: [int(n) for n in re.findall(r"\d+", text)], default=None)


def missing_packages():
    missing = {package for program, package in PROGRAMS.items() if not which(program)}
    for package in LIBRARIES:
        state = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True,
                               check=False).stdout
        if state != "installed":
            missing.add(package)
    if installed_kernel() is None:
        missing.update(KERNEL_PACKAGES)
    return sorted(missing)


def install_packages(say, log):
    if not which("dpkg-query"):
        raise Unavailable(f"not a Debian system; the lab needs Debian's kernel {SERIES} with its source")
    missing = missing_packages()
    if not missing:
        return
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"]
    if os.geteuid() != 0:
        if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0:
            raise Unavailable("packages are missing and this is not root; install them once:\n  apt-get install "
                              "--no-install-recommends " + " ".join(missing))
        apt = ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive", *apt]
    say(f"installing {' '.join(missing)} (log: {log})")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    try:
        subprocess.run([*apt, "update"], stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False)
        run([*apt, "install", "--no-install-recommends", *missing], log, env=environment)
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"packages cannot be had: {error}") from error
    if installed_kernel() is None:
        raise Unavailable(f"no kernel {SERIES} with both image and headers after installing {KERNEL_PACKAGES}")


def build_modules(work, version, say):
    """rtrs and rnbd, which Debian leaves out of its kernel, from Debian's kernel source."""
    target = work / "modules" / version
    if (target / "rnbd-client.ko").exists():
        return target
    say(f"building the kernel's rtrs and rnbd modules for {version}")
    source, log = work / "source", work / "modules.log"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    rtrs, rnbd = "drivers/infiniband/ulp/rtrs", "drivers/block/rnbd"
    run(["tar", "-xf", f"/usr/src/linux-source-{SERIES}.tar.xz", "-C", source, "--strip-components=1", "--wildcards",
         f"*/{rtrs}/*", f"*/{rnbd}/*"], log)
    make = ["make", "-C", f"/usr/src/linux-headers-{version}", f"-j{os.cpu_count()}"]
    run([*make, f"M={source / rtrs}", "CONFIG_INFINIBAND_RTRS=m", "CONFIG_INFINIBAND_RTRS_CLIENT=m",
         "CONFIG_INFINIBAND_RTRS_SERVER=m", "modules"], log)
    run([*make, f"M={source / rnbd}", "CONFIG_BLK_DEV_RNBD=y", "CONFIG_BLK_DEV_RNBD_CLIENT=m",
         "CONFIG_BLK_DEV_RNBD_SERVER=m", f"KBUILD_EXTRA_SYMBOLS={source / rtrs}/Module.symvers",
         f"KCFLAGS=-I{source / rtrs}", "modules"], log)
    target.mkdir(parents=True)
    for module in (*(source / rtrs).glob("*.ko"), *(source / rnbd).glob("*.ko")):
        shutil.copy(module, target)
    return target


def build_initrd(work, version, say):
    """busybox, the modules that reach the host's root directory, and guest/init."""
    digest = hashlib.sha256(version.encode() + repr(GUEST_MODULES).encode() + (GUEST / "init").read_bytes()).hexdigest()[:12]
    target = work / f"initrd-{digest}.gz"
    if target.exists():
        return target
    say("building the initial file system of the guest")
    root = work / "initrd"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(which("busybox"), root / "bin/busybox")
    for name in ("sh", "mount", "insmod", "mkdir", "sed", "chroot", "sleep", "tar"):
        (root / "bin" / name).symlink_to("busybox")
    shutil.copy(GUEST / "init", root / "init")
    order = []
    for module in GUEST_MODULES:
        lines = subprocess.run([which("modprobe"), "-S", version, "--show-depends", module], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        for words in map(str.split, lines):
            if words[0] != "insmod" or words[1] in order:
                continue
            order.append(words[1])
            plain = root / "modules" / os.path.basename(words[1]).removesuffix(".xz")
            if words[1].endswith(".xz"):
                plain.write_bytes(subprocess.run(["xz", "-dc", words[1]], stdout=subprocess.PIPE, check=True).stdout)
            else:
                shutil.copy(words[1], plain)
    names = [os.path.basename(path).removesuffix(".xz") for path in order]
    (root / "load-order").write_text("".join(f"{name} {GUEST_MODULES.get(name.removesuffix('.ko'), '')}\n" for name in names))
    subprocess.run("find . | cpio -o -H newc 2>/dev/null | gzip -1 > " + str(target) + ".new", shell=True, cwd=root, check=True)
    os.replace(f"{target}.new", target)
    return target


class Lab:
    """Everything a boot needs."""

    def __init__(self, work, say):
        self.work = work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        install_packages(say, self.work / "packages.log")
        self.kernel = installed_kernel()
        self.modules = build_modules(self.work, self.kernel, say)
        self.initrd = build_initrd(self.work, self.kernel, say)
        self.programs = self.work / "programs"
        self.quick = self.work / "quick.tar"
        self.noise = self.work / "noise"
        self.counted = False  # the guest's time is that of its instructions

    def take_programs(self, build_dir):
        """Copies of ours without symbols: the guest reads them in a tenth of the time, and a build may go on."""
        shutil.rmtree(self.programs, ignore_errors=True)
        for name in (*OURS, *OURS_WITH_VERBS):
            source, target = pathlib.Path(build_dir) / name, self.programs / name
            if not source.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            run(["strip", "-o", target, source], self.work / "programs.log")
            target.chmod(0o755)
        in_guest = [self.programs / name for name in OURS if "urtrs-replay" not in name]
        quick.make_noise(self.noise)
        quick.pack(self.quick, in_guest, [self.noise, GUEST, HERE / "cases", self.modules])

    def programs_digest(self):
        """Names what is under test: the same code, built the same way, has the same one."""
        digest = hashlib.sha256()
        for name in UNDER_TEST:
            if (self.programs / name).exists():
                digest.update((self.programs / name).read_bytes())
        return digest.hexdigest()[:12]
