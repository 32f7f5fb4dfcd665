"""Fault tests with real processes and sockets: see tools/dev/netns-faults --help."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
