"""Real processes, real sockets, real faults: see tools/dev/netns-faults --help."""
