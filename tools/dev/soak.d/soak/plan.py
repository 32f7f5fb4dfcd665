"""What a soak consists of: items, each in chunks that are run, judged and remembered by themselves."""
import dataclasses
import functools
import json
import tomllib

from labs import ROOT

SIM = "tools/urtrs-sim/urtrs-sim"
# Target of libFuzzer -> its folder.
FUZZ = dict(sorted((path.name[: -len("_fuzz.cpp")], folder) for folder in ("conformance/fuzz", "tools/dev/fuzz")
                   for path in (ROOT / folder).glob("*_fuzz.cpp")))


@dataclasses.dataclass(frozen=True)
class Item:
    """`command`: words with {from} {to} {number} (the chunk, from 1) {name} {jobs} {build} (its folder) {work} {root}."""
    name: str
    title: str
    build: str  # a preset
    targets: tuple
    command: tuple
    seconds: float  # that a chunk takes on two processors, about
    share: float = 0.0  # of the time; 0: every chunk once
    size: int = 0  # seeds of a chunk
    names: tuple = ()  # of the chunks, where they are not numbered


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
    number: int  # from 1
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
    """What was asked for; remembered, so that a soak goes on with what it began."""
    hours: float = 1.0
    only: tuple = ()  # names of items; empty: all
    chunks: int = 0  # of each item, instead of hours
    size: int = 0  # seeds of a chunk of `sweep`, those of other items in proportion; 0: as the items say
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
        # What is left out gives its share to the others.
        shares = sum(one.share for one in self.items())
        return max(1, round(self.hours * 3600 * item.share / shares / item.seconds))

    def size_of(self, item):
        """Seeds of a chunk; 0: the item has none."""
        if not self.size or not item.size:
            return item.size
        return max(1, round(item.size * self.size / next(one.size for one in items() if one.name == "sweep")))

    def sequence(self):
        """All chunks, so that each item is done evenly and an early end has seen something of each."""
        order = []
        for item in self.items():
            count, size = self.count(item), self.size_of(item)
            order += [((number - 0.5) / count, Chunk(item, number, self.first_seed, size)) for number in range(1, count + 1)]
        return [chunk for _, chunk in sorted(order, key=lambda pair: pair[0])]

    def as_json(self):
        return json.loads(json.dumps(dataclasses.asdict(self)))


def chosen(item, name):
    return item.name == name or (name == "fuzz" and item.name.startswith("fuzz-"))
