"""Real processes, real sockets, real faults: see tools/real-lane --help."""
