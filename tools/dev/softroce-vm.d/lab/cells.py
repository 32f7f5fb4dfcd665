"""Cells of the test matrix: a cell is a case with a peer for each role. Each case file begins with a description."""
import dataclasses
import fnmatch
import itertools
import pathlib
import re
import tomllib

from .environment import REPLAY, UNDER_TEST
from .kernels import DEFAULT, KERNELS

CASES = pathlib.Path(__file__).resolve().parent.parent / "cases"
PEERS = ("kernel", "urtrs")
EVERY = "all"  # role of client and server in a cell that runs all pairs of peers
# Sides on which the extensions of urtrs (fence and generations) are disabled. Used if both peers are urtrs.
EXTENSIONS = ("on", "client-off", "server-off", "client-off+server-off")
PLAIN = tuple(name for name, kernel in KERNELS.items() if not kernel.edit)  # unmodified kernels of Debian
INSTALLED = tuple(name for name in PLAIN if not KERNELS[name].release)  # kernels of this Debian release
# Cells that are not run, because a kernel client fails with a kernel server.
LEFT_OUT = tomllib.loads((CASES.parent / "deviations.toml").read_text(encoding="utf-8")).get("left_out", [])


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    fast: bool = False
    limit: int = 240  # time limit in the guest, in seconds
    duration: tuple = (0, 0)  # seconds of load: normally, and with --fast
    only: tuple = ()  # pairs of a role and its required value, such as ("client", "kernel")
    ours: bool = False  # both client and server are our programs
    runs: tuple = ()  # further programs of urtrs that the case runs: paths in the build directory
    kernels: tuple = PLAIN  # kernels on which the case runs
    possible_cpus: int = 2  # possible processors of the guest's kernel (6.1); two are present
    unpacks: tuple = ()  # packages with programs that the case needs; unpacked if not installed
    together: bool = False  # all pairs of peers can run together in one cell (pair EVERY)

    def applies(self, cell):
        return (cell.kernel in self.kernels and all(str(getattr(cell, role)) == value for role, value in self.only)
                and left_out(cell) is None)

    def programs(self, cell):
        """Returns the programs of urtrs that the cell runs, as paths in the build directory."""
        ours = self.ours or (cell.client, cell.server) != ("kernel", "kernel")
        return {*self.runs, *UNDER_TEST, REPLAY} if ours else set()


@dataclasses.dataclass(frozen=True)
class Cell:
    case: str
    client: str
    server: str
    invalidate: str
    paths: int
    extension: str = "on"
    kernel: str = DEFAULT

    @property
    def base(self):
        """Returns the name of the cell without the kernel."""
        name = f"{self.case}.{self.client}-{self.server}.{self.invalidate}.{self.paths}"
        return name if self.extension == "on" else f"{name}.{self.extension}"

    @property
    def name(self):
        return self.base if self.kernel == DEFAULT else f"{self.base}@{self.kernel}"

    @property
    def pair(self):
        return (self.client, self.server)


def matches(entry, cell):
    """Returns True if an entry of deviations.toml applies to this cell. An entry without "kernel" applies to every kernel."""
    roles = all(str(getattr(cell, role)) == str(entry[role])
                for role in ("client", "server", "invalidate", "paths", "kernel") if role in entry)
    return roles and re.fullmatch(entry["cases"], cell.case) is not None


def left_out(cell):
    """Returns why the cell is not run; None if it is run."""
    return next((entry["name"] for entry in LEFT_OUT if matches(entry, cell)), None)


def read_case(path):
    values = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"# (title|fast|limit|duration|only|ours|together|runs|kernels|possible_cpus|unpacks): (.*)", line)
        if not match:
            break
        values[match[1]] = match[2]
    duration = (0, 0)
    if "duration" in values:
        whole, _, fast = values["duration"].partition(" fast ")
        duration = (int(whole), int(fast))
    return Case(path.stem, values["title"], fast=values.get("fast") == "yes", limit=int(values.get("limit", 240)),
                duration=duration, only=tuple(tuple(word.split("=")) for word in values.get("only", "").split()),
                ours=values.get("ours") == "yes", together=values.get("together") == "yes",
                runs=tuple(values.get("runs", "").split()), unpacks=tuple(values.get("unpacks", "").split()),
                possible_cpus=int(values.get("possible_cpus", 2)),
                kernels=tuple(values["kernels"].split()) if "kernels" in values else PLAIN)


def all_cases():
    return {path.stem: read_case(path) for path in sorted(CASES.glob("*.sh"))}


def combinations(clients, servers, invalidates, paths, extensions, kernels=(DEFAULT,)):
    """Yields every combination of roles, ordered by kernel, then client, then server."""
    for kernel, client, server, invalidate, count, extension in itertools.product(
            kernels, clients, servers, invalidates, paths, extensions):
        if extension == "on" or (client, server) == ("urtrs", "urtrs"):
            yield client, server, invalidate, count, extension, kernel


