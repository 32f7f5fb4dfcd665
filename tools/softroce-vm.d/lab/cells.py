"""The cells of the matrix: a case with its roles. What a case says of itself is in the comments at its top."""
import dataclasses
import fnmatch
import itertools
import pathlib
import re

CASES = pathlib.Path(__file__).resolve().parent.parent / "cases"
PEERS = ("kernel", "urtrs")
# On which sides the extensions of urtrs (fence and generations) are switched off; only between peers of ours.
EVERY = "all"  # as client and server: each pair of peers
EXTENSIONS = ("on", "client-off", "server-off", "client-off+server-off")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    fast: bool = False
    limit: int = 240  # seconds in the guest
    duration: tuple = (0, 0)  # seconds of load: whole, fast
    only: tuple = ()  # ("client", "kernel"): role and value
    ours: bool = False  # runs programs of ours whatever the roles
    together: bool = False  # every pair of peers can be judged at one time, as the cell of the pair EVERY

    def applies(self, cell):
        return all(str(getattr(cell, role)) == value for role, value in self.only)


@dataclasses.dataclass(frozen=True)
class Cell:
    case: str
    client: str
    server: str
    invalidate: str
    paths: int
    extension: str = "on"

    @property
    def name(self):
        name = f"{self.case}.{self.client}-{self.server}.{self.invalidate}.{self.paths}"
        return name if self.extension == "on" else f"{name}.{self.extension}"

    @property
    def pair(self):
        return (self.client, self.server)


def read_case(path):
    values = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"# (title|fast|limit|duration|only|ours|together): (.*)", line)
        if not match:
            break
        values[match[1]] = match[2]
    duration = (0, 0)
    if "duration" in values:
        whole, _, fast = values["duration"].partition(" fast ")
        duration = (int(whole), int(fast))
    return Case(path.stem, values["title"], values.get("fast") == "yes", int(values.get("limit", 240)), duration,
                tuple(tuple(word.split("=")) for word in values.get("only", "").split()), values.get("ours") == "yes",
                values.get("together") == "yes")


def all_cases():
    return {path.stem: read_case(path) for path in sorted(CASES.glob("*.sh"))}


def combinations(clients, servers, invalidates, paths, extensions):
    """Every combination of roles, those of one kind of server together."""
    for client, server, invalidate, count, extension in itertools.product(
            clients, servers, invalidates, paths, extensions):
        if extension == "on" or (client, server) == ("urtrs", "urtrs"):
            yield client, server, invalidate, count, extension


def select(cases, patterns, roles):
    """Cells of the cases that match one of the patterns, and those named by one. ValueError: it matches nothing."""
    names, cells = [], []
    every = {cell.name: cell for cell in (Cell(name, *roles) for roles in combinations(
        PEERS, PEERS, ("on", "off"), (1, 2), EXTENSIONS) for name in cases) if cases[cell.case].applies(cell)}
    for pattern in patterns:
        if "." in pattern:
            found = fnmatch.filter(every, pattern)
            if not found:
                raise ValueError(f"no cell is called '{pattern}'; as in lose-both.kernel-urtrs.on.2")
            cells += [every[name] for name in found if every[name] not in cells]
            continue
        found = fnmatch.filter(cases, pattern)
        if not found:
            raise ValueError(f"no case is called '{pattern}'; tools/softroce-vm list")
        names += [name for name in found if name not in names]
    for combination in combinations(*roles):
        for name in names:
            cell = Cell(name, *combination)
            if cases[name].applies(cell):
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
    """What `tools/test` runs: every quick case once with every pair of peers, invalidation and paths mixed.

    The pairs take turns, so that a slow machine that does not come to the end has seen each of them.
    """
    cells = []
    # "verify" says most; the kernel with itself only shows that the lab works.
    names = ["verify", *(name for name in cases if cases[name].fast and name != "verify")]
    for index, name in enumerate(names):
        for turn, (client, server) in enumerate(itertools.product(PEERS, PEERS)):
            if (client, server) == ("kernel", "kernel") and name != "verify":
                continue
            mixed = index + turn
            cell = Cell(name, client, server, "on" if mixed % 2 else "off", 1 + mixed // 2 % 2)
            if ("paths", "2") in cases[name].only:
                # Cut and healed in seconds only when both ends notice a lost path without the heartbeat.
                if (client, server) != ("urtrs", "urtrs"):
                    continue
                cell = dataclasses.replace(cell, paths=2)
            if cases[name].applies(cell):
                cells.append(cell)
    # Mixed versions of our own: one side does not know the extensions.
    cells += [Cell("verify", "urtrs", "urtrs", "on", 2, extension) for extension in ("client-off", "server-off")]
    return cells
