"""Each pair of consecutive events that real processes showed (real_pairs.txt) occurs in a simulated world, except for those
that the list calls missing."""
import pathlib
import sys

from programs import BUILD

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from netns import pairs  # noqa: E402


def test_simulated_worlds_show_each_recorded_pair():
    known = pairs.recorded()
    assert len(known) > 150
    wanted = {pair for pair, world in known.items() if world}
    found, worlds = pairs.search(BUILD, wanted, pairs.worlds(BUILD, known, 100), 2, print)
    assert sorted(map(pairs.text_of, wanted - found.keys())) == [], f"none of {worlds} worlds shows these pairs"
    simulated = {pairs.text_of(pair): " ".join(world) for pair, world in found.items() if pair in known.keys() - wanted}
    assert simulated == {}, "these pairs are no longer missing: write the world to real_pairs.txt"