def select(cases, patterns, roles):
    """Returns the cells that match the patterns. Raises ValueError if a pattern matches nothing.

    A pattern without a dot selects cases, with the given roles. A pattern with a dot selects cells; the kernel follows
    after an @, otherwise the kernels of `roles` apply.
    """
    names, cells = [], []
    chosen = roles[5] if len(roles) > 5 else (DEFAULT,)
    every = [cell for cell in (Cell(name, *roles) for roles in combinations(
        PEERS, PEERS, ("on", "off"), (1, 2), EXTENSIONS, KERNELS) for name in cases) if cases[cell.case].applies(cell)]
    for pattern in patterns:
        if "." in pattern:
            base, _, kernel = pattern.partition("@")
            found = [cell for cell in every if fnmatch.fnmatch(cell.base, base)
                     and (fnmatch.fnmatch(cell.kernel, kernel) if kernel else cell.kernel in chosen)]
            if not found:
                raise ValueError(f"no cell is called '{pattern}'; as in lose-both.kernel-urtrs.on.2 or, of another "
                                 "kernel, lose-both.kernel-urtrs.on.2@6.1")
            cells += [cell for cell in found if cell not in cells]
            continue
        found = fnmatch.filter(cases, pattern)
        if not found:
            raise ValueError(f"no case matches '{pattern}'; tools/dev/softroce-vm list shows all")
        names += [name for name in found if name not in names]
    for combination in combinations(*roles):
        for name in names:
            cell = Cell(name, *combination)
            if cases[name].applies(cell) and cell not in cells:
                cells.append(cell)
    return cells


def together(cells, cases):
    """Replaces four cells that differ only in the pair of peers by one cell of the pair EVERY, if the case allows
    it."""
    found = {}
    for cell in cells:
        joint = dataclasses.replace(cell, client=EVERY, server=EVERY)
        key = joint if cases[cell.case].together and cell.extension == "on" else cell
        found.setdefault(key, []).append(cell)
    return [unit for key, parts in found.items() for unit in ([key] if len(parts) == len(PEERS) ** 2 else parts)]


def pairs_of(cell):
    """Returns the cells that get a verdict from running this cell: the cell itself, or the four cells of the pairs."""
    if cell.client != EVERY:
        return [cell]
    return [dataclasses.replace(cell, client=client, server=server) for client, server in itertools.product(PEERS, PEERS)]


def fast_cells(cases):
    """Cells that `tools/test` runs: every fast case with every pair of peers, with alternating invalidation and paths.

    The pairs are interleaved, so that a slow machine that reaches its time limit has run each of them.
    """
    cells = []
    # "verify" is the first case, because it covers most. Only "verify" also runs with the kernel at both
    # ends, which checks the lab itself.
    names = ["verify", *(name for name in cases if cases[name].fast and name != "verify")]
    for index, name in enumerate(names):
        for turn, pair in enumerate(itertools.product(PEERS, PEERS)):
            # A case that can run all pairs together (cut-heal) runs only with our programs at both ends,
            # because only they detect a lost path within seconds, without the heartbeat.
            if pair == ("kernel", "kernel") and name != "verify" or cases[name].together and pair != ("urtrs", "urtrs"):
                continue
            cells += [_fast_cell(cases[name], pair, index + turn + 2 * list(KERNELS).index(kernel), kernel)
                      for kernel in _fast_kernels(cases[name], pair, index // 2 + turn)]
    # Mixed versions of urtrs: one side supports no extensions.
    cells += [Cell("verify", "urtrs", "urtrs", "on", 2, extension) for extension in ("client-off", "server-off")]
    return cells


def _fast_kernels(case, pair, number):
    """Distributes the cases among the kernels, so that both installed kernels are client and server of some cases.

    "verify" runs on every unmodified kernel. Two peers of the same kind run on the default kernel only. A kernel of a
    later release runs "verify" and the cases for new features of its RNBD.
    """
    if pair[0] == pair[1]:
        return [DEFAULT]
    if case.kernels != PLAIN:
        return [name for name in case.kernels if name not in INSTALLED]
    return PLAIN if case.name == "verify" else [INSTALLED[number % len(INSTALLED)]]


def _fast_cell(case, pair, mixed, kernel):
    """Returns a cell of the case; `mixed` is a number that selects invalidation and number of paths: the first combination,
    from this number on, that the case allows."""
    choices = [Cell(case.name, *pair, "on" if number % 2 else "off", 1 + number // 2 % 2, kernel=kernel)
               for number in range(mixed, mixed + 4)]
    return next(cell for cell in choices if case.applies(cell))
