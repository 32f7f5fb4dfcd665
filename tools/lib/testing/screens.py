"""Runs a program in a tmux pane, so that a test can check what a user sees on the terminal."""
import shlex
import subprocess

from programs import BOUND, until


class Screen:
    """Runs `command` on a terminal of the given size, in a separate tmux server. `environment`: variables to set;
    None unsets a variable."""

    def __init__(self, folder, command, columns=80, rows=24, environment=None):
        self.socket, self.columns = folder / "tmux", columns
        self.log = folder / "ended"
        words = shlex.join(map(str, command))
        changes = {"NO_COLOR": None, **(environment or {})}
        env = ["env", *(f"-u{name}" for name, value in changes.items() if value is None),
               *(f"{name}={value}" for name, value in changes.items() if value is not None)]
        # Ctrl-C ends only the command. The shell writes its exit code to a file and keeps the last screen readable.
        script = f"trap : INT; {shlex.join(env)} {words}; echo ended:$? >{shlex.quote(str(self.log))}; exec sleep 600"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh", "-c", script)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], capture_output=True, text=True, timeout=BOUND, check=True,
                              stdin=subprocess.DEVNULL).stdout

    def lines(self, styled=False):
        """Returns the lines of the screen. If `styled`, with the escape sequences of colours and other attributes."""
        return self.tmux("capture-pane", "-p", *(["-e"] if styled else [])).rstrip("\n").split("\n")

    def until(self, condition):
        """Waits until condition(lines) is true, and returns the lines."""
        def holds():
            lines = self.lines()
            return lines if condition(lines) else None
        return until(lambda: "the screen is so:\n" + "\n".join(self.lines()), holds)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def code(self):
        """Waits until the command has ended, and returns its exit code."""
        return int(until(lambda: "it ends:\n" + "\n".join(self.lines()),
                         lambda: self.log.exists() and self.log.read_text().partition(":")[2].strip()))

    def end(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False, timeout=BOUND)
