"""Two network namespaces connected by one veth pair per path, and the faults between them."""
import os
import pathlib
import re
import subprocess

from .script import PATHS

PREFIX = "urtrs-netns"


class Unavailable(Exception):
    """This host lacks a requirement of the cases; the text names the requirement."""


def command(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[:300]}")
    return done.stdout


def remove_left_over():
    """Removes namespaces that a killed run left behind."""
    for line in subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=False).stdout.splitlines():
        match = re.match(rf"({PREFIX}-(\d+)-\S+)", line)
        if match and not pathlib.Path(f"/proc/{match[2]}").exists():
            subprocess.run(("ip", "netns", "del", match[1]), capture_output=True, check=False)


def server_address(path):
    return f"10.77.{path}.1"


def client_address(path):
    return f"10.77.{path}.2"


class Network:
    """Namespaces and links exist between __enter__, which may raise Unavailable, and __exit__."""

    def __init__(self, tag):
        self.server = f"{PREFIX}-{os.getpid()}-{tag}s"
        self.client = f"{PREFIX}-{os.getpid()}-{tag}c"
        self.faults = {path: {} for path in range(PATHS)}  # faults of each path: kind and argument
        self.limited = set()

    def __enter__(self):
        try:
            self._make()
        except FileNotFoundError as error:
            self.__exit__()
            raise Unavailable(f"{error.filename} is not installed; tools/install-deps") from None
        except Unavailable:
            self.__exit__()
            raise
        return self

    def _make(self):
        for name in (self.server, self.client):
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        for path in range(PATHS):
            command("ip", "link", "add", f"s{path}", "netns", self.server, "type", "veth",
                    "peer", "name", f"c{path}", "netns", self.client)
            for name, device, address in ((self.server, f"s{path}", server_address(path)),
                                          (self.client, f"c{path}", client_address(path))):
                command("ip", "-n", name, "addr", "add", address + "/24", "dev", device)
                command("ip", "-n", name, "link", "set", device, "up")

    def __exit__(self, *_):
        for name in (self.server, self.client):
            try:
                subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)
            except FileNotFoundError:
                return

    def link(self, path, state):
        command("ip", "-n", self.server, "link", "set", f"s{path}", state)

    def fault(self, path, kind, argument=""):
        self.faults[path][kind] = argument
        self._filter()

    def busiest_connection(self, path):
        """Returns the client port of the connection that sent the most bytes; this connection is an IO connection."""
        listing = command("ip", "netns", "exec", self.client, "ss", "-HOtni", "state", "established",
                          "dst", server_address(path))
        sent = {match[1]: int(match[2]) for match in
                re.finditer(rf"{re.escape(client_address(path))}:(\d+)\s.*?bytes_sent:(\d+)", listing)}
        if not sent:
            raise Unavailable(f"ss shows no connection of path {path}")
        return max(sent, key=sent.get)

    def rate(self, path, rate):
        for name, device in ((self.server, f"s{path}"), (self.client, f"c{path}")):
            command("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                    "burst", "64kb", "latency", "100ms")
        self.limited.add(path)

    def heal(self, path, kind=None):
        if kind in (None, "rate") and path in self.limited:
            for name, device in ((self.server, f"s{path}"), (self.client, f"c{path}")):
                command("ip", "netns", "exec", name, "tc", "qdisc", "del", "dev", device, "root")
            self.limited.discard(path)
        had = dict(self.faults[path])
        self.faults[path] = {} if kind is None else {k: v for k, v in had.items() if k != kind}
        if had != self.faults[path]:
            self._filter()

    def rules(self, side):
        """Yields the nft rules for incoming packets of one side. Packets are dropped at the receiver, so the sender sees no error."""
        device = "s" if side == "server" else "c"
        for path, faults in self.faults.items():
            where = f"iifname {device}{path}"
            if faults.get("drop") in (f"to-{side}", "both"):
                yield f"{where} drop"
            if "hole" in faults:
                yield f"{where} tcp {'sport' if side == 'server' else 'dport'} {faults['hole']} drop"
            if "lose" in faults:
                yield f"{where} numgen random mod 100 < {faults['lose'].rstrip('%')} drop"
            if side == "server" and "refuse" in faults:
                yield f"{where} tcp flags & (syn|ack) == syn drop"
            if side == "server" and "reset" in faults:
                yield f"{where} meta l4proto tcp reject with tcp reset"

    def _filter(self):
        for side, name in (("server", self.server), ("client", self.client)):
            rules = "\n".join(f"    {rule}" for rule in self.rules(side))
            command("ip", "netns", "exec", name, "nft", "-f", "-", text=(
                "table inet urtrs_netns\ndelete table inet urtrs_netns\n"
                f"table inet urtrs_netns {{\n  chain arriving {{\n    type filter hook input priority 0; policy accept;\n{rules}\n"
                "  }\n}\n"))

    def ruleset(self):
        """Returns the active rules as text for the log."""
        text = []
        for side in ("server", "client"):
            text += [f"{side}:", *(f"  {rule}" for rule in self.rules(side))]
        return "\n".join([*text, *(f"path {path}: a token bucket" for path in sorted(self.limited))]) + "\n"
