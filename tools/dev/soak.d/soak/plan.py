"""The plan of a soak. Items (for example a sweep) are split into chunks; each chunk has its own run, verdict and saved result."""
import dataclasses
import functools
import json
import tomllib

from labs import ROOT

SIM = "tools/urtrs-sim/urtrs-sim"
# Name of a fuzz target -> folder of its source.
FUZZ = dict(sorted((path.name[: -len("_fuzz.cpp")], folder) for folder in ("conformance/fuzz", "tools/dev/fuzz")
                   for path in (ROOT / folder).glob("*_fuzz.cpp")))


@dataclasses.dataclass(frozen=True)
class Item:
    """Placeholders of `command`: {from} and {to} (seeds), {number} (of the chunk, from 1), {name}, {jobs}, {build}
    (folder of the build), {work} and {root}."""
    name: str
    title: str
    build: str  # CMake preset of the build
    targets: tuple
    command: tuple
    seconds: float  # estimated duration of a chunk in seconds, on two processors
    share: float = 0.0  # fraction of the total time for this item; 0: every chunk runs once
    size: int = 0  # number of seeds per chunk; 0: the item takes no seeds
    names: tuple = ()  # names of the chunks; empty: chunks are numbered


@functools.cache
def mutants():
    catalogue = tomllib.loads((ROOT / "conformance/mutants/catalogue.toml").read_text(encoding="utf-8"))
    return tuple(one["id"] for one in catalogue["mutant"])


@functools.cache
def items():
    sim = "{build}/" + SIM
    seeds = ("--seeds", "{from}..{to}")
    return [
        Item("sweep", "random worlds with faults, judged by oracles", "release", ("urtrs-sim",),
             (sim, "sweep", *seeds, "--jobs", "{jobs}"), 60, share=0.25, size=20_000),
        Item("determinism", "each world twice; traces judged by the specification and replayed, every state compared",
             "release", ("urtrs-sim",),
             (sim, "sweep", *seeds, "--jobs", "{jobs}", "--check-determinism", "100", "--replay-check"), 60, share=0.10,
             size=5_000),
        Item("scenarios", "every directed scenario", "release", ("urtrs-sim",), (sim, "scenarios", *seeds), 60, share=0.10,
             size=20),
        Item("explore", "every order of events in small systems", "release", ("urtrs-sim",),
             (sim, "explore", "--threads", "{jobs}"), 150),
        Item("tcp-sweep", "random worlds over the TCP fabric and simulated streams", "release", ("urtrs-sim",),
             (sim, "sweep", "--fabric", "tcp", *seeds, "--jobs", "{jobs}"), 60, share=0.10, size=1_500),
        Item("asan-sweep", "random worlds with address and undefined-behaviour sanitizers", "debug", ("urtrs-sim",),
             (sim, "sweep", *seeds, "--jobs", "{jobs}"), 60, share=0.15, size=1_000),
        *(Item(f"fuzz-{name}", f"libFuzzer on {name}", "fuzz", (f"{name}_fuzz",),
               (f"{{build}}/{folder}/{name}_fuzz", "-max_total_time=60", "-seed={number}", "-artifact_prefix=./",
                "-timeout=60", "{work}/corpus/" + name, f"{{root}}/{folder}/{name}"), 65, share=0.15 / len(FUZZ))
          for name, folder in FUZZ.items()),
        Item("mutants", "every planted bug must be found", "release", ("mutants",),
             ("{root}/conformance/mutants/run", "--built", "--first", "--build-dir", "{build}", "--jobs", "{jobs}", "--only",
              "{name}"), 10, names=mutants()),
        Item("netns-faults", "real servers and clients through faults", "release", ("urtrsd", "urtrs-replay", "netns-load"),
             ("{root}/tools/dev/netns-faults", "run", "--all", "--seed", "{number}", "--build-dir", "{build}",
              "--work-dir", "netns"), 130, share=0.05),
    ]


@dataclasses.dataclass(frozen=True)
class Chunk:
    item: Item
    number: int  # number of the chunk within its item, from 1
    first_seed: int
    size: int

    @property
    def key(self):
        return f"{self.item.name}:{self.name}"

    @property
    def name(self):
        return self.item.names[self.number - 1] if self.item.names else str(self.number)

    def words(self, jobs, build, work):
        begin = self.first_seed + (self.number - 1) * self.size
        values = {"from": begin, "to": begin + self.size, "number": self.number, "name": self.name, "jobs": jobs,
                  "build": build, "work": work, "root": ROOT}
        return [word.format(**values) for word in self.item.command]


@dataclasses.dataclass
class Plan:
    """Options of a soak. They are saved, so that an interrupted soak continues with the same plan."""
    hours: float = 1.0
    only: tuple = ()  # names of items; empty: all
    chunks: int = 0  # number of chunks of each item; 0: derived from `hours`
    size: int = 0  # seeds per chunk of `sweep`, and proportionally of other items; 0: default sizes
    first_seed: int = 0

    def items(self):
        known = items()
        unknown = [name for name in self.only if not any(chosen(item, name) for item in known)]
        if unknown:
            raise ValueError(f"no item is called '{unknown[0]}'; there are fuzz (all of its kind), "
                             f"{', '.join(item.name for item in known)}")
        return [item for item in known if not self.only or any(chosen(item, name) for name in self.only)]

    def count(self, item):
        if item.names or not item.share:
            return len(item.names) or 1
        if self.chunks:
            return self.chunks
        # The time of the items that are not selected is distributed among the selected items.
        shares = sum(one.share for one in self.items())
        return max(1, round(self.hours * 3600 * item.share / shares / item.seconds))

    def size_of(self, item):
        """Returns the number of seeds per chunk of the item; 0: the item takes no seeds."""
        if not self.size or not item.size:
            return item.size
        return max(1, round(item.size * self.size / next(one.size for one in items() if one.name == "sweep")))

    def sequence(self):
        """Returns all chunks in running order. Items are interleaved evenly, so that an interrupted soak has run a part of each
        item."""
        order = []
        for item in self.items():
            count, size = self.count(item), self.size_of(item)
            order += [((number - 0.5) / count, Chunk(item, number, self.first_seed, size)) for number in range(1, count + 1)]
        return [chunk for _, chunk in sorted(order, key=lambda pair: pair[0])]

    def as_json(self):
        return json.loads(json.dumps(dataclasses.asdict(self)))


def chosen(item, name):
    return item.name == name or (name == "fuzz" and item.name.startswith("fuzz-"))
