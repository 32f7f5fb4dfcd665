"""The cells of the matrix: a case with its roles. What a case says of itself is in the comments at its top."""
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
# On which sides the extensions of urtrs (fence and generations) are switched off; only between peers of ours.
EVERY = "all"  # as client and server: each pair of peers
EXTENSIONS = ("on", "client-off", "server-off", "client-off+server-off")
PLAIN = tuple(name for name, kernel in KERNELS.items() if not kernel.edit)  # Debian's, as they are
INSTALLED = tuple(name for name in PLAIN if not KERNELS[name].release)  # of this release of Debian
# Cells that are not run because of what a kernel does between its own parts.
LEFT_OUT = tomllib.loads((CASES.parent / "deviations.toml").read_text(encoding="utf-8")).get("left_out", [])


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    fast: bool = False
    limit: int = 240  # seconds in the guest
    duration: tuple = (0, 0)  # seconds of load: whole, fast
    only: tuple = ()  # ("client", "kernel"): role and value
    ours: bool = False  # runs programs of ours whatever the roles
    runs: tuple = ()  # programs of ours beside the server and the client, in the build directory
    kernels: tuple = PLAIN  # on which it is run
    possible_cpus: int = 2  # processors that the guest's kernel (6.1) provides for; two of them are there
    unpacks: tuple = ()  # programs that it runs from a package of their name, which need not be installed
    together: bool = False  # every pair of peers can be judged at one time, as the cell of the pair EVERY

    def applies(self, cell):
        return (cell.kernel in self.kernels and all(str(getattr(cell, role)) == value for role, value in self.only)
                and left_out(cell) is None)

    def programs(self, cell):
        """What it runs of ours: paths in the build directory."""
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
        """The name without the kernel."""
        name = f"{self.case}.{self.client}-{self.server}.{self.invalidate}.{self.paths}"
        return name if self.extension == "on" else f"{name}.{self.extension}"

    @property
    def name(self):
        return self.base if self.kernel == DEFAULT else f"{self.base}@{self.kernel}"

    @property
    def pair(self):
        return (self.client, self.server)


def matches(entry, cell):
    """Whether an entry of deviations.toml is about the roles of this cell; one without "kernel" is about every kernel."""
    roles = all(str(getattr(cell, role)) == str(entry[role])
                for role in ("client", "server", "invalidate", "paths", "kernel") if role in entry)
    return roles and re.fullmatch(entry["cases"], cell.case) is not None


def left_out(cell):
    """Why the cell is not run, or None."""
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
    """Every combination of roles: those of one kernel together, and those of one kind of server."""
    for kernel, client, server, invalidate, count, extension in itertools.product(
            kernels, clients, servers, invalidates, paths, extensions):
        if extension == "on" or (client, server) == ("urtrs", "urtrs"):
            yield client, server, invalidate, count, extension, kernel


def select(cases, patterns, roles):
    """Cells of the cases that match one of the patterns, and those named by one. ValueError: it matches nothing.

    A pattern with a dot is that of whole cells; the kernel stands behind an @ in it, or is one of those in the roles.
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
            raise ValueError(f"no case is called '{pattern}'; tools/dev/softroce-vm list")
        names += [name for name in found if name not in names]
    for combination in combinations(*roles):
        for name in names:
            cell = Cell(name, *combination)
            if cases[name].applies(cell) and cell not in cells:
                cells.append(cell)
    return cells


def together(cells, cases):
    """The cells with those that can be judged at one time put together, where all four pairs of them are there."""
    found = {}
    for cell in cells:
        joint = dataclasses.replace(cell, client=EVERY, server=EVERY)
        key = joint if cases[cell.case].together and cell.extension == "on" else cell
        found.setdefault(key, []).append(cell)
    return [unit for key, parts in found.items() for unit in ([key] if len(parts) == len(PEERS) ** 2 else parts)]


def pairs_of(cell):
    """The cells that it judges: itself, or those of the four pairs."""
    if cell.client != EVERY:
        return [cell]
    return [dataclasses.replace(cell, client=client, server=server) for client, server in itertools.product(PEERS, PEERS)]


def fast_cells(cases):
    """What `tools/test` runs: every quick case with every pair of peers, invalidation and paths mixed.

    The pairs take turns, so that a slow machine that does not come to the end has seen each of them.
    """
    cells = []
    # "verify" says most; the kernel with itself only shows that the lab works.
    names = ["verify", *(name for name in cases if cases[name].fast and name != "verify")]
    for index, name in enumerate(names):
        for turn, pair in enumerate(itertools.product(PEERS, PEERS)):
            # Cut and healed in seconds only when both ends notice a lost path without the heartbeat.
            if pair == ("kernel", "kernel") and name != "verify" or cases[name].together and pair != ("urtrs", "urtrs"):
                continue
            cells += [_fast_cell(cases[name], pair, index + turn + 2 * list(KERNELS).index(kernel), kernel)
                      for kernel in _fast_kernels(cases[name], pair, index // 2 + turn)]
    # Mixed versions of our own: one side does not know the extensions.
    cells += [Cell("verify", "urtrs", "urtrs", "on", 2, extension) for extension in ("client-off", "server-off")]
    return cells


def _fast_kernels(case, pair, number):
    """The kernels share the cases: where one is the client of a case another one is its server.

    "verify" has both directions on each of Debian's; two peers of one kind meet on the default one only. A kernel of a later
    release has "verify" and what is new in its RNBD.
    """
    if pair[0] == pair[1]:
        return [DEFAULT]
    if case.kernels != PLAIN:
        return [name for name in case.kernels if name not in INSTALLED]
    return PLAIN if case.name == "verify" else [INSTALLED[number % len(INSTALLED)]]


def _fast_cell(case, pair, mixed, kernel):
    """The cell with invalidation and paths chosen by a number, or the next one to which the case applies."""
    choices = [Cell(case.name, *pair, "on" if number % 2 else "off", 1 + number // 2 % 2, kernel=kernel)
               for number in range(mixed, mixed + 4)]
    return next(cell for cell in choices if case.applies(cell))
