"""Unpacks Debian packages below the work directory, without installing them on this machine."""
import os
import pathlib
import shutil
import subprocess

from labs import Unavailable

from .tools import run, which

# Packages, including dependencies, that build kernel modules inside a minimal chroot.
COMPILER = ("base-files", "bash", "bc", "coreutils", "dash", "diffutils", "findutils", "gawk", "gcc-14", "grep", "gzip",
            "libc-bin", "libdw1t64", "libelf1t64", "libssl3t64", "make", "perl", "sed", "tar", "xz-utils")


def unpack_here(folder, package, log):
    """Downloads and unpacks a package of this machine's release to `folder`, once. Raises Unavailable if that fails."""
    if not folder.exists():
        new = pathlib.Path(f"{folder}.new")
        shutil.rmtree(new, ignore_errors=True)
        debs = new / "debs"
        debs.mkdir(parents=True)
        try:
            run(["apt-get", "-q", "download", package], log, cwd=debs)
            run(["dpkg", "-x", *debs.glob("*.deb"), new], log)
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"package {package} cannot be downloaded: {error}") from error
        shutil.rmtree(debs)
        os.replace(new, folder)
    return folder


class Suite:
    """Another Debian release, with separate package lists."""

    def __init__(self, folder, release, log):
        self.folder, self.release, self.log = folder, release, log
        self.environment = dict(os.environ, APT_CONFIG=str(folder / "apt.conf"))

    def prepare(self):
        """Fetches the package lists. Raises Unavailable if no mirror is known or it does not answer."""
        policy = subprocess.run(["apt-cache", "policy"], capture_output=True, text=True, check=False).stdout
        mirror = next((word for word in policy.split() if word.rstrip("/").endswith("/debian") and ":" in word), None)
        if mirror is None:
            raise Unavailable(f"no mirror of Debian in the package lists of this machine: {self.release} cannot be had")
        shutil.rmtree(self.folder / "cache", ignore_errors=True)  # left over from an interrupted run
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
        (self.folder / "sources").write_text("".join(
            f"deb {signed} {mirror} {suite} main\n" for suite in (self.release, f"{self.release}-backports")), encoding="utf-8")
        (self.folder / "status").write_text("", encoding="utf-8")  # empty: no package is installed
        (self.folder / "apt.conf").write_text(
            f'Dir::Etc::sourcelist "{self.folder}/sources"; Dir::Etc::sourceparts "/dev/null"; Dir::State "{self.folder}/state";\n'
            f'Dir::State::status "{self.folder}/status"; Dir::Cache "{self.folder}/cache"; APT::Sandbox::User "";\n',
            encoding="utf-8")
        self._apt("update")

    def _apt(self, *words, **more):
        try:
            run(["apt-get", "-q", "-y", *words], self.log, env=self.environment, **more)
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"packages of {self.release} cannot be downloaded: {error}") from error

    def search(self, pattern):
        found = subprocess.run(["apt-cache", "search", "--names-only", pattern], env=self.environment, capture_output=True,
                               text=True, check=False).stdout
        return [line.split()[0] for line in found.splitlines() if line.split()]

    def fetch(self, packages):
        """Downloads the packages without dependencies; returns the files."""
        return self._files("download", packages)

    def fetch_all(self, packages):
        """Downloads the packages with all dependencies; returns the files."""
        return self._files("install", packages, "--download-only", "--no-install-recommends")

    def _files(self, command, packages, *options):
        into = self.folder / "cache/archives"
        before = set(into.glob("*.deb"))
        self._apt(command, *options, *packages, cwd=into)
        return sorted(set(into.glob("*.deb")) - before)

    def forget_files(self):
        """Removes the package files after unpacking."""
        shutil.rmtree(self.folder / "cache")

    def unpack(self, files, root):
        root.mkdir(parents=True, exist_ok=True)
        # base-files comes first, because it creates the links /bin, /lib and /sbin into /usr.
        for file in sorted(files, key=lambda file: (not file.name.startswith("base-files_"), file.name)):
            run(["dpkg", "-x", file, root], self.log)
        awk = root / "usr/bin/awk"  # link that the package's install scripts would create
        if not awk.is_symlink():
            awk.symlink_to("gawk")

    def run_in(self, root, script):
        """Runs a shell script with `root` as its root directory, as root or in a user namespace."""
        for name in ("proc", "dev"):
            (root / name).mkdir(exist_ok=True)
        # /proc is mounted because objtool reads it.
        inside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /bin/bash -ec "$1"'
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        run([which("unshare"), *user, "--mount", "--pid", "--fork", "bash", "-c", inside, root, script], self.log,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"})
