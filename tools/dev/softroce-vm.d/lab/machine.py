"""Boots the guest once, and reads its progress from the files that the guest writes."""
import os
import pathlib
import signal
import subprocess
import time

from .tools import GUEST, which

BOOT_SECONDS = 120  # maximum time until the first cell starts
RESET_SECONDS = 140  # maximum time to clean up after a cell
STARVED = 10  # factor for all limits while other processes keep the guest from running
SLOWER = 8  # factor for all limits with an instruction-counting clock on a busy host


# The emulator executes "rep movsb" byte by byte. Without these two CPU features, the kernel and the C library
# copy words instead.
CPU = ["-cpu", "max,-erms,-fsrm"]
# One instruction takes 2^3 ns of the guest's time, which is about the speed of emulation on an idle host.
COUNTED = ["-accel", "tcg,thread=single", *CPU, "-icount", "shift=3,sleep=off"]


def accelerators(work, vmlinuz):
    """Returns the accelerator: KVM if a kernel boots with it, otherwise software emulation. The result is cached."""
    answer = work / "accelerator"
    if not answer.exists():
        answer.write_text("kvm" if _kvm_boots(work, vmlinuz) else "tcg")
    return ["-accel", "kvm", "-cpu", "host"] if answer.read_text() == "kvm" else ["-accel", "tcg,thread=multi", *CPU]


def _kvm_boots(work, vmlinuz):
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    log = work / "kvm-trial.log"
    with open(log, "wb") as output:
        # The test boot has no root file system, so the kernel panics and qemu exits. The log shows how far the kernel
        # booted.
        trial = subprocess.Popen([which("qemu-system-x86_64"), "-accel", "kvm", "-cpu", "host", "-m", "512",
                                  "-nographic", "-no-reboot", "-nic", "none", "-kernel", str(vmlinuz), "-append",
                                  "console=ttyS0 panic=-1"],
                                 stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            trial.wait(15)
        except subprocess.TimeoutExpired:
            trial.kill()
            trial.wait()
    return b"Kernel panic" in log.read_bytes()


def command(lab, image, out, script, possible_cpus=2, memory=3072):
    share = "security_model=none,multidevs=remap"
    how = COUNTED if lab.counted else accelerators(lab.work, image.vmlinuz)
    more = f" possible_cpus={possible_cpus}" if possible_cpus > 2 else ""
    return [which("qemu-system-x86_64"), *how, "-m", str(memory), "-smp", "2", "-nographic",
            "-no-reboot", "-nic", "none", "-kernel", str(image.vmlinuz), "-initrd", str(image.initrd),
            "-append", f"console=ttyS0 panic=-1 quiet no_timer_check mitigations=off init_on_alloc=0 log_buf_len=4M "
            f"lab_script={script} lab_quick={lab.quick}{more}",
            "-virtfs", f"local,path=/,mount_tag=hostroot,readonly=on,{share}",
            "-virtfs", f"local,path={out},mount_tag=results,{share}"]


class Boot:
    """Runs the cells of /out/plan in one guest. events() yields ("begin", name) and ("end", name, code, seconds, clean)."""

    def __init__(self, lab, image, out, limits, end=None, possible_cpus=2):
        self.out = pathlib.Path(out)
        self.patience = SLOWER if lab.counted else 1
        self.limits = limits  # seconds, by cell name
        self.end = end  # time.monotonic() at which the guest is killed, whatever it does
        self.out_of_time = False
        self.console = self.out / "console.log"
        self.progress = self.out / "progress"
        self.progress.write_text("")
        self.starved = 0.0  # seconds in which a thread of the guest was ready to run but got no processor
        self.killed = ""  # reason for killing the guest, or ""
        with open(self.console, "wb") as output:
            self.process = subprocess.Popen(command(lab, image, self.out, GUEST / "main", possible_cpus),
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                            start_new_session=True)

    def _now(self):
        """Returns the time in seconds, without the periods in which other processes kept the guest from running."""
        waited = 0
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            try:
                waited = max(waited, int(thread.read_text(encoding="ascii").split()[1]))
            except OSError:  # the thread has exited
                continue
        self.starved = max(self.starved, waited / 1e9)
        return time.monotonic() - self.starved

    def _expect(self, seconds):
        """Sets the deadline for the next output of the guest."""
        self.deadline = self._now() + self.patience * seconds
        self.latest = time.monotonic() + STARVED * self.patience * seconds

    def _is_late(self):
        return self._now() > self.deadline or time.monotonic() > self.latest

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def events(self):
        seen = 0
        self._expect(BOOT_SECONDS)
        while True:
            ended = self.process.poll() is not None
            lines = self.progress.read_text(encoding="utf-8").splitlines(keepends=True)
            for line in lines[seen:]:
                if not line.endswith("\n"):
                    break
                seen += 1
                words = line.split()
                if words[0] == "begin":
                    self._expect(self.limits[words[1]] + RESET_SECONDS)
                    yield "begin", words[1]
                elif words[0] == "end":
                    self._expect(BOOT_SECONDS)
                    yield "end", words[1], int(words[2]), float(words[3]), words[4] == "clean"
            if ended:
                return
            if self.end is not None and time.monotonic() > self.end:
                self.out_of_time = True
                self.stop()
                return
            if self._is_late():
                self.killed = "the guest did not answer any more"
                self.stop()
            time.sleep(0.2)
